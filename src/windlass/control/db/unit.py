"""What every engine's transaction has besides its statements: numbers that follow commit order, the
events it emitted, and the way back from what its units did in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.control.db.port import Counter, EventRow, Row
from windlass.control.identity.scopes import Scope
from windlass.core.units import Ms

READ_NUMBERS = "SELECT name, value FROM counters"


class Numbers:
    """The counters, read once at the beginning of a transaction and written once at its end."""

    __slots__ = ("_stored", "values")

    def __init__(self, rows: Iterable[Row]) -> None:
        self.values: dict[str, int] = {row["name"]: row["value"] for row in rows}
        self._stored = dict(self.values)

    def changed(self) -> dict[str, int]:
        return {name: value for name, value in self.values.items() if self._stored[name] != value}


class UnitOfWork:
    """One unit's place in a transaction. `numbers` of None: a read, in which nothing is written."""

    __slots__ = ("_before", "_numbers", "_undos", "database_ms", "emitted", "scope")

    def __init__(self, scope: Scope, numbers: Numbers | None, at: Ms) -> None:
        self.scope = scope
        self.database_ms = at
        self.emitted: list[EventRow] = []
        self._numbers = numbers
        self._before = dict(numbers.values) if numbers is not None else {}
        self._undos: list[Callable[[], None]] = []

    def newest(self, counter: Counter) -> int:
        return self._of_a_write().values[counter]

    def take(self, counter: Counter) -> int:
        numbers = self._of_a_write()
        numbers.values[counter] += 1
        return numbers.values[counter]

    def on_undo(self, undo: Callable[[], None]) -> None:
        self._undos.append(undo)

    def undo(self) -> None:
        """Nothing of it happened: not in memory, and its numbers are there for the next."""
        while self._undos:
            self._undos.pop()()
        if self._numbers is not None:
            self._numbers.values.update(self._before)

    def _of_a_write(self) -> Numbers:
        if self._numbers is None:
            raise RuntimeError("a read takes no numbers: nothing can be written in it")
        return self._numbers
