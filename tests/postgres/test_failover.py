"""The primary dies and its synchronous standby takes over: what was acknowledged is there, nothing
happens twice, everybody hears of everything, work goes on."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.control.documents import intent
from tests.control.engines import POSTGRES
from tests.control.worlds import World
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
from tests.postgres.pairs import Pair, started_pair
from tools.postgres_server import Session

from windlass.control.db import pg_connections
from windlass.control.db.pg_connections import connect
from windlass.control.db.postgres import PostgresStore, open_postgres
from windlass.core.errors import Unavailable

pytestmark = pytest.mark.skipif(not POSTGRES, reason="failover needs PostgreSQL: `make test-pg`")


@pytest.fixture
def pair(place: Path) -> Iterator[Pair]:
    made = started_pair(place)
    try:
        yield made
    finally:
        made.stop()


async def two_replicas(url: str) -> tuple[World, World]:
    first = await furnished(url)
    return first, await first.another("second")


def test_a_killed_primary_loses_nothing_and_stops_nobody_for_good(pair: Pair) -> None:
    async def story() -> None:
        first, second = await two_replicas(pair.url)
        pair.wait_for_each_other()
        heard = Heard(first, second)
        async with running(first, second):
            await one_leads(first, second)
            clients = Clients((first, second))
            await clients.answered(random.randrange(30, 120))
            pair.primary.kill()
            await asyncio.to_thread(pair.standby.promote)
            promoted = first.clock()
            await clients.done()
            assert len(clients.acknowledged) == 16 * 12
            await one_leads(first, second)
            await the_scheduler_goes_on(first, promoted)
        await nothing_lost_nothing_twice(first, clients)
        await heard.everything_once_in_order()
        for world in (first, second):
            await world.close()

    asyncio.run(story())


def test_a_commit_its_standby_has_not_seen_is_not_acknowledged(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        world = await furnished(pair.url)
        pair.wait_for_each_other()
        monkeypatch.setattr(pg_connections, "ANSWER_S", 1.0)
        await world.restart()
        await asyncio.to_thread(pair.standby.stop, "immediate")
        path = "nlp/prod/alone"
        reply = await world.apply(intent(path, 1), by="acme", idempotency_key=path)
        assert reply.status == 503 and "may or may not" in reply.json["detail"], reply.body
        assert "Idempotency-Key" in reply.json["remedy"]
        again = await world.apply(intent(path, 1), by="acme", idempotency_key=path)
        assert again.status == 503, "nor is it to whoever asks again"
        session = Session(pair.primary.url())
        assert not session.rows("SELECT id FROM workloads"), "nobody sees it before both have it"
        session.close()
        await asyncio.to_thread(pair.standby.start)

        async def answered() -> bool:
            return (await world.apply(intent(path, 1), by="acme", idempotency_key=path)).status == 200

        await eventually(answered)
        assert len(world.rows("SELECT id FROM workloads")) == 1
        await world.close()

    asyncio.run(story())


def test_a_replica_that_starts_before_the_promotion_waits_for_it(pair: Pair) -> None:
    async def story() -> None:
        await (await open_postgres(pair.url)).close()
        await asyncio.to_thread(pair.primary.stop, "immediate")
        with pytest.raises(Unavailable, match="not ready"):
            await connect(pair.url)
        opening = asyncio.create_task(open_postgres(pair.url))
        await asyncio.to_thread(pair.standby.promote)
        await (await opening).close()

    asyncio.run(story())


def test_a_replica_that_starts_while_the_database_recovers_waits_for_it(pair: Pair) -> None:
    async def story() -> None:
        url = pair.primary.url()
        world = await furnished(url)
        for number in range(50):
            await world.apply(intent(f"nlp/prod/j{number}", 1), by="acme")
        await world.close()
        pair.primary.kill()
        starting = asyncio.create_task(asyncio.to_thread(pair.primary.start))

        async def opened() -> bool:
            try:
                await (await open_postgres(url)).close()
            except Unavailable:  # nobody listens there yet
                return False
            return True

        await eventually(opened)
        await starting

    asyncio.run(story())


def test_a_host_that_vanished_without_a_word_does_not_keep_the_others_from_answering(pair: Pair) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        gone = f"127.0.0.1:{silent.getsockname()[1]}"
        url = pair.url.replace("@", f"@{gone},")

        async def story() -> None:
            store = await open_postgres(url)
            assert isinstance(store, PostgresStore)
            await store.close()

        asyncio.run(story())
