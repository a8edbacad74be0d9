"""What a cycle decided, into rows: placements and the holdings they open, wishes that somebody give way, and
why lines wait. All of it in one transaction, and each kind of row in one go: a cycle may place hundreds.

Every row is read as it is now, in this transaction; one that moved on since the cycle is left alone, and the
feed will correct what the engine believes of it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.control.billing.settle import open_accounts
from windlass.control.components.steps import PREEMPTION
from windlass.control.db import line_causes, workloads
from windlass.control.db.port import Tx
from windlass.control.db.workloads import Change, WorkloadRecord
from windlass.control.scheduler.fold import Known
from windlass.core.lifecycle import HOLDING as HOLDING_PHASES
from windlass.core.metering import Holding, holding_id
from windlass.core.scheduling.model import Admit, Outcome, Placement, Preempt, Shape
from windlass.core.units import MilliGpu, Ms


@dataclass(slots=True)
class Written:
    """What a cycle's transaction changed: the placed, and the reasons of those told to give way."""

    admitted: list[WorkloadRecord] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Believed:
    """What the scheduler goes by besides the outcome: what it knows of each path, which shapes somebody still
    waits in, and where each node is."""

    known: Mapping[str, Known]
    waiting: Container[Shape]
    sites: Mapping[str, str]


async def write(tx: Tx, outcome: Outcome, believed: Believed, now: Ms) -> Written:
    admits = [admit for admit in outcome.admitted if not admit.after]
    decided = [*(admit.id for admit in admits), *(preempt.id for preempt in outcome.preempted)]
    ids = {path: believed.known[path].workload for path in decided if path in believed.known}
    found = await workloads.find_all(tx, list(ids.values()))
    current = {path: found[id] for path, id in ids.items() if id in found}
    placed = _placed(admits, current, believed, now)
    for preempt in outcome.preempted:
        believed.known[preempt.id].stopping = True
    stopped = _stopped(outcome.preempted, current)
    emptied = [(record.line, record.queued) for record, _ in placed if record.shape not in believed.waiting]
    await line_causes.add(tx, outcome.causes, emptied, now)
    await open_accounts(tx, [_holding(record, placement, now) for record, placement in placed])
    changes = [_admitted(record, placement) for record, placement in placed]
    changes += [_stopping(record, preempt) for record, preempt in stopped]
    await workloads.save_all(tx, changes, now)
    return Written([record for record, _ in placed], [preempt.reason for _, preempt in stopped])


async def stop(tx: Tx, preempts: Sequence[Preempt], known: Mapping[str, Known], now: Ms) -> int:
    """Tell these to give way, whoever of them still can: how many that were."""
    ids = {preempt.id: known[preempt.id].workload for preempt in preempts if preempt.id in known}
    found = await workloads.find_all(tx, list(ids.values()))
    stopped = _stopped(preempts, {path: found[id] for path, id in ids.items() if id in found})
    await workloads.save_all(tx, [_stopping(record, preempt) for record, preempt in stopped], now)
    return len(stopped)


def _placed(
    admits: Sequence[Admit], current: Mapping[str, WorkloadRecord], believed: Believed, now: Ms
) -> list[tuple[WorkloadRecord, Placement]]:
    placed = []
    for admit in admits:
        # The engine believes so, whatever the row says; the feed will correct it.
        believed.known[admit.id].holds = True
        record = current.get(admit.id)
        if record is None or record.phase != "Pending":
            continue  # it moved on before it could be placed
        record.site = believed.sites[admit.placement.workers[0].node]
        record.placement = admit.placement
        record.attempt += 1
        believed.known[admit.id].attempt = record.attempt
        record.want = "run"
        record.admitted = now
        record.preempted_by = None
        placed.append((record, admit.placement))
    return placed


def _stopped(
    preempts: Sequence[Preempt], current: Mapping[str, WorkloadRecord]
) -> list[tuple[WorkloadRecord, Preempt]]:
    stopped = []
    for preempt in preempts:
        record = current.get(preempt.id)
        if record is None or record.phase not in HOLDING_PHASES or record.want == "stop":
            continue
        record.want = "stop"
        record.stop_reason = "preempted"
        record.preempted_by = preempt.by
        record.outcome[PREEMPTION] = preempt.reason
        stopped.append((record, preempt))
    return stopped


def _holding(record: WorkloadRecord, placement: Placement, now: Ms) -> Holding:
    project, env, name = record.path.split("/")
    return Holding(
        id=holding_id(record.id, record.attempt),
        tenant=record.tenant,
        project=project,
        env=env,
        component=name,
        gpu_class=record.shape.gpu_class,
        tier=record.tier,
        currency=record.currency,
        gpu_milli=MilliGpu(record.shape.gpus * len(placement.workers)),
        since=now,
        type=record.type,
    )


def _admitted(record: WorkloadRecord, placement: Placement) -> Change:
    where = sorted({worker.node for worker in placement.workers})
    message = f"placed on {', '.join(where)}"
    return Change(record, (("Admitted", message),), "workload.admitted", {"nodes": where})


def _stopping(record: WorkloadRecord, preempt: Preempt) -> Change:
    return Change(record, (), "workload.stopping", {"reason": preempt.reason})
