"""A tenant that changes its currency: nothing is open in the old one, and its budgets count the new one.

Budgets are in their tenant's currency (core/catalog/whole.py), and their running sums say no currency:
they are the sums of the tenant's present one. So work that is paid in the old currency must end first,
and the sums are counted anew from what was posted.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.control.db import ledger
from windlass.control.db.port import Tx
from windlass.core.catalog.snapshot import Catalog
from windlass.core.errors import Conflict

_NAMED = 20


async def refuse_mixed_money(tx: Tx, before: Catalog, after: Catalog) -> None:
    for tenant, old, new in _changed(before, after):
        paths = await ledger.unsettled(tx, tenant, new, _NAMED + 1)
        if paths:
            named = ", ".join(paths[:_NAMED]) + (" and more" if len(paths) > _NAMED else "")
            raise Conflict(
                f"{tenant} cannot change from {old} to {new} while it has work that is paid in {old}:"
                f" {named}",
                remedy="let that work end, or cancel it, and apply the change again",
            )


async def recount_budgets(tx: Tx, before: Catalog, after: Catalog) -> None:
    for tenant, _, new in _changed(before, after):
        await ledger.recount(tx, tenant, new)


def _changed(before: Catalog, after: Catalog) -> Iterator[tuple[str, str, str]]:
    for name, tenant in sorted(after.tenants.items()):
        known = before.tenants.get(name)
        if known is not None and known.currency != tenant.currency:
            yield name, known.currency, tenant.currency
