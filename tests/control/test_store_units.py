"""The store's promises (control/db/port.py), on every engine: units are all or nothing and share a
commit, reads see one committed moment, events follow commits."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.control.engines import Database, new_world_database, on_sqlite_only

from windlass.control.db import events
from windlass.control.db.port import EventRow, Store, Tx
from windlass.control.identity.scopes import system_scope
from windlass.core.errors import Unavailable
from windlass.core.units import Ms

ADMIN = system_scope("test")


def with_store(folder: Path, story: Callable[[Store], Awaitable[None]]) -> None:
    async def one(store: Store, _: Database) -> None:
        await story(store)

    with_database(folder, one)


def with_database(folder: Path, story: Callable[[Store, Database], Awaitable[None]]) -> None:
    async def told() -> None:
        database = new_world_database(folder)
        store = await database.open()
        try:
            await story(store, database)
        finally:
            await store.close()
            database.close()

    asyncio.run(told())


async def subjects(tx: Tx) -> list[str]:
    return [row["subject"] for row in await tx.rows("SELECT subject FROM events ORDER BY id")]


def telling(subject: str) -> Callable[[Tx], Awaitable[int]]:
    async def unit(tx: Tx) -> int:
        return await events.emit(tx, Ms(1), "test.told", subject, tenant=None)

    return unit


def test_one_unit_that_fails_takes_nobody_with_it(tmp_path: Path) -> None:
    async def failing(tx: Tx) -> None:
        await events.emit(tx, Ms(1), "test.told", "lost", tenant=None)
        raise ValueError("changed my mind")

    async def story(store: Store) -> None:
        units = [store.unit(ADMIN, telling(f"a{n}")) for n in range(10)]
        doomed = store.unit(ADMIN, failing)
        more = [store.unit(ADMIN, telling(f"b{n}")) for n in range(10)]
        done = await asyncio.gather(*units, doomed, *more, return_exceptions=True)
        assert [str(error) for error in done if isinstance(error, BaseException)] == ["changed my mind"]
        told = await store.read(ADMIN, subjects)
        assert told == [f"a{n}" for n in range(10)] + [f"b{n}" for n in range(10)]

    with_store(tmp_path, story)


def test_units_that_arrive_together_share_one_commit(tmp_path: Path) -> None:
    async def story(store: Store) -> None:
        batches: list[int] = []
        store.listen(lambda rows: batches.append(len(rows)))
        await asyncio.gather(*(store.unit(ADMIN, telling(f"{n}")) for n in range(50)))
        assert batches == [50]

    with_store(tmp_path, story)


def test_listeners_hear_of_events_in_order_and_only_after_the_commit(tmp_path: Path) -> None:
    async def story(store: Store, database: Database) -> None:
        heard: list[int] = []

        def listen(rows: Sequence[EventRow]) -> None:
            (found,) = database.rows("SELECT MAX(id) AS newest FROM events")
            assert found["newest"] >= rows[-1].id, "heard of what is not durable"
            heard.extend(row.id for row in rows)

        store.listen(listen)
        for _ in range(5):
            await asyncio.gather(*(store.unit(ADMIN, telling(f"{n}")) for n in range(7)))
        assert heard == list(range(1, 36))

    with_database(tmp_path, story)


def test_a_failed_unit_leaves_no_hole_in_the_numbering_of_events(tmp_path: Path) -> None:
    async def failing(tx: Tx) -> None:
        await events.emit(tx, Ms(1), "test.told", "lost", tenant=None)
        raise ValueError

    async def story(store: Store) -> None:
        await store.unit(ADMIN, telling("first"))
        with pytest.raises(ValueError):
            await store.unit(ADMIN, failing)
        assert await store.unit(ADMIN, telling("second")) == 2

    with_store(tmp_path, story)


@on_sqlite_only
def test_a_unit_that_waits_for_something_else_is_refused_and_undone(tmp_path: Path) -> None:
    afterwards: list[str] = []

    async def waiting(tx: Tx) -> None:
        await events.emit(tx, Ms(1), "test.told", "lost", tenant=None)
        try:
            await asyncio.sleep(0)
        finally:
            afterwards.append("closed")

    async def story(store: Store) -> None:
        with pytest.raises(RuntimeError, match="awaited something other than its transaction"):
            await store.unit(ADMIN, waiting)
        assert afterwards == ["closed"], "what it does on its way out happens inside its own savepoint"
        assert await store.read(ADMIN, subjects) == []

    with_store(tmp_path, story)


@on_sqlite_only
def test_a_read_that_waits_for_something_else_is_refused(tmp_path: Path) -> None:
    async def waiting(tx: Tx) -> None:
        await asyncio.sleep(0)

    async def story(store: Store) -> None:
        with pytest.raises(RuntimeError, match="awaited something other than its transaction"):
            await store.read(ADMIN, waiting)
        assert await store.read(ADMIN, subjects) == [], "the next read works"

    with_store(tmp_path, story)


def test_a_read_sees_nothing_of_a_unit_that_is_not_committed(tmp_path: Path) -> None:
    async def story(store: Store) -> None:
        unit = asyncio.ensure_future(store.unit(ADMIN, telling("soon")))
        assert await store.read(ADMIN, subjects) == []
        await unit
        assert await store.read(ADMIN, subjects) == ["soon"]

    with_store(tmp_path, story)


@pytest.mark.parametrize("scan", [False, True])
def test_a_read_sees_one_moment_even_if_somebody_commits_between_its_statements(
    tmp_path: Path, scan: bool
) -> None:
    statement = "SELECT value FROM counters WHERE name = 'audit'"

    async def story(store: Store, database: Database) -> None:
        async def torn(tx: Tx) -> tuple[int, int]:
            before = (await tx.rows(statement))[0]["value"]
            database.rows("UPDATE counters SET value = 99 WHERE name = 'audit'")
            return before, (await tx.rows(statement))[0]["value"]

        assert await store.read(ADMIN, torn, scan=scan) == (0, 0)

    with_database(tmp_path, story)


def test_a_read_cannot_write(tmp_path: Path) -> None:
    async def story(store: Store) -> None:
        with pytest.raises(Exception, match="nothing can be written"):
            await store.read(ADMIN, telling("x"))
        assert await store.read(ADMIN, subjects) == []

    with_store(tmp_path, story)


def test_a_caller_that_goes_away_does_not_undo_its_unit(tmp_path: Path) -> None:
    async def story(store: Store) -> None:
        leaving = asyncio.ensure_future(store.unit(ADMIN, telling("kept")))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await store.unit(ADMIN, telling("next"))
        assert await store.read(ADMIN, subjects) == ["kept", "next"]

    with_store(tmp_path, story)


def test_a_closed_store_refuses_and_has_lost_nothing(tmp_path: Path) -> None:
    async def story(store: Store) -> None:
        units = [asyncio.ensure_future(store.unit(ADMIN, telling(f"{n}"))) for n in range(20)]
        await asyncio.sleep(0)
        await store.close()
        assert [await unit for unit in units] == list(range(1, 21))
        with pytest.raises(Exception, match="shutting down"):
            await store.unit(ADMIN, telling("late"))

    with_store(tmp_path, story)


_FORGED = """
from windlass.control.db.port import Store, Tx
from windlass.control.identity.scopes import Scope, system_scope

async def work(tx: Tx) -> None: ...

async def honest(store: Store) -> None:
    await store.unit(system_scope("test"), work)

async def without(store: Store) -> None:
    await store.unit(None, work)  # E: arg-type

async def forged(store: Store) -> None:
    await store.unit(Scope("me", None), work)  # E: call-arg

async def faked(store: Store) -> None:
    await store.read(Scope("me", "acme", object()), work)  # E: arg-type
"""


@pytest.mark.slow
def test_a_store_call_without_a_proven_scope_does_not_type_check(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(_FORGED)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", str(snippet)]
    environment = {"MYPYPATH": str(root / "src"), "PATH": "/usr/bin:/bin"}
    cache = f"--cache-dir={root / '.mypy_cache' / 'snippets'}"
    checked = subprocess.run([*command, cache], capture_output=True, text=True, env=environment, check=False)
    found = {
        (int(line.split(":")[1]), line.rpartition("[")[2].rstrip("]"))
        for line in checked.stdout.splitlines()
        if ": error:" in line and "snippet.py" in line
    }
    expected = {
        (number, line.partition("# E: ")[2])
        for number, line in enumerate(_FORGED.splitlines(), start=1)
        if "# E: " in line
    }
    assert found == expected, checked.stdout + checked.stderr


def test_what_a_failed_unit_did_in_memory_is_taken_back_newest_first(tmp_path: Path) -> None:
    memory: list[str] = []

    async def failing(tx: Tx) -> None:
        for word in ("one", "two"):
            memory.append(word)
            tx.on_undo(partial(memory.append, f"not {word}"))
        await tx.execute("UPDATE counters SET value = 0 WHERE name = 'nobody'")
        raise ValueError

    async def story(store: Store) -> None:
        first, failed, last = await asyncio.gather(
            store.unit(ADMIN, telling("a")),
            store.unit(ADMIN, failing),
            store.unit(ADMIN, telling("b")),
            return_exceptions=True,
        )
        assert (first, last) == (1, 2) and isinstance(failed, ValueError)
        assert memory[-4:] == ["one", "two", "not two", "not one"]
        assert await store.read(ADMIN, subjects) == ["a", "b"]

    with_store(tmp_path, story)


def test_a_unit_finds_what_it_and_those_before_it_wrote(tmp_path: Path) -> None:
    async def look(tx: Tx) -> list[str]:
        await telling("own")(tx)
        return await subjects(tx)

    async def story(store: Store) -> None:
        _, seen = await asyncio.gather(store.unit(ADMIN, telling("before")), store.unit(ADMIN, look))
        assert seen == ["before", "own"]

    with_store(tmp_path, story)


def test_a_statement_the_engine_refuses_fails_its_own_unit_alone(tmp_path: Path) -> None:
    async def broken(tx: Tx) -> None:
        await telling("lost")(tx)
        await tx.execute("UPDATE there_is_no_such_table SET value = 1")

    async def story(store: Store) -> None:
        units = [telling("a"), broken, telling("b"), telling("c")]
        done = await asyncio.gather(*(store.unit(ADMIN, unit) for unit in units), return_exceptions=True)
        assert [isinstance(one, Unavailable) for one in done] == [False, True, False, False]
        assert await store.read(ADMIN, subjects) == ["a", "b", "c"]

    with_store(tmp_path, story)


def test_before_every_transaction_memory_may_catch_up_with_what_is_stored(tmp_path: Path) -> None:
    prepared: list[int] = []

    async def prepare(tx: Tx) -> None:
        prepared.append(tx.newest("event"))

    async def story(store: Store) -> None:
        store.before_units(prepare)
        await store.unit(ADMIN, telling("a"))
        await store.unit(ADMIN, telling("b"))
        assert set(prepared) == {0, 1}

    with_store(tmp_path, story)
