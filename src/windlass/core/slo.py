"""The platform's own service levels: what was promised, what was measured, how much may still go wrong.

Pure: facts of a window in, levels out. A level is a share: of so many, so many were good. Its error budget
is the share that may be bad; what is left of it is a percentage, negative when it is overspent. Shares are
integers of a millionth, rounded down: a level that is met is met.

What cannot be judged yet is not counted. Work that waits, and has waited for less than it was promised, is
neither good nor bad; what its owner cancelled before that is neither as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.core.units import Ms

WHOLE = 1_000_000
"""Shares are millionths."""

ADMISSION_TARGET = 950_000
RECONCILE_TARGET, RECONCILE_WITHIN = 990_000, Ms(60_000)
AVAILABILITY_TARGET = 999_000
EXPLAINED_TARGET = 999_000
ESTIMATE_TARGET, ESTIMATE_SLACK, ESTIMATE_SHARE = 800_000, Ms(60_000), 4

UNSEEN = Ms(1_000)
"""So long may work be on its way to its first cycle: until then nothing is in its way but the start."""


@dataclass(frozen=True, slots=True)
class Run:
    """One workload, as far as service levels care. Times are of its first attempt."""

    tier: str
    line: str
    submitted: Ms
    admitted: Ms | None = None
    started: Ms | None = None
    finished: Ms | None = None
    estimated: Ms | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """`target` None: measured, and promised nowhere. `middle` and `high` are the median and the 95th
    percentile of what was measured, in milliseconds."""

    name: str
    of: str
    good: int
    total: int
    target: int | None
    within: Ms | None = None
    middle: Ms | None = None
    high: Ms | None = None

    @property
    def measured(self) -> int | None:
        return self.good * WHOLE // self.total if self.total else None

    @property
    def budget_left(self) -> int | None:
        """Millionths of the error budget; None where nothing was promised or measured."""
        if self.target is None or not self.total:
            return None
        allowed = self.total * (WHOLE - self.target)
        bad = (self.total - self.good) * WHOLE
        return (allowed - bad) * WHOLE // allowed

    @property
    def met(self) -> bool | None:
        left = self.budget_left
        return None if left is None else left >= 0


def admission(runs: Sequence[Run], promised: Mapping[str, Ms | None], now: Ms) -> list[Level]:
    """From intent to placement, tier by tier. `promised` is each tier's `admitWithin`; without one the wait
    is measured only."""
    levels = []
    for tier in sorted({run.tier for run in runs} | {name for name, within in promised.items() if within}):
        within = promised.get(tier)
        own = [run for run in runs if run.tier == tier]
        waits = [Ms(run.admitted - run.submitted) for run in own if run.admitted is not None]
        if within is None:
            levels.append(Level("admission", tier, 0, 0, None, None, *spread(waits)))
            continue
        good = sum(wait <= within for wait in waits)
        late = sum(wait > within for wait in waits)
        late += sum(run.admitted is None and _waited(run, now) > within for run in own)
        levels.append(Level("admission", tier, good, good + late, ADMISSION_TARGET, within, *spread(waits)))
    return levels


def reconcile(runs: Sequence[Run], now: Ms) -> Level:
    """From placement until every worker runs at its site. What ended before it ran is not counted."""
    placed = [run for run in runs if run.admitted is not None]
    took = [
        Ms(max(0, run.started - run.admitted))
        for run in placed
        if run.admitted is not None and run.started is not None
    ]
    good = sum(length <= RECONCILE_WITHIN for length in took)
    stuck = sum(
        run.started is None and run.finished is None and now - (run.admitted or now) > RECONCILE_WITHIN
        for run in placed
    )
    total = len(took) + stuck
    return Level("reconcile", "", good, total, RECONCILE_TARGET, RECONCILE_WITHIN, *spread(took))


def availability(answered: int, failed: int) -> Level:
    """Requests the platform did not fail (5xx)."""
    return Level("availability", "", answered - failed, answered, AVAILABILITY_TARGET)


def explained(waits: Iterable[tuple[str, Ms, Ms]], first_causes: Mapping[str, Ms]) -> Level:
    """Milliseconds of waiting for which a cause is stored. `waits` are (line, since, until); a line's causes
    follow each other without gaps from its first on."""
    good = total = 0
    for line, since, until in waits:
        length = max(0, until - since)
        dark = min(length, max(0, first_causes.get(line, until) - since))
        total += length
        good += length - (dark if dark > UNSEEN else 0)
    return Level("explained", "", good, total, EXPLAINED_TARGET)


def estimates(runs: Sequence[Run]) -> Level:
    """Starts that were foretold at submission: right within a minute, or a quarter of the wait."""
    errors, good = [], 0
    for run in runs:
        if run.estimated is None or run.started is None:
            continue
        error = Ms(abs(run.started - run.estimated))
        errors.append(error)
        good += error <= max(ESTIMATE_SLACK, (run.started - run.submitted) // ESTIMATE_SHARE)
    return Level("estimate", "", good, len(errors), ESTIMATE_TARGET, ESTIMATE_SLACK, *spread(errors))


def pending(runs: Iterable[Run], now: Ms) -> Iterable[tuple[str, Ms, Ms]]:
    """The first wait of each."""
    for run in runs:
        yield run.line, run.submitted, Ms(run.submitted + _waited(run, now))


def spread(lengths: Sequence[Ms]) -> tuple[Ms | None, Ms | None]:
    """The median and the 95th percentile: of those that occurred, not in between."""
    if not lengths:
        return None, None
    ordered = sorted(lengths)
    last = len(ordered) - 1
    return ordered[last // 2], ordered[-(-last * 95 // 100)]


def _waited(run: Run, now: Ms) -> int:
    ends = run.admitted if run.admitted is not None else run.finished
    return (now if ends is None else ends) - run.submitted
