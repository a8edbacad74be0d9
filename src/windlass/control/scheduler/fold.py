"""Stored workloads into engine events: the row says what is, the engine's memory says what it knew.

Level-triggered: folding the same row twice, or skipping one that changed twice, ends the same way.
The engine knows a workload by its path (project/env/name); at most one run of a path is alive.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.control.db.workloads import Standing
from windlass.core.lifecycle import HOLDING
from windlass.core.scheduling.model import (
    Adopted,
    Event,
    Placement,
    Released,
    Running,
    Stopping,
    Submitted,
    Waiting,
    Withdrawn,
)


@dataclass(slots=True)
class Known:
    """What the scheduler believes of a workload, and the row generation it believes it of."""

    workload: str
    generation: int
    tenant: str
    holds: bool
    attempt: int
    stopping: bool = False


def fold(record: Standing, known: dict[str, Known]) -> list[Event]:
    """The events that bring the engine from what it knew of this path to what the row says."""
    events: list[Event] = []
    before = known.get(record.path)
    if before is not None and before.workload != record.id:
        if record.finished is not None:
            return []  # an older run of a path that has a newer one
        events.append(Released(record.path) if before.holds else Withdrawn(record.path))
        before = None
    if record.finished is not None:
        if before is not None:
            del known[record.path]
            events.append(Released(record.path) if before.holds else Withdrawn(record.path))
        return events
    holds = record.phase in HOLDING
    stopping = record.want == "stop"
    now = Known(record.id, record.generation, record.tenant, holds, record.attempt, stopping)
    known[record.path] = now
    if before is None:
        events.append(_first_seen(record, stopping=stopping))
    elif before.holds and not holds:
        events += [Released(record.path), Submitted(_waiting(record))]
    elif before.holds and before.attempt != record.attempt:
        # It gave its GPUs back and got others since the last look.
        events += [Released(record.path), _first_seen(record, stopping=stopping)]
    elif holds and not before.holds:
        events += [Withdrawn(record.path), _first_seen(record, stopping=stopping)]
    elif stopping and not before.stopping:
        events.append(Stopping(record.path))
    return events


def freeing_first(events: list[Event]) -> list[Event]:
    """A row comes in the order of its last change: one that left its GPUs and changed again comes after
    the one that has them now. The engine must see them free before they are taken."""
    return sorted(events, key=lambda event: not isinstance(event, Released | Withdrawn))


def _waiting(record: Standing) -> Waiting:
    return Waiting(record.path, record.shape, record.submitted, record.queued)


def _first_seen(record: Standing, *, stopping: bool) -> Event:
    if record.phase not in HOLDING:
        return Submitted(_waiting(record))
    return Adopted(
        Running(
            id=record.path,
            shape=record.shape,
            submitted=record.submitted,
            since=record.admitted or record.submitted,
            placement=record.placement or Placement(()),
            stopping=stopping,
        )
    )
