"""The store's port: units of work, reads, rows.

Semantics, the same for every engine behind it:
- `unit` runs one function as one transaction. It returns after the change is durable; when it
  raises, nothing of it happened. Units are serializable: they run as if one after the other.
- `read` sees committed state only. Small indexed reads; a long scan says `scan=True`.
- Inside a unit or a read only the given `Tx` may be awaited: no network, no sleep, no lock.
- Statements are written once, with `$1`-style parameters, in the SQL that SQLite and PostgreSQL
  share, in one file per noun beside this one.
- Events emitted in a unit reach the listeners after its commit, in the order of their ids; ids
  follow commit order, so that a reader resuming after an id misses nothing. With several replicas
  the listeners of each hear of everybody's events.
- A unit may be run again from the start when the transaction it was in could not be committed. What
  it changed in memory it takes back by what it gave to `on_undo`.

A `Tx` always carries the scope it was opened with; the noun files filter by it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from windlass.control.identity.scopes import Scope
from windlass.core.units import Ms

T = TypeVar("T")

Counter = Literal["event", "audit", "catalog"]
"""Numbers without holes that follow commit order."""


class Row(Protocol):
    """By name; or all of it, in the order of the statement."""

    def __getitem__(self, key: str, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something that happened, as listeners and the event stream see it."""

    id: int
    at: Ms
    type: str
    tenant: str | None
    subject: str
    actor: str
    data: str  # JSON


class Tx(Protocol):
    """One transaction, in one scope."""

    @property
    def scope(self) -> Scope: ...

    @property
    def emitted(self) -> list[EventRow]: ...

    @property
    def database_ms(self) -> Ms:
        """The database's clock when this transaction had its turn: the same for every replica."""
        ...

    async def rows(self, statement: str, *args: object) -> Sequence[Row]: ...

    async def row(self, statement: str, *args: object) -> Row | None: ...

    async def execute(self, statement: str, *args: object) -> int:
        """The number of rows changed."""
        ...

    async def insert(self, statement: str, *args: object) -> None:
        """An INSERT. Everything that follows finds the row; an engine may send several at once."""
        ...

    async def rows_of(self, statement: str, keys: Sequence[str], *args: object) -> Sequence[Row]:
        """The rows of many keys at once: `$1` is all of them, in a condition written `= ANY($1)`."""
        ...

    async def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> int:
        """The same statement for each of `rows`, no two of which touch the same row of the table. The number
        of rows changed in all."""
        ...

    async def insert_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """The same INSERT for each of `rows`."""
        ...

    def newest(self, counter: Counter) -> int:
        """The number last taken, by a unit before this one or by this one."""
        ...

    def take(self, counter: Counter) -> int:
        """The next number. A unit that fails has taken none."""
        ...

    def on_undo(self, undo: Callable[[], None]) -> None:
        """Call `undo` if what the unit did so far will not be durable after all."""
        ...


SILENT_S = 5.0
"""A database that is well answers sooner. By then another replica leads."""

Work = Callable[[Tx], Awaitable[T]]
Listener = Callable[[Sequence[EventRow]], None]


class Store(Protocol):
    async def unit(self, scope: Scope, work: Work[T]) -> T: ...

    async def read(self, scope: Scope, work: Work[T], *, scan: bool = False) -> T: ...

    def listen(self, listener: Listener) -> None:
        """Call `listener` after every commit that emitted events."""
        ...

    def before_units(self, prepare: Callable[[Tx], Awaitable[None]]) -> None:
        """Call `prepare` at the beginning of every transaction, before its units: what they rely on in
        memory must be as new as what is stored."""
        ...

    @property
    def silent_s(self) -> float:
        """How long the database has not been heard of: what is in memory is of so long ago."""
        ...

    async def close(self) -> None: ...
