"""What a cell (a project in one environment) needs on a site: its namespace, and what closes it.

Nobody but the platform writes workloads there. People get rights on intents alone; pods reach nothing
and are reached by nothing, except name lookups and what a component's own type opens; a resource quota
stands behind the queue, should anything ever get past it.
"""

from __future__ import annotations

from typing import Any

from windlass.core.catalog.snapshot import Catalog
from windlass.core.compiler.kubernetes import words
from windlass.core.compiler.kubernetes.queues import entitled_classes, local_queues
from windlass.core.documents.kinds import Envelope, HardwareProfile
from windlass.core.documents.scalars import Sharing
from windlass.core.units import GPU

INTENTS = "windlass.dev"


def cell_objects(catalog: Catalog, site_name: str, project: str, env: str) -> tuple[dict[str, Any], ...]:
    """In the order they are applied; none where the tenant has no business on the site."""
    tenant = catalog.projects[project].tenant
    if site_name not in catalog.sites_for(tenant):
        return ()
    namespace, cell = f"{project}-{env}", f"{tenant}/{project}/{env}"
    labels = {words.MANAGED: "true", words.TENANT: tenant, words.PROJECT: project, words.ENV: env}
    objects = [
        _namespace(namespace),
        *_rights(tenant),
        *_network(),
        *_fence(catalog, cell),
        *local_queues(catalog, cell, namespace),
    ]
    for thing in objects:
        thing["metadata"]["labels"] = {**thing["metadata"].get("labels", {}), **labels}
        if thing["kind"] != "Namespace":
            thing["metadata"]["namespace"] = namespace
    return tuple(objects)


def _namespace(name: str) -> dict[str, Any]:
    """Every pod of ours would pass `restricted`; a type that needs a user of its own image passes
    `baseline`, which is what is enforced."""
    levels = {"enforce": "baseline", "audit": "restricted", "warn": "restricted"}
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode, level in levels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _rights(tenant: str) -> list[dict[str, Any]]:
    rbac, name = "rbac.authorization.k8s.io", "windlass-intents"
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    rules = [
        {"apiGroups": [INTENTS], "resources": ["components"], "verbs": verbs},
        {"apiGroups": [INTENTS], "resources": ["components/status"], "verbs": ["get"]},
    ]
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": f"windlass:tenant:{tenant}"}],
        },
    ]


def _network() -> list[dict[str, Any]]:
    """Policies add up, so closing everything once is enough; types bring their openings per component."""
    dns = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    ports = [{"port": 53, "protocol": protocol} for protocol in ("TCP", "UDP")]
    return [
        _policy("windlass-closed", {"podSelector": {}, "policyTypes": ["Egress", "Ingress"]}),
        _policy(
            "windlass-dns",
            {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [dns], "ports": ports}]},
        ),
    ]


def _policy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def _fence(catalog: Catalog, cell: str) -> list[dict[str, Any]]:
    """How many of each device the cell's ceilings could ever be. A resource that some class without a
    ceiling is made of has no fence; one that the cell may not have at all has the fence zero."""
    tenant, project, env = cell.split("/")
    path = [envelope for envelope in catalog.path(tenant, project, env) if envelope is not None]
    entitled = entitled_classes(catalog, cell, {p.gpu_class for p in catalog.profiles.values()})
    hard: dict[str, int] = {}
    endless: set[str] = set()
    for gpu_class, resource, share in _devices(catalog):
        allowed = gpu_class in entitled and _sharing(resource, path)
        ceiling = _ceiling(path, gpu_class) if allowed else 0
        if ceiling is None:
            endless.add(resource)
        else:
            hard[resource] = hard.get(resource, 0) + ceiling // share
    limits = {f"requests.{name}": str(count) for name, count in sorted(hard.items()) if name not in endless}
    if not limits:
        return []
    return [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "windlass-fence"},
            "spec": {"hard": limits},
        }
    ]


def _devices(catalog: Catalog) -> list[tuple[str, str, int]]:
    """Class, resource, and the smallest share it is of that class: the one that allows most of them."""
    found: dict[tuple[str, str], int] = {}
    for profile in catalog.profiles.values():
        key = (profile.gpu_class, words.gpu_resource(profile))
        found[key] = min(found.get(key, GPU), profile.share)
    return sorted((gpu_class, resource, share) for (gpu_class, resource), share in found.items())


def _sharing(resource: str, path: list[Envelope]) -> bool:
    kind: Sharing = "dedicated"
    if resource.startswith("nvidia.com/mig-"):
        kind = "mig"
    elif resource == words.gpu_resource(_TIME_SLICE):
        kind = "time-slice"
    return all(envelope.sharing is None or kind in envelope.sharing for envelope in path)


_TIME_SLICE = HardwareProfile("any", "any", 1, sharing="time-slice")


def _ceiling(path: list[Envelope], gpu_class: str) -> int | None:
    """The lowest `max` on the path. Bursts are added whole: the fence stands behind the queue, which knows
    the time; it must not stand before it."""
    ceilings = [
        quota.max + sum(burst.extra for burst in envelope.burst if burst.profile_class == gpu_class)
        for envelope in path
        for quota in envelope.gpus
        if quota.profile_class == gpu_class and quota.max is not None
    ]
    return min(ceilings, default=None)
