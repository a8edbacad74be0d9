"""Servers of a test's own, which it may kill; replicas on them whose loops run by themselves; clients
that say everything until they are answered."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from tests.control.books import audit
from tests.control.documents import CATALOG, intent
from tests.control.engines import PG_TABLES
from tests.control.worlds import FakeClock, World, make_key
from tools.postgres_server import Session

from windlass.control.app import start
from windlass.control.db.port import EventRow, Store
from windlass.control.db.postgres import open_postgres
from windlass.core.units import Ms
from windlass.runtime.clock import system_clock

PATIENCE_S = 60


class RealClock(FakeClock):
    """Leases go by the database's clock, so everybody here does."""

    def __call__(self) -> Ms:
        return system_clock()


class OwnDatabase:
    """A database at an address, whoever serves it at the moment. `seen_at`: where a test looks at it, if
    not through what it disturbs."""

    def __init__(self, url: str, seen_at: str = "") -> None:
        self.url = url
        self._seen_at = seen_at or url

    async def open(self) -> Store:
        return await open_postgres(self.url)

    def rows(self, statement: str, *args: object) -> Sequence[Any]:
        numbers = iter(range(1, 100))
        session = Session(f"{self._seen_at}?target_session_attrs=read-write")
        try:
            return session.rows(re.sub(r"\?", lambda _: f"${next(numbers)}", statement), *args)
        finally:
            session.close()

    def tables(self) -> list[str]:
        return [row["tablename"] for row in self.rows(PG_TABLES)]

    def close(self) -> None:
        """Every look has a session of its own."""


async def furnished(url: str, seen_at: str = "") -> World:
    """The first replica at an address, with the catalog and keys."""
    world = World(OwnDatabase(url, seen_at), clock=RealClock(), replica="first")
    await world.open()
    world.keys["admin"] = (await world.plane.keyring.bootstrap("root", "platform-admin")).secret
    assert (await world.apply(CATALOG)).status == 200
    await make_key(world, "acme", "developer", "acme")
    return world


@asynccontextmanager
async def running(*worlds: World) -> AsyncIterator[None]:
    """Every loop of every replica, and the site's agent."""
    tasks = [task for world in worlds for task in start(world.plane)]
    tasks.append(asyncio.create_task(worlds[0].agent.run(), name="agent"))
    try:
        yield
        ended = [task for task in tasks if task.done()]
        assert not ended, [(task.get_name(), task.exception()) for task in ended]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Clients:
    """Each submits one thing after the other, with a key, again and again until it is answered."""

    def __init__(self, worlds: Sequence[World], count: int = 16, each: int = 12) -> None:
        self._worlds = worlds
        self.acknowledged: dict[str, bytes] = {}
        self.refusals: Counter[str] = Counter()
        self._tasks = [asyncio.create_task(self._one(number, each)) for number in range(count)]

    async def _one(self, number: int, each: int) -> None:
        for turn in range(each):
            path = f"nlp/prod/c{number}-{turn}"
            for tried in range(2_000):
                world = self._worlds[(number + turn + tried) % len(self._worlds)]
                reply = await world.apply(intent(path, 1), by="acme", idempotency_key=path)
                if reply.status == 200:
                    self.acknowledged[path] = reply.body
                    break
                assert reply.status == 503, reply.body
                self.refusals[reply.json["detail"]] += 1
                await asyncio.sleep(0.05)
            else:
                raise AssertionError(f"{path} was never answered: {self.refusals}")

    @property
    def over(self) -> bool:
        return all(task.done() for task in self._tasks)

    async def answered(self, count: int) -> None:
        await eventually(lambda: len(self.acknowledged) >= count or self.over)

    async def done(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*self._tasks)


class Heard:
    """What the listeners of each replica were told."""

    def __init__(self, *worlds: World) -> None:
        self._worlds = worlds
        self._since = worlds[0].newest_event()
        self._told: list[list[int]] = [[] for _ in worlds]
        for world, told in zip(worlds, self._told, strict=True):
            world.plane.store.listen(partial(_note, told))

    async def everything_once_in_order(self) -> None:
        newest = self._worlds[0].newest_event()
        await eventually(lambda: all(told and told[-1] >= newest for told in self._told))
        for told in self._told:
            assert told == list(range(self._since + 1, told[-1] + 1))


def _note(told: list[int], rows: Sequence[EventRow]) -> None:
    told.extend(row.id for row in rows)


async def nothing_lost_nothing_twice(world: World, clients: Clients) -> None:
    stored = Counter(row["path"] for row in world.rows("SELECT path FROM workloads"))
    assert stored == Counter(clients.acknowledged.keys()), "each once"
    decided = Counter(row["component"] for row in world.rows("SELECT component FROM decisions"))
    assert set(decided.values()) == {1}
    for path, body in clients.acknowledged.items():
        again = await world.apply(intent(path, 1), by="acme", idempotency_key=path)
        assert (again.status, again.body) == (200, body)
    numbers = [row["id"] for row in world.rows("SELECT id FROM events ORDER BY id")]
    assert numbers == list(range(1, len(numbers) + 1)), "no holes"
    await audit(world)


async def one_leads(*worlds: World) -> World:
    await eventually(lambda: sum(world.plane.leadership.leads for world in worlds) == 1)
    return next(world for world in worlds if world.plane.leadership.leads)


async def the_scheduler_goes_on(world: World, after: Ms) -> None:
    """What runs ends, and something else is placed and runs."""

    async def placed() -> bool:
        for row in world.rows("SELECT id, attempt FROM workloads WHERE phase = 'Running'"):
            world.site.now_ms = world.clock()
            world.site.finish(row["id"], row["attempt"], 0, 0)
        return bool(
            world.rows("SELECT id FROM workloads WHERE phase = 'Running' AND admitted_ms > ?", int(after))
        )

    await eventually(placed)


async def eventually(look: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = look()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.02)
