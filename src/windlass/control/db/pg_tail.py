"""Following what every replica commits: events in the order of their ids, to this replica's listeners.

A notification only says *look*; the events are read from the table, and also by period, so that a
lost notification costs a second and nothing else. What this replica committed itself is told without
reading it back, where nothing of others lies in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from windlass.control.db.pg_connections import AWAY, Connection, connect
from windlass.control.db.port import EventRow, Listener, Row
from windlass.core.errors import Unavailable

CHANNEL = "windlass_events"
_PERIOD_S = 1.0
_APART_S = 0.05
"""Between two looks. What others commit meanwhile is read in one go: who follows a busy replica costs a
fraction of it, and hears of a quiet one at once."""
PAGE = 1000


class Tail:
    """`after` is the newest event everybody here knows of already."""

    def __init__(self, url: str, after: int, load: Callable[[int], Awaitable[Sequence[Row]]]) -> None:
        self.listeners: list[Listener] = []
        self.own: int | None = None  # the session this replica writes in; of its commits we know
        self._url = url
        self._after = after
        self._load = load
        self.last: EventRow | None = None  # what was told last
        self._look = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.connection: Connection | None = None  # where we listen

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow(), name="events of others")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.connection is not None:
            self.connection.terminate()

    @property
    def seen(self) -> int:
        return self._after

    def moved(self, own: int) -> None:
        """This replica writes in a new session, perhaps at another server: listen there too."""
        self.own = own
        self._unsubscribe()
        self._look.set()

    def committed(self, events: Sequence[EventRow]) -> None:
        """Durable now, by this replica."""
        if events and events[0].id == self._after + 1:
            self._tell(events)
        elif events:
            self._look.set()

    async def _follow(self) -> None:
        time = asyncio.get_running_loop().time
        while True:
            looked = time()
            try:
                await self._subscribe()
                full = True
                while full:
                    rows = await self._load(self._after)
                    self._tell([event_of(row) for row in rows if row["id"] > self._after])
                    full = len(rows) == PAGE
            except (Unavailable, asyncpg.PostgresError, *AWAY):
                self._unsubscribe()
            try:
                async with asyncio.timeout(_PERIOD_S):
                    await self._look.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(max(0.0, looked + _APART_S - time()))
            self._look.clear()

    def _tell(self, events: Sequence[EventRow]) -> None:
        if not events:
            return
        self._after, self.last = events[-1].id, events[-1]
        for listener in self.listeners:
            listener(events)

    async def _subscribe(self) -> None:
        if self.connection is None or self.connection.is_closed():
            self.connection = await connect(self._url)
            await self.connection.add_listener(CHANNEL, self._heard)

    def _heard(self, _connection: object, session: int, _channel: str, _payload: str) -> None:
        if session != self.own:
            self._look.set()

    def _unsubscribe(self) -> None:
        if self.connection is not None:
            self.connection.terminate()
            self.connection = None


def event_of(row: Row) -> EventRow:
    return EventRow(
        row["id"], row["at_ms"], row["type"], row["tenant"], row["subject"], row["actor"], row["data"]
    )
