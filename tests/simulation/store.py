"""The real embedded engine on one file, driven without threads, for one process or several.

A commit takes a seeded virtual time, on the database's side: its process may freeze or die meanwhile. It
may fail, or succeed while its answer is lost. Several processes take turns to write, and each follows
what all commit with the tail that follows a PostgreSQL; what is emulated here is only the server between.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.simulation.loop import Party, VirtualLoop

from windlass.control.db.pg_connections import unknown_outcome
from windlass.control.db.pg_tail import Tail
from windlass.control.db.port import Listener, Row, T, Work
from windlass.control.db.sqlite import SqliteStore, SqliteTx, drive
from windlass.control.db.unit import READ_NUMBERS, Numbers
from windlass.control.identity.scopes import Scope, system_scope
from windlass.core.errors import Unavailable
from windlass.core.units import Ms

_EVENTS = "SELECT * FROM events WHERE id > ? ORDER BY id LIMIT 1000"
_STORE = system_scope("store")
_IDLE_S = 5.0


class SimDatabase:
    """The file, whose turn it is, and what goes wrong on the way to it."""

    def __init__(self, path: Path, content: bytes, loop: VirtualLoop, chance: Random, start: Ms) -> None:
        self.path = path
        path.write_bytes(content)
        self.loop = loop
        self.chance = chance
        self.start = start
        self.side = Party("database")
        self.stores: list[SimStore] = []
        self.failing_commits = 0
        self.freezing_leaders = 0  # so many next writes of a leader find its process frozen on the way
        self.lost_answers = 0
        self.deaf_until = 0.0  # hints that a commit happened are lost until then
        self.committed: Callable[[], None] = lambda: None
        self._turn: SimStore | None = None
        self._waiting: deque[SimStore] = deque()
        self._auditor: sqlite3.Connection | None = None

    def clock(self) -> Ms:
        return Ms(self.start + round(self.loop.time() * 1000))

    def rows(self, statement: str, *args: object) -> Sequence[Any]:
        """Committed state, for whoever judges it."""
        if self._auditor is None:
            self._auditor = sqlite3.connect(self.path, isolation_level=None)
            self._auditor.row_factory = sqlite3.Row
        return self._auditor.execute(statement, args).fetchall()

    def close(self) -> None:
        for store in list(self.stores):
            store.die()
        if self._auditor is not None:
            self._auditor.close()

    def take_turn(self, store: SimStore) -> bool:
        if self._turn is None:
            self._turn = store
        elif self._turn is not store and store not in self._waiting:
            self._waiting.append(store)
        return self._turn is store

    def end_turn(self, store: SimStore) -> None:
        if store in self._waiting:
            self._waiting.remove(store)
        if self._turn is not store:
            return
        self._turn = self._waiting.popleft() if self._waiting else None
        if self._turn is not None:
            self._turn.begin()
            self.loop.call_later(_IDLE_S, self._pass_by, self._turn, context=self.side.context.copy())

    def _pass_by(self, store: SimStore) -> None:
        """Frozen before it could begin: a database does not wait for it for ever."""
        if self._turn is store and store.party.frozen:
            self.end_turn(store)

    def notify(self, writer: SimStore) -> None:
        self.committed()
        if self.loop.time() < self.deaf_until:
            return
        for store in self.stores:
            if store is not writer and store.tail is not None:
                delay = self.chance.random() * 0.05
                self.loop.call_later(delay, store.tail.hint, context=store.party.context.copy())


class SimStore(SqliteStore):
    batch_s = float("inf")  # by the machine's own clock, and no story may depend on how busy that is

    def __init__(self, database: SimDatabase, party: Party, *, shared: bool) -> None:
        super().__init__(database.path, database.clock)
        self._writer.execute("PRAGMA synchronous = OFF")
        self._commits = _Later(self._later)  # type: ignore[assignment]
        self.database = database
        self.party = party
        self.away_until = 0.0
        self.tail: SimTail | None = None
        if shared:
            newest = self._reader.execute("SELECT value FROM counters WHERE name = 'event'").fetchone()[0]
            self.tail = SimTail(newest, self._events_after)
            self._listeners.append(self.tail.committed)
        database.stores.append(self)

    def listen(self, listener: Listener) -> None:
        if self.tail is None:
            super().listen(listener)
        else:
            self.tail.listeners.append(listener)

    def freeze(self, for_s: float) -> None:
        self.party.frozen = True
        self.database.loop.call_later(for_s, self._thaw, context=self.database.side.context.copy())

    def _thaw(self) -> None:
        self.party.frozen = False

    def die(self) -> None:
        """Killed: what was not committed is undone by the engine, the turn is the next one's."""
        if self not in self.database.stores:
            return
        self.database.stores.remove(self)
        self._reader.close()
        self._writer.close()
        self.database.end_turn(self)

    async def unit(self, scope: Scope, work: Work[T]) -> T:
        if self.database.freezing_leaders and self.tail is not None and scope.actor == "windlass/scheduler":
            self.database.freezing_leaders -= 1
            self.freeze(4.0 + self.database.chance.random() * 5.0)
        await self._reached()
        return await super().unit(scope, work)

    async def read(self, scope: Scope, work: Work[T], *, scan: bool = False) -> T:
        await self._reached()
        found = await super().read(scope, work)
        await asyncio.sleep(self._delay(0.002))
        return found

    async def _reached(self) -> None:
        await asyncio.sleep(self._delay(0.002))
        if self.database.loop.time() < self.away_until:
            raise Unavailable("the database cannot be reached", remedy="try again")

    def _delay(self, most: float) -> float:
        """Mostly short; now and then somebody was held up on the way."""
        chance = self.database.chance
        return chance.random() * (most if chance.random() < 0.97 else 0.4)

    # --- a turn: begun here, ended on the database's side ---------------------------------------------

    def begin(self) -> None:
        loop = self.database.loop
        loop.call_soon(self._flush, loop, context=self.party.context.copy())

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.database.take_turn(self):
            super()._flush(loop)

    def _commit_forever(self) -> None:
        """No thread."""

    def _later(self, commit: Callable[[], None]) -> None:
        self.database.loop.call_later(self._delay(0.02), commit, context=self.database.side.context.copy())

    def _commit(self, batch: list[Any], loop: asyncio.AbstractEventLoop) -> None:
        database = self.database
        if self not in database.stores:
            return  # died; closing the connection rolled it back
        answer: Callable[[], None]
        if database.failing_commits > 0:
            database.failing_commits -= 1
            self._writer.execute("ROLLBACK")
            answer = self._failed(batch, sqlite3.OperationalError("disk I/O error"))
        else:
            self._writer.execute("COMMIT")
            database.notify(self)
            answer = self._done(batch)
            if database.lost_answers > 0 and self.tail is not None:
                database.lost_answers -= 1
                answer = self._failed(batch, sqlite3.OperationalError(unknown_outcome().detail))
        database.end_turn(self)
        loop.call_later(self._delay(0.005), answer, context=self.party.context.copy())

    def _done(self, batch: list[Any]) -> Callable[[], None]:
        return lambda: self._acknowledge(batch, self.database.loop)

    def _failed(self, batch: list[Any], error: sqlite3.Error) -> Callable[[], None]:
        return lambda: self._fail(batch, error, self.database.loop)

    def _fail(self, batch: list[Any], error: sqlite3.Error, loop: asyncio.AbstractEventLoop) -> None:
        super()._fail(batch, error, loop)
        self.database.end_turn(self)

    async def _events_after(self, after: int) -> Sequence[Row]:
        """As on PostgreSQL: what is in memory catches up before the events are told."""
        await self._reached()
        numbers = Numbers(self._reader.execute(READ_NUMBERS).fetchall())
        for prepare in self._prepare:
            drive(prepare(SqliteTx(self._reader, _STORE, self._clock(), numbers)))
        return self._reader.execute(_EVENTS, (after,)).fetchall()


class SimTail(Tail):
    """The real one, without a connection that tells of commits: the simulated database calls `hint`."""

    def __init__(self, after: int, load: Any) -> None:
        super().__init__("", after, load)

    def hint(self) -> None:
        self._look.set()

    async def _subscribe(self) -> None:
        pass


class _Later:
    """Where the engine puts a commit for its thread."""

    def __init__(self, put: Callable[[Callable[[], None]], None]) -> None:
        self.put = put
