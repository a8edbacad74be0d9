"""Replicas are upgraded one after the other: the next release's schema comes while this one's run."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import pytest
from tests.control.books import audit
from tests.control.documents import intent
from tests.control.engines import POSTGRES, PostgresDatabase, SqliteDatabase
from tests.control.worlds import World, play

from windlass.control.db.migrations import migrate, steps
from windlass.control.db.pg_migrations import migrate_postgres
from windlass.control.db.sqlite import connect as connect_sqlite
from windlass.core.errors import Unavailable

HERE = len(steps())
TABLES = re.findall(r"CREATE TABLE (\w+)", "".join(steps()))
ADDS = (
    "".join(f"ALTER TABLE {table} ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm';" for table in TABLES)  # noqa: S608
    + " CREATE TABLE of_the_next (name TEXT PRIMARY KEY, value BIGINT NOT NULL) /* clustered */;"
    " INSERT INTO of_the_next (name, value) VALUES ('times', 1);"
)
NEXT = [*steps(), f"-- serves: {HERE}\n{ADDS}"]
"""The next release: it adds, and this one can run on the result."""
AFTER = [*NEXT, f"-- serves: {HERE + 1}\nALTER TABLE of_the_next ADD COLUMN more BIGINT NOT NULL DEFAULT 0;"]
"""The one after it, on which this one cannot."""


async def upgrade(world: World, known: list[str]) -> None:
    """As a replica of another release does when it starts."""
    if isinstance(world.database, PostgresDatabase):
        from windlass.control.db.pg_connections import connect

        connection = await connect(world.database.url)
        try:
            await migrate_postgres(connection, known)
        finally:
            connection.terminate()
        return
    assert isinstance(world.database, SqliteDatabase)
    file = connect_sqlite(world.database.path)
    try:
        migrate(file, known)
    finally:
        file.close()


def schema(world: World) -> tuple[int, int]:
    (row,) = world.rows("SELECT version, serves FROM schema_version")
    return row["version"], row["serves"]


def test_what_runs_goes_on_when_the_next_release_brings_its_schema(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        done: list[str] = []

        async def client(number: int) -> None:
            for turn in range(10):
                path = f"nlp/prod/c{number}-{turn}"
                reply = await world.apply(intent(path, 1), idempotency_key=path)
                assert reply.status == 200, reply.body
                done.append(path)

        async def reader() -> None:
            while len(done) < 40:
                for path in ("/v1/components", "/v1/decisions", "/v1/events?last=5", "/v1/keys", "/v1/usage"):
                    reply = await world.call("GET", path)
                    assert reply.status == 200, reply.body
                    await asyncio.sleep(0)

        async with asyncio.TaskGroup() as everybody:
            for number in range(4):
                everybody.create_task(client(number))
                everybody.create_task(reader())
            while len(done) < 8:
                await asyncio.sleep(0)
            await upgrade(world, NEXT)
        await world.settle()
        assert schema(world) == (HERE + 1, HERE)
        assert len(world.rows("SELECT id FROM workloads WHERE mood = 'calm'")) == len(done) == 40
        assert world.rows("SELECT id FROM workloads WHERE phase = 'Running'")
        await audit(world)

    play(tmp_path, story)


def test_a_replica_of_this_release_that_starts_afterwards_works_and_takes_nothing_back(
    tmp_path: Path,
) -> None:
    async def story(world: World) -> None:
        await upgrade(world, NEXT)
        await world.restart()
        assert schema(world) == (HERE + 1, HERE)
        assert (await world.apply(intent("nlp/prod/job", 1))).status == 200
        await world.settle()
        assert world.phase("nlp/prod/job") == "Running"

    play(tmp_path, story)


def test_one_the_schema_does_not_serve_any_more_refuses_and_touches_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await upgrade(world, AFTER)
        before = world.dump()
        await world.close()
        with pytest.raises(Unavailable, match=f"know at least {HERE + 1}; this one knows {HERE}") as refused:
            await world.open()
        assert "newer release" in refused.value.remedy
        assert world.dump() == before
        await upgrade(world, AFTER)
        assert world.dump() == before, "and for the newer one nothing is left to do"
        if POSTGRES:
            world.rows("UPDATE schema_version SET serves = 1")  # so that the story can end
        else:
            file = connect_sqlite(tmp_path / "windlass.db")
            file.execute("UPDATE schema_version SET serves = 1")
            file.close()
        await world.open()

    play(tmp_path, story)


def test_of_several_that_upgrade_at_once_one_does_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        if POSTGRES:
            await asyncio.gather(*(upgrade(world, NEXT) for _ in range(6)))
        else:
            threads = [threading.Thread(target=asyncio.run, args=(upgrade(world, NEXT),)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                await asyncio.to_thread(thread.join)
        assert schema(world) == (HERE + 1, HERE)
        assert [row["value"] for row in world.rows("SELECT value FROM of_the_next")] == [1]

    play(tmp_path, story)
