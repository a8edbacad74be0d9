"""What it costs: posted money and running cost, by tenant, project or component.

An item is the cost of one holding, or of many already added up by a store; lines are items rolled up.
Currencies are never added to one another. The running cost is what is owed at this instant and not
posted yet, so posted plus running is the bill if everything stopped now, to the micro-unit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from windlass.core.ledger.postings import NOTHING, Posted, horizon
from windlass.core.ledger.prices import PriceTimeline
from windlass.core.ledger.rating import rate, total
from windlass.core.metering import Holding, gpu_hours, held
from windlass.core.units import GpuUs, Micros, Ms, format_cents, format_money

GroupBy = Literal["tenant", "project", "component"]


@dataclass(frozen=True, slots=True)
class CostItem:
    tenant: str
    project: str
    env: str
    component: str
    currency: str
    gpu_us: GpuUs
    micros: Micros
    running_micros: Micros = Micros(0)


@dataclass(frozen=True, slots=True)
class CostLine:
    """`micros` is posted, `running_micros` owed and not posted yet. An empty key: everything."""

    key: str
    gpu_us: GpuUs
    micros: Micros
    running_micros: Micros
    currency: str

    @property
    def total_micros(self) -> Micros:
        return Micros(self.micros + self.running_micros)

    def to_wire(self) -> dict[str, str]:
        """Exact decimal strings, for programs."""
        return {
            "key": self.key,
            "gpuHours": gpu_hours(self.gpu_us),
            "cost": format_money(self.total_micros),
            "posted": format_money(self.micros),
            "running": format_money(self.running_micros),
            "currency": self.currency,
        }

    def for_people(self) -> str:
        """`19.92 USD`: to the cent, from the exact total; a column of cents need not add up."""
        return f"{format_cents(self.total_micros)} {self.currency}"


def cost_item(
    holding: Holding, timeline: PriceTimeline, now: Ms, posted: Mapping[Ms, Posted] = NOTHING
) -> CostItem:
    """One holding's cost at `now`, given what was posted of it by segment."""
    at = horizon(holding, now, posted)
    settled = sum(part.micros for part in posted.values())
    return CostItem(
        tenant=holding.tenant,
        project=holding.project,
        env=holding.env,
        component=holding.component,
        currency=holding.currency,
        gpu_us=held(holding, at),
        micros=Micros(settled),
        running_micros=Micros(total(rate(holding, timeline, at)) - settled),
    )


def roll_up(items: Iterable[CostItem], by: GroupBy) -> tuple[CostLine, ...]:
    """One line per key and currency, in their order."""
    return _summed((_key(item, by), item) for item in items)


def totals(items: Iterable[CostItem | CostLine]) -> tuple[CostLine, ...]:
    """One line per currency, with an empty key."""
    return _summed(("", item) for item in items)


def _key(item: CostItem, by: GroupBy) -> str:
    match by:
        case "tenant":
            return item.tenant
        case "project":
            return item.project
        case "component":
            return f"{item.project}/{item.env}/{item.component}"
        case _:
            assert_never(by)


def _summed(items: Iterable[tuple[str, CostItem | CostLine]]) -> tuple[CostLine, ...]:
    groups: defaultdict[tuple[str, str], list[CostItem | CostLine]] = defaultdict(list)
    for key, item in items:
        groups[key, item.currency].append(item)
    return tuple(
        CostLine(
            key=key,
            gpu_us=GpuUs(sum(item.gpu_us for item in group)),
            micros=Micros(sum(item.micros for item in group)),
            running_micros=Micros(sum(item.running_micros for item in group)),
            currency=currency,
        )
        for (key, currency), group in sorted(groups.items())
    )
