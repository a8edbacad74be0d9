"""From a rendered template and its traits' patches to finished manifests.

The narrative is `finish`: refuse, merge, then write over it everything that is the platform's. The same
work gives the same bytes; what an author wrote can fill only the places that are the author's.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from windlass.core.compiler.kubernetes import kinds, words
from windlass.core.compiler.kubernetes.merging import Merging, Path, thawed, written
from windlass.core.compiler.kubernetes.pods import (
    GROUP_OF_WORKERS,
    finish_pod,
    pod_labels,
    queue_labels,
    topology_annotations,
)
from windlass.core.compiler.kubernetes.refusals import refusals
from windlass.core.compiler.kubernetes.shapes import misshapen
from windlass.core.compiler.work import Work

Manifest = dict[str, Any]
MAX_HOST_NAME = 63
_PATCH_PARTS = frozenset(
    {"pod", "container", "podLabels", "podAnnotations", "labels", "annotations", "workload", "objects"}
)


class Refused(ValueError):
    """A template or a patch holds what is the platform's. All of it is named."""

    def __init__(self, problems: Sequence[tuple[Path, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{written(path)}: {message}" for path, message in problems))


def finish(
    work: Work,
    template: Mapping[str, Any],
    patches: Sequence[tuple[str, Mapping[str, Any]]] = (),
    *,
    author: bool = False,
    images: Collection[str] = (),
) -> tuple[Manifest, ...]:
    """The workload first, then what stands beside it, by kind. `patches` are of traits, with their names.
    `author`: the template came out of an intent, and is read as one of the escape hatch. `images`: those
    that type and traits bring along."""
    if problems := list(refusals(template, author=author, images=images)) or list(
        misshapen(template["objects"])
    ):
        raise Refused(problems)
    if work.topology is not None and work.topology.level not in words.LEVELS:
        known = ", ".join(words.LEVELS)
        raise Refused([(("topology", "level"), f"nodes have no level {work.topology.level}, only {known}")])
    objects = _merged(work, template, patches)
    if (told := _unnameable(work, objects)) is not None:
        raise Refused([(("metadata", "name"), told)])
    if patches and (
        problems := list(refusals({"objects": objects}, images=images, tolerations=True))
        or list(misshapen(objects))
    ):
        raise Refused(problems)
    workload, beside = _divided(objects)
    return (
        _finished_workload(work, workload, beside),
        *(_finished_beside(work, thing, workload) for thing in beside),
    )


def _merged(
    work: Work, template: Mapping[str, Any], patches: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[Manifest]:
    objects: list[Manifest] = thawed(template["objects"])
    merging = Merging(f"the type {work.type}")
    workload, _ = _divided(objects)
    pods = kinds.pod_template(workload, kinds.kind_of(workload))
    for trait, patch in sorted(patches, key=lambda pair: pair[0]):
        if unknown := sorted(set(patch) - _PATCH_PARTS):
            raise Refused([((f"trait {trait}", unknown[0]), "is not a part that a patch has")])
        container = {"containers": [{"name": "main", **patch["container"]}]} if "container" in patch else {}
        name_labels = {"labels": patch.get("labels", {}), "annotations": patch.get("annotations", {})}
        pod_marks = {"labels": patch.get("podLabels", {}), "annotations": patch.get("podAnnotations", {})}
        writer = f"the trait {trait}"
        merging.into(workload, {"metadata": name_labels, "spec": patch.get("workload", {})}, writer)
        for part in (patch.get("pod", {}), container):
            merging.into(pods, {"metadata": pod_marks, "spec": part}, writer, ("pod",))
        for thing in patch.get("objects", ()):
            _beside(objects, thing, merging, writer)
    return objects


def _beside(objects: list[Manifest], thing: Mapping[str, Any], merging: Merging, writer: str) -> None:
    """Objects are told apart by their kind, because each has the component's name."""
    for there in objects:
        if kinds.kind_of(there) == kinds.kind_of(thing):
            merging.into(there, thing, writer, (str(thing.get("kind")),))
            return
    objects.append(thawed(thing))


def _divided(objects: Sequence[Manifest]) -> tuple[Manifest, list[Manifest]]:
    workloads = [thing for thing in objects if kinds.kind_of(thing) in kinds.WORKLOADS]
    if len(workloads) != 1:
        raise Refused([(("objects",), f"exactly one object runs pods, not {len(workloads)}")])
    beside = [thing for thing in objects if thing is not workloads[0]]
    beside.sort(key=lambda thing: (str(thing["kind"]), str(thing["apiVersion"])))
    for first, second in itertools.pairwise(beside):
        if kinds.kind_of(first) == kinds.kind_of(second):
            raise Refused([(("objects",), f"two objects of kind {first['kind']} would have one name")])
    return workloads[0], beside


def _unnameable(work: Work, objects: Sequence[Manifest]) -> str | None:
    """Why the controller of its kind would refuse its name. A JobSet and Volcano make a Service of that name,
    and a JobSet's pods have it as the beginning of theirs, of which they ask what is asked of a Service."""
    kind = next((kinds.kind_of(thing) for thing in objects if kinds.kind_of(thing) in kinds.WORKLOADS), None)
    if kind not in (kinds.JOBSET, kinds.VOLCANO_JOB):
        return None
    if work.name[0].isdigit():
        return f"a {kind[1]} of {kind[0].partition('/')[0]} cannot begin with a digit"
    longest = f"{work.name}-{GROUP_OF_WORKERS}-0-{work.workers - 1}-{'x' * 5}"
    if kind == kinds.JOBSET and len(longest) > MAX_HOST_NAME:
        most = MAX_HOST_NAME - len(longest) + len(work.name)
        return f"a JobSet with {work.workers} workers has a name of at most {most} characters"
    return None


def _finished_workload(work: Work, thing: Manifest, beside: Sequence[Manifest]) -> Manifest:
    kind = kinds.kind_of(thing)
    facts = kinds.WORKLOADS[kind]
    spec = thing["spec"]
    gang = kind in (kinds.JOBSET, kinds.VOLCANO_JOB) or (kind == kinds.JOB and _meets(beside))
    pods = kinds.pod_template(thing, kind)
    _marked(work, thing, queue_labels(work))
    if kind != kinds.POD:
        metadata = pods.setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), **pod_labels(work, gated=not facts.suspends)}
        _pod_annotations(work, metadata, kind)
    else:
        thing["metadata"]["labels"] |= {words.KUEUE_MANAGED: "true"}
        thing["metadata"]["annotations"] |= topology_annotations(work)
    finish_pod(work, pods, kind, gang=gang)
    if not facts.suspends:
        pods["spec"]["schedulingGates"] = [{"name": words.ADMISSION_GATE}]
    _SIZED[kind](work, spec, beside)
    return thing


def _meets(beside: Sequence[Manifest]) -> bool:
    """Workers of a Job find each other by a headless Service, where their type has one."""
    return any(
        kinds.kind_of(thing) == kinds.SERVICE and thing["spec"].get("clusterIP") == "None" for thing in beside
    )


def _pod_annotations(work: Work, metadata: Manifest, kind: kinds.Kind) -> None:
    annotations = {
        **metadata.get("annotations", {}),
        words.TYPE_VERSION: work.type,
        **topology_annotations(work),
    }
    if kind == kinds.VOLCANO_JOB:
        metadata["labels"][words.POD_GROUP] = work.name
        annotations[words.POD_GROUP_COUNT] = str(work.workers)
        annotations["scheduling.k8s.io/group-name"] = work.name
    metadata["annotations"] = annotations


def _marked(work: Work, thing: Manifest, more: Mapping[str, str]) -> None:
    """Name, namespace, attribution: the same on every object of a component."""
    stated = thing.get("metadata", {})
    name = words.service_name(work.name) if kinds.kind_of(thing) == kinds.SERVICE else work.name
    thing["metadata"] = {
        "name": name,
        "namespace": work.namespace,
        "labels": {
            **stated.get("labels", {}),
            **words.author_labels(work, pods=kinds.kind_of(thing) == kinds.POD),
            **words.attribution(work),
            **more,
        },
        "annotations": {**stated.get("annotations", {}), words.TYPE_VERSION: work.type},
    }


# --- sizes: how many, how long, how often ---------------------------------------------------------


def _job(work: Work, spec: Manifest, _: Sequence[Manifest]) -> None:
    """A gang runs all its workers at once; with `completions` of its own it is so many runs, of which
    `workers` at a time. A gang that fails fails in each worker, so each retry is paid once per worker."""
    many = "completions" in spec
    spec["suspend"] = True
    spec["completionMode"] = "Indexed"
    spec["parallelism"] = work.workers
    spec.setdefault("completions", work.workers)
    spec["podReplacementPolicy"] = "Failed"
    if many:
        spec["backoffLimitPerIndex"] = work.retries
    else:
        spec["backoffLimit"] = work.retries * work.workers
    if work.time_limit is not None:
        spec["activeDeadlineSeconds"] = _seconds(work)
    spec["template"]["spec"].setdefault("restartPolicy", "Never")


def _jobset(work: Work, spec: Manifest, _: Sequence[Manifest]) -> None:
    """The set is started again as a whole, so its one job gives up at the first failure."""
    group = spec["replicatedJobs"][0]
    group["name"] = GROUP_OF_WORKERS
    group["replicas"] = 1
    spec["suspend"] = True
    spec["failurePolicy"] = {"maxRestarts": work.retries}
    spec["network"] = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    job = group["template"]["spec"]
    job["completionMode"] = "Indexed"
    job["parallelism"] = job["completions"] = work.workers
    job["backoffLimit"] = 0
    if work.time_limit is not None:
        job["activeDeadlineSeconds"] = _seconds(work)
    job["template"]["spec"].setdefault("restartPolicy", "Never")


def _volcano(work: Work, spec: Manifest, _: Sequence[Manifest]) -> None:
    group = spec["tasks"][0]
    group["name"] = GROUP_OF_WORKERS
    group["replicas"] = work.workers
    spec["minAvailable"] = work.workers
    spec["maxRetry"] = work.retries
    spec["schedulerName"] = "volcano"
    spec["plugins"] = {"svc": []}  # the host names that workers find rank 0 by
    pod = group["template"]["spec"]
    pod.setdefault("restartPolicy", "Never")
    pod["schedulerName"] = "volcano"
    if work.time_limit is not None:
        pod["activeDeadlineSeconds"] = _seconds(work)


def _deployment(work: Work, spec: Manifest, beside: Sequence[Manifest]) -> None:
    """No surge: a rollout never holds more GPUs than were decided. With an autoscaler beside it the number
    is the autoscaler's, between bounds that are ours."""
    _replicas(work, spec, beside)
    strategy = spec.setdefault("strategy", {"type": "RollingUpdate"})
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("maxUnavailable", 1)
        strategy["rollingUpdate"]["maxSurge"] = 0


def _stateful_set(work: Work, spec: Manifest, beside: Sequence[Manifest]) -> None:
    _replicas(work, spec, beside)
    spec["serviceName"] = words.service_name(work.name)


def _replicas(work: Work, spec: Manifest, beside: Sequence[Manifest]) -> None:
    spec["selector"] = {"matchLabels": words.selector(work)}
    if not any(kinds.kind_of(thing) in (kinds.AUTOSCALER, kinds.SCALED_OBJECT) for thing in beside):
        spec["replicas"] = work.workers


def _pod(work: Work, spec: Manifest, _: Sequence[Manifest]) -> None:
    spec.setdefault("restartPolicy", "Never")
    if work.time_limit is not None:
        spec["activeDeadlineSeconds"] = _seconds(work)


_SIZED = {
    kinds.JOB: _job,
    kinds.JOBSET: _jobset,
    kinds.VOLCANO_JOB: _volcano,
    kinds.DEPLOYMENT: _deployment,
    kinds.STATEFUL_SET: _stateful_set,
    kinds.POD: _pod,
}


def _seconds(work: Work) -> int:
    assert work.time_limit is not None
    return max(1, -(-work.time_limit // 1000))


# --- beside the workload --------------------------------------------------------------------------


def _finished_beside(work: Work, thing: Manifest, workload: Manifest) -> Manifest:
    kind = kinds.kind_of(thing)
    _marked(work, thing, {})
    spec = thing.get("spec", {})
    target = {key: workload[key] for key in ("apiVersion", "kind")} | {"name": work.name}
    if kind == kinds.SERVICE:
        spec["selector"] = words.selector(work)
    elif kind == kinds.DISRUPTION_BUDGET:
        spec["selector"] = {"matchLabels": words.selector(work)}
    elif kind == kinds.NETWORK_POLICY:
        spec["podSelector"] = {"matchLabels": words.selector(work)}
    elif kind == kinds.AUTOSCALER:
        spec |= {"scaleTargetRef": target, "minReplicas": work.workers, "maxReplicas": work.most_workers}
    elif kind == kinds.SCALED_OBJECT:
        spec |= {
            "scaleTargetRef": target,
            "minReplicaCount": work.workers,
            "maxReplicaCount": work.most_workers,
        }
    elif kind == kinds.POD_GROUP:
        spec["minMember"] = work.workers
    return thing
