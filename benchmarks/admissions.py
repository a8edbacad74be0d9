"""Workloads through the real control plane: submitted, admitted, run by a site that takes no time,
billed, released, until none is left.

In one process and without HTTP: the store on disk (durable commits), the scheduler's turns and the
centre's end of the site link are the platform's own code; only the site is a stand-in, for which everything
it is told to run has ended at once (with `--finish N`: at most so many between two turns). Measured from the
first turn until the last workload has ended; submitting all of them comes before and is shown on its own.
What is not in it: HTTP, an agent, processes. On PostgreSQL the database is a real one that waits for its
disk, on the same machine; CPU is that of this process alone.

The mix is that of Kueue's scalability test: queues in five cohorts, 70 % small jobs (1 GPU), 20 %
medium (4), 10 % large (8), far more than fits at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.postgres_server import PostgresServer

from benchmarks import world
from benchmarks.measuring import rss_mb, spending
from benchmarks.reporting import Report, parser
from windlass.contracts.agent import NodeReport, Observation, SiteReport, WorkerObservation
from windlass.control.app import ControlPlane, parts
from windlass.control.components.submit import Submission, submit
from windlass.control.db.port import EventRow
from windlass.control.db.postgres import open_postgres
from windlass.control.db.sqlite import SqliteStore
from windlass.control.identity.scopes import system_scope
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_json
from windlass.core.intent import Intent
from windlass.runtime.clock import system_clock
from windlass.runtime.ids import random_ids

SITE = "local"
COHORTS = 5
GPUS_PER_NODE = 8
PER_SECOND = 2000.0
_TOGETHER = 256  # submits under way at once, as from so many clients


@dataclass(slots=True)
class Seen:
    """What the store's events tell: the judge of what happened, apart from who did it."""

    admitted: int = 0
    ended: int = 0

    def __call__(self, rows: Sequence[EventRow]) -> None:
        for row in rows:
            self.admitted += row.type == "workload.admitted"
            self.ended += row.type == "workload.succeeded"


@dataclass(slots=True)
class Costs:
    turns: int = 0
    scheduler_s: float = 0.0
    site_s: float = 0.0


async def measure(kind: str, queues: int, workloads: int, nodes: int, finish: int | None) -> Report:
    report = Report(
        "admissions",
        {"queues": queues, "workloads": workloads, "gpus": nodes * GPUS_PER_NODE, "store": kind}
        | {"finish": finish or "all"},
    )
    async with STORES[kind]() as plane:
        seen = Seen()
        plane.store.listen(seen)
        await _furnish(plane, queues, nodes)
        with spending() as submitting:
            await _submit_all(plane, queues, workloads)
        with spending() as running:
            costs = await _until_done(plane, seen, workloads, finish)
    assert (seen.admitted, seen.ended) == (workloads, workloads), f"each runs once: {seen}"
    _tell(report, workloads, submitting.cpu_s, running.cpu_s, running.wall_s, costs)
    return report


@asynccontextmanager
async def _on_sqlite() -> AsyncIterator[ControlPlane]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        store = SqliteStore(Path(folder) / "windlass.db")
        try:
            yield await parts(store, system_clock, random_ids(system_clock))
        finally:
            await store.close()


@asynccontextmanager
async def _on_postgres() -> AsyncIterator[ControlPlane]:
    """A server of its own, which waits for its disk; the plane is a replica that leads by its lease."""
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", ignore_cleanup_errors=True) as folder:
        database = PostgresServer(Path(folder) / "pg")
        database.create()
        database.start()
        try:
            store = await open_postgres(database.url())
            plane = await parts(store, store.clock, random_ids(store.clock), replica="bench")
            await plane.leadership.look()
            leading = asyncio.create_task(plane.leadership.keep())
            try:
                yield plane
            finally:
                leading.cancel()
                await asyncio.gather(leading, return_exceptions=True)
                await store.close()
        finally:
            database.stop("immediate")


STORES: dict[str, Callable[[], AbstractAsyncContextManager[ControlPlane]]] = {
    "sqlite": _on_sqlite,
    "postgres": _on_postgres,
}


def _tell(
    report: Report, workloads: int, submitting_s: float, cpu_s: float, wall_s: float, costs: Costs
) -> None:
    each = 1e3 / workloads
    report.add(
        "admissionsPerSecond",
        f"admissions ({report.settings['store']}): rate, to the end of the job",
        workloads / wall_s,
        "/s",
        PER_SECOND,
        at_least=True,
        by_clock=True,
    )
    report.add("cpuMs", "admissions: CPU each, all of it", cpu_s * each, "ms")
    report.add("schedulerCpuMs", "  of it the scheduler's turns", costs.scheduler_s * each, "ms")
    report.add("siteCpuMs", "  of it the site link (desired, reports, billing)", costs.site_s * each, "ms")
    report.add("submitCpuMs", "submitting before that, without HTTP: CPU each", submitting_s * each, "ms")
    report.add("turns", "turns of the scheduler", costs.turns, "turns")
    report.add("memoryMb", "memory of the process at the end", rss_mb(), "MB")


async def _furnish(plane: ControlPlane, queues: int, nodes: int) -> None:
    """The fleet, and tenants who are guaranteed all of it together."""
    guaranteed = nodes * GPUS_PER_NODE // COHORTS
    documents = world.hardware()
    for cohort in range(COHORTS):
        projects = [f"queue-{number}" for number in range(cohort, queues, COHORTS)]
        documents += world.tenant(f"cohort-{cohort}", "standard", projects, guaranteed=guaranteed)
    parsed = parse_all(read_json(json.dumps(documents)))
    assert not parsed.problems, parsed.problems
    scope = system_scope("benchmark")
    await plane.catalog.apply(scope, [item.value for item in parsed.documents], {}, {}, "benchmark", None)
    fleet = tuple(
        NodeReport(name=f"node-{number:04}", gpu_class=world.GPU_CLASS, gpus=GPUS_PER_NODE)
        for number in range(nodes)
    )
    await plane.link.report(SiteReport(site=SITE, nodes=fleet))
    await plane.scheduler.load()


async def _submit_all(plane: ControlPlane, queues: int, workloads: int) -> None:
    scope = system_scope("benchmark")
    for some in _intents(queues, workloads):
        results = await asyncio.gather(
            *(submit(plane, scope, Submission(intent, "benchmark")) for intent in some)
        )
        assert all(result.outcome == "created" for result in results), results[0]


def _intents(queues: int, workloads: int) -> Iterator[list[Intent]]:
    for first in range(0, workloads, _TOGETHER):
        numbers = range(first, min(first + _TOGETHER, workloads))
        documents = [_workload(number, queues) for number in numbers]
        parsed = parse_all(read_json(json.dumps(documents)))
        assert not parsed.problems, parsed.problems
        yield [item.value for item in parsed.intents]


def _workload(number: int, queues: int) -> world.Document:
    tenth = number // queues % 10
    gpus = 1 if tenth < 7 else 4 if tenth < 9 else 8
    return world.component(f"queue-{number % queues}", "prod", f"job-{number}", gpus=gpus)


async def _until_done(plane: ControlPlane, seen: Seen, workloads: int, finish: int | None) -> Costs:
    costs = Costs()
    while seen.ended < workloads:
        before = (seen.admitted, seen.ended)
        with spending() as turn:
            await plane.scheduler.turn()
        with spending() as site:
            desired = await plane.link.desired(SITE)
            ending = [_ended(one.workload, one.attempt) for one in desired.assignments[:finish]]
            await plane.link.report(SiteReport(site=SITE, observations=tuple(ending)))
        costs.turns += 1
        costs.scheduler_s += turn.cpu_s
        costs.site_s += site.cpu_s
        assert (seen.admitted, seen.ended) != before, f"nothing moves any more: {seen}"
    return costs


def _ended(workload: str, attempt: int) -> Observation:
    now = system_clock()
    worker = WorkerObservation(index=0, state="exited", exit_code=0, started_ms=now, ended_ms=now)
    return Observation(workload=workload, attempt=attempt, workers=(worker,), gone=True, exit_code=0)


def arguments() -> argparse.ArgumentParser:
    made = parser("admissions", __doc__)
    made.add_argument("--queues", type=int, default=30, help="projects, in five tenants")
    made.add_argument("--workloads", type=int, default=15_000, help="in all")
    made.add_argument("--store", choices=tuple(STORES), default="sqlite")
    made.add_argument("--nodes", type=int, default=75, help="nodes of 8 GPUs")
    made.add_argument("--finish", type=int, help="at most so many end between two turns; else all that run")
    return made


def main() -> int:
    asked = arguments().parse_args()
    report = asyncio.run(measure(asked.store, asked.queues, asked.workloads, asked.nodes, asked.finish))
    return report.tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
