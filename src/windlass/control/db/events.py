"""Events and audit rows: written in the transaction of the change they tell of.

Ids come from a counter of that transaction, so they follow commit order on every engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.control.db.narrow import narrowed
from windlass.control.db.port import EventRow, Row, Tx
from windlass.core.units import Ms

_INSERT_EVENT = (
    "INSERT INTO events (id, at_ms, type, tenant, subject, actor, data) VALUES ($1, $2, $3, $4, $5, $6, $7)"
)
_INSERT_AUDIT = (
    "INSERT INTO audit (id, at_ms, tenant, actor, action, subject, request_id, detail)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
)
_SINCE = "SELECT * FROM events WHERE id > $1 ORDER BY id LIMIT $2"
_SINCE_TENANT = "SELECT * FROM events WHERE id > $1 AND tenant = $3 ORDER BY id LIMIT $2"
_LAST = "SELECT * FROM events ORDER BY id DESC LIMIT $1"
_LAST_TENANT = "SELECT * FROM events WHERE tenant = $2 ORDER BY id DESC LIMIT $1"
_SUBJECT = (
    "SELECT * FROM events WHERE subject = $1 AND id > $2 AND ($4 = '' OR tenant = $4) ORDER BY id LIMIT $3"
)
_NEWEST = "SELECT value FROM counters WHERE name = 'event'"
_AUDIT = "SELECT * FROM audit WHERE id < $1{filters} ORDER BY id DESC LIMIT $2"

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class News:
    """What there is to tell of one change."""

    type: str
    subject: str
    tenant: str | None
    data: Mapping[str, object]


async def emit(
    tx: Tx, at: Ms, type: str, subject: str, *, tenant: str | None, data: dict[str, Any] | None = None
) -> int:
    """Tell of a change. Returns the event's id, which is also the change's place in the order of all."""
    (id,) = await emit_all(tx, at, [News(type, subject, tenant, data or {})])
    return id


async def emit_all(tx: Tx, at: Ms, news: Iterable[News]) -> list[int]:
    """Tell of many changes, in their order."""
    events = [_taken(tx, at, one) for one in news]
    await tx.insert_many(_INSERT_EVENT, [_columns(event) for event in events])
    return [event.id for event in events]


def _taken(tx: Tx, at: Ms, news: News) -> EventRow:
    """The event, with the next number. It reaches the listeners when it is durable."""
    data = _encode(news.data).decode() if news.data else "{}"
    event = EventRow(tx.take("event"), at, news.type, news.tenant, news.subject, tx.scope.actor, data)
    tx.emitted.append(event)
    return event


def _columns(event: EventRow) -> tuple[object, ...]:
    return event.id, event.at, event.type, event.tenant, event.subject, event.actor, event.data


async def audit(
    tx: Tx,
    at: Ms,
    action: str,
    subject: str,
    *,
    tenant: str | None,
    request_id: str,
    detail: dict[str, Any] | None = None,
) -> None:
    """Who did what, on whose behalf, in which request. Append-only."""
    await tx.insert(
        _INSERT_AUDIT,
        tx.take("audit"),
        at,
        tenant,
        tx.scope.actor,
        action,
        subject,
        request_id,
        _encode(detail or {}).decode(),
    )


async def since(tx: Tx, after: int, limit: int) -> list[EventRow]:
    if tx.scope.tenant is None:
        rows = await tx.rows(_SINCE, after, limit)
    else:
        rows = await tx.rows(_SINCE_TENANT, after, limit, tx.scope.tenant)
    return [_event(row) for row in rows]


async def last(tx: Tx, count: int) -> list[EventRow]:
    """The newest, oldest of them first."""
    if tx.scope.tenant is None:
        rows = await tx.rows(_LAST, count)
    else:
        rows = await tx.rows(_LAST_TENANT, count, tx.scope.tenant)
    return [_event(row) for row in reversed(rows)]


async def about(tx: Tx, subject: str, after: int, limit: int) -> list[EventRow]:
    """Events of one subject. Others may have asked for the same path in vain; theirs are not counted."""
    return [_event(row) for row in await tx.rows(_SUBJECT, subject, after, limit, tx.scope.tenant or "")]


async def newest(tx: Tx) -> int:
    row = await tx.row(_NEWEST)
    return int(row["value"]) if row else 0


async def audit_before(tx: Tx, before: int, limit: int, tenant: str | None) -> Sequence[Row]:
    return await narrowed(tx, _AUDIT, before, limit, tenant=tenant)


def _event(row: Row) -> EventRow:
    return EventRow(
        row["id"], row["at_ms"], row["type"], row["tenant"], row["subject"], row["actor"], row["data"]
    )
