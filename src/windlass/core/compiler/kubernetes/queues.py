"""The envelope tree in Kueue's words: Cohorts for tenants and projects, ClusterQueues for cells.

A cohort's nominal quota is what its envelope guarantees beyond its children's, its borrowing limit what
`max` leaves above the guarantee, its lending limit `lend`. A cell has one ClusterQueue per class, so that
a queue alone says which hardware is meant; quotas of different classes never touch, so nothing is lost.
Amounts are thousandths of a GPU, which Kueue counts exactly.

Two things Kueue cannot say, and the platform's own queue does: that work which may not be preempted does
not borrow, and that a guarantee holds over several sites together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from windlass.core.catalog.quotas import quota_tree
from windlass.core.catalog.snapshot import Catalog
from windlass.core.compiler.kubernetes import words
from windlass.core.documents.kinds import Site, Tier
from windlass.core.scheduling.model import Limit, Quota
from windlass.core.units import Ms

KUEUE = "kueue.x-k8s.io/v1beta2"
ROOT = "windlass"
"""The cohort that all tenants hang under. It has no quota and so no limits."""


def cohort_name(scope: str) -> str:
    """Tenants and projects may share a name; a dot keeps them apart."""
    tenant, _, project = scope.partition("/")
    return f"project.{project}" if project else f"tenant.{tenant}"


def queue_objects(catalog: Catalog, site_name: str, now: Ms) -> list[dict[str, Any]]:
    """Parents before children: the root, the cohorts, the queues of cells."""
    site = catalog.sites[site_name]
    tree = [node for node in quota_tree(catalog, now) if site_name in catalog.sites_for(_tenant(node))]
    classes = {profile.gpu_class for profile in catalog.profiles.values()}
    objects: list[dict[str, Any]] = [_named("Cohort", ROOT, {})]
    for node in tree:
        if node.name.count("/") < 2:
            objects.append(_cohort(node, [child for child in tree if child.parent == node.name], classes))
    for node in tree:
        if node.name.count("/") == 2:
            objects += [
                _cluster_queue(catalog, site, node, gpu_class)
                for gpu_class in entitled_classes(catalog, node.name, classes)
            ]
    return objects


def entitled_classes(catalog: Catalog, cell: str, classes: Collection[str]) -> list[str]:
    """Those that some envelope on the path speaks of; the others are nobody's."""
    tenant, project, env = cell.split("/")
    stated = {
        quota.profile_class
        for envelope in catalog.path(tenant, project, env)
        if envelope is not None
        for quota in envelope.gpus
    }
    return sorted(stated & set(classes))


def local_queues(catalog: Catalog, cell: str, namespace: str) -> list[dict[str, Any]]:
    classes = {profile.gpu_class for profile in catalog.profiles.values()}
    queues = []
    for gpu_class in entitled_classes(catalog, cell, classes):
        queue = _named("LocalQueue", gpu_class, {"clusterQueue": words.cluster_queue(namespace, gpu_class)})
        queue["metadata"]["namespace"] = namespace
        queues.append(queue)
    return queues


def _cohort(node: Quota, children: Sequence[Quota], classes: Collection[str]) -> dict[str, Any]:
    parent = ROOT if node.parent is None else cohort_name(node.parent)
    spec: dict[str, Any] = {"parentName": parent, "fairSharing": {"weight": str(node.weight)}}
    flavors = [
        {"name": gpu_class, "resources": [_quota(limit, _given(children, gpu_class))]}
        for gpu_class, limit in sorted(node.limits.items())
        if gpu_class in classes
    ]
    if flavors:
        spec["resourceGroups"] = [{"coveredResources": [words.GPU_QUOTA], "flavors": flavors}]
    return _named("Cohort", cohort_name(node.name), spec)


def _given(children: Sequence[Quota], gpu_class: str) -> int:
    return sum(child.limits[gpu_class].guaranteed for child in children if gpu_class in child.limits)


def _cluster_queue(catalog: Catalog, site: Site, node: Quota, gpu_class: str) -> dict[str, Any]:
    tenant, project, env = node.name.split("/")
    namespace = f"{project}-{env}"
    limit = node.limits.get(gpu_class, Limit())
    flavor = {"name": gpu_class, "resources": [_quota(limit, 0)]}
    spec = {
        "cohortName": cohort_name(f"{tenant}/{project}"),
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "queueingStrategy": "BestEffortFIFO",
        "fairSharing": {"weight": str(node.weight)},
        "preemption": _preemption(site, catalog.tiers.get(catalog.tenants[tenant].tier)),
        "resourceGroups": [{"coveredResources": [words.GPU_QUOTA], "flavors": [flavor]}],
    }
    return _named("ClusterQueue", words.cluster_queue(namespace, gpu_class), spec)


def _preemption(site: Site, tier: Tier | None) -> dict[str, str]:
    """Where the platform queues, it alone preempts: two that do would undo each other's choices."""
    if site.queueing == "platform" or tier is None or not tier.preempts:
        return {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
    return {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


def _quota(limit: Limit, given: int) -> dict[str, str]:
    quota = {"name": words.GPU_QUOTA, "nominalQuota": str(limit.guaranteed - given)}
    if limit.max is not None:
        quota["borrowingLimit"] = str(limit.max - limit.guaranteed)
    if limit.lend is not None:
        quota["lendingLimit"] = str(min(limit.lend, limit.guaranteed))
    return quota


def _tenant(node: Quota) -> str:
    return node.name.partition("/")[0]


def _named(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "labels": {words.MANAGED: "true"}}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": dict(spec)}
