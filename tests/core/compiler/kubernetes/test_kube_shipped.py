"""The types and traits that come with every release, compiled: goldens to read, and what they must say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.core.compiler.kubernetes.shipped import (
    TRAITS,
    TYPES,
    applies,
    case_of,
    compiled,
    known,
    type_of,
    work_of,
)
from tests.core.compiler.kubernetes.worlds import GOLDENS, SOURCES, canonical, same_as_golden, variables

from windlass.core.admission.parameters import plain
from windlass.core.admission.requirements import type_requirements
from windlass.core.admission.rules import traits_compatible
from windlass.core.catalog.examples import play
from windlass.core.compiler.checker.breaches import Allowed
from windlass.core.compiler.checker.check import check
from windlass.core.compiler.definition import check_definition
from windlass.core.compiler.kubernetes.refusals import refusals
from windlass.core.compiler.kubernetes.workload import Refused
from windlass.core.documents.definitions import ComponentType, Trait
from windlass.core.documents.kinds import Document, Site
from windlass.core.documents.problems import Problems

PAIRS = [(name, trait) for name in TYPES for trait in TRAITS if applies(name, trait)]
SHIPPED = sorted(page.stem for page in (SOURCES / "catalog" / "shipped").glob("*.yaml"))


def document(name: str) -> Document:
    found = known().component_type(name) or known().trait(name)
    assert found is not None
    return found


def kinds(manifests: tuple[dict[str, Any], ...]) -> list[str]:
    return [thing["kind"] for thing in manifests]


@pytest.mark.golden
@pytest.mark.parametrize("name", TYPES)
def test_a_shipped_type(name: str) -> None:
    same_as_golden(name, compiled(name))


@pytest.mark.golden
@pytest.mark.parametrize(("name", "trait"), PAIRS)
def test_a_shipped_type_with_a_shipped_trait(name: str, trait: str) -> None:
    same_as_golden(f"{name}+{trait}", compiled(name, trait))


def test_there_is_no_golden_without_its_test() -> None:
    others = {"site", "site-requirements", "cell-nlp-dev", "cell-nlp-prod"}
    wanted = {*TYPES, *(f"{name}+{trait}" for name, trait in PAIRS)} | others
    assert {page.stem for page in GOLDENS.glob("*.json")} == wanted


def test_everything_shipped_is_among_them() -> None:
    assert {type_of(name) for name in TYPES} | set(TRAITS) == set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_document_is_one_that_anybody_could_upload(name: str) -> None:
    spec, problems = document(name).spec, Problems()
    assert isinstance(spec, ComponentType | Trait)
    check_definition(spec, problems)
    play(document(name), spec, problems)
    assert not problems, problems.reasons()
    if isinstance(spec, ComponentType):
        assert spec.templates.kubernetes is not None
        assert not list(refusals(spec.templates.kubernetes))


def test_all_traits_together_say_the_same_in_any_order() -> None:
    others = [name for name in TRAITS if name not in ("nccl", "sharing")]
    first, second = (compiled("training-job", "nccl", *order) for order in (others, others[::-1]))
    assert canonical(first) == canonical(second)
    assert "USR1" in canonical(first).decode() and "gke-spot" in canonical(first).decode()


def test_a_training_job_is_what_its_parameter_says() -> None:
    assert kinds(compiled("training-job")) == ["Job", "NetworkPolicy", "Service"]
    assert kinds(compiled("training-job-jobset")) == ["JobSet", "NetworkPolicy"]
    job, _, group = compiled("training-job-volcano", workers=3)
    assert job["spec"]["minAvailable"] == group["spec"]["minMember"] == 3


def test_a_service_scales_between_bounds_that_were_judged() -> None:
    scaled = {thing["kind"]: thing for thing in compiled("inference-service")}
    bounds = scaled["HorizontalPodAutoscaler"]["spec"]
    assert (bounds["minReplicas"], bounds["maxReplicas"]) == (1, 4)
    assert "replicas" not in scaled["Deployment"]["spec"]
    keda = {thing["kind"]: thing for thing in compiled("inference-service-keda")}["ScaledObject"]["spec"]
    assert (keda["minReplicaCount"], keda["maxReplicaCount"]) == (1, 4)


def test_a_model_that_does_not_fit_is_refused_with_the_numbers() -> None:
    large = {"model": "acme/chat-8b", "weightsGib": 15, "batchSize": 512}
    (reason,) = type_requirements(case_of("model-service", parameters=large))
    assert "weights of 15 GiB and a cache of 512 GiB do not fit" in reason.message
    assert not list(type_requirements(case_of("model-service")))


def test_the_sharing_trait_asks_for_the_part_its_profile_is() -> None:
    (main,) = compiled("notebook", "sharing")[0]["spec"]["template"]["spec"]["containers"]
    assert main["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == "1"


def test_a_secret_is_named_and_never_shown() -> None:
    told = variables(compiled("training-job", "secret"))
    assert told["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}


@pytest.mark.parametrize(
    "smuggled",
    [
        {"hostNetwork": True},
        {"serviceAccountName": "admin"},
        {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
        {"volumes": [{"name": "x", "secret": {"secretName": "neighbour"}}]},
        {"tolerations": [{"operator": "Exists"}]},
    ],
    ids=str,
)
def test_the_escape_hatch_is_closed_for_what_is_the_platform_s(smuggled: dict[str, Any]) -> None:
    pods = {"spec": {"containers": [{"name": "main"}], **smuggled}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pods}}
    with pytest.raises(Refused):
        compiled("raw", parameters={"objects": [job]})


@pytest.mark.parametrize("text", ["a: b\n- c", '"}], "hostNetwork": true', "${spec.image}", "{{ x }}"])
def test_what_an_author_writes_stays_text(text: str) -> None:
    (main,) = compiled("training-job", variables={"X": text})[0]["spec"]["template"]["spec"]["containers"]
    assert {"name": "X", "value": text} in json.loads(canonical(main))["env"]


@pytest.mark.parametrize("isolation", ["namespace", "dedicated-nodes", "sandboxed"])
def test_a_stranger_to_the_compiler_finds_every_law_kept(isolation: Any) -> None:
    site = Site("kubernetes", isolation=isolation)
    spot = document("spot-tolerant").spec
    assert isinstance(spot, Trait) and spot.patches.kubernetes is not None
    granted = Allowed(
        tolerations=tuple(plain(spot.patches.kubernetes["pod"]["tolerations"])),
        claims=frozenset({"corpus"}),
        secrets=frozenset({"hub"}),
        runs=50,
    )
    for name, trait in [*((name, None) for name in TYPES), *PAIRS]:
        traits = (trait,) if trait else ()
        allowed = granted if type_of(name) == "sweep" else replace(granted, runs=None)
        found = check(
            work_of(case_of(name, *traits), site), "kubernetes", compiled(name, *traits, site=site), allowed
        )
        assert not found, (name, trait, found)


def test_a_component_has_as_many_secrets_and_volumes_as_it_was_granted_in_any_order() -> None:
    uses = [
        {"name": "secret", "parameters": {"name": "hub", "variable": "HF_TOKEN"}},
        {"name": "secret", "parameters": {"name": "wandb", "variable": "WANDB_API_KEY"}},
        {"name": "secret", "parameters": {"name": "hub", "mountPath": "/keys"}},
        {"name": "secret", "parameters": {"name": "wandb", "mountPath": "/more-keys"}},
        {"name": "storage", "parameters": {"name": "corpus"}},
        {"name": "storage", "parameters": {"name": "models", "mountPath": "/models", "readOnly": True}},
    ]
    made = [compiled("batch-job", traits=order) for order in (uses, uses[::-1])]
    assert made[0] == made[1]
    pod = made[0][0]["spec"]["template"]["spec"]
    assert {one["name"] for one in pod["volumes"]} >= {"secret-hub", "secret-wandb", "storage-corpus"}
    assert {"HF_TOKEN", "WANDB_API_KEY"} <= {one["name"] for one in pod["containers"][0]["env"]}
    assert not list(traits_compatible(case_of("batch-job", traits=uses)))
