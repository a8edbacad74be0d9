"""The centre's end of the link to a site: what it should run, and what it says happened.

The embedded site calls these methods directly; a remote agent will reach the same ones over the
wire. Observations are facts about attempts: applying one twice changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from windlass.contracts.agent import Assignment, Desired, Observation, SiteReport, WorkerSpec
from windlass.control.components.steps import apply_step
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
        store.listen(self._heard)

    async def desired(self, site: str) -> Desired:
        async def load(tx: Tx) -> tuple[int, list[WorkloadRecord]]:
            return await events.newest(tx), await workloads.wanted_at(tx, site)

        SITE_HEARD.labels(site).set(self._clock() / 1000)
        newest, records = await self._store.read(self._scope, load)
        self._generation = max(self._generation, newest)
        return Desired(generation=newest, assignments=tuple(_assignment(record) for record in records))

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
            moved = [await self._observe(tx, report.site, seen, now) for seen in report.observations]
            return [one for one in moved if one is not None]

        for moved in await self._store.unit(self._scope, unit):
            if moved.ran_after_ms is not None:
                START_SECONDS.observe(moved.ran_after_ms / 1000)
            if moved.settled is not None and moved.place is not None and self._tracer.on:
                facts: dict[str, str | int | bool] = {"windlass.holding": moved.settled}
                self._tracer.record(
                    Span("ledger posting", moved.place.child("ledger"), began_ns, now_ns(), facts)
                )

    async def _observe(self, tx: Tx, site: str, seen: Observation, now: Ms) -> _Moved | None:
        record = await workloads.find(tx, seen.workload)
        if record is None or record.site != site or record.attempt != seen.attempt:
            return None
        if None not in (seen.placed_ms, record.admitted) and seen.placed_ms != record.admitted:
            return None  # placed by a database that this one has replaced; it says nothing of ours
        told = _told(seen)
        step = observed(record.life, seen)
        if step is None:
            known = all(record.outcome.get(key) == told[key] for key in told)
            if known or record.phase not in HOLDING:  # told before, or of an attempt that is over
                return None
            step = Step(failures=record.failures)
        place, admitted, ran_before = workloads.placed(record), record.admitted, record.started is not None
        freed, settled = _freed(seen, record, now), holding_id(record.id, record.attempt)
        if not await apply_step(tx, record, step, now, self._timeline(), freed=freed, seen=told):
            return None
        ran_after = None
        if step.started is not None and admitted is not None and not ran_before:
            ran_after = max(0, step.started - admitted)
        return _Moved(place, ran_after, settled if step.release else None)

    def _heard(self, rows: Sequence[EventRow]) -> None:
        for row in rows:
            if row.type in _SITE_EVENTS:
                self._generation = max(self._generation, row.id)
                self._moved.set()


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
