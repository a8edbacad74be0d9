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
_GATHER_S = 0.1
"""Watchers are woken so often at most: where much happens, each is told several events in one go, and a
thousand of them cost a fraction. The first event after a pause is told at once."""


class EventFeed:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: deque[EventRow] = deque(maxlen=_RECENT)
        self._waiters: set[asyncio.Future[None]] = set()
        self._told: dict[tuple[int, str | None], tuple[EventRow, ...]] = {}
        """What is new after an id to a tenant, until there is more: most watchers ask for the same."""
        self._waking: asyncio.TimerHandle | None = None
        self._woken = 0.0  # when, by the loop's clock
        store.listen(self._heard)

    async def watch(
        self, scope: Scope, after: int, *, heartbeat_s: float = 15.0
    ) -> AsyncGenerator[Sequence[EventRow], None]:
        """Every event after `after` that the scope covers, for ever, some at a time. None at all is a
        heartbeat."""
        while True:
            batch, through = await self._after(scope, after)
            if batch:
                yield batch
            # Also past what was not for this scope: else a quiet tenant's watcher would read all of it
            # again at every wake-up.
            after = max(after, through)
            # Heard while the store was asked: nobody will say it again.
            if batch or (self._recent and self._recent[-1].id > after):
                continue
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                async with asyncio.timeout(heartbeat_s):
                    await waiter
            except TimeoutError:
                yield ()
            finally:
                self._waiters.discard(waiter)

    async def _after(self, scope: Scope, after: int) -> tuple[Sequence[EventRow], int]:
        """The next events that the scope covers, and the id through which nothing more is to be found."""
        recent = self._recent
        if recent and recent[-1].id <= after:
            return (), after
        if recent and recent[0].id <= after + 1:
            found = self._told.get((after, scope.tenant))
            if found is None:
                # From the right: there the places of a long deque are quickly found.
                fresh = (recent[place] for place in range(after - recent[-1].id, 0))
                found = tuple(event for event in fresh if scope.covers(event.tenant))
                self._told[after, scope.tenant] = found
            return found, recent[-1].id

        heard = recent[-1].id if recent else 0

        async def load(tx: Tx) -> tuple[list[EventRow], int]:
            newest = max(heard, await events.newest(tx))
            rows = await events.since(tx, after, _PAGE)
            last = rows[-1].id if rows else after
            return rows, last if len(rows) == _PAGE else max(last, newest)

        return await self._store.read(scope, load)

    def _heard(self, rows: Sequence[EventRow]) -> None:
        self._recent.extend(rows)
        self._told.clear()
        if self._waking is None:
            loop = asyncio.get_running_loop()
            self._waking = loop.call_at(max(loop.time(), self._woken + _GATHER_S), self._wake)

    def _wake(self) -> None:
        self._waking, self._woken = None, asyncio.get_running_loop().time()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
