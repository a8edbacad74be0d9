"""Were all promises kept? By the stranger of tests/simulation, from what clients saw and what is stored; and
by the books, as the platform itself would answer."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.control.books import audit
from tests.control.engines import SqliteDatabase
from tests.control.worlds import World
from tests.faults.clients import Client, Watcher
from tests.faults.installation import Installation
from tests.simulation.history import Breach, Record, Rows, check_history, check_state
from tools.postgres_server import Session

from windlass.core.units import Ms
from windlass.site.orchestrators.fake import FakeSite

_GONE = (sqlite3.Error, OSError)


@contextmanager
def one_instant(subject: Installation) -> Iterator[Rows]:
    """Every row as of the same commit."""
    if isinstance(subject.database, SqliteDatabase):
        with closing(sqlite3.connect(subject.database.path, isolation_level=None, timeout=20)) as found:
            found.row_factory = sqlite3.Row
            found.execute("BEGIN")
            yield lambda statement: found.execute(statement).fetchall()
        return
    assert subject.pair is not None
    session = Session(subject.pair.primary.url())
    try:
        session.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield session.rows
    finally:
        session.close()


@dataclass
class Inspector:
    """Looks in all the time: what must hold after every commit does."""

    subject: Installation
    over: threading.Event
    looks: int = 0
    breaches: list[Breach] = field(default_factory=list)

    def work(self) -> None:
        while not self.over.wait(0.5):
            try:
                with one_instant(self.subject) as rows:
                    self.breaches += check_state(rows)
                self.looks += 1
            except Exception as error:
                # The database is being restarted; whether it comes back, others will notice.
                if not _is_away(error):
                    raise


def _is_away(error: Exception) -> bool:
    return isinstance(error, _GONE) or type(error).__module__.startswith("asyncpg")


def judge(
    subject: Installation,
    clients: Sequence[Client],
    watchers: Sequence[Watcher],
    inspector: Inspector,
    started: Path,
) -> None:
    for client in clients:
        if client.failure is not None:
            raise client.failure
    assert not [one for client in clients for one in client.refused]
    assert inspector.looks and not inspector.breaches, inspector.breaches[:5]
    assert all(watcher.ids for watcher in watchers), "somebody watched"
    records = sorted((one for client in clients for one in client.records), key=lambda one: one.sent_ms)
    records += _explanations(subject, clients)
    starts = [_start(line) for line in started.read_text().split()]
    with one_instant(subject) as rows:
        breaches = check_history(
            records,
            rows,
            now_ms=time.time_ns() // 1_000_000,
            starts=starts,
            watches=[watcher.watch for watcher in watchers],
        )
        assert not breaches, "\n".join(map(str, breaches[:20]))
        decided = {row["id"]: row["component"] for row in rows("SELECT id, component FROM decisions")}
        told = {id: path for client in clients for path, id in client.acknowledged.items()}
        assert decided == told, "each once, none lost, none more"
        assert not rows("SELECT path FROM workloads WHERE finished_ms IS NULL")
    asyncio.run(_audit(subject))


def _start(line: str) -> tuple[str, int, int]:
    workload, attempt, worker = re.split("/", line)
    return workload, int(attempt), int(worker)


def _explanations(subject: Installation, clients: Sequence[Client]) -> list[Record]:
    found: list[Record] = []
    for path in sorted(path for client in clients for path in client.acknowledged):
        project, env, name = path.split("/")
        asked = f"/v1/projects/{project}/components/{env}/{name}/explanation"
        status, answer = subject.call("GET", asked)
        now = time.time_ns() // 1_000_000
        found.append(Record("GET", asked, now, now, status, None, answer, "", "admin"))
    return found


async def _audit(subject: Installation) -> None:
    """The platform's own answers, in this process; the installation's are stopped."""
    for process in subject.processes:
        process.kill()
    world = World(subject.database, site=FakeSite())
    world.clock.now = Ms(time.time_ns() // 1_000_000)
    await world.open()
    world.keys["admin"] = subject.key
    try:
        await audit(world)
    finally:
        await world.close()


def summary(clients: Sequence[Client], inspector: Inspector, started: Path, done: dict[str, Any]) -> str:
    acknowledged = sum(len(client.acknowledged) for client in clients)
    sent = sum(len(client.records) for client in clients)
    lost = sum(record.status is None for client in clients for record in client.records)
    starts = len(started.read_text().split())
    what = f"{acknowledged} jobs acknowledged, {starts} starts, {sent} requests of which {lost} unanswered"
    return f"{what}, {inspector.looks} looks; {dict(done)}"
