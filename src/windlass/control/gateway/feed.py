"""The event feed: what just happened, from memory for those who keep up, from the store for those who
come back. A watcher resumes after any id it has seen and misses nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence

from windlass.control.db import events
from windlass.control.db.port import EventRow, Store, Tx
from windlass.control.identity.scopes import Scope

_RECENT = 10_000
_PAGE = 500


class EventFeed:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: deque[EventRow] = deque(maxlen=_RECENT)
        self._waiters: set[asyncio.Future[None]] = set()
        store.listen(self._heard)

    async def watch(
        self, scope: Scope, after: int, *, heartbeat_s: float = 15.0
    ) -> AsyncGenerator[EventRow | None, None]:
        """Every event after `after` that the scope covers, for ever. None is a heartbeat."""
        while True:
            batch, through = await self._after(scope, after)
            for event in batch:
                if scope.covers(event.tenant):
                    yield event
            # Also past what was not for this scope: else a quiet tenant's watcher would read all of it
            # again at every wake-up.
            after = max(after, through)
            if batch:
                continue
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                async with asyncio.timeout(heartbeat_s):
                    await waiter
            except TimeoutError:
                yield None
            finally:
                self._waiters.discard(waiter)

    async def _after(self, scope: Scope, after: int) -> tuple[Sequence[EventRow], int]:
        """The next events, and the id through which nothing more is to be found."""
        recent = self._recent
        if recent and recent[-1].id <= after:
            return (), after
        if recent and recent[0].id <= after + 1:
            missing = recent[-1].id - after
            found = [recent[index] for index in range(len(recent) - missing, len(recent))]
            return found, recent[-1].id

        async def load(tx: Tx) -> tuple[list[EventRow], int]:
            newest = await events.newest(tx)
            rows = await events.since(tx, after, _PAGE)
            last = rows[-1].id if rows else after
            return rows, last if len(rows) == _PAGE else max(last, newest)

        return await self._store.read(scope, load)

    def _heard(self, rows: Sequence[EventRow]) -> None:
        self._recent.extend(rows)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
