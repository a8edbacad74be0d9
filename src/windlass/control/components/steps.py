"""Apply steps of workloads' lives (core/lifecycle): the row, its transitions, the meter, the event, all in
the caller's transaction. Cancel and the site's reports both end here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.control.billing.settle import release
from windlass.control.db import ledger, workloads
from windlass.control.db.port import Tx
from windlass.control.db.workloads import Change, WorkloadRecord
from windlass.core.ledger.budgets import hold_amount
from windlass.core.ledger.prices import PriceTimeline
from windlass.core.ledger.rating import per_hour
from windlass.core.lifecycle import FINAL, Step
from windlass.core.metering import holding_id
from windlass.core.units import MilliGpu, Ms

PREEMPTION = "preemption"
"""In a workload's outcome: why it was preempted the last time (reclaim, priority, fair-share,
defragmentation)."""


@dataclass(frozen=True, slots=True)
class Move:
    """A step of one workload. `freed`: since when its GPUs are free, if that is not now; `seen`: what its
    site says of it."""

    record: WorkloadRecord
    step: Step
    freed: Ms | None = None
    seen: Mapping[str, Any] = field(default_factory=dict)


async def apply_step(tx: Tx, move: Move, now: Ms, timeline: PriceTimeline) -> bool:
    """False: somebody else changed the workload first; nothing was written."""
    return await apply_steps(tx, [move], now, timeline)


async def apply_steps(tx: Tx, moves: Sequence[Move], now: Ms, timeline: PriceTimeline) -> bool:
    """Of many workloads at once, each of which this transaction has read."""
    freed = {
        holding_id(move.record.id, move.record.attempt): now if move.freed is None else move.freed
        for move in moves
        if move.step.release
    }
    await release(tx, freed, timeline)
    await ledger.release_budgets(tx, [move.record.id for move in moves if move.step.phase in FINAL])
    changes = [_change(move, now) for move in moves]
    for move in moves:
        if move.step.phase == "Pending":
            await _hold_again(tx, move.record, now, timeline)
    return await workloads.save_all(tx, changes, now)


def _change(move: Move, now: Ms) -> Change:
    record, step = move.record, move.step
    record.outcome = {**record.outcome, **move.seen}
    record.failures = step.failures
    if step.started is not None:
        record.started = step.started
    if step.release:
        record.want = ""
    if step.phase in FINAL:
        record.finished = now
        record.outcome |= {"exitCode": step.exit_code, "message": step.message, "remedy": step.remedy}
    elif step.phase == "Pending":
        _requeue(record, step, now)
    told: dict[str, Any] = {"message": step.message}
    what = f"workload.{step.phase.lower()}" if step.phase else "workload.observed"
    if "Preempted" in (phase for phase, _ in step.phases):
        what, told["reason"] = "workload.preempted", record.outcome.get(PREEMPTION, "")
    return Change(record, step.phases, what, told)


async def _hold_again(tx: Tx, record: WorkloadRecord, now: Ms, timeline: PriceTimeline) -> None:
    """What the last attempt cost is spent; the next one may cost its whole time limit again."""
    limit = record.manifest.time_limit
    quote = timeline.price_at(record.shape.gpu_class, record.tier, record.currency, now)
    if quote is not None and limit is not None:
        gpus = MilliGpu(record.shape.gpus * record.shape.workers)
        await ledger.renew_hold(tx, record.id, hold_amount(per_hour(quote.per_gpu_hour, gpus), limit))


def _requeue(record: WorkloadRecord, step: Step, now: Ms) -> None:
    """Back in the line, at its old place: age counts from the first submission."""
    if record.stop_reason == "preempted":
        record.preemptions += 1
    record.queued = now
    record.admitted = record.started = None
    record.stop_reason = ""
    record.placement = None
    kept = {key: record.outcome[key] for key in ("notes", PREEMPTION) if key in record.outcome}
    record.outcome = {"message": step.phases[-1][1], **kept}
