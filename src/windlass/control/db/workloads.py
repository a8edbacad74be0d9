"""Workloads: one row per run of a component, its transitions, and why its line waited.

Every change bumps `generation` (the guard against a stale writer: zero rows changed means somebody
else moved on) and sets `seq` to the id of the event that told of it (the scheduler's feed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass.control.db import events
from windlass.control.db.narrow import own_row
from windlass.control.db.port import Row, Tx
from windlass.core.compiler.local import Manifest
from windlass.core.lifecycle import Life, Phase, StopReason
from windlass.core.scheduling.model import LineCause, Placement, Shape
from windlass.core.units import Ms
from windlass.runtime.tracing import Trace, read_traceparent

_COLUMNS = (
    "id, component, tenant, path, run, attempt, phase, generation, seq, line, shape, manifest, tier,"
    " currency, submitted_ms, queued_ms, admitted_ms, started_ms, finished_ms, site, want, stop_reason,"
    " preempted_by, preemptions, failures, placement, outcome, traceparent, type"
)
_INSERT = (
    f"INSERT INTO workloads ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, 0, 'Pending', 1, $6, $7, $8, $9, $10,"
    " $11, $12, $12, NULL, NULL, NULL, '', '', '', NULL, 0, 0, '', '{}', $13, $14)"
)
_UPDATE = (
    "UPDATE workloads SET generation = generation + 1, seq = $3, phase = $4, attempt = $5, admitted_ms = $6,"
    " started_ms = $7, finished_ms = $8, site = $9, want = $10, stop_reason = $11, preempted_by = $12,"
    " preemptions = $13, failures = $14, placement = $15, outcome = $16, queued_ms = $17,"
    " first_admitted_ms = COALESCE(first_admitted_ms, $6), first_started_ms = COALESCE(first_started_ms, $7)"
    " WHERE id = $1 AND generation = $2"
)
_ESTIMATED = "UPDATE workloads SET estimated_ms = $2 WHERE id = $1 AND estimated_ms IS NULL"
_ONE = f"SELECT {_COLUMNS} FROM workloads WHERE id = $1"
_AFTER = f"SELECT {_COLUMNS} FROM workloads WHERE seq > $1 ORDER BY seq LIMIT $2"
_LIVE = f"SELECT {_COLUMNS} FROM workloads WHERE finished_ms IS NULL AND id > $1 ORDER BY id LIMIT $2"
_WANTED = f"SELECT {_COLUMNS} FROM workloads WHERE site = $1 AND want <> '' ORDER BY id"
_LAST_TRANSITION = (
    "SELECT COALESCE(MAX(n), 0) AS n, COALESCE(MAX(at_ms), 0) AS at_ms FROM transitions WHERE workload = $1"
)
_TRANSITION = "INSERT INTO transitions (workload, n, at_ms, phase, message) VALUES ($1, $2, $3, $4, $5)"
_TRANSITIONS = "SELECT at_ms, phase, message FROM transitions WHERE workload = $1 ORDER BY n"
_CAUSE = (
    "INSERT INTO line_causes (line, since_ms, cause, also, message) VALUES ($1, $2, $3, $4, $5)"
    " ON CONFLICT (line, since_ms) DO UPDATE SET cause = excluded.cause, also = excluded.also,"
    " message = excluded.message"
)
_LAST_CAUSE = "SELECT since_ms, cause, also FROM line_causes WHERE line = $1 ORDER BY since_ms DESC LIMIT 1"
_CAUSES = (
    "SELECT since_ms, cause, message FROM line_causes WHERE line = $1 AND since_ms >="
    " (SELECT COALESCE(MAX(since_ms), 0) FROM line_causes WHERE line = $1 AND since_ms <= $2)"
    " ORDER BY since_ms"
)

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_shape = msgspec.json.Decoder(Shape).decode
_decode_manifest = msgspec.json.Decoder(Manifest).decode
_decode_placement = msgspec.json.Decoder(Placement).decode
_decode_outcome = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class WorkloadRecord:
    """One row, as a value that a step changes and `save` writes back."""

    id: str
    component: str
    tenant: str
    path: str
    run: int
    attempt: int
    phase: Phase
    generation: int
    seq: int
    line: str
    shape: Shape
    manifest: Manifest
    tier: str
    currency: str
    submitted: Ms
    queued: Ms  # since when it waits, this time
    admitted: Ms | None = None
    started: Ms | None = None
    finished: Ms | None = None
    site: str = ""
    want: str = ""
    stop_reason: StopReason = ""
    preempted_by: str | None = None
    preemptions: int = 0
    failures: int = 0
    placement: Placement | None = None
    outcome: dict[str, Any] = field(default_factory=dict)
    traceparent: str = ""
    type: str = ""  # name@version

    @property
    def life(self) -> Life:
        return Life(self.phase, self.attempt, self.failures, self.stop_reason, self.manifest)


def placed(record: WorkloadRecord) -> Trace | None:
    """The place in its trace of the cycle that placed this attempt; what follows from it hangs below."""
    asked = read_traceparent(record.traceparent)
    return asked.child("placed", record.id, record.attempt) if asked is not None else None


def from_row(row: Row) -> WorkloadRecord:
    return WorkloadRecord(
        id=row["id"],
        component=row["component"],
        tenant=row["tenant"],
        path=row["path"],
        run=row["run"],
        attempt=row["attempt"],
        phase=row["phase"],
        generation=row["generation"],
        seq=row["seq"],
        line=row["line"],
        shape=_decode_shape(row["shape"]),
        manifest=_decode_manifest(row["manifest"]),
        tier=row["tier"],
        currency=row["currency"],
        submitted=row["submitted_ms"],
        queued=row["queued_ms"],
        admitted=row["admitted_ms"],
        started=row["started_ms"],
        finished=row["finished_ms"],
        site=row["site"],
        want=row["want"],
        stop_reason=row["stop_reason"],
        preempted_by=row["preempted_by"],
        preemptions=row["preemptions"],
        failures=row["failures"],
        placement=_decode_placement(row["placement"]) if row["placement"] else None,
        outcome=_decode_outcome(row["outcome"]),
        traceparent=row["traceparent"],
        type=row["type"],
    )


async def insert(tx: Tx, record: WorkloadRecord) -> None:
    """A new run, Pending. Its event is already emitted; `record.seq` is that event's id."""
    assert tx.scope.covers(record.tenant), "a workload is written in its own tenant's scope"
    await tx.insert(
        _INSERT,
        record.id,
        record.component,
        record.tenant,
        record.path,
        record.run,
        record.seq,
        record.line,
        _encode(record.shape).decode(),
        _encode(record.manifest).decode(),
        record.tier,
        record.currency,
        record.submitted,
        record.traceparent,
        record.type,
    )


async def keep_estimate(tx: Tx, id: str, starts: Ms) -> None:
    """When its author could first read that it would start. Not news: nobody decides by it."""
    await tx.execute(_ESTIMATED, id, starts)


async def save(
    tx: Tx, record: WorkloadRecord, now: Ms, phases: Sequence[tuple[Phase, str]], what: str, **data: object
) -> bool:
    """Write a changed record, its transitions and its event. False: somebody else moved on first."""
    number, at = await _last_transition(tx, record) if phases else (0, now)
    at = max(at, now)
    if phases:
        record.phase = phases[-1][0]
    if phases and record.finished is not None:
        record.finished = at
    elif phases and record.phase == "Pending":
        record.queued = at
    told = {"workload": record.id, "phase": record.phase, "attempt": record.attempt, **data}
    if trace := read_traceparent(record.traceparent):
        told["traceId"] = trace.id
    seq = await events.emit(tx, now, what, record.path, tenant=record.tenant, data=told)
    changed = await tx.execute(
        _UPDATE,
        record.id,
        record.generation,
        seq,
        record.phase,
        record.attempt,
        record.admitted,
        record.started,
        record.finished,
        record.site,
        record.want,
        record.stop_reason,
        record.preempted_by,
        record.preemptions,
        record.failures,
        _encode(record.placement).decode() if record.placement else "",
        _encode(record.outcome).decode(),
        record.queued,
    )
    if not changed:
        return False
    record.generation += 1
    record.seq = seq
    for n, (phase, message) in enumerate(phases, start=number + 1):
        await tx.insert(_TRANSITION, record.id, n, at, phase, message)
    return True


async def _last_transition(tx: Tx, record: WorkloadRecord) -> tuple[int, Ms]:
    """Its number and instant. A clock that stepped back makes no history overlap, and ends nothing before
    it began: what follows is dated there at the earliest."""
    last = await tx.row(_LAST_TRANSITION, record.id)
    assert last is not None, "an aggregate always answers"
    return last["n"], Ms(max(last["at_ms"], record.submitted))


async def find(tx: Tx, id: str) -> WorkloadRecord | None:
    row = await own_row(tx, _ONE, id)
    return from_row(row) if row is not None else None


async def changed_after(tx: Tx, seq: int, limit: int) -> list[WorkloadRecord]:
    """The scheduler's feed, for the whole platform."""
    assert tx.scope.tenant is None, "the feed is the platform's own"
    return [from_row(row) for row in await tx.rows(_AFTER, seq, limit)]


async def live_after(tx: Tx, id: str, limit: int) -> list[WorkloadRecord]:
    assert tx.scope.tenant is None, "the feed is the platform's own"
    return [from_row(row) for row in await tx.rows(_LIVE, id, limit)]


async def wanted_at(tx: Tx, site: str) -> list[WorkloadRecord]:
    assert tx.scope.tenant is None, "sites are the platform's own"
    return [from_row(row) for row in await tx.rows(_WANTED, site)]


async def transitions(tx: Tx, id: str, submitted: Ms) -> list[tuple[Ms, Phase, str]]:
    """When it entered which phase, and why. That it was Pending first goes without a row."""
    rows = await tx.rows(_TRANSITIONS, id)
    first: tuple[Ms, Phase, str] = (submitted, "Pending", "admitted by policy; waits for GPUs")
    return [first, *((row["at_ms"], row["phase"], row["message"]) for row in rows)]


async def add_cause(tx: Tx, cause: LineCause, now: Ms) -> None:
    """Why the line waits from `cause.since` on; from now on where that would change what was recorded.

    The engine dates the first cause of a line back to its head's submission. After a restart, or when
    work comes back to an emptied line, that lies before causes which were true at their time.
    """
    also, since = ",".join(cause.also), cause.since
    last = await tx.row(_LAST_CAUSE, cause.line)
    if last is not None and last["since_ms"] >= since:
        if (last["cause"], last["also"]) == (cause.cause, also):
            return
        since = max(last["since_ms"], now)
    await tx.execute(_CAUSE, cause.line, since, cause.cause, also, cause.message)


async def waited_for_nothing(tx: Tx, record: WorkloadRecord) -> None:
    """It was placed by the first cycle that saw it, and nobody else is in its line: what the line
    waited for earlier is not why."""
    last = await tx.row(_LAST_CAUSE, record.line)
    if last is not None and last["since_ms"] < record.queued and last["cause"] != "starting":
        await tx.execute(_CAUSE, record.line, record.queued, "starting", "", "")


async def causes_since(tx: Tx, line: str, at: Ms) -> Sequence[Row]:
    """The causes of a line from the one in force at `at` on."""
    return await tx.rows(_CAUSES, line, at)
