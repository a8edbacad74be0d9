"""What was held, for how long: the quantity side of the bill.

A holding is one placement's hold of GPUs, from the moment they were set aside for it to the moment
they were given back. Work that is preempted or restarted has one holding per attempt, so it pays for
what each attempt held and never twice. Quantities are exact: thousandths of a GPU times milliseconds
are whole GPU-microseconds. Prices are not known here; `core/ledger` puts them on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from windlass.core.units import GPU_US_PER_HOUR, GpuUs, MilliGpu, Ms, format_money, round_half_even


@dataclass(frozen=True, slots=True)
class Holding:
    """One placement's hold of GPUs over `[since, until)`. `until` of None: it still holds them.

    `tier` and `currency` are the tenant's at placement: what was agreed when the work started.
    """

    id: str
    tenant: str
    project: str
    env: str
    component: str
    gpu_class: str
    tier: str
    currency: str
    gpu_milli: MilliGpu
    since: Ms
    until: Ms | None = None
    type: str = ""  # of the component, name@version

    def __post_init__(self) -> None:
        if self.gpu_milli < 0:
            raise ValueError(f"holding {self.id} holds {self.gpu_milli} thousandths of a GPU")
        if self.until is not None and self.until < self.since:
            raise ValueError(f"holding {self.id} ends at {self.until}, before it begins at {self.since}")

    @property
    def path(self) -> str:
        """`project/env/name`: the component that held."""
        return f"{self.project}/{self.env}/{self.component}"


def holding_id(workload: str, attempt: int) -> str:
    """A workload holds once per attempt."""
    return f"{workload}/{attempt}"


def workload_of(holding: str) -> str:
    """Whose hold it is."""
    return holding.rpartition("/")[0]


def close(holding: Holding, at: Ms) -> Holding:
    """The holding, given back at `at`; a clock that stepped back ends it where it began, at no cost.

    Closing again changes nothing: the first release is the one that freed the GPUs.
    """
    if holding.until is not None:
        return holding
    return replace(holding, until=max(holding.since, at))


def end_at(holding: Holding, now: Ms) -> Ms:
    """Where the holding ends as seen at `now`: never after its release, never before it began."""
    end = now if holding.until is None else min(holding.until, now)
    return max(holding.since, end)


def held(holding: Holding, now: Ms) -> GpuUs:
    """What it held up to `now`."""
    return quantity(holding.gpu_milli, Ms(end_at(holding, now) - holding.since))


def held_in_total(holdings: Iterable[Holding], now: Ms) -> GpuUs:
    return GpuUs(sum(held(holding, now) for holding in holdings))


def quantity(gpu_milli: int, length: Ms) -> GpuUs:
    """Thousandths of a GPU for milliseconds, exactly."""
    return GpuUs(gpu_milli * length)


def clip(holding: Holding, since: Ms, until: Ms) -> Holding | None:
    """The part of it inside `[since, until)`; None when nothing of it is.

    For quantities of a period. Its money is not the rating of clipped parts, each rounded anew: that
    is what was posted in the period (`core/ledger/budgets.spent_between`).
    """
    begin, end = max(holding.since, since), end_at(holding, until)
    if end <= begin:
        return None
    return replace(holding, since=begin, until=end)


def gpu_hours(amount: GpuUs) -> str:
    """For people and status: hours, half-even to at most six decimals: `3600000000` -> `"1"`."""
    # A micro-hour is to an hour what a micro-unit is to a unit of money: the same writing serves.
    return format_money(round_half_even(amount * 1_000_000, GPU_US_PER_HOUR), decimals=0)
