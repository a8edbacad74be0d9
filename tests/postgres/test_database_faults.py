"""The database goes away, comes back, answers late or not at all, has no room: the store says what it
knows, does nothing twice, and goes on by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.control.documents import intent
from tests.control.engines import POSTGRES
from tests.control.test_store_faults import mounted
from tests.control.worlds import Reply, World, make_key
from tests.postgres.clusters import (
    Clients,
    Heard,
    eventually,
    furnished,
    nothing_lost_nothing_twice,
    one_leads,
    running,
    the_scheduler_goes_on,
)
from tests.postgres.proxies import Cut, Proxy, proxied
from tests.postgres.server import drop_database, new_database, shared_server
from tools.postgres_server import FAST, PostgresServer, Session

from windlass.control.db import pg_connections, pg_tail, port
from windlass.control.db.port import Tx
from windlass.control.db.postgres import PostgresStore, WentBack
from windlass.control.identity.scopes import system_scope
from windlass.core.errors import Unavailable

pytestmark = pytest.mark.skipif(not POSTGRES, reason="faults of PostgreSQL: `make test-pg`")

SCOPE = system_scope("test")
JOB = "nlp/prod/job"


@pytest.fixture
def server(place: Path) -> Iterator[PostgresServer]:
    """One that the test may stop."""
    own = PostgresServer(place / "server")
    own.create()
    own.start()
    yield own
    own.stop("immediate")


@pytest.fixture
def database() -> Iterator[str]:
    name = new_database()
    yield name
    drop_database(name)


@asynccontextmanager
async def through_a_proxy(database: str) -> AsyncIterator[tuple[Proxy, World]]:
    async with proxied(shared_server().port) as proxy:
        direct = shared_server().url(database)
        world = await furnished(direct.replace(f":{shared_server().port}/", f":{proxy.port}/"), direct)
        try:
            yield proxy, world
        finally:
            proxy.open.set()
            await world.close()


def told(story: Callable[[Proxy, World], Awaitable[None]], database: str) -> None:
    async def main() -> None:
        async with through_a_proxy(database) as (proxy, world):
            await story(proxy, world)

    asyncio.run(main())


async def submit(world: World, path: str = JOB) -> Reply:
    return await world.apply(intent(path, 1), by="acme", idempotency_key=path)


# --- away and back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restarted_database_loses_nothing_and_everybody_goes_on(server: PostgresServer, mode: str) -> None:
    async def story() -> None:
        first = await furnished(server.url())
        second = await first.another("second")
        heard = Heard(first, second)
        async with running(first, second):
            await one_leads(first, second)
            clients = Clients((first, second))
            await clients.answered(60)
            await asyncio.to_thread(server.stop, mode)
            await asyncio.to_thread(server.start)
            back = first.clock()
            await clients.done()
            await one_leads(first, second)
            await the_scheduler_goes_on(first, back)
        await nothing_lost_nothing_twice(first, clients)
        await heard.everything_once_in_order()
        for world in (first, second):
            await world.close()

    asyncio.run(story())


def test_connections_that_died_while_idle_cost_no_request(database: str) -> None:
    async def story(proxy: Proxy, world: World) -> None:
        assert (await submit(world)).status == 200
        proxy.cut_all()
        assert (await submit(world, "nlp/prod/next")).status == 200
        proxy.cut_all()
        assert (await world.call("GET", "/v1/queue")).status == 200

    told(story, database)


# --- cut in the middle of COMMIT --------------------------------------------------------------------


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_commit_whose_answer_got_lost_is_said_to_be_uncertain_and_happens_once(
    database: str, how: Cut
) -> None:
    async def story(proxy: Proxy, world: World) -> None:
        heard = Heard(world)
        proxy.cut = how
        reply = await submit(world)
        assert reply.status == 503 and "may or may not" in reply.json["detail"], reply.body
        assert proxy.cuts == 1
        again = await submit(world)
        assert again.status == 200, again.body
        assert (await submit(world)).body == again.body
        assert len(world.rows("SELECT id FROM workloads")) == 1
        assert len(world.rows("SELECT id FROM decisions")) == 1
        await heard.everything_once_in_order()

    told(story, database)


def test_under_load_commits_that_are_cut_off_lose_nothing_and_repeat_nothing(database: str) -> None:
    async def story(proxy: Proxy, world: World) -> None:
        heard = Heard(world)
        clients = Clients((world,), each=8)
        ways: tuple[Cut, ...] = ("before", "after") * 4
        for number, how in enumerate(ways, start=1):
            proxy.cut = how
            await eventually(partial(_cut_so_often, proxy, number, clients))
        await clients.done()
        assert proxy.cuts >= 4 and clients.refusals
        await nothing_lost_nothing_twice(world, clients)
        await heard.everything_once_in_order()

    told(story, database)


def _cut_so_often(proxy: Proxy, number: int, clients: Clients) -> bool:
    return proxy.cuts >= number or clients.over


# --- late, or not at all ----------------------------------------------------------------------------


def test_a_slow_network_makes_it_slow_and_nothing_else(database: str) -> None:
    async def story(proxy: Proxy, world: World) -> None:
        store = world.plane.store
        assert isinstance(store, PostgresStore)
        before = store._offset_ms
        proxy.delay_s = 0.03
        heard = Heard(world)
        clients = Clients((world,), count=8, each=1)
        await clients.done()
        assert not clients.refusals
        proxy.delay_s = 0.0
        await nothing_lost_nothing_twice(world, clients)
        await heard.everything_once_in_order()
        assert abs(store._offset_ms - before) < 30, "late answers do not move the clock"

    told(story, database)


def test_a_network_that_swallows_everything_is_given_up_and_found_again(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(proxy: Proxy, world: World) -> None:
        monkeypatch.setattr(pg_connections, "ANSWER_S", 0.5)
        monkeypatch.setattr(pg_connections, "CONNECT_S", 0.5)
        await world.restart()
        proxy.open.clear()
        reply = await submit(world)
        assert reply.status == 503 and "cannot be reached" in reply.json["detail"], reply.body
        assert (await world.call("GET", "/v1/queue")).status in (200, 503)
        proxy.open.set()
        proxy.cut_all()

        async def answered() -> bool:
            return (await submit(world)).status == 200

        await eventually(answered)
        assert len(world.rows("SELECT id FROM workloads")) == 1

    told(story, database)


def test_a_replica_that_is_cut_off_says_so_and_lets_nobody_in_until_it_hears_again(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(proxy: Proxy, world: World) -> None:
        monkeypatch.setattr(port, "SILENT_S", 0.2)
        monkeypatch.setattr(pg_connections, "CONNECT_S", 0.2)
        monkeypatch.setattr(pg_tail, "_PERIOD_S", 0.05)
        await world.restart()
        key = await make_key(world, "guest", "viewer", "acme")
        assert not await cut_off(world)
        proxy.open.clear()
        assert (await submit(world)).status == 503, "and nobody waits for longer than it takes to know"
        await eventually(partial(cut_off, world))
        elsewhere = Session(shared_server().url(database))
        elsewhere.rows("UPDATE api_keys SET revoked_ms = 1 WHERE id = $1", key)
        elsewhere.close()
        reply = await world.call("GET", "/v1/queue", by="guest")
        assert reply.status == 503 and "has not answered" in reply.json["detail"], reply.body
        proxy.open.set()
        proxy.cut_all()

        async def hears() -> bool:
            return not await cut_off(world)

        await eventually(hears)
        assert (await submit(world)).status == 200

    async def cut_off(world: World) -> bool:
        reply = await world.call("GET", "/readyz")
        return reply.status == 503 and "cut off" in reply.json["status"]

    told(story, database)


_FREEZES = """
import asyncio, os, signal, sys
from windlass.control.db.postgres import open_postgres
from windlass.control.identity.scopes import system_scope
from windlass.core.errors import Unavailable

async def unit(tx):
    await tx.execute("UPDATE counters SET value = value + 1 WHERE name = 'event'")
    print("has the turn", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    await tx.row("SELECT 1 AS one")

async def main():
    store = await open_postgres(sys.argv[1])
    try:
        await store.unit(system_scope("test"), unit)
    except Unavailable as error:
        print(error.detail, flush=True)
    await store.close()

asyncio.run(main())
"""


def test_a_replica_frozen_in_its_turn_loses_it_and_the_others_go_on(database: str) -> None:
    async def story(proxy: Proxy, world: World) -> None:
        frozen = subprocess.Popen(
            [sys.executable, "-c", _FREEZES, shared_server().url(database)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert frozen.stdout is not None
            assert await asyncio.to_thread(frozen.stdout.readline) == "has the turn\n"
            before = world.newest_event()
            assert (await submit(world)).status == 200
            os.kill(frozen.pid, signal.SIGCONT)
            assert "nothing was changed" in await asyncio.to_thread(frozen.stdout.readline)
            assert await asyncio.to_thread(frozen.wait) == 0
            numbers = [row["id"] for row in world.rows("SELECT id FROM events WHERE id > ?", before)]
            assert numbers and sorted(numbers) == list(range(before + 1, world.newest_event() + 1))
        finally:
            frozen.kill()
            frozen.wait()
            if frozen.stdout is not None:
                frozen.stdout.close()

    told(story, database)


# --- another past ---------------------------------------------------------------------------------


def test_a_database_that_went_back_and_then_on_is_told_from_the_one_that_was_there(database: str) -> None:
    async def story(proxy: Proxy, world: World) -> None:
        assert (await submit(world)).status == 200
        store = world.plane.store
        assert isinstance(store, PostgresStore)
        elsewhere = Session(shared_server().url(database))
        elsewhere.rows("UPDATE events SET at_ms = at_ms + 1 WHERE id = (SELECT MAX(id) FROM events)")
        elsewhere.close()
        proxy.cut_all()
        reply = await submit(world, "nlp/prod/next")
        assert reply.status == 503 and "went back in time" in reply.json["detail"], reply.body
        with pytest.raises(WentBack):
            await store.follow_until_it_goes_back()
        await world.restart()
        assert (await submit(world, "nlp/prod/next")).status == 200

    told(story, database)


# --- no room ----------------------------------------------------------------------------------------


def test_a_full_disk_of_the_database_refuses_loses_nothing_and_goes_on(place: Path) -> None:
    for disk in mounted(place / "disk", "-t", "tmpfs", "-o", "size=160m,mode=755", "tmpfs"):
        limits = {"max_wal_size": "'32MB'", "min_wal_size": "'32MB'", "shared_buffers": "'8MB'"}
        server = PostgresServer(disk / "server", {**FAST, **limits})
        server.create()
        server.start()
        try:
            asyncio.run(_fill_and_free(server, disk / "ballast"))
        finally:
            server.stop("immediate")


async def _fill_and_free(server: PostgresServer, ballast: Path) -> None:
    world = await furnished(server.url())
    free = os.statvfs(ballast.parent)
    ballast.write_bytes(bytes(free.f_bavail * free.f_bsize - 1_000_000))
    accepted: list[str] = []
    refused: list[Reply] = []
    for number in range(200):
        path = f"nlp/prod/big-{number}"
        content = os.urandom(15_000).hex()  # it must not be squeezed into nothing
        reply = await world.apply(intent(path, 1, variables={"FILL": content}), idempotency_key=path)
        if reply.status == 200:
            accepted.append(path)
        else:
            refused.append(reply)
        if len(refused) > 3:
            break
    assert refused and {reply.status for reply in refused} == {503}
    assert "full" in refused[0].json["detail"] or "may or may not" in refused[0].json["detail"]
    ballast.unlink()
    if not server.answers():  # a log that could not be written ends the server; data that could not does not
        server.start()

    async def answered() -> bool:
        return (await submit(world)).status == 200

    await eventually(answered)
    stored = {row["path"] for row in world.rows("SELECT path FROM workloads")}
    assert set(accepted) <= stored
    await world.close()


def test_what_the_server_refuses_is_unavailable_and_not_a_bug(database: str) -> None:
    async def story(proxy: Proxy, world: World) -> None:
        async def waits_too_long(tx: Tx) -> None:
            await tx.row("SELECT set_config('statement_timeout', '50ms', true) AS limit_ms")
            await tx.row("SELECT pg_sleep(10) AS waited")

        with pytest.raises(Unavailable, match="too busy"):
            await world.plane.store.unit(SCOPE, waits_too_long)
        assert (await submit(world)).status == 200

    told(story, database)
