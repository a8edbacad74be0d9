"""The envelope tree in Kueue's words, cells, and what a site must have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.core.compiler.kubernetes.worlds import QUARTER, catalog, same_as_golden

from windlass.core.compiler.kubernetes.cell import cell_objects
from windlass.core.compiler.kubernetes.site import site_objects
from windlass.core.documents.kinds import PriorityRange


def named(objects: Iterable[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    return {thing["metadata"]["name"]: thing for thing in objects if thing["kind"] == kind}


def quota(thing: Mapping[str, Any], flavor: str) -> dict[str, str]:
    (group,) = thing["spec"]["resourceGroups"]
    (found,) = [one for one in group["flavors"] if one["name"] == flavor]
    (resource,) = found["resources"]
    return {key: value for key, value in resource.items() if key != "name"}


@pytest.mark.golden
def test_the_objects_of_a_site() -> None:
    made = site_objects(catalog(), "fra1")
    same_as_golden("site", made.objects)
    same_as_golden("site-requirements", [[one.name, one.text, one.config] for one in made.requirements])


@pytest.mark.golden
@pytest.mark.parametrize("env", ["dev", "prod"])
def test_the_objects_of_a_cell(env: str) -> None:
    same_as_golden(f"cell-nlp-{env}", cell_objects(catalog(), "fra1", "nlp", env))


def test_a_cohort_holds_what_its_children_were_not_given() -> None:
    cohorts = named(site_objects(catalog(), "fra1").objects, "Cohort")
    assert cohorts["windlass"]["spec"] == {}
    acme, nlp = cohorts["tenant.acme"], cohorts["project.nlp"]
    assert acme["spec"]["parentName"] == "windlass" and nlp["spec"]["parentName"] == "tenant.acme"
    assert quota(acme, "h100-80g") == {
        "nominalQuota": "6000",
        "borrowingLimit": "9500",
        "lendingLimit": "8000",
    }
    assert quota(nlp, "h100-80g") == {"nominalQuota": "500"}


def test_a_cell_has_a_queue_per_class_that_only_its_namespace_may_use() -> None:
    queues = named(site_objects(catalog(), "fra1").objects, "ClusterQueue")
    assert set(queues) == {
        f"{cell}.{gpus}"
        for cell in ("nlp-dev", "nlp-prod", "vision-prod")
        for gpus in ("h100-80g", "l40s-48g")
    }
    prod = queues["nlp-prod.h100-80g"]
    assert quota(prod, "h100-80g") == {"nominalQuota": "8000", "borrowingLimit": "0"}
    assert prod["spec"]["fairSharing"] == {"weight": "3"}
    selected = prod["spec"]["namespaceSelector"]["matchLabels"]
    assert selected == {"kubernetes.io/metadata.name": "nlp-prod"}
    assert quota(queues["nlp-dev.h100-80g"], "h100-80g") == {"nominalQuota": "0"}


def test_where_the_platform_queues_kueue_preempts_nobody() -> None:
    for site, reclaim in (("fra1", "Any"), ("elsewhere", "Never")):
        queues = named(site_objects(catalog(), site).objects, "ClusterQueue")
        assert queues["nlp-prod.h100-80g"]["spec"]["preemption"]["reclaimWithinCohort"] == reclaim


def test_a_tenant_that_may_not_use_the_site_has_nothing_there() -> None:
    known = catalog()
    assert "tenant.umbra" not in named(site_objects(known, "fra1").objects, "Cohort")
    assert "tenant.umbra" in named(site_objects(known, "elsewhere").objects, "Cohort")
    assert cell_objects(known, "fra1", "shade", "prod") == ()


def test_every_priority_that_work_can_have_has_its_class() -> None:
    classes = named(site_objects(catalog(), "fra1").objects, "WorkloadPriorityClass")
    assert {name: one["value"] for name, one in classes.items()} == {
        "windlass-minus-5": -5, "windlass-50": 50, "windlass-98": 98, "windlass-99": 99, "windlass-100": 100,
        "windlass-101": 101, "windlass-102": 102,
    }  # fmt: skip


def test_a_range_of_priorities_without_end_is_refused() -> None:
    known = catalog()
    wide = replace(known.tiers["gold"], priority_range=PriorityRange(0, 10**9))
    with pytest.raises(ValueError, match="narrow its priorityRange"):
        site_objects(replace(known, tiers={**known.tiers, "gold": wide}), "fra1")


def test_profiles_point_to_a_queue_and_never_at_a_node() -> None:
    profiles = named(site_objects(catalog(), "fra1").objects, "HardwareProfile")
    assert set(profiles) == {"h100-80g", "h100-mig-1g", "l40s-quarter"}
    for profile in profiles.values():
        assert set(profile["spec"]["scheduling"]) == {"type", "kueue"}
    assert profiles["h100-mig-1g"]["spec"]["scheduling"]["kueue"] == {"localQueueName": "h100-80g"}


def test_kueue_is_told_what_each_part_of_a_gpu_is() -> None:
    (kueue,) = [one for one in site_objects(catalog(), "fra1").requirements if one.name == "kueue"]
    assert kueue.config is not None
    outputs = {one["input"]: one["outputs"] for one in kueue.config["resources"]["transformations"]}
    assert outputs["nvidia.com/gpu"] == {"windlass.dev/milli-gpu": "1000"}
    assert outputs["nvidia.com/mig-1g.10gb"] == {"windlass.dev/milli-gpu": "142"}
    assert outputs["nvidia.com/gpu.shared"] == {"windlass.dev/milli-gpu": "250"}


def test_parts_of_unlike_size_under_one_name_are_named() -> None:
    known = catalog()
    tenth = replace(QUARTER, gpu_class="h100-80g", share=100)
    made = site_objects(replace(known, profiles={**known.profiles, "tenth": tenth}), "fra1")
    (told,) = [one for one in made.requirements if one.name == "unlike-shares"]
    assert "nvidia.com/gpu.shared" in told.text and "250" in told.text


def test_the_fence_is_the_lowest_ceiling_in_devices_and_closed_for_what_is_not_shared_so() -> None:
    fence = named(cell_objects(catalog(), "fra1", "nlp", "prod"), "ResourceQuota")["windlass-fence"]
    assert fence["spec"]["hard"] == {
        "requests.nvidia.com/gpu": "8",
        "requests.nvidia.com/gpu.shared": "0",  # the tenant's envelope has no time slices
        "requests.nvidia.com/mig-1g.10gb": "56",
    }


def test_people_may_write_intents_in_a_cell_and_nothing_else() -> None:
    objects = cell_objects(catalog(), "fra1", "nlp", "prod")
    (role,) = named(objects, "Role").values()
    assert {group for rule in role["rules"] for group in rule["apiGroups"]} == {"windlass.dev"}
    (binding,) = named(objects, "RoleBinding").values()
    assert [one["name"] for one in binding["subjects"]] == ["windlass:tenant:acme"]


def test_a_cell_is_closed_but_for_name_lookups() -> None:
    policies = named(cell_objects(catalog(), "fra1", "nlp", "prod"), "NetworkPolicy")
    closed = policies["windlass-closed"]["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Egress", "Ingress"]}
    (opening,) = policies["windlass-dns"]["spec"]["egress"]
    assert {one["port"] for one in opening["ports"]} == {53}
