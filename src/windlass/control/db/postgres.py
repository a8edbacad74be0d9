"""The store on PostgreSQL, for one to many replicas.

Writers take turns, all replicas together: a transaction begins with one lock, so units are
serializable by construction, as on SQLite, and never have to be repeated for a conflict. Turns are
needed anyway, because event ids follow commit order. What makes them cheap is that a turn is shared:
the units that arrived while a replica waited run in one transaction, with one commit (docs/decisions).

Rows to insert are gathered and sent as one statement before the next that could see them. A unit that
fails before anything of it was sent has simply not happened; if something was sent, the transaction is
rolled back and every unit of it runs again, alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

import asyncpg

from windlass.control.db import port
from windlass.control.db.pg_connections import (
    AWAY,
    FROZEN_S,
    NOT_YET,
    OVERTAKEN,
    TURN,
    Connection,
    Readers,
    commit,
    connect,
    storage_error,
    unknown_outcome,
)
from windlass.control.db.pg_many import Gathered, arrays, for_many
from windlass.control.db.pg_migrations import migrate_postgres
from windlass.control.db.pg_tail import CHANNEL, PAGE, Tail, event_of
from windlass.control.db.port import Listener, Row, T, Tx, Work
from windlass.control.db.turns import Turns
from windlass.control.db.unit import Numbers, UnitOfWork
from windlass.control.identity.scopes import Scope, system_scope
from windlass.core.errors import Unavailable, WindlassError
from windlass.core.units import Ms
from windlass.runtime.logging import warn
from windlass.runtime.metrics import BATCH_UNITS, COMMIT_SECONDS, COMMITS, STORE_QUEUE

_TIME = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS at_ms"
NUMBERS_AND_TIME = f"SELECT name, value, {_TIME} FROM counters"
_TURN = (
    "WITH turn AS MATERIALIZED ("
    f"SELECT set_config('idle_in_transaction_session_timeout', '{FROZEN_S}s', true),"
    f" pg_advisory_xact_lock({TURN}))"
    f" SELECT name, value, {_TIME} FROM turn, counters FOR NO KEY UPDATE OF counters"
)
"""Waits for our turn and reads the numbers, in one message. A statement sees what was there when it began,
so before it waited; but rows it locks it reads as they are by then."""
_EVENTS = f"SELECT * FROM events WHERE id > $1 ORDER BY id LIMIT {PAGE}"
_EVENT = "SELECT * FROM events WHERE id = $1"
_BATCH = 64  # enough that a burst shares a turn, few enough that others get theirs soon
_READERS = 8
_RECOVERS_S = 60

_STORE = system_scope("store")


class PgTx(UnitOfWork):
    __slots__ = ("_connection", "_gathered", "sent")

    def __init__(
        self, connection: Connection, scope: Scope, numbers: Numbers | None, at: Ms, gathered: Gathered
    ) -> None:
        super().__init__(scope, numbers, at)
        self._connection = connection
        self._gathered = gathered
        self.sent = False

    async def rows(self, statement: str, *args: object) -> Sequence[Row]:
        await self._flush()
        found: Sequence[Row] = await self._connection.fetch(statement, *args)
        return found

    async def row(self, statement: str, *args: object) -> Row | None:
        await self._flush()
        found: Row | None = await self._connection.fetchrow(statement, *args)
        return found

    async def rows_of(self, statement: str, keys: Sequence[str], *args: object) -> Sequence[Row]:
        return await self.rows(statement, keys, *args)

    async def execute(self, statement: str, *args: object) -> int:
        await self._flush()
        self.sent = True
        return int((await self._connection.execute(statement, *args)).rpartition(" ")[2])

    async def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> int:
        if len(rows) == 1:
            return await self.execute(statement, *rows[0])
        return await self.execute(await for_many(self._connection, statement), *arrays(rows)) if rows else 0

    async def insert(self, statement: str, *args: object) -> None:
        self._gathered.add(self, statement, args)
        if self._gathered.full:
            await self._flush()

    async def insert_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        for row in rows:
            self._gathered.add(self, statement, row)
        if self._gathered.full:
            await self._flush()

    async def _flush(self) -> None:
        await self._gathered.send(self._connection)


class _Pending:
    __slots__ = ("error", "future", "result", "scope", "tx", "work")

    def __init__(self, scope: Scope, work: Work[Any], future: asyncio.Future[Any]) -> None:
        self.scope = scope
        self.work = work
        self.future = future
        self.result: object = None
        self.error: BaseException | None = None
        self.tx: PgTx | None = None


class WentBack(Unavailable):
    """The database lacks what this replica has seen in it: a standby that was behind took over, or a copy
    was restored. What is in memory is of a past that did not happen."""

    def __init__(self, seen: int, found: str) -> None:
        super().__init__(
            f"the database went back in time: event {seen} was seen in it, and {found};"
            " nothing was changed, and the server begins anew",
            remedy="try again in a few seconds; what was answered lately may be lost",
        )


class _Again(Exception):
    """What was sent of a unit that failed cannot be taken out of the transaction."""


async def open_postgres(url: str) -> PostgresStore:
    """The store on a database that is there, with this release's schema, following other replicas."""
    connection = await _when_it_is_ready(url)
    try:
        await migrate_postgres(connection)
        row = await connection.fetchrow("SELECT value FROM counters WHERE name = 'event'")
        store = PostgresStore(url, row["value"])
        await store.start()
    except (asyncpg.PostgresError, *AWAY) as error:
        raise storage_error(error) from error
    finally:
        connection.terminate()
    return store


async def _when_it_is_ready(url: str) -> Connection:
    """A server that says it recovers, or a standby that is about to be promoted, is waited for. One that
    does not answer at all is not: the address may be wrong."""
    for _ in range(_RECOVERS_S):
        try:
            return await connect(url)
        except Unavailable as error:
            if not isinstance(error.__cause__, NOT_YET):
                raise
            warn("the database is not ready", detail=error.detail)
            await asyncio.sleep(1)
    return await connect(url)


class PostgresStore:
    """Made by `open_postgres`."""

    def __init__(self, url: str, newest: int) -> None:
        self._url = url
        self._writer: Connection | None = None
        self._readers = Readers(url, _READERS)
        self._pending: Turns[_Pending] = Turns()
        self._writing: asyncio.Task[None] | None = None
        self._prepare: list[Callable[[Tx], Awaitable[None]]] = []
        self._closed = False
        self._offset_ms: float = 0.0
        self._heard = monotonic()
        self._tail = Tail(url, newest, self._events_after)
        self._gone_back: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def listen(self, listener: Listener) -> None:
        self._tail.listeners.append(listener)

    def before_units(self, prepare: Callable[[Tx], Awaitable[None]]) -> None:
        self._prepare.append(prepare)

    def clock(self) -> Ms:
        """The database's time, the same for every replica whatever its own clock says."""
        return Ms(round(monotonic() * 1000 + self._offset_ms))

    @property
    def silent_s(self) -> float:
        """The tail asks every second, whatever else is asked."""
        return monotonic() - self._heard

    async def follow_until_it_goes_back(self) -> None:
        """For ever, or until WentBack: then nothing in memory is worth keeping."""
        await asyncio.shield(self._gone_back)

    async def start(self) -> None:
        """Learn the database's time, and follow what other replicas commit."""
        await self._events_after(0)
        self._tail.start()

    async def unit(self, scope: Scope, work: Work[T]) -> T:
        if self._closed:
            raise Unavailable("the platform is shutting down", remedy="try again in a moment")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(scope, work, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="store")
        return await future

    async def read(self, scope: Scope, work: Work[T], *, scan: bool = False) -> T:  # noqa: ARG002 (SQLite's)
        try:
            return await self._look(scope, work)
        except (*AWAY, *OVERTAKEN):
            self._readers.drop()  # they went stale; a read changes nothing, so it tries once more
        except asyncpg.PostgresError as error:
            raise storage_error(error) from error
        try:
            return await self._look(scope, work)
        except (asyncpg.PostgresError, *AWAY) as error:
            raise storage_error(error) from error

    async def close(self) -> None:
        self._closed = True
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
        await self._tail.stop()
        if not self._gone_back.done():
            self._gone_back.cancel()
        await self._readers.close()
        if self._writer is not None:
            with suppress(asyncpg.PostgresError, *AWAY):
                await self._writer.close(timeout=1)

    # --- reads ------------------------------------------------------------------------------------

    async def _look(self, scope: Scope, work: Work[T]) -> T:
        """One read, from one moment. What it raises of its own is no fault of the connection's."""
        own: WindlassError | None = None
        async with self._readers.one() as connection:
            try:
                found = await work(PgTx(connection, scope, None, self.clock(), Gathered()))
            except WindlassError as error:
                own = error
            else:
                self._heard = monotonic()
                return found
        assert own is not None
        raise own

    async def _events_after(self, after: int) -> Sequence[Row]:
        """For the tail: a page of events, after what is in memory has caught up with them. Whether there are
        any it asks where it listens: nobody else waits there, so silence there is the database's."""
        if self._tail.connection is not None and not await self._more_than(after, self._tail.connection):
            return []
        async with self._readers.one() as connection:
            numbers, at = await self._numbers(connection)
            for prepare in self._prepare:
                await prepare(PgTx(connection, _STORE, numbers, at, Gathered()))
            if numbers.values["event"] <= after:
                return []
            return await connection.fetch(_EVENTS, after)

    async def _more_than(self, after: int, listening: Connection) -> bool:
        try:
            async with asyncio.timeout(port.SILENT_S):
                numbers, _ = await self._numbers(listening)
        except TimeoutError:
            # Whoever waits for it is told now, and does not have to find out alone.
            self._readers.hang_up()
            if self._writer is not None:
                self._writer.terminate()
            raise
        return numbers.values["event"] > after

    async def _numbers(self, connection: Connection, statement: str = NUMBERS_AND_TIME) -> tuple[Numbers, Ms]:
        asked, seen = monotonic(), self._tail.seen
        rows = await connection.fetch(statement)
        answered, numbers = monotonic(), Numbers(rows)
        self._heard = answered
        if numbers.values["event"] < seen:
            raise self._went_back(seen, f"its newest is {numbers.values['event']}")
        at = Ms(rows[0]["at_ms"])
        # It was read at some time between the two. What is known already stands if it agrees, so that a
        # slow answer does not move the clock, and a server with another time does.
        lowest, highest = at - answered * 1000, at - asked * 1000
        self._offset_ms = min(max(self._offset_ms, lowest), highest)
        return numbers, at

    async def _same_past(self, connection: Connection) -> None:
        """A server that was not there for a while may find one that went back and went on, beyond what it
        has seen. Another past comes only with another connection."""
        last = self._tail.last
        row = await connection.fetchrow(_EVENT, last.id) if last is not None else None
        if last is not None and row is not None and event_of(row) != last:
            raise self._went_back(last.id, "it is another one now")

    def _went_back(self, seen: int, found: str) -> WentBack:
        error = WentBack(seen, found)
        if not self._gone_back.done():
            self._gone_back.set_exception(error)
            self._gone_back.exception()  # whoever asked is told, whether or not somebody follows
        return error

    # --- writes: one task, turn after turn, for as long as somebody waits ------------------------------

    async def _write(self) -> None:
        try:
            while self._pending:
                await self._turn()
        finally:
            self._writing = None

    async def _turn(self, alone: _Pending | None = None, *, again: bool = False) -> None:
        """One transaction with the units that wait when our turn has come (or one that failed among
        others, or was overtaken: then `again`)."""
        batch: list[_Pending] = []
        committing = False
        try:
            connection, numbers, at = await self._begun()
            gathered = Gathered()
            for prepare in self._prepare:
                await prepare(PgTx(connection, _STORE, numbers, at, gathered))
            while pending := self._next(batch, alone):
                batch.append(pending)
                pending.tx = PgTx(connection, pending.scope, numbers, at, gathered)
                await self._run(pending, pending.tx, gathered)
            await gathered.send(connection)
            BATCH_UNITS.observe(len(batch))
            STORE_QUEUE.set(len(self._pending))
            committing, began = True, monotonic()
            await commit(connection, _ending(numbers))
            COMMIT_SECONDS.observe(monotonic() - began)
            COMMITS.labels("done").inc()
        except (_Again, asyncpg.PostgresError, *AWAY, Unavailable) as error:
            await self._failed(batch, alone, error, committing=committing, again=again)
        else:
            self._acknowledge(batch)

    def _next(self, batch: list[_Pending], alone: _Pending | None) -> _Pending | None:
        if alone is not None:
            return None if batch else alone
        return self._pending.popleft() if self._pending and len(batch) < _BATCH else None

    async def _run(self, pending: _Pending, tx: PgTx, gathered: Gathered) -> None:
        try:
            pending.result = await pending.work(tx)
        except (asyncpg.PostgresError, *AWAY):
            raise
        except BaseException as error:
            pending.error = error
            tx.undo()
            gathered.forget(tx)
            if tx.sent:
                raise _Again from None

    def _acknowledge(self, batch: list[_Pending]) -> None:
        events = [
            event for pending in batch if pending.tx and not pending.error for event in pending.tx.emitted
        ]
        self._tail.committed(events)
        for pending in batch:
            _answer(pending)

    async def _failed(
        self,
        batch: list[_Pending],
        alone: _Pending | None,
        error: BaseException,
        *,
        committing: bool,
        again: bool,
    ) -> None:
        """Nothing of the batch happened. One that failed alone is told so; of several each tries again, and
        so does one that was overtaken, once."""
        if not isinstance(error, _Again):
            COMMITS.labels("failed").inc()
        for pending in reversed(batch):
            if pending.tx is not None and pending.error is None:
                pending.tx.undo()
        away = isinstance(error, (*AWAY, Unavailable))
        if away or not await self._rolled_back():
            self._drop_writer()
        overtaken = isinstance(error, OVERTAKEN) and not again
        if isinstance(error, _Again | asyncpg.PostgresError) and not away and (len(batch) > 1 or overtaken):
            for pending in batch or ([alone] if alone else []):
                pending.error, pending.result = None, None
                await self._turn(alone=pending, again=overtaken)
            return
        told = unknown_outcome() if committing and away else None
        for pending in batch or ([alone] if alone else self._everybody()):
            if pending.error is None:
                pending.error = told or (error if isinstance(error, Unavailable) else storage_error(error))
            _answer(pending)

    def _everybody(self) -> list[_Pending]:
        """The database could not even be asked: nobody who waits is kept waiting for it."""
        waiting = list(self._pending)
        self._pending.clear()
        return waiting

    async def _begun(self) -> tuple[Connection, Numbers, Ms]:
        """Our turn. A connection that was idle while the server went away, or forgot about it, fails
        here, where nothing was asked of it yet: then a new one gets the chance it deserves."""
        was_idle = self._writer is not None
        connection = await self._writer_connection()
        try:
            return connection, *await self._numbers(connection, _TURN)
        except asyncpg.QueryCanceledError:
            raise
        except AWAY:
            self._drop_writer()
            if not was_idle:
                raise
            connection = await self._writer_connection()
            return connection, *await self._numbers(connection, _TURN)

    async def _writer_connection(self) -> Connection:
        """In a transaction that has begun, mostly with the end of the last: it holds nothing, so it may wait
        for as long as it likes. Who has the turn may not (`_TURN`)."""
        if self._writer is None or self._writer.is_closed():
            self._readers.drop()  # they are as old as the one that broke
            self._writer = await connect(self._url, idle_in_transaction_session_timeout="0")
            await self._same_past(self._writer)
            self._tail.moved(self._writer.get_server_pid())
        if not self._writer.is_in_transaction():
            await self._writer.execute("BEGIN")
        return self._writer

    async def _rolled_back(self) -> bool:
        if self._writer is None or self._writer.is_closed():
            return False
        try:
            await self._writer.execute("ROLLBACK")
        except (asyncpg.PostgresError, *AWAY):
            return False
        return True

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.terminate()
            self._writer = None


def _answer(pending: _Pending) -> None:
    if pending.future.done():  # the caller went away; the change is durable all the same
        return
    if pending.error is not None:
        pending.future.set_exception(pending.error)
    else:
        pending.future.set_result(pending.result)


def _ending(numbers: Numbers) -> str:
    """The last words of a transaction in one message: its numbers, a hint to the others, COMMIT."""
    changed = numbers.changed()
    if not changed:
        return "COMMIT; BEGIN"
    # Names and values are our own: names from the schema, values integers.
    cases = " ".join(f"WHEN '{name}' THEN {value:d}" for name, value in changed.items())
    names = ", ".join(f"'{name}'" for name in changed)
    update = f"UPDATE counters SET value = CASE name {cases} END WHERE name IN ({names})"
    # No limit of the server's on COMMIT itself: one that waits for a synchronous standby would be called
    # done when its time is up, although a failover could still lose it (see `commit`).
    return f"{update}; NOTIFY {CHANNEL}; SET LOCAL statement_timeout = 0; COMMIT; BEGIN"
