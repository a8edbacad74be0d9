"""What happens to the store when its disk, its folder or its schema is not what it should be: it says
so, loses nothing that it acknowledged, and goes on by itself once the trouble is over."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.control.documents import intent
from tests.control.engines import on_sqlite_only
from tests.control.worlds import Reply, World, play, url

from windlass.control.db.migrations import migrate, steps
from windlass.control.db.port import Tx
from windlass.control.db.sqlite import SqliteStore, connect
from windlass.control.identity.scopes import system_scope
from windlass.core.errors import Unavailable
from windlass.platform import lock_data

ADMIN = system_scope("test")

pytestmark = on_sqlite_only


def schema(path: Path) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
    connection.close()
    return found


# --- migrations -------------------------------------------------------------------------------


def test_migrating_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    schemas = []
    for _ in range(2):
        connection = connect(path)
        migrate(connection)
        connection.close()
        schemas.append(schema(path))
    assert schemas[0] == schemas[1] and len(schemas[0]) > 10


def test_a_database_of_a_newer_release_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    connection = connect(path)
    migrate(connection)
    connection.execute("UPDATE schema_version SET version = 99, serves = 99")
    connection.execute("CREATE TABLE from_the_future (x BIGINT)")
    connection.close()
    before = schema(path)
    with pytest.raises(Unavailable, match="schema 99") as refused:
        SqliteStore(path)
    assert "newer release" in refused.value.remedy
    assert schema(path) == before


def test_what_is_no_database_is_left_as_it_is_and_a_backup_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    path.write_bytes(b"once upon a time " * 500)
    with pytest.raises(Unavailable, match="is damaged") as refused:
        SqliteStore(path)
    assert "windlass restore" in refused.value.remedy
    assert path.read_bytes() == b"once upon a time " * 500


def test_a_step_that_fails_halfway_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    connection = connect(path)
    migrate(connection)
    before = schema(path)
    broken = "-- serves: 1\nCREATE TABLE half_done (x BIGINT); CREATE TABLE half_done (x BIGINT);"
    with pytest.raises(sqlite3.OperationalError, match="half_done"):
        migrate(connection, [*steps(), broken])
    assert schema(path) == before
    migrate(connection)
    connection.close()


def test_a_release_runs_on_the_next_schema_if_that_still_serves_it(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    connection = connect(path)
    here = len(steps())
    migrate(connection, [*steps(), f"-- serves: {here}\nCREATE TABLE of_the_next (x BIGINT);"])
    before = schema(path)
    migrate(connection)
    assert schema(path) == before, "it works on it, and takes nothing back"
    connection.close()


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "windlass.db").write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(Unavailable, match="not a database"):
        SqliteStore(tmp_path / "windlass.db")


# --- a full disk ------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one and a half megabytes."""
    yield from mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1536k", "tmpfs")


def mounted(folder: Path, *mount: str) -> Iterator[Path]:
    folder.mkdir()
    made = subprocess.run(["mount", *mount, str(folder)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this machine lets us mount nothing: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_refuses_loses_nothing_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"

    async def story(world: World) -> None:
        free = os.statvfs(small_disk)
        ballast.write_bytes(bytes(free.f_bavail * free.f_bsize))
        accepted: list[tuple[str, Reply]] = []
        refusals: list[tuple[str, Reply]] = []
        for number in range(60):
            path = f"nlp/dev/job-{number}"
            reply = await world.apply(intent(path, variables={"FILL": "x" * 20_000}), by="acme")
            (accepted if reply.status == 200 else refusals).append((path, reply))
        assert {reply.json["code"] for _, reply in refusals} == {"unavailable"}
        assert "full" in refusals[0][1].json["detail"] and refusals[0][1].headers["retry-after"]
        ballast.unlink()
        for path, _ in accepted:
            assert (await world.call("GET", url(path), by="acme")).status == 200
        for path, _ in refusals:
            assert (await world.call("GET", url(path), by="acme")).status == 404
        again = await world.apply(intent(refusals[0][0]), by="acme")
        assert again.status == 200
        await world.settle()

    play(small_disk, story)


def test_a_limit_of_the_database_fails_one_batch_and_not_the_next(tmp_path: Path) -> None:
    """The same without a disk of its own: the file may not grow, then it may."""

    async def story(world: World) -> None:
        assert isinstance(world.plane.store, SqliteStore)
        writer = world.plane.store._writer
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages}")
        before = world.dump()
        big = intent("nlp/dev/big", variables={"FILL": "x" * 60_000})
        replies = await asyncio.gather(*(world.apply(big, by="acme") for _ in range(3)))
        assert {reply.status for reply in replies} == {503}
        assert world.dump() == before
        writer.execute("PRAGMA max_page_count = 1000000")
        assert (await world.apply(big, by="acme")).status == 200

    play(tmp_path, story)


# --- folders ----------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_said_to_be_so(tmp_path: Path) -> None:
    for folder in mounted(tmp_path / "data", "-t", "tmpfs", "-o", "size=64k,ro", "tmpfs"):
        with pytest.raises(Unavailable, match="cannot be used: Read-only file system") as refused:
            lock_data(folder)
        assert "--data" in refused.value.remedy


def test_a_database_that_cannot_be_written_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "windlass.db").mkdir()
    with pytest.raises(Unavailable, match="unable to open"):
        SqliteStore(tmp_path / "windlass.db")


def test_a_second_platform_on_one_folder_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    held = lock_data(tmp_path)
    try:
        with pytest.raises(Unavailable, match=f"another platform .*process {os.getpid()}") as refused:
            lock_data(tmp_path)
        assert "--data" in refused.value.remedy
    finally:
        os.close(held)
    os.close(lock_data(tmp_path))


def test_a_read_that_the_disk_refuses_is_unavailable_and_not_a_bug(tmp_path: Path) -> None:
    async def told() -> None:
        store = SqliteStore(tmp_path / "windlass.db")

        async def broken(tx: Tx) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        with pytest.raises(Unavailable, match="disk I/O error"):
            await store.read(ADMIN, broken)
        await store.close()

    asyncio.run(told())
