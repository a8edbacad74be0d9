"""The catalog's envelopes as the quota tree the scheduling engine works on.

One node per tenant, per project and per environment, declared envelope or not: a scope without one
has no limits of its own, so it is guaranteed nothing and its ancestors' ceilings bind.
"""

from __future__ import annotations

from windlass.core.catalog.snapshot import Catalog, Scope, scope_name
from windlass.core.documents.kinds import Envelope, GpuQuota
from windlass.core.scheduling.model import Limit, Quota
from windlass.core.units import MilliGpu, Ms


def quota_tree(catalog: Catalog, now_ms: Ms) -> tuple[Quota, ...]:
    """Every node, parents before children: the tenants, then each project with its environments."""
    nodes = [_node(catalog, (tenant, None, None), None, now_ms) for tenant in sorted(catalog.tenants)]
    for project in sorted(catalog.projects.values(), key=lambda entry: (entry.tenant, entry.name)):
        scope: Scope = (project.tenant, project.name, None)
        nodes.append(_node(catalog, scope, project.tenant, now_ms))
        nodes += [
            _node(catalog, (project.tenant, project.name, env), scope_name(scope), now_ms)
            for env in sorted(project.spec.environments)
        ]
    return tuple(nodes)


def next_change(catalog: Catalog, now_ms: Ms) -> Ms | None:
    """When the tree or the prices change by themselves: the next edge of a burst or price book."""
    edges = [book.effective_from for book in catalog.price_books.values()]
    for envelope in catalog.envelopes.values():
        for burst in envelope.burst:
            edges += [burst.since, burst.until]
    return min((edge for edge in edges if edge > now_ms), default=None)


def _node(catalog: Catalog, scope: Scope, parent: str | None, now_ms: Ms) -> Quota:
    envelope = catalog.envelopes.get(scope)
    if envelope is None:
        return Quota(scope_name(scope), parent)
    limits = {quota.profile_class: _limit(envelope, quota, now_ms) for quota in envelope.gpus}
    return Quota(scope_name(scope), parent, weight=envelope.weight, limits=limits)


def _limit(envelope: Envelope, quota: GpuQuota, now_ms: Ms) -> Limit:
    return Limit(quota.guaranteed, ceiling_at(envelope, quota, now_ms), quota.lend)


def ceiling_at(envelope: Envelope, quota: GpuQuota, now_ms: Ms) -> MilliGpu | None:
    """A burst raises the ceiling while it lasts, and guarantees nothing."""
    if quota.max is None:
        return None
    return MilliGpu(quota.max + _extra(envelope, quota.profile_class, now_ms))


def _extra(envelope: Envelope, profile_class: str, now_ms: Ms) -> int:
    return sum(
        burst.extra
        for burst in envelope.burst
        if burst.profile_class == profile_class and burst.since <= now_ms < burst.until
    )
