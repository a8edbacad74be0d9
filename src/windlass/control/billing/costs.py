"""What it costs: posted money and what running work has added since, by tenant, project, component."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.contracts import api
from windlass.control.db import ledger
from windlass.control.db.narrow import Place
from windlass.control.db.port import Tx
from windlass.control.identity.scopes import Scope
from windlass.core.ledger.costs import CostItem, cost_item
from windlass.core.ledger.postings import NOTHING
from windlass.core.metering import gpu_hours
from windlass.core.units import GpuUs, Micros, Ms, format_money, format_timestamp

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

_DEPTH = {"tenant": 1, "project": 2, "component": 4}
_Key = tuple[str, ...]


async def costs(plane: ControlPlane, scope: Scope, by: str, place: Place) -> api.CostAnswer:
    """Lines and totals of `place` and nothing else; the ledger's sum is of all the asker may see."""
    now = plane.clock()

    async def load(tx: Tx) -> tuple[list[CostItem], dict[str, Micros]]:
        return await _items(tx, plane, place, now), await ledger.ledger_sum(tx)

    items, sums = await plane.store.read(scope, load, scan=True)
    lines = _rolled(items, _DEPTH[by])
    return api.CostAnswer(
        lines=lines,
        totals=_rolled(items, 0),
        ledger_sum={currency: format_money(micros) for currency, micros in sorted(sums.items())},
        at=format_timestamp(now),
    )


async def _items(tx: Tx, plane: ControlPlane, place: Place, now: Ms) -> list[CostItem]:
    items = [
        CostItem(
            row["tenant"],
            row["project"],
            row["env"],
            row["component"],
            row["currency"],
            GpuUs(row["gpu_us"]),
            Micros(0),
        )
        for row in await ledger.closed_time(tx, place)
    ]
    items += [
        CostItem(
            row["tenant"],
            row["project"],
            row["env"],
            row["component"],
            row["currency"],
            GpuUs(0),
            Micros(row["micros"]),
        )
        for row in await ledger.posted_costs(tx, place)
    ]
    opened = await ledger.open_holdings(tx)
    open_here = [one for one in opened if place.has(tx.scope, one.tenant, one.project, one.env)]
    posted = await ledger.posted(tx, [holding.id for holding in open_here])
    for holding in open_here:
        running = cost_item(holding, plane.prices.timeline, now, posted.get(holding.id, NOTHING))
        items.append(
            CostItem(
                running.tenant,
                running.project,
                running.env,
                running.component,
                running.currency,
                running.gpu_us,
                Micros(0),  # what is posted of it is in the rows above
                running.running_micros,
            )
        )
    return items


def _rolled(items: list[CostItem], depth: int) -> list[api.CostLine]:
    sums: dict[_Key, list[int]] = {}
    for item in items:
        key = (item.currency, *(item.tenant, item.project, item.env, item.component)[:depth])
        line = sums.setdefault(key, [0, 0, 0])
        line[0] += item.gpu_us
        line[1] += item.micros
        line[2] += item.running_micros
    return [
        _line(key, GpuUs(gpu_us), Micros(posted), Micros(running))
        for key, (gpu_us, posted, running) in sorted(sums.items(), key=lambda item: (item[0][1:], item[0][0]))
    ]


def _line(key: _Key, gpu_us: GpuUs, posted: Micros, running: Micros) -> api.CostLine:
    currency, tenant, project, env, component = (*key, "", "", "", "")[:5]
    return api.CostLine(
        tenant=tenant,
        project=project or None,
        env=env or None,
        component=component or None,
        gpu_hours=gpu_hours(gpu_us),
        cost=format_money(posted),
        running=format_money(running),
        total=format_money(posted + running),
        currency=currency,
    )
