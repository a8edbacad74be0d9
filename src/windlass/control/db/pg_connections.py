"""Connections to PostgreSQL: how they are opened, what each insists on, and what its errors mean to us.

Every connection carries time limits that the *server* keeps: a replica that is frozen in the middle of
a transaction, or cut off from the network, loses its turn and its locks after a moment, whatever it
believes itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

import asyncpg

from windlass.core.errors import Unavailable

CONNECT_S = 5.0
_NEXT_HOST_S = 0.5
"""A host that has not answered by then may be gone without a word: the next is asked as well."""
ANSWER_S = 40.0
"""When the server has not kept its own limits by then, nobody is there."""
FROZEN_S = 3
"""How long a transaction may stand still before the server ends it."""
LOCK_TIMEOUT = "15s"
_LIMITS = {
    "application_name": "windlass",
    "default_transaction_isolation": "read committed",  # a statement sees what was there when its turn came
    "idle_in_transaction_session_timeout": f"{FROZEN_S}s",
    "statement_timeout": "30s",
    "lock_timeout": LOCK_TIMEOUT,
    "tcp_user_timeout": f"{FROZEN_S}s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "2",
    "timezone": "UTC",
}
_WAIT_S = 5.0
FOR_EVER_S = 1e6

AWAY: tuple[type[BaseException], ...] = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a statement on a connection that is just breaking
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
)
"""The connection is of no more use: the server is gone, or is not the primary any more."""

NOT_YET = (asyncpg.CannotConnectNowError, asyncpg.TargetServerAttributeNotMatched)
"""The database answers, and is on its way: it recovers, or no server takes writes yet."""


OVERTAKEN = (asyncpg.InvalidCachedStatementError, asyncpg.DeadlockDetectedError)
"""The schema changed under a transaction, which was rolled back: the same again finds the new one."""

TURN = 7420_001
"""The advisory lock every transaction that writes begins with."""


class Connection(Protocol):
    """The little of asyncpg's connection that is used here."""

    async def fetch(self, query: str, *args: object) -> list[Any]: ...

    async def fetchrow(self, query: str, *args: object) -> Any: ...

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str: ...

    async def prepare(self, query: str) -> Any: ...

    async def add_listener(self, channel: str, callback: Any) -> None: ...

    async def close(self, *, timeout: float | None = None) -> None: ...

    def terminate(self) -> None: ...

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...

    def get_server_pid(self) -> int: ...


async def connect(url: str, **settings: str) -> Connection:
    """To the primary: where the address names several hosts, to the one that takes writes."""
    try:
        return await _first_of([_connected(one, settings) for one in one_by_one(url)])
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise Unavailable(
            f"PostgreSQL refused the connection: {error}",
            remedy="check user, password and database name in the address given with --database",
        ) from None
    except AWAY as error:
        raise storage_error(error) from error


def one_by_one(url: str) -> list[str]:
    """The address of each host. The driver would give them one time limit together, and a machine that
    vanished without a word would use it up."""
    place = urlsplit(url).netloc
    who, at, hosts = place.rpartition("@")
    return [url.replace(place, f"{who}{at}{host}", 1) for host in hosts.split(",")] if "," in hosts else [url]


async def _connected(url: str, settings: dict[str, str]) -> Connection:
    connection: Connection = await asyncpg.connect(
        url,
        timeout=CONNECT_S,
        command_timeout=ANSWER_S,
        statement_cache_size=512,
        max_cached_statement_lifetime=0,
        target_session_attrs="read-write",
        server_settings={**_LIMITS, **settings},
    )
    return connection


async def _first_of(attempts: list[Coroutine[Any, Any, Connection]]) -> Connection:
    """The first that succeeds. Each begins when the one before it failed, or is slow. If none does, what
    a server said counts for more than that another could not be reached."""
    waiting, running = deque(attempts), set[asyncio.Task[Connection]]()
    failures: list[BaseException] = []
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(waiting.popleft()))
            patience = _NEXT_HOST_S if waiting else None
            done, running = await asyncio.wait(running, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.exception() is None:
                    return task.result()
            failures += [error for task in done if (error := task.exception()) is not None]
    finally:
        for unused in waiting:
            unused.close()
        for task in running:
            task.cancel()
            task.add_done_callback(_hang_up)
    raise min(failures, key=lambda error: isinstance(error, OSError))


def _hang_up(late: asyncio.Task[Connection]) -> None:
    """One that came after another was chosen."""
    if not late.cancelled() and late.exception() is None:
        late.result().terminate()


def storage_error(error: BaseException) -> Unavailable:
    if isinstance(error, NOT_YET):
        return Unavailable(
            "the database is not ready: it recovers, or none of its servers takes writes",
            remedy="try again in a few seconds; if it lasts, see whether a standby has to be promoted",
        )
    if isinstance(error, asyncpg.DiskFullError):
        return Unavailable(
            "the database's disk is full; nothing was changed",
            remedy="free some space on it; the platform goes on by itself",
        )
    if isinstance(error, asyncpg.LockNotAvailableError | asyncpg.QueryCanceledError):
        return Unavailable(
            "the database is too busy; nothing was changed", remedy="try again in a few seconds"
        )
    if isinstance(error, AWAY):
        return Unavailable(
            "the database cannot be reached; nothing was changed",
            remedy="try again in a few seconds; if it lasts, see whether PostgreSQL runs at the address"
            " given with --database",
        )
    return Unavailable(
        f"the database did not take the change: {error}", remedy="see the server's log; try again"
    )


async def commit(connection: Connection, ending: str) -> None:
    """The last message of a transaction. One that takes too long is left alone, never cancelled: where a
    commit waits for a synchronous standby, cancelling makes it visible, and the next who asks would be told
    of something that a failover can still lose. Left alone it is seen by nobody until the standby has it."""
    ended = asyncio.ensure_future(connection.execute(ending, timeout=FOR_EVER_S))
    done, _ = await asyncio.wait({ended}, timeout=ANSWER_S)
    if not done:
        connection.terminate()
    await ended


def unknown_outcome() -> Unavailable:
    """The one case in which we cannot say: the answer to COMMIT did not arrive."""
    return Unavailable(
        "the database went away while it stored the change; it may or may not be there",
        remedy="send the same request again with the same Idempotency-Key: it happens once",
    )


_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Readers:
    """A few connections for reads, opened when needed, the last used first.

    Each waits inside a transaction that has begun and not looked yet: it takes its view of the data with
    its first statement, holds nothing before, and a read pays for one message less.
    """

    def __init__(self, url: str, most: int) -> None:
        self._url = url
        self._free: deque[Connection] = deque()
        self._used: set[Connection] = set()
        self._places = asyncio.Semaphore(most)
        self._closed = False
        self._drops = 0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Connection]:
        """A view of one moment, for the length of a block. A connection that broke, or was left in the
        middle, is not used again."""
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._places.acquire()
        except TimeoutError:
            raise Unavailable("the database is too busy", remedy="try again in a few seconds") from None
        connection: Connection | None = None
        drops = self._drops
        try:
            connection = self._free.pop() if self._free else await self._opened()
            self._used.add(connection)
            yield connection
            await connection.execute(f"COMMIT; {_BEGIN}")
        except BaseException:
            if connection is not None:
                connection.terminate()
            raise
        else:
            if self._closed or drops != self._drops:
                connection.terminate()
            else:
                self._free.append(connection)
        finally:
            if connection is not None:
                self._used.discard(connection)
            self._places.release()

    async def _opened(self) -> Connection:
        connection = await connect(self._url, idle_in_transaction_session_timeout="0")
        await connection.execute(_BEGIN)
        return connection

    def drop(self) -> None:
        """The server went away: none of them is of any use, nor are those that are being used."""
        self._drops += 1
        while self._free:
            self._free.pop().terminate()

    def hang_up(self) -> None:
        """Nobody is there: whoever waits for an answer waits no longer."""
        self.drop()
        for connection in self._used:
            connection.terminate()

    async def close(self) -> None:
        self._closed = True
        while self._free:
            with suppress(asyncpg.PostgresError, *AWAY):
                await self._free.pop().close(timeout=1)
