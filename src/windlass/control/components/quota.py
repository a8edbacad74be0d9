"""What is mine, what I could borrow now, what each profile costs: `windlass quota show`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from windlass.contracts import api
from windlass.control.db import ledger
from windlass.control.db.narrow import Place
from windlass.control.db.port import Tx
from windlass.control.identity.scopes import Scope
from windlass.core.admission.entitlements import allowed_sharing
from windlass.core.catalog.quotas import ceiling_at
from windlass.core.catalog.snapshot import Catalog, scope_name
from windlass.core.catalog.snapshot import Scope as Key
from windlass.core.documents.kinds import Envelope, GpuQuota
from windlass.core.errors import BadRequest, NotFound
from windlass.core.ledger.budgets import period_bounds
from windlass.core.units import GPU, MilliGpu, format_gpus, format_money

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

Parts = tuple[str, ...]
"""A tenant, a tenant and a project, or both and an environment."""


async def quota_answer(plane: ControlPlane, scope: Scope, place: Place) -> api.QuotaAnswer:
    """Of every scope the asker sees, or of the one asked for and those below it. Raises NotFound for a
    place that is not there, or not the asker's."""
    catalog = plane.catalog.current
    wanted = _wanted(catalog, scope, place)
    tenants = sorted(name for name in catalog.tenants if scope.covers(name) and wanted[:1] in ((), (name,)))
    lines = [
        _line(plane, key, quota)
        for key, envelope in sorted(catalog.envelopes.items(), key=lambda item: _parts(item[0]))
        if key[0] in tenants and _parts(key)[: len(wanted)] == wanted
        for quota in _now(plane, envelope)
    ]
    if len(wanted) > 1:
        lines = [*_inherited(plane, wanted), *lines]
    profiles = [price for name in tenants for price in _profiles(plane, wanted or (name,))]
    budgets = await _budgets(plane, scope, tenants, wanted)
    return api.QuotaAnswer(quotas=lines, profiles=profiles, budgets=budgets)


def _wanted(catalog: Catalog, scope: Scope, place: Place) -> Parts:
    """The tenant, project and environment asked for, as far as they are said."""
    tenant, project, env = place.tenant, place.project, place.env
    if tenant is not None and not (tenant in catalog.tenants and scope.covers(tenant)):
        raise NotFound(f"there is no tenant {tenant[:100]}", remedy="`windlass get tenants` lists them")
    if project is None:
        if env is not None:
            raise BadRequest("an environment is one of a project", remedy="say which project, too")
        return (tenant,) if tenant is not None else ()
    entry = catalog.projects.get(project)
    if entry is None or not scope.covers(entry.tenant) or tenant not in (None, entry.tenant):
        raise NotFound(f"there is no project {project[:100]}", remedy="`windlass get projects` lists them")
    if env is None:
        return entry.tenant, project
    if env not in entry.spec.environments:
        raise NotFound(
            f"the project {project} has no environment {env[:100]}",
            remedy=f"it has {', '.join(entry.spec.environments)}",
        )
    return entry.tenant, project, env


def _above(catalog: Catalog, at: Parts) -> list[Envelope]:
    """The envelopes from the tenant's down to the place's own."""
    tenant, project, env = (*at, "", "")[:3]
    return [envelope for envelope in catalog.path(tenant, project, env)[: len(at)] if envelope is not None]


def _inherited(plane: ControlPlane, at: Parts) -> list[api.QuotaLine]:
    """Of each class that the place has no envelope for, what it has through those above it: nothing of
    its own, up to the nearest ceiling."""
    key: Key = (at[0], at[1], at[2] if len(at) > 2 else None)
    own = plane.catalog.current.envelopes.get(key)
    stated = {quota.profile_class for quota in own.gpus} if own is not None else set()
    nearest: dict[str, MilliGpu | None] = {}
    for envelope in _above(plane.catalog.current, at):
        for quota in _now(plane, envelope):
            ceiling = quota.max if quota.max is not None else nearest.get(quota.profile_class)
            nearest[quota.profile_class] = ceiling
    return [
        _line(plane, key, GpuQuota(gpu_class, MilliGpu(0), ceiling))
        for gpu_class, ceiling in sorted(nearest.items())
        if gpu_class not in stated
    ]


def _now(plane: ControlPlane, envelope: Envelope) -> list[GpuQuota]:
    """With the ceilings of this moment: a burst raises them while it lasts."""
    return [replace(quota, max=ceiling_at(envelope, quota, plane.clock())) for quota in envelope.gpus]


def _line(plane: ControlPlane, key: Key, quota: GpuQuota) -> api.QuotaLine:
    """`available` is what the scope could get now, its own and borrowed, as far as nodes have room. What one
    part of it borrows from another, the scope itself does not."""
    scope = scope_name(key)
    pool = plane.scheduler.state.tree.pool(scope, quota.profile_class)
    return api.QuotaLine(
        scope=scope,
        gpu_class=quota.profile_class,
        guaranteed=format_gpus(quota.guaranteed),
        max=format_gpus(quota.max) if quota.max is not None else None,
        used=format_gpus(pool.held),
        borrowed=format_gpus(MilliGpu(min(pool.borrowed, max(0, pool.held - quota.guaranteed)))),
        available=format_gpus(MilliGpu(min(pool.free(), _room(plane, key[0], quota.profile_class)))),
    )


def _room(plane: ControlPlane, tenant: str, gpu_class: str) -> int:
    """What nobody holds of the class, on nodes that are ready at sites the tenant may use."""
    rooms = plane.scheduler.state.fleet.classes.get(gpu_class)
    if rooms is None:
        return 0
    return sum(rooms.free_by_site.get(site, 0) for site in plane.catalog.current.sites_for(tenant))


def _parts(key: Key) -> Parts:
    return tuple(part for part in key if part is not None)


def _profiles(plane: ControlPlane, at: Parts) -> list[api.ProfilePrice]:
    """A profile is entitled where some envelope on the path, or below the place, has its class, and
    every one on the path allows its sharing."""
    catalog, now, tenant = plane.catalog.current, plane.clock(), at[0]
    owner = catalog.tenants[tenant]
    above = _above(catalog, at)
    below = [envelope for key, envelope in catalog.envelopes.items() if _parts(key)[: len(at)] == at]
    classes = {quota.profile_class for envelope in (*above, *below) for quota in envelope.gpus}
    sharing = allowed_sharing(above)
    prices = []
    for name, profile in sorted(catalog.profiles.items()):
        quote = plane.prices.timeline.price_at(profile.gpu_class, owner.tier, owner.currency, now)
        per_unit = quote.per_gpu_hour * profile.share // GPU if quote else None
        prices.append(
            api.ProfilePrice(
                tenant=tenant,
                profile=name,
                gpu_class=profile.gpu_class,
                sharing=profile.sharing,
                share=format_gpus(MilliGpu(profile.share)),
                per_unit_hour=format_money(per_unit) if per_unit is not None else None,
                currency=owner.currency,
                entitled=profile.gpu_class in classes and profile.sharing in sharing,
            )
        )
    return prices


async def _budgets(
    plane: ControlPlane, scope: Scope, tenants: list[str], wanted: Parts
) -> list[api.BudgetLine]:
    """Those that bind the place: on its path, and below it."""
    catalog, now = plane.catalog.current, plane.clock()

    async def load(tx: Tx) -> list[api.BudgetLine]:
        lines = []
        for key, envelope in sorted(catalog.envelopes.items(), key=lambda item: _parts(item[0])):
            budget, at = envelope.budget, _parts(key)
            if budget is None or at[0] not in tenants:
                continue
            if at[: len(wanted)] != wanted[: len(at)]:
                continue
            name = scope_name(key)
            since, until = period_bounds(budget.period, now)
            lines.append(
                api.BudgetLine(
                    scope=name,
                    amount=format_money(budget.amount),
                    currency=budget.currency,
                    period=budget.period,
                    spent=format_money(await ledger.spent(tx, name, since, until)),
                    held=format_money(await ledger.budget_held(tx, name)),
                    on_exhausted=budget.on_exhausted,
                )
            )
        return lines

    return await plane.store.read(scope, load)
