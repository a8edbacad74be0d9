"""The words Windlass and Kubernetes share: label keys, and the names that both sides must agree on.

A queue is named after the class it serves, the same in every cell, so that whoever knows a profile
knows the queue. Names of priority classes come from the number alone, so that tiers may share them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from windlass.core.compiler.work import Work
from windlass.core.documents.kinds import HardwareProfile
from windlass.core.intent import RESERVED_LABEL_PREFIXES

TENANT = "windlass.dev/tenant"
PROJECT = "windlass.dev/project"
ENV = "windlass.dev/env"
COMPONENT = "windlass.dev/component"
TYPE = "windlass.dev/type"
TIER = "windlass.dev/tier"
PROFILE = "windlass.dev/profile"
TYPE_VERSION = "windlass.dev/type-version"
MANAGED = "windlass.dev/managed"
CLASS = "windlass.dev/class"

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
KUEUE_MANAGED = "kueue.x-k8s.io/managed"
ADMISSION_GATE = "kueue.x-k8s.io/admission"
POD_GROUP = "kueue.x-k8s.io/pod-group-name"
POD_GROUP_COUNT = "kueue.x-k8s.io/pod-group-total-count"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"

HOSTNAME = "kubernetes.io/hostname"
LEVELS: Mapping[str, str] = {
    "zone": "topology.kubernetes.io/zone",
    "block": "windlass.dev/block",
    "rack": "windlass.dev/rack",
    "node": HOSTNAME,
}
"""Topology levels as node labels, the widest first: the order Kueue wants."""

SANDBOX = "windlass-sandboxed"
"""The RuntimeClass of a sandboxed site."""

GPU_QUOTA = "windlass.dev/milli-gpu"
"""What Kueue counts: thousandths of a GPU. Kueue rounds every resource but cpu up to whole numbers, so a
seventh of a GPU would cost one; in thousandths all shares are whole."""

_RESERVED_DOMAINS = tuple(prefix.rstrip("/") for prefix in RESERVED_LABEL_PREFIXES)
_MARK = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_DOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII
)
_DIGIT_FIRST = re.compile(r"(d-)*[0-9]")


def reserved(key: str) -> bool:
    """Whether a label or annotation key belongs to the platform or to Kubernetes."""
    domain, slash, _ = key.partition("/")
    return bool(slash) and any(domain == own or domain.endswith(f".{own}") for own in _RESERVED_DOMAINS)


def is_key(text: str) -> bool:
    """Whether Kubernetes takes it for the key of a label or an annotation."""
    domain, slash, name = text.rpartition("/")
    return _MARK.fullmatch(name) is not None and (not slash or _DOMAIN.fullmatch(domain) is not None)


def is_label_value(text: str) -> bool:
    return not text or _MARK.fullmatch(text) is not None


def gpu_resource(hardware: HardwareProfile) -> str:
    """The extended resource that one unit of the profile is, as the device plugin names it."""
    if hardware.sharing == "mig":
        return f"nvidia.com/mig-{hardware.mig_profile}"
    return "nvidia.com/gpu.shared" if hardware.sharing == "time-slice" else "nvidia.com/gpu"


def queue_of(work: Work) -> str:
    return work.hardware.gpu_class


def cluster_queue(namespace: str, gpu_class: str) -> str:
    """A dot cannot be in either, so no two cells and classes meet."""
    return f"{namespace}.{gpu_class}"


def priority_class(value: int) -> str:
    return f"windlass-{value}" if value >= 0 else f"windlass-minus-{-value}"


def service_name(component: str) -> str:
    """A Service may not begin with a digit, a component may. What could be taken for a name made here is
    changed too, so that two components never share one."""
    return f"d-{component}" if _DIGIT_FIRST.match(component) else component


def attribution(work: Work) -> dict[str, str]:
    """The labels that say whose a thing is; bills and queries rely on them."""
    return {
        TENANT: work.tenant,
        PROJECT: work.project,
        ENV: work.env,
        COMPONENT: work.name,
        TYPE: work.type.partition("@")[0],
        TIER: work.tier,
        PROFILE: work.profile,
    }


def author_labels(work: Work, *, pods: bool = False) -> dict[str, str]:
    """The author's own. Admission refuses reserved keys; should one come through, it is not written.
    Meshes and controllers of a cluster listen to labels of pods under a domain: one could take a pod out of
    its mesh or exempt it from a policy. Those stay on the objects around."""
    return {
        key: value
        for key, value in work.labels.items()
        if not reserved(key) and not (pods and "." in key.partition("/")[0] and "/" in key)
    }


def selector(work: Work) -> dict[str, str]:
    """The pods of a component: one label is enough, because a namespace is one cell."""
    return {COMPONENT: work.name}
