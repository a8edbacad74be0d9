"""The centre's end of the link to a site: what it should run, and what it says happened.

The embedded site calls these methods directly; an agent elsewhere reaches the same ones over HTTP
(gateway/sites.py), and whether it is there at all is in presence.py. Observations are facts about
attempts: applying one twice changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from windlass.contracts.agent import Assignment, Desired, Observation, SiteReport, WorkerSpec
from windlass.control.components.steps import Move, apply_steps
from windlass.control.db import events, nodes, workloads
from windlass.control.db.port import EventRow, Store, Tx
from windlass.control.db.workloads import WorkloadRecord
from windlass.control.identity.scopes import system_scope
from windlass.core.ledger.prices import PriceTimeline
from windlass.core.lifecycle import HOLDING, Step, observed
from windlass.core.metering import holding_id
from windlass.core.units import Ms
from windlass.runtime.clock import Clock
from windlass.runtime.metrics import SITE_HEARD, START_SECONDS
from windlass.runtime.tracing import OFF, Span, Trace, Tracer, now_ns

# Events after which a site may have to do something else than before.
_SITE_EVENTS = frozenset(
    {
        "workload.admitted",
        "workload.stopping",
        "workload.pending",
        "workload.preempted",
        "workload.succeeded",
        "workload.failed",
        "workload.cancelled",
    }
)


@dataclass(frozen=True, slots=True)
class _Moved:
    """What an observation changed of a workload, for those who measure."""

    place: Trace | None
    ran_after_ms: int | None  # it runs, so long after it was placed
    settled: str | None  # the holding that was closed and posted


class SiteLink:
    """One per platform; every method names its site."""

    def __init__(
        self, store: Store, clock: Clock, timeline: Callable[[], PriceTimeline], tracer: Tracer = OFF
    ) -> None:
        self._store = store
        self._clock = clock
        self._timeline = timeline
        self._tracer = tracer
        self._scope = system_scope("sites")
        self._generation = 0
        self._moved = asyncio.Event()
        # By site and workload, of which generation: most of it is the same the next time it is asked for.
        self._assignments: dict[str, dict[str, tuple[int, Assignment]]] = {}
        store.listen(self._heard)

    async def desired(self, site: str) -> Desired:
        told = self._assignments.setdefault(site, {})

        async def load(tx: Tx) -> tuple[int, dict[str, int], dict[str, WorkloadRecord]]:
            newest, wanted = await events.newest(tx), await workloads.wanted_at(tx, site)
            news = [id for id, generation in wanted.items() if id not in told or told[id][0] != generation]
            return newest, wanted, await workloads.find_all(tx, news)

        SITE_HEARD.labels(site).set(self._clock() / 1000)
        newest, wanted, news = await self._store.read(self._scope, load)
        self._generation = max(self._generation, newest)
        self._assignments[site] = now = {
            id: (generation, _assignment(news[id])) if id in news else told[id]
            for id, generation in wanted.items()
        }
        return Desired(generation=newest, assignments=tuple(assignment for _, assignment in now.values()))

    async def changed(self, site: str, generation: int) -> None:  # noqa: ARG002 (one site so far)
        while self._generation <= generation:
            self._moved.clear()
            await self._moved.wait()

    async def report(self, report: SiteReport) -> None:
        """One transaction per report: the fleet, then each observation. What came of it is counted and
        traced once it is durable."""
        began_ns = now_ns() if self._tracer.on else 0

        async def unit(tx: Tx) -> list[_Moved]:
            now = self._clock()
            if report.nodes is not None:
                await nodes.replace(tx, report.site, report.nodes)
                await events.emit(
                    tx, now, "site.nodes", report.site, tenant=None, data={"nodes": len(report.nodes)}
                )
            return [
                moved
                for some in _one_of_each(report.observations)
                for moved in await self._observe(tx, report.site, some, now)
            ]

        for moved in await self._store.unit(self._scope, unit):
            if moved.ran_after_ms is not None:
                START_SECONDS.observe(moved.ran_after_ms / 1000)
            if moved.settled is not None and moved.place is not None and self._tracer.on:
                facts: dict[str, str | int | bool] = {"windlass.holding": moved.settled}
                self._tracer.record(
                    Span("ledger posting", moved.place.child("ledger"), began_ns, now_ns(), facts)
                )

    async def _observe(self, tx: Tx, site: str, some: Sequence[Observation], now: Ms) -> list[_Moved]:
        records = await workloads.find_all(tx, [seen.workload for seen in some])
        moves: list[Move] = []
        moved: list[_Moved] = []
        for seen in some:
            record = records.get(seen.workload)
            step = _step(site, seen, record) if record is not None else None
            if record is None or step is None:
                continue
            moves.append(Move(record, step, _freed(seen, record, now), _told(seen)))
            ran_after = None
            if step.started is not None and record.admitted is not None and record.started is None:
                ran_after = max(0, step.started - record.admitted)
            settled = holding_id(record.id, record.attempt) if step.release else None
            moved.append(_Moved(workloads.placed(record), ran_after, settled))
        await apply_steps(tx, moves, now, self._timeline())
        return moved

    def _heard(self, rows: Sequence[EventRow]) -> None:
        for row in rows:
            if row.type == "catalog.deleted" and row.subject.startswith("Site/"):
                with suppress(KeyError):  # nobody waits to hear of it any more
                    SITE_HEARD.remove(row.subject.removeprefix("Site/"))
            if row.type in _SITE_EVENTS:
                self._generation = max(self._generation, row.id)
                self._moved.set()


def _one_of_each(observations: Sequence[Observation]) -> list[list[Observation]]:
    """In their order, no two of one workload at a time: the second is judged by what the first changed."""
    rounds: list[list[Observation]] = []
    told: Counter[str] = Counter()
    for seen in observations:
        if told[seen.workload] == len(rounds):
            rounds.append([])
        rounds[told[seen.workload]].append(seen)
        told[seen.workload] += 1
    return rounds


def _step(site: str, seen: Observation, record: WorkloadRecord) -> Step | None:
    """What an observation makes of the workload; None where it tells nothing new of this attempt."""
    if record.site != site or record.attempt != seen.attempt:
        return None
    if None not in (seen.placed_ms, record.admitted) and seen.placed_ms != record.admitted:
        return None  # placed by a database that this one has replaced; it says nothing of ours
    step = observed(record.life, seen)
    if step is not None:
        return step
    told = _told(seen)
    known = all(record.outcome.get(key) == told[key] for key in told)
    if known or record.phase not in HOLDING:  # told before, or of an attempt that is over
        return None
    return Step(failures=record.failures)


def _assignment(record: WorkloadRecord) -> Assignment:
    project, env, name = record.path.split("/")
    manifest = record.manifest
    placed = record.placement.workers if record.placement else ()
    return Assignment(
        workload=record.id,
        attempt=record.attempt,
        want="stop" if record.want == "stop" else "run",
        tenant=record.tenant,
        project=project,
        env=env,
        component=name,
        kind=manifest.kind,
        workers=tuple(WorkerSpec(index=at.worker, node=at.node, gpus=at.gpus) for at in placed),
        gpu_milli=manifest.gpu_milli,
        image=manifest.image,
        command=manifest.command,
        variables=dict(manifest.variables),
        port=manifest.port,
        time_limit_ms=manifest.time_limit,
        grace_ms=manifest.grace,
        signal=manifest.signal,
        traceparent=place.header if (place := workloads.placed(record)) is not None else "",
        known_to_run=record.phase == "Running",
        placed_ms=record.admitted,
    )


def _told(seen: Observation) -> dict[str, object]:
    return {"workers": msgspec.to_builtins(seen.workers), "notes": list(seen.notes)}


def _freed(seen: Observation, record: WorkloadRecord, now: Ms) -> Ms:
    """When its GPUs became free: the last worker's end as the site saw it, never in the future. A
    centre that was away does not charge for its absence, nor anybody for what could not be started."""
    if seen.failure and all(worker.started_ms is None for worker in seen.workers):
        return now if record.admitted is None else record.admitted
    ended = [worker.ended_ms for worker in seen.workers]
    known = [at for at in ended if at is not None]
    if not known or len(known) < len(ended):
        return now
    return Ms(min(now, max(known)))
