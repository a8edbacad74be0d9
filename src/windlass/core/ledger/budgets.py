"""Budgets: the period an instant belongs to, what admission sets aside, and whether it still fits.

A budget counts what was spent in the period, what running work has still set aside, and what is
wanted now. It stops admission, never running work: that is its caller's only use of the verdict.
Periods are of the UTC calendar, `[start, end)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal, assert_never

from windlass.core.documents.kinds import Budget
from windlass.core.ledger.postings import Transfer
from windlass.core.units import HOUR_MS, Micros, Ms

Period = Literal["day", "month", "quarter", "year"]
Verdict = Literal["ok", "warn", "exhausted"]

_DAY_MS = 24 * HOUR_MS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def period_bounds(period: Period, now: Ms) -> tuple[Ms, Ms]:
    """Where the period of `now` starts, and where the next one does. Up to the year 9998."""
    if period == "day":
        start = now - now % _DAY_MS
        return Ms(start), Ms(start + _DAY_MS)
    length = _months(period)
    moment = _EPOCH + timedelta(milliseconds=now)
    # Months counted from year 0, so that all three lengths divide the count at January.
    month = moment.year * 12 + moment.month - 1
    first = month - month % length
    return _start_of(first), _start_of(first + length)


def period_ends(period: Period, since: Ms, until: Ms) -> tuple[Ms, ...]:
    """Every end of a period in `(since, until]`. Posting at each of them first, in order, keeps a
    period's money in that period however late the posting runs."""
    ends = []
    _, end = period_bounds(period, since)
    while end <= until:
        ends.append(end)
        _, end = period_bounds(period, end)
    return tuple(ends)


def spent_between(transfers: Iterable[Transfer], currency: str, start: Ms, end: Ms) -> Micros:
    """What tenants were charged in a period. A transfer charges for time *before* its instant, so one
    made exactly at the end of a period belongs to that period: `(start, end]`."""
    return Micros(
        sum(
            entry.micros
            for transfer in transfers
            if start < transfer.at <= end
            for entry in transfer.entries
            if entry.currency == currency and entry.account.startswith("tenant/")
        )
    )


def hold_amount(per_hour: Micros, time_limit: Ms | None) -> Micros:
    """What admission sets aside: the price of the whole time limit, or of one hour. Rounded up: a
    hold never falls short of the charge."""
    length = HOUR_MS if time_limit is None else time_limit
    return Micros(-(-per_hour * length // HOUR_MS))


def hold_left(per_hour: Micros, time_limit: Ms | None, elapsed: Ms) -> Micros:
    """What running work still sets aside beyond what it already cost: the rest of its time limit, or
    of the hour it is in. Adding the whole hold to what was spent would count the same GPUs twice."""
    rest = HOUR_MS - elapsed % HOUR_MS if time_limit is None else max(0, time_limit - elapsed)
    return hold_amount(per_hour, Ms(rest))


def budget_verdict(budget: Budget, spent: Micros, held: Micros, wanted: Micros) -> Verdict:
    """All in the budget's currency. Exactly the whole budget still fits."""
    if spent + held + wanted <= budget.amount:
        return "ok"
    match budget.on_exhausted:
        case "warn":
            return "warn"
        case "stop-admission":
            return "exhausted"
        case _:
            assert_never(budget.on_exhausted)


def _months(period: Literal["month", "quarter", "year"]) -> int:
    match period:
        case "month":
            return 1
        case "quarter":
            return 3
        case "year":
            return 12
        case _:
            assert_never(period)


def _start_of(month: int) -> Ms:
    start = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return Ms((start - _EPOCH) // timedelta(milliseconds=1))
