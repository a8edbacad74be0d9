"""Copies of the embedded database: taken under load they lose nothing that was acknowledged before,
putting one back destroys nothing, and what a site still runs from the time after is told apart."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.control.books import audit
from tests.control.documents import intent
from tests.control.engines import SqliteDatabase, on_sqlite_only
from tests.control.worlds import World, play, url

from windlass.control.db.backup import DATABASE
from windlass.control.db.migrations import steps
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable
from windlass.platform import back_up, lock_data, restore

pytestmark = on_sqlite_only

JOB = "nlp/prod/job"


def folder_of(world: World) -> Path:
    assert isinstance(world.database, SqliteDatabase)
    return world.database.path.parent


async def back_to(world: World, copy: Path) -> Path:
    """Stop, restore, start; where the former database is kept."""
    await world.close()
    _, kept = restore(folder_of(world), copy, force=True)
    await world.open()
    assert kept is not None
    return kept


def in_a_world(tmp_path: Path, story: Callable[[World, Path], Awaitable[None]]) -> None:
    (tmp_path / "data").mkdir()
    play(tmp_path / "data", lambda world: story(world, tmp_path / "copy.db"))


# --- the file ---------------------------------------------------------------------------------------


def test_a_backup_is_one_private_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    async def story(world: World, copy: Path) -> None:
        made = back_up(folder_of(world), copy, force=False)
        assert made.schema == len(steps()) and made.event == world.newest_event()
        assert copy.stat().st_mode & 0o777 == 0o600
        assert {path.name for path in tmp_path.iterdir()} == {"data", "copy.db"}
        with pytest.raises(Conflict, match="exists"):
            back_up(folder_of(world), copy, force=False)
        with pytest.raises(Invalid, match="database itself"):
            back_up(folder_of(world), folder_of(world) / DATABASE, force=True)
        back_up(folder_of(world), copy, force=True)

    in_a_world(tmp_path, story)


def test_a_backup_that_cannot_be_made_leaves_the_one_of_before(tmp_path: Path) -> None:
    (tmp_path / "old.db").write_bytes(b"yesterday's")
    with pytest.raises(NotFound, match="no database"):
        back_up(tmp_path, tmp_path / "old.db", force=True)
    (tmp_path / DATABASE).write_bytes(b"not a database, but as long as one could be" * 100)
    with pytest.raises(Invalid, match="no database of Windlass"):
        back_up(tmp_path, tmp_path / "old.db", force=True)
    assert (tmp_path / "old.db").read_bytes() == b"yesterday's"
    with pytest.raises(Unavailable, match="cannot be written"):
        back_up(tmp_path, tmp_path / "nowhere" / "new.db", force=False)
    assert {path.name for path in tmp_path.iterdir()} == {"old.db", DATABASE}


def damaged(copy: Path) -> None:
    content = bytearray(copy.read_bytes())
    for at in range(4096 * 3, len(content), 4096):
        content[at : at + 64] = bytes(range(1, 65))
    copy.write_bytes(content)


def newer(copy: Path) -> None:
    connection = sqlite3.connect(copy)
    connection.execute("UPDATE schema_version SET version = 99, serves = 99")
    connection.commit()
    connection.close()


def another(copy: Path) -> None:
    copy.unlink()
    connection = sqlite3.connect(copy)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (damaged, "damaged|no database of Windlass"),
        (newer, "schema 99"),
        (another, "no database of Windlass"),
        (lambda copy: copy.write_bytes(b""), "no database of Windlass"),
        (lambda copy: copy.write_bytes(b"x" * 5000), "no database of Windlass"),
    ],
)
def test_what_is_no_backup_for_this_release_is_refused_and_changes_nothing(
    tmp_path: Path, spoil: Callable[[Path], object], says: str
) -> None:
    async def story(world: World, copy: Path) -> None:
        back_up(folder_of(world), copy, force=False)
        spoil(copy)
        before = world.dump()
        await world.close()
        with pytest.raises((Invalid, Unavailable), match=says):
            restore(folder_of(world), copy, force=True)
        assert not [path for path in folder_of(world).iterdir() if "restore" in path.name]
        await world.open()
        assert world.dump() == before

    in_a_world(tmp_path, story)


def test_a_restore_needs_the_folder_for_itself_and_a_word_to_replace_what_is_there(tmp_path: Path) -> None:
    async def story(world: World, copy: Path) -> None:
        data = folder_of(world)
        back_up(data, copy, force=False)
        held = lock_data(data)
        with pytest.raises(Unavailable, match="another platform"):
            restore(data, copy, force=True)
        os.close(held)
        with pytest.raises(Conflict, match="has a database"):
            restore(data, copy, force=False)
        with pytest.raises(NotFound, match="no file"):
            restore(data, copy.with_name("other.db"), force=True)
        found, kept = restore(tmp_path / "elsewhere", copy, force=False)
        assert kept is None and found.event == world.newest_event()
        assert (tmp_path / "elsewhere" / DATABASE).stat().st_mode & 0o777 == 0o600

    in_a_world(tmp_path, story)


def test_what_a_restore_replaces_is_kept_whole(tmp_path: Path) -> None:
    """Also what was only in the log of a platform that was killed."""

    async def story(world: World, copy: Path) -> None:
        back_up(folder_of(world), copy, force=False)
        await world.apply(intent(JOB, 1))
        before = world.dump()
        killed = tmp_path / "killed"
        shutil.copytree(folder_of(world), killed)
        assert (killed / f"{DATABASE}-wal").stat().st_size > 0
        _, kept = restore(killed, copy, force=True)
        assert kept is not None and kept.stat().st_mode & 0o777 == 0o700
        former, world.database = world.database, SqliteDatabase(kept)
        assert world.dump() == before
        world.database = SqliteDatabase(killed)
        assert not world.rows("SELECT id FROM workloads WHERE path = ?", JOB)
        world.database = former

    in_a_world(tmp_path, story)


def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    async def story(world: World, copy: Path) -> None:
        def windlass(*words: str) -> subprocess.CompletedProcess[str]:
            command = [
                sys.executable,
                "-m",
                "windlass.experience.cli",
                *words,
                "--data",
                str(folder_of(world)),
            ]
            return subprocess.run(command, capture_output=True, text=True, check=False)

        saved = windlass("backup", str(copy))
        assert saved.returncode == 0 and f"up to event {world.newest_event()}" in saved.stderr
        assert windlass("backup", str(copy)).returncode == 5
        await world.close()
        refused = windlass("restore", str(copy))
        assert refused.returncode == 5 and "--force" in refused.stderr
        done = windlass("restore", str(copy), "--force", "-o", "json")
        assert done.returncode == 0 and "is kept in" in done.stderr and '"schema"' in done.stdout
        await world.open()

    in_a_world(tmp_path, story)


# --- under load -------------------------------------------------------------------------------------


def test_under_load_nothing_acknowledged_before_a_backup_began_is_missing_from_it(tmp_path: Path) -> None:
    """Clients submit, copies are taken by another process, one is put back, clients say it all again."""

    async def story(world: World, copy: Path) -> None:
        acknowledged: dict[str, bytes] = {}
        stop = asyncio.Event()

        async def client(number: int) -> None:
            for turn in range(200):
                if stop.is_set():
                    return
                path = f"nlp/prod/c{number}-{turn}"
                reply = await world.apply(intent(path, 1), by="acme", idempotency_key=path)
                assert reply.status == 200, reply.body
                acknowledged[path] = reply.body
                await asyncio.sleep(0)

        clients = [asyncio.create_task(client(number)) for number in range(8)]
        copies: list[tuple[Path, set[str]]] = []
        while len(copies) < 4:
            known, file = set(acknowledged), copy.with_name(f"{len(copies)}.db")
            await asyncio.to_thread(back_up, folder_of(world), file, force=False)
            copies.append((file, known))
            while len(acknowledged) < len(known) + 20 and not all(task.done() for task in clients):
                await asyncio.sleep(0.001)
        stop.set()
        await asyncio.gather(*clients)
        assert copies[-1][1], "the last one was taken in the middle of it"
        for file, known in copies:
            await back_to(world, file)
            stored = {row["path"] for row in world.rows("SELECT path FROM workloads")}
            assert known <= stored
            numbers = [row["id"] for row in world.rows("SELECT id FROM events ORDER BY id")]
            assert numbers == list(range(numbers[0], world.newest_event() + 1)), "one moment, no holes"
            await audit(world)
        for path, body in acknowledged.items():
            again = await world.apply(intent(path, 1), by="acme", idempotency_key=path)
            assert again.status == 200, again.body
            if path in copies[-1][1]:
                assert again.body == body, "an answer that was kept is given again"
        rows = world.rows("SELECT path FROM workloads WHERE path LIKE ?", "nlp/prod/c%")
        assert sorted(row["path"] for row in rows) == sorted(acknowledged)
        await world.settle()
        await audit(world)

    in_a_world(tmp_path, story)


# --- what the site still has from the time after the backup --------------------------------------------


def test_an_attempt_of_the_time_after_the_backup_is_ended_and_its_number_given_anew(tmp_path: Path) -> None:
    async def story(world: World, copy: Path) -> None:
        await world.apply(intent(JOB, 2))
        back_up(folder_of(world), copy, force=False)  # it waits
        await world.settle()
        one = world.workload(JOB)
        assert (one["phase"], one["attempt"]) == ("Running", 1)
        world.advance(600)
        await back_to(world, copy)
        await world.settle()
        again = world.workload(JOB)
        assert (again["id"], again["attempt"], again["phase"]) == (one["id"], 1, "Running")
        assert world.site.starts == [(one["id"], 1, 0)] * 2, "ended, then begun anew under the same number"
        placed = world.site.attempts[one["id"], 1].assignment.placed_ms
        assert placed == again["admitted_ms"] != one["admitted_ms"]
        world.advance(60)
        world.finish(JOB)
        await world.settle()
        assert world.phase(JOB) == "Succeeded"
        (held,) = world.rows("SELECT since_ms, until_ms FROM holdings")
        assert held["until_ms"] - held["since_ms"] == 60_000, "the other's time is not on this bill"
        await audit(world)

    in_a_world(tmp_path, story)


def test_a_result_of_the_time_after_the_backup_is_not_taken_for_the_new_attempts(tmp_path: Path) -> None:
    async def story(world: World, copy: Path) -> None:
        await world.apply(intent(JOB, 2))
        back_up(folder_of(world), copy, force=False)
        await world.settle()
        world.finish(JOB, exit_code=3)
        await world.settle()
        assert world.phase(JOB) == "Failed"
        world.advance(600)
        await back_to(world, copy)
        await world.settle()
        assert world.phase(JOB) == "Running"
        await audit(world)

    in_a_world(tmp_path, story)


def test_what_ran_at_the_backup_and_has_ended_since_is_billed_to_its_end_and_not_run_again(
    tmp_path: Path,
) -> None:
    async def story(world: World, copy: Path) -> None:
        await world.apply(intent(JOB, 2))
        await world.settle()
        back_up(folder_of(world), copy, force=False)
        world.advance(120)
        world.finish(JOB)
        await world.settle()
        billed = world.rows("SELECT SUM(micros) AS micros FROM transfers")[0]["micros"]
        world.advance(5_000)
        await back_to(world, copy)
        await world.settle()
        assert world.phase(JOB) == "Succeeded" and len(world.site.starts) == 1
        assert world.rows("SELECT SUM(micros) AS micros FROM transfers")[0]["micros"] == billed
        await audit(world)

    in_a_world(tmp_path, story)


def test_a_later_attempt_gives_way_to_the_one_the_restored_database_knows(tmp_path: Path) -> None:
    async def story(world: World, copy: Path) -> None:
        await world.apply(intent(JOB, 2, retries=3))
        await world.settle()
        back_up(folder_of(world), copy, force=False)  # attempt 1 runs
        world.finish(JOB, exit_code=1)
        await world.settle()
        assert world.workload(JOB)["attempt"] == 2
        world.advance(60)
        await back_to(world, copy)
        await world.settle()
        row = world.workload(JOB)
        assert (row["attempt"], row["phase"], row["failures"]) == (2, "Running", 1)
        starts = [attempt for _, attempt, _ in world.site.starts]
        assert starts == [1, 2, 2], "attempt 1 has its result; number 2 was ended and given anew"
        await audit(world)

    in_a_world(tmp_path, story)


def test_on_a_new_machine_what_ran_is_lost_and_neither_run_twice_nor_billed(tmp_path: Path) -> None:
    async def story(world: World, copy: Path) -> None:
        await world.apply(intent(JOB, 2), intent("nlp/prod/patient", 2, retries=1))
        await world.settle()
        back_up(folder_of(world), copy, force=False)
        world.site.attempts.clear()
        world.site.starts.clear()
        world.advance(7_200)
        await back_to(world, copy)
        await world.settle()
        assert world.phase(JOB) == "Failed"
        assert "lost" in str(world.workload(JOB)["outcome"])
        patient = world.workload("nlp/prod/patient")
        assert (patient["phase"], patient["attempt"]) == ("Running", 2)
        assert [attempt for _, attempt, _ in world.site.starts] == [2]
        assert not world.rows("SELECT micros FROM transfers WHERE micros <> 0")
        await audit(world)

    in_a_world(tmp_path, story)


def test_work_the_restored_database_never_heard_of_is_stopped_and_forgotten(tmp_path: Path) -> None:
    async def story(world: World, copy: Path) -> None:
        back_up(folder_of(world), copy, force=False)
        await world.apply(intent(JOB, 2))
        await world.settle()
        await back_to(world, copy)
        await world.settle()
        await world.agent.converge()
        assert (await world.call("GET", url(JOB))).status == 404
        (left,) = world.site.attempts.values()
        assert left.forgotten and left.stopping
        await audit(world)

    in_a_world(tmp_path, story)
