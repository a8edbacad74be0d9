"""The kinds a component may be made of: which of them run pods, and which fields are the platform's.

A template holds exactly one workload; the other kinds stand beside it. What is not listed here cannot
be in a template at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Kind = tuple[str, str]
"""apiVersion and kind."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`pods`: the way from the object to its pod template; a number is a position in a list.
    `owned`: what the platform writes into the spec, so that a template may not."""

    pods: tuple[str | int, ...]
    owned: frozenset[str]
    suspends: bool = False


JOB: Kind = ("batch/v1", "Job")
JOBSET: Kind = ("jobset.x-k8s.io/v1alpha2", "JobSet")
DEPLOYMENT: Kind = ("apps/v1", "Deployment")
STATEFUL_SET: Kind = ("apps/v1", "StatefulSet")
VOLCANO_JOB: Kind = ("batch.volcano.sh/v1alpha1", "Job")
POD: Kind = ("v1", "Pod")

SERVICE: Kind = ("v1", "Service")
DISRUPTION_BUDGET: Kind = ("policy/v1", "PodDisruptionBudget")
AUTOSCALER: Kind = ("autoscaling/v2", "HorizontalPodAutoscaler")
SCALED_OBJECT: Kind = ("keda.sh/v1alpha1", "ScaledObject")
POD_GROUP: Kind = ("scheduling.volcano.sh/v1beta1", "PodGroup")
CONFIG_MAP: Kind = ("v1", "ConfigMap")
NETWORK_POLICY: Kind = ("networking.k8s.io/v1", "NetworkPolicy")

_JOB_OWNED = frozenset(
    {
        "suspend",
        "parallelism",
        "completionMode",
        "selector",
        "manualSelector",
        "managedBy",
        "podReplacementPolicy",
        "activeDeadlineSeconds",
        "backoffLimit",
        "backoffLimitPerIndex",
    }
)
_REPLICAS_OWNED = frozenset({"replicas", "selector"})

WORKLOADS: Mapping[Kind, Workload] = {
    JOB: Workload(("spec", "template"), _JOB_OWNED, suspends=True),
    JOBSET: Workload(
        ("spec", "replicatedJobs", 0, "template", "spec", "template"),
        frozenset({"suspend", "managedBy", "failurePolicy", "network", "coordinator"}),
        suspends=True,
    ),
    DEPLOYMENT: Workload(("spec", "template"), _REPLICAS_OWNED),
    STATEFUL_SET: Workload(("spec", "template"), _REPLICAS_OWNED | {"serviceName"}),
    VOLCANO_JOB: Workload(
        ("spec", "tasks", 0, "template"),
        frozenset({"minAvailable", "queue", "schedulerName", "priorityClassName", "maxRetry", "plugins"}),
    ),
    POD: Workload((), frozenset()),
}

BESIDE: Mapping[Kind, frozenset[str]] = {
    SERVICE: frozenset(
        ["selector", "externalIPs", "externalName", "loadBalancerIP", "loadBalancerClass", "clusterIPs"]
    ),
    DISRUPTION_BUDGET: frozenset({"selector"}),
    AUTOSCALER: frozenset({"scaleTargetRef", "minReplicas", "maxReplicas"}),
    SCALED_OBJECT: frozenset(
        ["scaleTargetRef", "minReplicaCount", "maxReplicaCount", "idleReplicaCount", "fallback"]
    ),
    POD_GROUP: frozenset({"minMember", "queue", "priorityClassName"}),
    CONFIG_MAP: frozenset(),
    NETWORK_POLICY: frozenset({"podSelector"}),
}

RAW_KINDS: frozenset[Kind] = frozenset({JOB, JOBSET, DEPLOYMENT, STATEFUL_SET, POD, SERVICE, CONFIG_MAP})
"""What the escape hatch may hold."""


def kind_of(thing: Mapping[str, Any]) -> Kind:
    return str(thing.get("apiVersion", "")), str(thing.get("kind", ""))


def job_specs(thing: Mapping[str, Any]) -> list[Any]:
    """The specs below a workload that have a size of their own: of a JobSet's jobs, of Volcano's tasks."""
    spec = thing.get("spec")
    listed = (
        spec.get({JOBSET: "replicatedJobs", VOLCANO_JOB: "tasks"}.get(kind_of(thing), "")) if spec else None
    )
    return list(listed) if isinstance(listed, (list, tuple)) else []


def pod_template(thing: Any, kind: Kind) -> Any:
    """The pod template inside a workload, or None where it is not what it should be."""
    for step in WORKLOADS[kind].pods:
        if isinstance(step, int):
            thing = thing[step] if isinstance(thing, (list, tuple)) and len(thing) > step else None
        else:
            thing = thing.get(step) if isinstance(thing, Mapping) else None
    return thing if isinstance(thing, Mapping) else None
