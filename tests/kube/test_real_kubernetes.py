"""Manifests before a real API server that refuses what it does not know, and before a real Kueue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.core.compiler.kubernetes.worlds import GOLDENS, JOB, MIG, SERVICE, work
from tests.kube.client import Refused
from tests.kube.plane import Plane, eventually

from windlass.core.compiler.kubernetes.queues import KUEUE
from windlass.core.compiler.kubernetes.workload import finish
from windlass.core.compiler.work import Work
from windlass.core.documents.kinds import Site
from windlass.core.scheduling.model import Topology

FRA1 = Site("kubernetes", queueing="site", isolation="dedicated-nodes")
LISTS = sorted(one.stem for one in GOLDENS.glob("*.json") if one.stem != "site-requirements")


def here(**changes: Any) -> Work:
    return work(**{"at": FRA1, "units": 2, **changes})


def applied(kube: Plane, manifests: Sequence[Mapping[str, Any]]) -> None:
    for thing in manifests:
        kube.client.apply(thing)


def condition(thing: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next((one for one in thing.get("status", {}).get("conditions", []) if one["type"] == name), {})


def workload_of(kube: Plane, namespace: str, name: str) -> Mapping[str, Any] | None:
    for one in kube.client.items(KUEUE, "Workload", namespace):
        if any(owner["name"].startswith(name) for owner in one["metadata"].get("ownerReferences", [])):
            return one
    return None


@pytest.mark.parametrize("name", LISTS)
def test_every_golden_is_taken_as_it_is(kube: Plane, name: str) -> None:
    """Strict: a field the server does not know, or drops, would be an error. Components go again at once,
    so that the quota they take is there for others."""
    objects = json.loads((GOLDENS / f"{name}.json").read_text())
    for thing in objects:
        kube.client.apply(thing, dry=True)
    for thing in objects:
        kube.client.apply(thing)
    for thing in objects:
        metadata = thing["metadata"]
        if "windlass.dev/component" in metadata["labels"]:
            kube.client.delete(thing["apiVersion"], thing["kind"], metadata["name"], metadata["namespace"])


def test_the_server_refuses_what_it_does_not_know(kube: Plane) -> None:
    job, _ = finish(here(name="unknown"), JOB)
    job["spec"]["paralelism"] = 2
    with pytest.raises(Refused, match="paralelism"):
        kube.client.apply(job)


def test_every_queue_of_the_site_is_active(kube: Plane) -> None:
    for queue in kube.client.items(KUEUE, "ClusterQueue"):
        name = queue["metadata"]["name"]

        def active(name: str = name) -> bool | None:
            now = kube.client.get(KUEUE, "ClusterQueue", name)
            return True if condition(now, "Active").get("status") == "True" else None

        eventually(active, f"the queue {name}")


def test_kueue_admits_a_gang_and_it_runs_to_its_end(kube: Plane) -> None:
    manifests = finish(here(name="gang", workers=2, topology=Topology("rack", "required")), JOB)
    applied(kube, manifests)

    def complete() -> Mapping[str, Any] | None:
        job = kube.client.get("batch/v1", "Job", "gang", "nlp-prod")
        return job if condition(job, "Complete").get("status") == "True" else None

    job = eventually(complete, "the end of the gang")
    assert job["spec"]["suspend"] is False and job["status"]["succeeded"] == 2
    admitted = workload_of(kube, "nlp-prod", "gang")
    assert admitted is not None
    (pods,) = admitted["status"]["admission"]["podSetAssignments"]
    assert pods["resourceUsage"] == {"windlass.dev/milli-gpu": "4k"}
    assert admitted["spec"]["priority"] == 50
    nodes = {
        one["spec"]["nodeName"]
        for one in kube.client.items("v1", "Pod", "nlp-prod")
        if one["metadata"]["labels"].get("windlass.dev/component") == "gang"
    }
    assert nodes <= {"gpu-0", "gpu-1"} or nodes <= {"gpu-2", "gpu-3"}  # one rack


def test_a_share_of_a_gpu_is_charged_as_the_share_it_is(kube: Plane) -> None:
    share = here(name="share", env="dev", hardware=MIG, units=1, workers=1, profile="h100-mig-1g")
    applied(kube, finish(share, JOB))

    def admitted() -> Mapping[str, Any] | None:
        found = workload_of(kube, "nlp-dev", "share")
        return found if found and condition(found, "Admitted").get("status") == "True" else None

    found = eventually(admitted, "the share")
    (pods,) = found["status"]["admission"]["podSetAssignments"]
    assert pods["resourceUsage"] == {"windlass.dev/milli-gpu": "142"}


def test_work_above_its_ceiling_is_never_admitted(kube: Plane) -> None:
    applied(kube, finish(here(name="too-big", units=8, workers=2), JOB))

    def waiting() -> str | None:
        found = workload_of(kube, "nlp-prod", "too-big")
        return condition(found, "QuotaReserved").get("reason") if found else None

    assert eventually(waiting, "a verdict") in ("ExceedsMaxQuota", "PendingEvaluation")
    job = kube.client.get("batch/v1", "Job", "too-big", "nlp-prod")
    assert job["spec"]["suspend"] is True and not job["status"].get("active")


def test_pods_of_a_service_wait_behind_the_gate_until_kueue_opens_it(kube: Plane) -> None:
    applied(kube, finish(here(name="serve", env="dev", workers=2, units=1, workload="service"), SERVICE))

    def running() -> list[dict[str, Any]] | None:
        pods = [
            one
            for one in kube.client.items("v1", "Pod", "nlp-dev")
            if one["metadata"]["labels"].get("windlass.dev/component") == "serve"
        ]
        started = [one for one in pods if one.get("status", {}).get("phase") == "Running"]
        return started if len(started) == 2 else None

    for pod in eventually(running, "both replicas"):
        assert not pod["spec"].get("schedulingGates")
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"


def test_the_fence_stops_what_gets_past_the_queue(kube: Plane) -> None:
    """A pod of nobody's queue, in a cell without time slices: the second fence is there for it."""
    stray = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stray", "namespace": "nlp-prod"},
        "spec": {
            "containers": [
                {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}
            ]
        },
    }
    with pytest.raises(Refused, match="exceeded quota: windlass-fence"):
        kube.client.apply(stray)
