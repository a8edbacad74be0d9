"""Many rows in one message to PostgreSQL.

A statement of the noun files is for one row. For many it becomes one that takes an array of each parameter
and goes through them: the server plans, binds and locks once for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from windlass.control.db.pg_connections import Connection

if TYPE_CHECKING:
    from windlass.control.db.postgres import PgTx

_PARAMETER = re.compile(r"\$(\d+)")
_MOST = 4096

_types: dict[str, tuple[str, ...]] = {}
"""What the parameters of a statement are. The schema decides it, so it never changes while we run."""


class Gathered:
    """Inserts of one transaction that no statement has had to see yet."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: list[tuple[PgTx, str, Sequence[object]]] = []

    @property
    def full(self) -> bool:
        return len(self._items) >= _MOST

    def add(self, tx: PgTx, statement: str, args: Sequence[object]) -> None:
        self._items.append((tx, statement, args))

    def forget(self, tx: PgTx) -> None:
        self._items = [item for item in self._items if item[0] is not tx]

    async def send(self, connection: Connection) -> None:
        """All of them as one statement; what goes into the same table in the same way, as arrays."""
        if not self._items:
            return
        items, self._items = self._items, []
        rows: dict[str, list[Sequence[object]]] = {}
        for tx, statement, args in items:
            tx.sent = True
            rows.setdefault(statement, []).append(args)
        parts: list[str] = []
        given: list[object] = []
        for statement, many in rows.items():
            parts.append(statement if len(many) == 1 else await for_many(connection, statement))
            given += many[0] if len(many) == 1 else arrays(many)
        await connection.execute(_together(tuple(parts)), *given)


async def for_many(connection: Connection, statement: str) -> str:
    """The same INSERT, UPDATE or DELETE for a whole array of each parameter. It must not touch a row twice:
    within one statement the second would not see the first."""
    types = _types.get(statement)
    if types is None:
        prepared = await connection.prepare(statement)
        types = _types[statement] = tuple(parameter.name for parameter in prepared.get_parameters())
    return _over_arrays(statement, types)


def arrays(rows: Sequence[Sequence[object]]) -> list[object]:
    return [list(column) for column in zip(*rows, strict=True)]


@lru_cache(maxsize=256)
def _over_arrays(statement: str, types: tuple[str, ...]) -> str:
    values = ", ".join(f"${number}::{type}[]" for number, type in enumerate(types, start=1))
    names = ", ".join(f"p{number}" for number in range(1, len(types) + 1))
    source = f"unnest({values}) AS given ({names})"
    wanted = _PARAMETER.sub(r"given.p\1", statement)
    if statement.startswith("INSERT"):
        into, _, rest = wanted.partition(" VALUES (")
        row, _, conflict = rest.partition(") ON CONFLICT ")
        if conflict:
            return f"{into} SELECT {row} FROM {source} ON CONFLICT {conflict}"
        return f"{into} SELECT {row.removesuffix(')')} FROM {source}"
    change, _, condition = wanted.partition(" WHERE ")
    by = "FROM" if statement.startswith("UPDATE") else "USING"
    return f"{change} {by} {source} WHERE {condition}"


@lru_cache(maxsize=1024)
def _together(statements: tuple[str, ...]) -> str:
    """Several inserts as one statement, their parameters numbered through."""
    if len(statements) == 1:
        return statements[0]
    parts, offset = [], 0
    for number, statement in enumerate(statements):
        parts.append(f"i{number} AS ({_moved(statement, offset)})")
        offset += max((int(found) for found in _PARAMETER.findall(statement)), default=0)
    return f"WITH {', '.join(parts)} SELECT 1"


def _moved(statement: str, by: int) -> str:
    return _PARAMETER.sub(lambda found: f"${int(found[1]) + by}", statement)
