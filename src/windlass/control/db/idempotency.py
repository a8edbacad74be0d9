"""Answers kept for replays: the same key and body gives the same answer, another body is a conflict.

A key belongs to the principal that used it, so one tenant can neither replay nor probe another's. A
request that is written in several transactions (one per component) keeps an answer per part, and its
first part claims the key for the whole request: a part alone would not notice another body.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass.control.db.port import Row, Tx
from windlass.core.errors import Conflict
from windlass.core.units import Ms

_FIND = "SELECT hash, status, answer FROM idempotency WHERE principal = $1 AND key = $2"
_KEEP = (
    "INSERT INTO idempotency (principal, key, hash, status, answer, at_ms) VALUES ($1, $2, $3, $4, $5, $6)"
    " ON CONFLICT (principal, key) DO NOTHING"
)
_CLAIMED = 0
"""The status of a key whose answers are kept by part."""


@dataclass(frozen=True, slots=True)
class Once:
    """One write that must happen at most once: who asks, under which key, with which body."""

    principal: str
    key: str
    hash: str
    index: int | None = None

    def part(self, index: int) -> Once:
        """One document of a request that has several."""
        return replace(self, index=index)

    @property
    def row(self) -> str:
        # A key a client sends is printable, so no client's key is another's part.
        return self.key if self.index is None else f"{self.key}\x1f{self.index}"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: str  # JSON


async def replay(tx: Tx, once: Once | None) -> Answer | None:
    if once is None:
        return None
    return await answered(tx, once, await tx.row(_FIND, once.principal, once.key))


async def answered(tx: Tx, once: Once, row: Row | None) -> Answer | None:
    """What the request was answered before, by the row that its key has."""
    if row is None:
        return None
    if row["hash"] != once.hash:
        raise Conflict(
            "this Idempotency-Key was used before with another request",
            remedy="use a new key for a new request, or repeat the old one unchanged",
        )
    if once.index is not None:
        row = await tx.row(_FIND, once.principal, once.row)
    return Answer(row["status"], row["answer"]) if row is not None and row["status"] != _CLAIMED else None


async def keep(tx: Tx, once: Once | None, answer: Answer, at: Ms) -> None:
    if once is None:
        return
    if once.index is not None:
        await tx.insert(_KEEP, once.principal, once.key, once.hash, _CLAIMED, "", at)
    await tx.insert(_KEEP, once.principal, once.row, once.hash, answer.status, answer.body, at)
