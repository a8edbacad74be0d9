"""Workloads: one row per run of a component, and its transitions.

Every change bumps `generation` (the guard against a stale writer: zero rows changed means somebody
else moved on) and sets `seq` to the id of the event that told of it (the scheduler's feed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from windlass.control.db import events
from windlass.control.db.narrow import own_row, own_rows
from windlass.control.db.port import Row, Tx
from windlass.core.compiler.local import Manifest
from windlass.core.lifecycle import Life, Phase, StopReason
from windlass.core.scheduling.model import Placement, Shape
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
_STANDING = (
    "id, tenant, path, attempt, phase, generation, seq, shape, submitted_ms, queued_ms, admitted_ms,"
    " finished_ms, want, placement"
)
_ONE = f"SELECT {_COLUMNS} FROM workloads WHERE id = $1"
_MANY = f"SELECT {_COLUMNS} FROM workloads WHERE id = ANY($1)"
_AFTER = f"SELECT {_STANDING} FROM workloads WHERE seq > $1 ORDER BY seq LIMIT $2"
_LIVE = f"SELECT {_STANDING} FROM workloads WHERE finished_ms IS NULL AND id > $1 ORDER BY id LIMIT $2"
_WANTED = "SELECT id, generation FROM workloads WHERE site = $1 AND want <> '' ORDER BY id"
_PATHS_AT = "SELECT path FROM workloads WHERE site = $1 AND want <> '' ORDER BY path LIMIT 20"
_LAST_TRANSITIONS = (
    "SELECT workload, MAX(n) AS n, MAX(at_ms) AS at_ms FROM transitions WHERE workload = ANY($1)"
    " GROUP BY workload"
)
_TRANSITION = "INSERT INTO transitions (workload, n, at_ms, phase, message) VALUES ($1, $2, $3, $4, $5)"
_TRANSITIONS = "SELECT at_ms, phase, message FROM transitions WHERE workload = $1 ORDER BY n"
_RECORD, _STANDING_RECORD = (
    tuple(name.removesuffix("_ms") for name in columns.split(", ")) for columns in (_COLUMNS, _STANDING)
)
_encode = msgspec.json.Encoder(order="deterministic").encode
# Thousands of workloads have one of a few hundred shapes: equal ones are one value.
_decode_shape = lru_cache(maxsize=4096)(msgspec.json.Decoder(Shape).decode)
_decode_manifest = msgspec.json.Decoder(Manifest).decode
_decode_placement = msgspec.json.Decoder(Placement).decode
_decode_outcome = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True, kw_only=True)
class Standing:
    """Where a run stands, as far as the scheduler goes by it: what its feed is made of."""

    id: str
    tenant: str
    path: str
    attempt: int
    phase: Phase
    generation: int
    seq: int
    shape: Shape
    submitted: Ms
    queued: Ms  # since when it waits, this time
    admitted: Ms | None = None
    finished: Ms | None = None
    want: str = ""
    placement: Placement | None = None


@dataclass(slots=True, kw_only=True)
class WorkloadRecord(Standing):
    """One row, as a value that a step changes and `save` writes back."""

    component: str
    run: int
    line: str
    manifest: Manifest
    tier: str
    currency: str
    started: Ms | None = None
    site: str = ""
    stop_reason: StopReason = ""
    preempted_by: str | None = None
    preemptions: int = 0
    failures: int = 0
    outcome: dict[str, Any] = field(default_factory=dict)
    traceparent: str = ""
    type: str = ""  # name@version

    @property
    def life(self) -> Life:
        return Life(self.phase, self.attempt, self.failures, self.stop_reason, self.manifest)


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a record: the phases it enters, each with a message, and what its event tells."""

    record: WorkloadRecord
    phases: Sequence[tuple[Phase, str]]
    what: str
    told: Mapping[str, object]


def placed(record: WorkloadRecord) -> Trace | None:
    """The place in its trace of the cycle that placed this attempt; what follows from it hangs below."""
    asked = read_traceparent(record.traceparent)
    return asked.child("placed", record.id, record.attempt) if asked is not None else None


def from_row(row: Row) -> WorkloadRecord:
    facts = _facts(_RECORD, row)
    facts["manifest"] = _decode_manifest(facts["manifest"])
    facts["outcome"] = _decode_outcome(facts["outcome"])
    return WorkloadRecord(**facts)


def _standing(row: Row) -> Standing:
    return Standing(**_facts(_STANDING_RECORD, row))


def _facts(fields: Sequence[str], row: Row) -> dict[str, Any]:
    """By position: to look up each of so many columns by its name costs more than to read them."""
    facts = dict(zip(fields, row, strict=True))
    facts["shape"] = _decode_shape(facts["shape"])
    facts["placement"] = _decode_placement(facts["placement"]) if facts["placement"] else None
    return facts


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
    tx: Tx, record: WorkloadRecord, now: Ms, phases: Sequence[tuple[Phase, str]], what: str, **told: object
) -> bool:
    """Write a changed record, its transitions and its event. False: somebody else moved on first."""
    return await save_all(tx, [Change(record, phases, what, told)], now)


async def save_all(tx: Tx, changes: Sequence[Change], now: Ms) -> bool:
    """The same for many records, no two of one workload. More than one at a time must have been read in
    this transaction: then nobody can have moved on."""
    last = await _last_transitions(tx, [change.record for change in changes if change.phases])
    for change in changes:
        _enter(change, max(now, last[change.record.id][1]) if change.phases else now)
    seqs = await events.emit_all(
        tx,
        now,
        [
            events.News(change.what, change.record.path, change.record.tenant, _told(change))
            for change in changes
        ],
    )
    numbered = list(zip(changes, seqs, strict=True))
    changed = await tx.execute_many(_UPDATE, [_columns(change.record, seq) for change, seq in numbered])
    if changed < len(changes):
        assert len(changes) == 1, "a row changed since this transaction read it"
        return False
    transitions: list[tuple[str, int, Ms, Phase, str]] = []
    for change, seq in numbered:
        record = change.record
        record.generation += 1
        record.seq = seq
        if change.phases:
            number, at = last[record.id]
            for n, (phase, message) in enumerate(change.phases, start=number + 1):
                transitions.append((record.id, n, max(now, at), phase, message))
    await tx.insert_many(_TRANSITION, transitions)
    return True


def _enter(change: Change, at: Ms) -> None:
    if not change.phases:
        return
    record = change.record
    record.phase = change.phases[-1][0]
    if record.finished is not None:
        record.finished = at
    elif record.phase == "Pending":
        record.queued = at


def _told(change: Change) -> dict[str, object]:
    record = change.record
    told = {"workload": record.id, "phase": record.phase, "attempt": record.attempt, **change.told}
    if trace := read_traceparent(record.traceparent):
        told["traceId"] = trace.id
    return told


def _columns(record: WorkloadRecord, seq: int) -> tuple[object, ...]:
    return (
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


async def _last_transitions(tx: Tx, records: Sequence[WorkloadRecord]) -> dict[str, tuple[int, Ms]]:
    """Number and instant of each one's last. A clock that stepped back makes no history overlap, and ends
    nothing before it began: what follows is dated there at the earliest."""
    last = {record.id: (0, record.submitted) for record in records}
    if last:
        for row in await tx.rows_of(_LAST_TRANSITIONS, list(last)):
            last[row["workload"]] = (row["n"], max(row["at_ms"], last[row["workload"]][1]))
    return last


async def find(tx: Tx, id: str) -> WorkloadRecord | None:
    row = await own_row(tx, _ONE, id)
    return from_row(row) if row is not None else None


async def find_all(tx: Tx, ids: Sequence[str]) -> dict[str, WorkloadRecord]:
    """Those of them that are there, by id."""
    rows = await own_rows(tx, _MANY, ids) if ids else ()
    return {record.id: record for record in map(from_row, rows)}


async def changed_after(tx: Tx, seq: int, limit: int) -> list[Standing]:
    """The scheduler's feed, for the whole platform."""
    assert tx.scope.tenant is None, "the feed is the platform's own"
    return [_standing(row) for row in await tx.rows(_AFTER, seq, limit)]


async def live_after(tx: Tx, id: str, limit: int) -> list[Standing]:
    assert tx.scope.tenant is None, "the feed is the platform's own"
    return [_standing(row) for row in await tx.rows(_LIVE, id, limit)]


async def wanted_at(tx: Tx, site: str) -> dict[str, int]:
    """What a site has to do something about: the generation of each, by id."""
    assert tx.scope.tenant is None, "sites are the platform's own"
    return {row["id"]: row["generation"] for row in await tx.rows(_WANTED, site)}


async def paths_at(tx: Tx, site: str) -> list[str]:
    """Some of what a site has to do something about, for a message."""
    assert tx.scope.tenant is None, "sites are the platform's own"
    return [row["path"] for row in await tx.rows(_PATHS_AT, site)]


async def transitions(tx: Tx, id: str, submitted: Ms) -> list[tuple[Ms, Phase, str]]:
    """When it entered which phase, and why. That it was Pending first goes without a row."""
    rows = await tx.rows(_TRANSITIONS, id)
    first: tuple[Ms, Phase, str] = (submitted, "Pending", "admitted by policy; waits for GPUs")
    return [first, *((row["at_ms"], row["phase"], row["message"]) for row in rows)]
