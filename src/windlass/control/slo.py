"""`windlass slo`: load the facts of a window on the scan thread, let core/slo judge them, answer.

Everything comes from stored facts, so a restart changes nothing. A tenant sees the levels of its own work;
how the API did as a whole is the platform's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.contracts import api
from windlass.control.db import slo as facts
from windlass.control.db.port import Row, Tx
from windlass.control.identity.scopes import Scope
from windlass.core import slo
from windlass.core.ids import make_id
from windlass.core.units import Ms, format_duration, format_timestamp

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

LONGEST = Ms(30 * 86_400_000)
_MOST = 100_000
"""Workloads of a window that are looked at, the newest; a share of so many does not move with more."""

_PROMISES = {
    "admission": "intents of the tier placed within its admitWithin",
    "reconcile": "placed work that runs at its site in time",
    "availability": "API requests that the platform did not fail",
    "explained": "waiting time with a stored cause",
    "estimate": "starts foretold at submission, right within a minute or a quarter of the wait",
}


async def measure(plane: ControlPlane, scope: Scope, window: Ms) -> api.ServiceLevels:
    now = plane.clock()
    since = Ms(now - window)
    promised = {name: tier.objectives.admit_within for name, tier in plane.catalog.current.tiers.items()}
    unsaved = plane.minutes.unsaved

    async def judge(tx: Tx) -> list[slo.Level]:
        """On the scan thread from end to end: a day may have a hundred thousand runs."""
        first = make_id("wl", since, 0)
        runs = [_run(row) for row in await facts.runs_after(tx, first, _MOST)]
        again = [_wait(row, now) for row in await facts.requeued_after(tx, first, _MOST)]
        causes = await facts.first_causes(tx, first)
        own = {run.tier for run in runs}
        tiers = {name: within for name, within in promised.items() if tx.scope.tenant is None or name in own}
        levels = [*slo.admission(runs, tiers, now), slo.reconcile(runs, now)]
        if tx.scope.tenant is None:
            stored = await facts.answered_since(tx, since)
            levels.append(slo.availability(stored[0] + unsaved[0], stored[1] + unsaved[1]))
        return [*levels, slo.explained([*slo.pending(runs, now), *again], causes), slo.estimates(runs)]

    levels = await plane.store.read(scope, judge, scan=True)
    return api.ServiceLevels(
        window=format_duration(window),
        since=format_timestamp(since),
        at=format_timestamp(now),
        levels=[_wire(level) for level in levels],
    )


def _run(row: Row) -> slo.Run:
    return slo.Run(
        tier=row["tier"],
        line=row["line"],
        submitted=Ms(row["submitted_ms"]),
        admitted=row["first_admitted_ms"],
        started=row["first_started_ms"],
        finished=row["finished_ms"],
        estimated=row["estimated_ms"],
    )


def _wait(row: Row, now: Ms) -> tuple[str, Ms, Ms]:
    return row["line"], Ms(row["since_ms"]), now if row["until_ms"] is None else Ms(row["until_ms"])


def _wire(level: slo.Level) -> api.ServiceLevel:
    return api.ServiceLevel(
        name=level.name,
        of=level.of,
        promise=_PROMISES[level.name],
        target=_percent(level.target),
        within=format_duration(level.within) if level.within is not None else None,
        measured=_percent(level.measured),
        budget_left=_percent(level.budget_left),
        met=level.met,
        good=level.good,
        total=level.total,
        median_s=_seconds(level.middle),
        p95_s=_seconds(level.high),
    )


def _percent(share: int | None) -> str | None:
    """Millionths as percent, without digits that say nothing: 999000 -> 99.9."""
    if share is None:
        return None
    sign, size = "-" if share < 0 else "", abs(share)
    return f"{sign}{size // 10_000}.{size % 10_000:04}".rstrip("0").rstrip(".")


def _seconds(length: Ms | None) -> str | None:
    return f"{length // 1000}.{length % 1000:03}" if length is not None else None
