"""The facts that admission needs from records and from the fleet: loaded once per intent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.control.db import ledger
from windlass.control.db.port import Tx
from windlass.core.admission.case import BudgetState, Facts
from windlass.core.admission.decide import priced_class
from windlass.core.catalog.snapshot import Catalog
from windlass.core.intent import Intent
from windlass.core.ledger.budgets import period_bounds
from windlass.core.units import Ms

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane


async def load_facts(tx: Tx, plane: ControlPlane, intent: Intent, catalog: Catalog, now: Ms) -> Facts:
    """Of a project that the asker can use; another tenant's price or budget would tell that it is there."""
    project = catalog.projects.get(intent.project)
    if project is None or not tx.scope.covers(project.tenant):
        return Facts(now=now, node_sizes=plane.scheduler.sizes)
    priced = priced_class(intent, catalog)
    quote = plane.prices.timeline.price_at(**priced, at=now) if priced else None
    return Facts(
        now=now,
        node_sizes=plane.scheduler.sizes,
        budgets=await _budgets(tx, intent, catalog, now),
        per_gpu_hour=quote.per_gpu_hour if quote else None,
    )


async def _budgets(tx: Tx, intent: Intent, catalog: Catalog, now: Ms) -> dict[str, BudgetState]:
    """Of each budget on the path: what its period cost so far and what admitted work holds."""
    project = catalog.projects.get(intent.project)
    if project is None:
        return {}
    states: dict[str, BudgetState] = {}
    for scope, budget in catalog.budgets(project.tenant, project.name, intent.spec.env):
        since, until = period_bounds(budget.period, now)
        states[scope] = BudgetState(
            scope, await ledger.spent(tx, scope, since, until), await ledger.budget_held(tx, scope)
        )
    return states
