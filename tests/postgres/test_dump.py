"""The procedure of docs/guides/operating.md with the real tools: dump under load, restore into a new
database, check, go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.control.books import audit
from tests.control.documents import intent
from tests.control.engines import POSTGRES
from tests.control.worlds import World
from tests.postgres.clusters import (
    Clients,
    OwnDatabase,
    furnished,
    one_leads,
    running,
    the_scheduler_goes_on,
)
from tests.postgres.server import drop_database, new_database, shared_server
from tools.postgres_server import run

pytestmark = pytest.mark.skipif(not POSTGRES, reason="dumps are PostgreSQL's: `make test-pg`")

CHECKS = (
    "SELECT currency FROM entries GROUP BY currency HAVING SUM(micros) <> 0",
    "SELECT value FROM counters WHERE name = 'event' AND value <> (SELECT COUNT(*) FROM events)",
    "SELECT value FROM counters WHERE name = 'event' AND value <> (SELECT MAX(id) FROM events)",
    "SELECT value FROM counters WHERE name = 'catalog' AND value <> (SELECT MAX(revision) FROM revisions)",
)
"""As the guide says them: each finds nothing where all is well."""


def tool(name: str, database: str, *args: str) -> None:
    where = ("-h", "127.0.0.1", "-p", str(shared_server().port), "-U", "windlass", "-d", database)
    run(name, *where, *args)


def test_a_dump_taken_under_load_holds_what_was_acknowledged_before_and_goes_on_elsewhere(
    place: Path,
) -> None:
    place.chmod(0o777)
    file = place / "windlass.dump"
    old, new = new_database(), new_database()

    async def story() -> None:
        world = await furnished(shared_server().url(old))
        async with running(world):
            await one_leads(world)
            clients = Clients((world,))
            await clients.answered(50)
            before = dict(clients.acknowledged)
            await asyncio.to_thread(tool, "pg_dump", old, "--format=custom", f"--file={file}")
            await clients.done()
        assert len(clients.acknowledged) > len(before), "it was under load"
        await world.close()
        tool("pg_restore", new, "--no-owner", "--exit-on-error", str(file))
        await restored(world, before, clients)

    async def restored(former: World, before: dict[str, bytes], clients: Clients) -> None:
        world = World(
            OwnDatabase(shared_server().url(new)),
            clock=former.clock,
            keys=former.keys,
            site=former.site,  # it still has what was placed after the dump
            replica="third",
            _counter=former._counter,
        )
        await world.open()
        stored = {row["path"] for row in world.rows("SELECT path FROM workloads")}
        assert set(before) <= stored
        for check in CHECKS:
            assert not world.rows(check), check
        since = world.clock()
        async with running(world):
            for path, body in clients.acknowledged.items():
                again = await world.apply(intent(path, 1), by="acme", idempotency_key=path)
                assert again.status == 200, again.body
                assert path not in before or again.body == body
            await one_leads(world)  # the lease in the dump is somebody's who is gone: it runs out
            await the_scheduler_goes_on(world, since)
        for check in CHECKS:
            assert not world.rows(check), check
        paths = [row["path"] for row in world.rows("SELECT path FROM workloads")]
        assert sorted(paths) == sorted(clients.acknowledged)
        await audit(world)
        await world.close()

    try:
        asyncio.run(story())
    finally:
        for name in (old, new):
            drop_database(name)
