"""The laws of Kubernetes objects: kinds, names, labels, and what stands beside a workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.core.compiler.checker.breaches import (
    Allowed,
    Breach,
    Law,
    Path,
    breach,
    listed,
    mapping,
    misshapen,
    of_the_platform,
    same,
)
from windlass.core.compiler.checker.workloads import GROUPED, WORKLOADS, workload_breaches
from windlass.core.compiler.work import Work

Kind = tuple[str, str]

_BESIDE: Mapping[Kind, frozenset[str]] = {
    ("v1", "Service"): frozenset(
        (
            *("type", "clusterIP", "selector", "ports", "publishNotReadyAddresses", "sessionAffinity"),
            *("sessionAffinityConfig", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"),
        )
    ),
    ("policy/v1", "PodDisruptionBudget"): frozenset(
        ("selector", "minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy")
    ),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): frozenset(
        ("scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior")
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): frozenset(
        (
            *("scaleTargetRef", "minReplicaCount", "maxReplicaCount", "triggers", "pollingInterval"),
            *("cooldownPeriod", "initialCooldownPeriod", "advanced"),
        )
    ),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): frozenset(("minMember", "minTaskMember", "minResources")),
    ("networking.k8s.io/v1", "NetworkPolicy"): frozenset(("podSelector", "ingress", "egress", "policyTypes")),
    ("v1", "ConfigMap"): frozenset(),
}
"""What may stand beside a workload, and which fields of its spec are known."""

_TOP = frozenset(("apiVersion", "kind", "metadata", "spec"))
_TOPOLOGY = {
    "zone": "topology.kubernetes.io/zone",
    "block": "windlass.dev/block",
    "rack": "windlass.dev/rack",
    "node": "kubernetes.io/hostname",
}


def object_breaches(work: Work, manifests: Any, allowed: Allowed) -> Iterator[Breach]:
    if not isinstance(manifests, list | tuple) or not manifests:
        yield breach("shape", ("objects",), type(manifests).__name__, "a list of objects")
        return
    meets = any(mapping(mapping(thing).get("spec")).get("clusterIP") == "None" for thing in manifests)
    seen: set[Kind] = set()
    workloads = 0
    for at, thing in enumerate(manifests):
        path: Path = ("objects", at)
        if not isinstance(thing, Mapping):
            yield breach("shape", path, type(thing).__name__, "an object")
            continue
        kind = (str(thing.get("apiVersion")), str(thing.get("kind")))
        if kind in seen or (kind not in WORKLOADS and kind not in _BESIDE):
            yield breach(
                "kind", (*path, "kind"), " ".join(kind), "one of each kind that a component may hold"
            )
            continue
        seen.add(kind)
        workloads += kind in WORKLOADS
        yield from _object(work, thing, kind, path, allowed, meets=meets)
    if workloads != 1:
        yield breach("kind", ("objects",), f"{workloads} objects that run pods", "one")


def _object(
    work: Work, thing: Mapping[str, Any], kind: Kind, path: Path, allowed: Allowed, *, meets: bool
) -> Iterator[Breach]:
    known = _TOP | ({"data", "binaryData", "immutable"} if kind == ("v1", "ConfigMap") else set())
    for key in sorted(str(key) for key in thing if key not in known):
        yield breach("owned", (*path, key), "written", "no such part")
    yield from misshapen(thing, path, mappings=("metadata", "spec"))
    metadata = mapping(thing.get("metadata"))
    for key in sorted(str(key) for key in metadata):
        if key not in ("name", "namespace", "labels", "annotations"):
            yield breach("owned", (*path, "metadata", key), metadata[key], "no such part")
    name = _service_name(work.name) if kind == ("v1", "Service") else work.name
    if metadata.get("name") != name:
        yield breach("name", (*path, "metadata", "name"), metadata.get("name"), name)
    if metadata.get("namespace") != work.namespace:
        yield breach("namespace", (*path, "metadata", "namespace"), metadata.get("namespace"), work.namespace)
    pod = kind == ("v1", "Pod")
    yield from _labels(work, metadata, (*path, "metadata"), queued=kind in WORKLOADS, gated=pod)
    yield from _annotations(work, metadata, (*path, "metadata"), pods=pod)
    if kind in WORKLOADS:
        for where, labelled, gated in workload_pods(thing, kind):
            at: Path = (*path, *where, "metadata")
            yield from _labels(work, mapping(labelled), at, queued=gated, gated=gated, group=kind in GROUPED)
            yield from _annotations(work, mapping(labelled), at, pods=True, group=kind in GROUPED)
        yield from workload_breaches(work, thing, kind, path, allowed, meets=meets)
    else:
        yield from _beside(work, mapping(thing.get("spec")), kind, (*path, "spec"))


def workload_pods(thing: Mapping[str, Any], kind: Kind) -> Iterator[tuple[Path, Any, bool]]:
    """The metadata of each pod template: where it is, what it is, whether its pods wait by themselves."""
    facts = WORKLOADS[kind]
    if kind == ("v1", "Pod"):
        return
    for where, template in facts.templates(thing):
        yield where, mapping(template).get("metadata"), not facts.suspends


def _labels(
    work: Work,
    metadata: Mapping[str, Any],
    path: Path,
    *,
    queued: bool,
    gated: bool,
    group: bool = False,
) -> Iterator[Breach]:
    labels = mapping(metadata.get("labels"))
    decided = {
        "windlass.dev/tenant": work.tenant,
        "windlass.dev/project": work.project,
        "windlass.dev/env": work.env,
        "windlass.dev/component": work.name,
        "windlass.dev/type": work.type.partition("@")[0],
        "windlass.dev/tier": work.tier,
        "windlass.dev/profile": work.profile,
        **{key: value for key, value in work.labels.items() if not of_the_platform(key)},
    }
    for key, value in decided.items():
        if labels.get(key) != value:
            yield breach("label", (*path, "labels", key), labels.get(key), value)
    priority = f"windlass-minus-{-work.priority}" if work.priority < 0 else f"windlass-{work.priority}"
    queue: dict[str, tuple[Law, str | None]] = {
        "kueue.x-k8s.io/queue-name": ("queue", work.hardware.gpu_class if queued else None),
        "kueue.x-k8s.io/priority-class": ("priority", priority if queued else None),
        "kueue.x-k8s.io/managed": ("gate", "true" if gated else None),
        "kueue.x-k8s.io/pod-group-name": ("gang", work.name if group else None),
    }
    for key, (law, wanted) in queue.items():
        if labels.get(key) != wanted:
            yield breach(law, (*path, "labels", key), labels.get(key), wanted)
    for key in sorted(map(str, labels)):
        if of_the_platform(key) and key not in decided and key not in queue:
            yield breach("label", (*path, "labels", key), labels[key], "no such label")


def _annotations(
    work: Work, metadata: Mapping[str, Any], path: Path, *, pods: bool, group: bool = False
) -> Iterator[Breach]:
    notes = mapping(metadata.get("annotations"))
    decided: dict[str, str] = {"windlass.dev/type-version": work.type}
    if pods and work.topology is not None:
        mode = "required" if work.topology.mode == "required" else "preferred"
        level = _TOPOLOGY.get(work.topology.level, "a known level")
        decided[f"kueue.x-k8s.io/podset-{mode}-topology"] = level
    if group:
        decided["kueue.x-k8s.io/pod-group-total-count"] = str(work.workers)
        decided["scheduling.k8s.io/group-name"] = work.name
    for key, value in decided.items():
        if notes.get(key) != value:
            law: Law = "gang" if "group" in key else "node" if "topology" in key else "label"
            yield breach(law, (*path, "annotations", key), notes.get(key), value)
    for key in sorted(map(str, notes)):
        if of_the_platform(key) and key not in decided:
            yield breach("label", (*path, "annotations", key), notes[key], "no such annotation")


def _service_name(component: str) -> str:
    """A Service may not begin with a digit."""
    bare = component
    while bare.startswith("d-"):
        bare = bare[2:]
    return f"d-{component}" if bare[:1].isdigit() else component


def _beside(work: Work, spec: Mapping[str, Any], kind: Kind, path: Path) -> Iterator[Breach]:
    for key in sorted(str(key) for key in spec if key not in _BESIDE[kind]):
        law: Law = "exposure" if kind[1] == "Service" else "queue" if key == "queue" else "owned"
        yield breach(law, (*path, key), spec[key], "no such part")
    own = {"windlass.dev/component": work.name}
    match kind[1]:
        case "Service":
            yield from _service(spec, own, path)
        case "PodDisruptionBudget" if spec.get("selector") != {"matchLabels": own}:
            yield breach("owned", (*path, "selector"), spec.get("selector"), "the component's own pods")
        case "NetworkPolicy" if spec.get("podSelector") != {"matchLabels": own}:
            yield breach(
                "exposure", (*path, "podSelector"), spec.get("podSelector"), "the component's own pods"
            )
        case "PodGroup" if not same(spec.get("minMember"), work.workers):
            yield breach("gang", (*path, "minMember"), spec.get("minMember"), work.workers)
        case "HorizontalPodAutoscaler":
            yield from _scaler(work, spec, ("minReplicas", "maxReplicas"), path)
        case "ScaledObject":
            yield from _scaler(work, spec, ("minReplicaCount", "maxReplicaCount"), path)


def _service(spec: Mapping[str, Any], own: Mapping[str, str], path: Path) -> Iterator[Breach]:
    if spec.get("selector") != own:
        yield breach("exposure", (*path, "selector"), spec.get("selector"), "the component's own pods")
    if spec.get("type", "ClusterIP") != "ClusterIP" or spec.get("clusterIP", "None") != "None":
        yield breach("exposure", path, spec.get("type") or spec.get("clusterIP"), "inside the cluster only")
    yield from misshapen(spec, path, lists=("ports",))
    for at, port in enumerate(listed(spec.get("ports"))):
        if "nodePort" in mapping(port):
            yield breach("host", (*path, "ports", at, "nodePort"), port["nodePort"], "no port of a node")


def _scaler(work: Work, spec: Mapping[str, Any], bounds: tuple[str, str], path: Path) -> Iterator[Breach]:
    for key, wanted in zip(bounds, (work.workers, work.most_workers), strict=True):
        if not same(spec.get(key), wanted):
            yield breach("gang", (*path, key), spec.get(key), wanted)
    target = mapping(spec.get("scaleTargetRef"))
    if (
        target.get("name") != work.name
        or (str(target.get("apiVersion")), str(target.get("kind"))) not in WORKLOADS
    ):
        yield breach("owned", (*path, "scaleTargetRef"), dict(target), f"the workload {work.name}")
