"""What a Kubernetes site needs before its first component: the objects Kueue works from, and what the
cluster's own people must have there, because no manifest of ours can put it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.core.catalog.snapshot import Catalog
from windlass.core.compiler.kubernetes import words
from windlass.core.compiler.kubernetes.queues import KUEUE, queue_objects
from windlass.core.documents.kinds import HardwareProfile, Site
from windlass.core.units import Ms

SYSTEM_NAMESPACE = "windlass-system"
TOPOLOGY = "windlass"
KUEUE_VERSION = "0.19"
MAX_PRIORITIES = 10_000
"""Of one tier: a priority class is an object, and a range of millions would be millions of them."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something a site must have. `config` is what to write, where there is something to write."""

    name: str
    text: str
    config: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SiteObjects:
    objects: tuple[dict[str, Any], ...]
    requirements: tuple[Requirement, ...]


def site_objects(catalog: Catalog, site_name: str, *, now: Ms = Ms(0)) -> SiteObjects:
    """In the order they are applied. `now` decides which bursts count; without it, none does."""
    objects = [
        _namespace(),
        _topology(),
        *(_flavor(gpu_class) for gpu_class in _classes(catalog)),
        *queue_objects(catalog, site_name, now),
        *_priority_classes(catalog),
        *(_hardware(name, profile) for name, profile in sorted(catalog.profiles.items())),
    ]
    return SiteObjects(tuple(objects), tuple(_requirements(catalog, catalog.sites[site_name])))


def _classes(catalog: Catalog) -> list[str]:
    return sorted({profile.gpu_class for profile in catalog.profiles.values()})


def _namespace() -> dict[str, Any]:
    labels = {words.MANAGED: "false", "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE, "labels": labels}}


def _topology() -> dict[str, Any]:
    levels = [{"nodeLabel": label} for label in words.LEVELS.values()]
    return _object(KUEUE, "Topology", TOPOLOGY, spec={"levels": levels})


def _flavor(gpu_class: str) -> dict[str, Any]:
    """One per class, however its GPUs are shared: an envelope has one number for all of them, and how a
    GPU is shared already shows in the name of the resource."""
    spec = {
        "nodeLabels": {words.CLASS: gpu_class},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "topologyName": TOPOLOGY,
    }
    return _object(KUEUE, "ResourceFlavor", gpu_class, spec=spec)


def _priority_classes(catalog: Catalog) -> list[dict[str, Any]]:
    """One for every priority that work of some tier can have."""
    tiers: dict[int, list[str]] = {}
    for name, tier in sorted(catalog.tiers.items()):
        reach = tier.priority_range
        if reach.max - reach.min >= MAX_PRIORITIES:
            raise ValueError(
                f"the tier {name} has {reach.max - reach.min + 1} priorities; a Kubernetes site takes"
                f" {MAX_PRIORITIES}: narrow its priorityRange"
            )
        for value in range(tier.priority + reach.min, tier.priority + reach.max + 1):
            tiers.setdefault(value, []).append(name)
    return [
        _object(
            KUEUE,
            "WorkloadPriorityClass",
            words.priority_class(value),
            value=value,
            description=f"work of {', '.join(names)}",
        )
        for value, names in sorted(tiers.items())
    ]


def _hardware(name: str, profile: HardwareProfile) -> dict[str, Any]:
    """For tools that know OpenShift AI's profiles. It points to a queue: which node serves it is not for
    an author to say."""
    identifiers: list[dict[str, Any]] = [
        {
            "displayName": f"{profile.gpu_model} ({profile.sharing})",
            "identifier": words.gpu_resource(profile),
            "minCount": 1,
            "maxCount": profile.max_per_worker,
            "defaultCount": 1,
            "resourceType": "Accelerator",
        }
    ]
    for kind, resource, amount in (
        ("CPU", "cpu", profile.per_gpu.cpu),
        ("Memory", "memory", profile.per_gpu.memory_gib),
    ):
        if amount:
            count = f"{amount}Gi" if resource == "memory" else amount
            identifiers.append(
                {
                    "displayName": kind,
                    "identifier": resource,
                    "minCount": count,
                    "defaultCount": count,
                    "resourceType": kind,
                }
            )
    scheduling = {"type": "Queue", "kueue": {"localQueueName": profile.gpu_class}}
    made = _object(
        "infrastructure.opendatahub.io/v1",
        "HardwareProfile",
        name,
        spec={"identifiers": identifiers, "scheduling": scheduling},
    )
    made["metadata"]["namespace"] = SYSTEM_NAMESPACE
    return made


def _object(api_version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {words.MANAGED: "true"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


# --- requirements ---------------------------------------------------------------------------------


def _requirements(catalog: Catalog, site: Site) -> list[Requirement]:
    shares, unlike = _shares(catalog)
    labels = ", ".join([words.CLASS, *words.LEVELS.values()])
    found = [
        Requirement(
            "kueue", f"Kueue {KUEUE_VERSION} or newer, with this configuration", _kueue(site, shares)
        ),
        Requirement("node-labels", f"every GPU node carries the labels {labels}"),
        Requirement(
            "device-plugin",
            "the device plugin advertises " + ", ".join(sorted(shares)) + ": MIG with the strategy mixed,"
            " time slices with renameByDefault, so that a share is never taken for a whole GPU",
        ),
        Requirement(
            "open-data-hub",
            "HardwareProfile objects need the definitions of infrastructure.opendatahub.io;"
            " leave these objects out where nobody uses them",
        ),
    ]
    for resource in unlike:
        found.append(
            Requirement(
                "unlike-shares",
                f"profiles that share {resource} are different parts of a GPU; Kueue can only count one, and"
                f" counts the largest ({shares[resource]} thousandths). Name these resources apart",
            )
        )
    if site.isolation == "sandboxed":
        found.append(Requirement("sandbox", f"a RuntimeClass {words.SANDBOX} that gives workers GPUs"))
    if site.isolation == "dedicated-nodes":
        found.append(
            Requirement(
                "tenant-nodes",
                f"each node has the label {words.TENANT} and the taint {words.TENANT}=<tenant>:NoSchedule",
            )
        )
    return found


def _shares(catalog: Catalog) -> tuple[dict[str, int], list[str]]:
    """Thousandths of a GPU by resource name, the largest where profiles disagree; and where they do."""
    shares: dict[str, int] = {}
    unlike: set[str] = set()
    for profile in catalog.profiles.values():
        resource = words.gpu_resource(profile)
        if shares.setdefault(resource, profile.share) != profile.share:
            unlike.add(resource)
        shares[resource] = max(shares[resource], profile.share)
    return shares, sorted(unlike)


def _kueue(site: Site, shares: Mapping[str, int]) -> dict[str, Any]:
    """Whole, MIG and time-sliced GPUs become one resource that quota is written in. Processors and memory
    follow the GPUs (a profile says how many), so they are not counted a second time."""
    frameworks = ["batch/job", "jobset.x-k8s.io/jobset", "pod", "deployment", "statefulset"]
    config: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "integrations": {"frameworks": frameworks},
        "managedJobsNamespaceSelector": {"matchLabels": {words.MANAGED: "true"}},
        "resources": {
            "excludeResourcePrefixes": ["cpu", "memory", "ephemeral-storage"],
            "transformations": [
                {"input": resource, "strategy": "Replace", "outputs": {words.GPU_QUOTA: str(share)}}
                for resource, share in sorted(shares.items())
            ],
        },
    }
    if site.queueing == "site":
        strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
        config["fairSharing"] = {"preemptionStrategies": strategies}
    return config
