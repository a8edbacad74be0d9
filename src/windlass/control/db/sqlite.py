"""The embedded store: one SQLite file, durable at every answer, fast because commits are shared.

Units run on the event loop itself: a statement takes microseconds, and a second thread would fight
the loop for the interpreter lock at every one of them. What takes long is the fsync of COMMIT, and
that alone runs on a thread. Units that arrive meanwhile wait, run together in the next
transaction, each in its own savepoint, and are all acknowledged after that one fsync: group commit
without a timer. Reads use a connection of their own and see committed state.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import msgspec

from windlass.control.db.migrations import migrate
from windlass.control.db.port import Listener, Row, T, Tx, Work
from windlass.control.db.turns import Turns
from windlass.control.db.unit import READ_NUMBERS, Numbers, UnitOfWork
from windlass.control.identity.scopes import Scope, system_scope
from windlass.core.errors import Unavailable
from windlass.core.units import Ms
from windlass.runtime.clock import Clock, system_clock
from windlass.runtime.metrics import BATCH_UNITS, COMMIT_SECONDS, COMMITS, STORE_QUEUE

# A checkpoint copies each changed page once however often it changed, so rare ones copy less. 32 MiB.
_CHECKPOINT_PAGES = 8192

# Enough that a burst shares one fsync. The loop is not held for longer than the second: whoever comes
# meanwhile, of whatever tenant, waits for that and one commit.
_BATCH = 256
_BATCH_S = 0.02

_STORE = system_scope("store")
_WRITE_NUMBER = "UPDATE counters SET value = ? WHERE name = ?"


class SqliteTx(UnitOfWork):
    """A transaction whose awaits complete at once: `drive` runs it without suspending."""

    __slots__ = ("_connection",)

    def __init__(
        self, connection: sqlite3.Connection, scope: Scope, at: Ms, numbers: Numbers | None = None
    ) -> None:
        super().__init__(scope, numbers, at)
        self._connection = connection

    async def rows(self, statement: str, *args: object) -> Sequence[Row]:
        return self._connection.execute(_numbered(statement), args).fetchall()

    async def row(self, statement: str, *args: object) -> Row | None:
        found: Row | None = self._connection.execute(_numbered(statement), args).fetchone()
        return found

    async def execute(self, statement: str, *args: object) -> int:
        return self._connection.execute(_numbered(statement), args).rowcount

    async def rows_of(self, statement: str, keys: Sequence[str], *args: object) -> Sequence[Row]:
        return self._connection.execute(_of_keys(statement), (_array(keys), *args)).fetchall()

    async def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> int:
        return self._connection.executemany(_numbered(statement), rows).rowcount if rows else 0

    async def insert(self, statement: str, *args: object) -> None:
        self._connection.execute(_numbered(statement), args)

    async def insert_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        self._connection.executemany(_numbered(statement), rows)


class _Pending:
    __slots__ = ("error", "future", "result", "scope", "tx", "work")

    def __init__(self, scope: Scope, work: Work[Any], future: asyncio.Future[Any]) -> None:
        self.scope = scope
        self.work = work
        self.future = future
        self.result: object = None
        self.error: BaseException | None = None
        self.tx: SqliteTx | None = None


class SqliteStore:
    """`clock` is what leases go by: the database's own."""

    batch_s = _BATCH_S

    def __init__(self, path: Path, clock: Clock = system_clock) -> None:
        self._path = path
        self._clock = clock
        try:
            _make_private(path)
            self._writer = connect(path)
            migrate(self._writer)
            self._reader = connect(path, read_only=True)
        except sqlite3.Error as error:
            raise storage_error(error) from error
        self._pending: Turns[_Pending] = Turns()
        self._flushing = False
        self._closed = False
        self._listeners: list[Listener] = []
        self._prepare: list[Callable[[Tx], Awaitable[None]]] = []
        self._commits: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._committer = threading.Thread(target=self._commit_forever, name="commit", daemon=True)
        self._committer.start()
        self._scans = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scan")
        self._scan_connection: sqlite3.Connection | None = None

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def before_units(self, prepare: Callable[[Tx], Awaitable[None]]) -> None:
        self._prepare.append(prepare)

    @property
    def silent_s(self) -> float:
        return 0.0  # it is here

    async def unit(self, scope: Scope, work: Work[T]) -> T:
        if self._closed:
            raise Unavailable("the platform is shutting down", remedy="try again in a moment")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._pending.append(_Pending(scope, work, future))
        if not self._flushing:
            self._flushing = True
            loop.call_soon(self._flush, loop)
        return await future

    async def read(self, scope: Scope, work: Work[T], *, scan: bool = False) -> T:
        if scan:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._scans, self._scan, scope, work)
        return _look(self._reader, scope, work, self._clock())

    async def close(self) -> None:
        self._closed = True
        while self._flushing or self._pending:
            await asyncio.sleep(0.001)
        self._commits.put(None)
        self._committer.join()
        self._scans.shutdown()
        for connection in (self._reader, self._scan_connection, self._writer):
            if connection is not None:
                connection.close()

    # --- one batch: run the units on the loop, commit on the thread, answer on the loop ---------

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        batch: list[_Pending] = []
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            numbers, at = Numbers(self._writer.execute(READ_NUMBERS).fetchall()), self._clock()
            for prepare in self._prepare:
                drive(prepare(SqliteTx(self._writer, _STORE, at, numbers)))
            began = perf_counter()
            while (
                self._pending and len(batch) < _BATCH and (not batch or perf_counter() - began < self.batch_s)
            ):
                pending = self._pending.popleft()
                batch.append(pending)
                pending.tx = SqliteTx(self._writer, pending.scope, at, numbers)
                self._run(pending, pending.tx, alone=len(batch) == 1)
            for name, value in numbers.changed().items():
                self._writer.execute(_WRITE_NUMBER, (value, name))
        except sqlite3.Error as error:
            self._fail(batch, error, loop)
            return
        BATCH_UNITS.observe(len(batch))
        STORE_QUEUE.set(len(self._pending))
        self._commits.put(lambda: self._commit(batch, loop))

    def _run(self, pending: _Pending, tx: SqliteTx, *, alone: bool) -> None:
        """The first unit of a batch is alone in the transaction so far, so it can be undone whole; the
        others need a savepoint, for which the engine copies every page they touch."""
        if not alone:
            self._writer.execute("SAVEPOINT one")
        try:
            pending.result = drive(pending.work(tx))
        except sqlite3.OperationalError as error:
            # A full disk or an I/O error may have ended the whole transaction; then the batch fails.
            if not self._writer.in_transaction:
                raise
            self._undo(tx, alone=alone)
            pending.error = storage_error(error)
        except BaseException as error:
            self._undo(tx, alone=alone)
            pending.error = error
        if not alone:
            self._writer.execute("RELEASE one")

    def _undo(self, tx: SqliteTx, *, alone: bool) -> None:
        tx.undo()
        if alone:
            self._writer.execute("ROLLBACK")
            self._writer.execute("BEGIN IMMEDIATE")
        else:
            self._writer.execute("ROLLBACK TO one")

    def _commit_forever(self) -> None:
        while (commit := self._commits.get()) is not None:
            commit()

    def _commit(self, batch: list[_Pending], loop: asyncio.AbstractEventLoop) -> None:
        began = perf_counter()
        try:
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            loop.call_soon_threadsafe(self._fail, batch, error, loop)
        else:
            COMMIT_SECONDS.observe(perf_counter() - began)
            COMMITS.labels("done").inc()
            loop.call_soon_threadsafe(self._acknowledge, batch, loop)

    def _acknowledge(self, batch: list[_Pending], loop: asyncio.AbstractEventLoop) -> None:
        events = [
            event for pending in batch if pending.tx and not pending.error for event in pending.tx.emitted
        ]
        if events:
            for listener in self._listeners:
                listener(events)
        for pending in batch:
            if pending.future.done():  # the caller went away; the change is durable all the same
                continue
            if pending.error is not None:
                pending.future.set_exception(pending.error)
            else:
                pending.future.set_result(pending.result)
        self._next(loop)

    def _fail(self, batch: list[_Pending], error: sqlite3.Error, loop: asyncio.AbstractEventLoop) -> None:
        COMMITS.labels("failed").inc()
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")
        if not batch:  # the transaction could not even begin: nobody who waits is kept waiting for it
            batch = list(self._pending)
            self._pending.clear()
        for pending in reversed(batch):
            if pending.tx is not None:
                pending.tx.undo()
        for pending in batch:
            if not pending.future.done():
                pending.future.set_exception(storage_error(error))
        self._next(loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._pending:
            loop.call_soon(self._flush, loop)
        else:
            self._flushing = False

    def _scan(self, scope: Scope, work: Work[T]) -> T:
        if self._scan_connection is None:
            self._scan_connection = connect(self._path, read_only=True)
        return _look(self._scan_connection, scope, work, self._clock())


def _look(connection: sqlite3.Connection, scope: Scope, work: Work[T], at: Ms) -> T:
    """One read, from one moment: a commit on the other thread must not come between its statements."""
    try:
        connection.execute("BEGIN")
        try:
            return drive(work(SqliteTx(connection, scope, at)))
        finally:
            connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise storage_error(error) from error


def drive(awaitable: Awaitable[T]) -> T:
    """Run a coroutine that never really waits. If it does, it awaited something other than its Tx."""
    coroutine: Generator[Any, None, T] = awaitable.__await__()
    try:
        next(coroutine)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()  # now: what it does on its way out must not land in somebody else's transaction
    raise RuntimeError("a unit of work awaited something other than its transaction")


def _make_private(path: Path) -> None:
    """A new database is for its owner alone, whatever folder it is in; its side files follow it."""
    with suppress(OSError):  # the engine will say what is wrong with it
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA busy_timeout = 5000")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    else:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute("PRAGMA foreign_keys = ON")
    return connection


def storage_error(error: sqlite3.Error) -> Unavailable:
    text = str(error)
    if "full" in text:
        return Unavailable(
            "the disk that holds the data folder is full; nothing was changed",
            remedy="free some space on it; the platform goes on by itself",
        )
    if "readonly" in text:
        return Unavailable(
            "the data folder cannot be written; nothing was changed",
            remedy="make the folder and its files writable for the user that runs windlass",
        )
    if "not a database" in text or "malformed" in text:
        return Unavailable(
            f"the database in the data folder is damaged: {text}",
            remedy="put a backup in its place: `windlass restore FILE --force` keeps what is there",
        )
    return Unavailable(
        f"the database did not take the change: {text}", remedy="see the server's log; try again"
    )


@lru_cache(maxsize=1024)
def _numbered(statement: str) -> str:
    """`$1` (PostgreSQL's) -> `?1` (SQLite's)."""
    return statement.replace("$", "?")


@lru_cache(maxsize=256)
def _of_keys(statement: str) -> str:
    """`= ANY($1)`, PostgreSQL's word for arrays; here they are JSON."""
    return _numbered(statement).replace("= ANY(?1)", "IN (SELECT value FROM json_each(?1))")


def _array(keys: Sequence[str]) -> str:
    return msgspec.json.encode(keys).decode()
