"""The scheduler's loop: wait for a wake-up, fold what changed into the engine's state, run a cycle,
write what it decided.

The engine (core/scheduling) decides; this file loads and applies. A wake-up only says *look*: the
rows changed since the last look say what. Each assignment is guarded by the row's generation; zero
rows means somebody else moved on, and the next look learns of it. If a write fails altogether the
state is loaded anew, because the engine then believes what the store does not.

Of several replicas one leads and decides; the others follow what is stored, so that each can answer
what anybody asks about the queue, and any can take over at once. What the leader writes it writes under
its lease's token.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter

from windlass.contracts.agent import NodeReport
from windlass.control.db import events as feed
from windlass.control.db import nodes, workloads
from windlass.control.db.port import EventRow, Store, Tx
from windlass.control.db.workloads import Standing, WorkloadRecord, placed
from windlass.control.identity.scopes import system_scope
from windlass.control.leadership import Leadership
from windlass.control.scheduler.apply import Believed, Written, stop, write
from windlass.control.scheduler.fold import Known, fold, freeing_first
from windlass.control.scheduler.forecast import Forecast
from windlass.control.scheduler.past import PastUseKeeper
from windlass.control.sites import presence
from windlass.core.admission.case import NodeSize
from windlass.core.catalog.quotas import next_change, quota_tree
from windlass.core.catalog.snapshot import Catalog
from windlass.core.errors import Conflict, Unavailable
from windlass.core.scheduling.defrag import Plan
from windlass.core.scheduling.defrag_apply import carry_out
from windlass.core.scheduling.engine import (
    State,
    cycle,
    follow,
    new_state,
    position,
    take_over,
    wake_at,
    was_told,
)
from windlass.core.scheduling.model import (
    Event,
    Node,
    NodesChanged,
    Options,
    Outcome,
    Preempt,
    Quota,
    QuotasChanged,
)
from windlass.core.units import Ms
from windlass.runtime.clock import Clock
from windlass.runtime.logging import warn
from windlass.runtime.metrics import ADMISSION_WAIT_SECONDS, CYCLE_SECONDS, PREEMPTIONS
from windlass.runtime.tracing import OFF, Span, Tracer, now_ns

_PAGE = 1000
_RETRY_S = 1.0
_GATHER_S, _APART_S = 0.005, 0.02  # a burst of submits is one cycle; nobody notices so little
_FORETOLD, _KEEP_MS = 20, 10_000  # so many first estimates are kept of so long: a replay each time
_OPTIONS = Options(growth=False)  # a site starts a gang as a whole; it cannot add workers to it
_FEED_PREFIXES = ("workload.", "component.", "site.", "catalog.")


class Scheduler:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        catalog: Callable[[], Catalog],
        leadership: Leadership,
        tracer: Tracer = OFF,
    ) -> None:
        self._store = store
        self._leadership = leadership
        self._led_under: int | None = None
        self._clock = clock
        self._catalog = catalog
        self._tracer = tracer
        self._scope = system_scope("scheduler")
        self._wake = asyncio.Event()
        self._fleet_changed = True
        self._seen_revision = -1
        self._cursor = 0
        self.state = new_state(_OPTIONS)
        self.known: dict[str, Known] = {}
        self.nodes: tuple[Node, ...] = ()
        self.simulated: frozenset[str] = frozenset()
        self.sizes: dict[str, tuple[NodeSize, ...]] = {}
        self.ready = False
        self._loaded = False
        self._turning = asyncio.Lock()
        self.forecast = Forecast(lambda: self.state, clock)
        self._foretold: list[tuple[str, Ms]] = []
        self._foretold_kept = Ms(0)
        self._past = PastUseKeeper()
        self._quotas: tuple[Quota, ...] = ()
        store.listen(self._heard)
        leadership.on_change(self._wake.set)

    async def run(self) -> None:
        """For ever: look, then sleep until somebody wakes us or time itself changes something."""
        while True:
            try:
                await self.turn()
                self.ready = True
            except Unavailable as error:
                warn("the scheduler could not write; it loads its state anew", detail=error.detail)
                await asyncio.sleep(_RETRY_S)
                continue
            await self._sleep()

    async def turn(self) -> None:
        """One look at everything; the first, and the first after a failed write, loads it."""
        async with self._turning:
            await self._look()

    @asynccontextmanager
    async def held_still(self) -> AsyncIterator[State]:
        """The leader's state as everything stored so far makes it, and no cycle until the block ends."""
        async with self._turning:
            await self._look()
            if self._led_under is None:
                raise Unavailable(
                    "another replica leads and decides this",
                    remedy="ask again: what spreads requests over the replicas will reach it",
                )
            yield self.state

    async def _look(self) -> None:
        if not self._loaded:
            await self.load()
        try:
            await self._take_turn()
        except Unavailable:
            self._loaded = False
            raise

    async def _take_turn(self) -> None:
        """Everything that changed, one cycle, its outcome."""
        self._wake.clear()
        records = await self._news()
        await self._decide(await self._world() + freeing_first(self._folded(records)))
        if self._led_under is not None:
            self._foretell(records)
        await self._keep_foretold()

    # --- load -----------------------------------------------------------------------------------

    async def load(self) -> None:
        """Everything as the store has it."""
        self._loaded = False
        self.state, self.known = new_state(_OPTIONS), {}
        self._fleet_changed, self._seen_revision = True, -1
        # From before the first page: a row that changes while the pages are read is read again.
        self._cursor = await self._store.read(self._scope, feed.newest)
        await self._past.load(self._store, self._scope, self._clock())
        after = ""
        events = await self._world()
        while True:

            async def page(tx: Tx, after: str = after) -> list[Standing]:
                return await workloads.live_after(tx, after, _PAGE)

            records = await self._store.read(self._scope, page)
            for record in records:
                events += fold(record, self.known)
            if len(records) < _PAGE:
                break
            after = records[-1].id
        self._led_under = None
        await self._decide(events)
        self._loaded = True

    async def _news(self) -> list[Standing]:
        """Every row that changed since the last look, as it is now: all pages, because who holds GPUs may
        be on the first and who left them on the last."""
        news: dict[str, Standing] = {}
        while True:
            page = await self._store.read(self._scope, self._changed)
            for record in page:
                self._cursor = max(self._cursor, record.seq)
                news.pop(record.id, None)
                news[record.id] = record
            if len(page) < _PAGE:
                return list(news.values())

    async def _changed(self, tx: Tx) -> list[Standing]:
        return await workloads.changed_after(tx, self._cursor, _PAGE)

    def _folded(self, records: Sequence[Standing]) -> list[Event]:
        return [event for record in records for event in fold(record, self.known)]

    async def _world(self) -> list[Event]:
        """The fleet and the quota tree, when they changed."""
        events: list[Event] = []
        if self._fleet_changed:
            self._fleet_changed = False
            found, away = await self._store.read(self._scope, _fleet)
            self.nodes = tuple(_node(site, node, away) for site, node in found)
            self.sizes = _sizes(self.nodes)
            self.simulated = frozenset(node.name for _, node in found if node.simulated)
            events.append(NodesChanged(self.nodes))
        catalog = self._catalog()
        old = self._quotas
        if catalog.revision != self._seen_revision or self._burst_edge_passed():
            self._seen_revision = catalog.revision
            self._quotas_until = next_change(catalog, self._clock())
            self._quotas = quota_tree(catalog, self._clock())
            events.append(QuotasChanged(self._quotas))
        again = self._quotas is not old
        events += self._past.news(self.state, self._quotas, self._clock(), again=again)
        return events

    def _burst_edge_passed(self) -> bool:
        return self._quotas_until is not None and self._clock() >= self._quotas_until

    _quotas_until: Ms | None = None

    # --- decide ---------------------------------------------------------------------------------

    async def _decide(self, events: list[Event]) -> None:
        """Lead: a cycle and its outcome, told after it is durable. Follow: only know."""
        token = self._leadership.token
        if self._led_under not in (None, token):
            # What it promised as leader is void, and others may have placed work there since.
            await self.load()
            return
        if token is None:
            self.state = follow(self.state, events, self._clock())
            return
        if token != self._led_under:
            take_over(self.state)
            self._led_under = token
        began_ns = now_ns() if self._tracer.on else 0
        self.state, outcome = self._cycle(events)
        if not (outcome.admitted or outcome.preempted or outcome.causes):
            return
        written = await self._store.unit(self._scope, partial(self._write, outcome))
        if written is None:
            await self.load()
            return
        for record in written.admitted:
            if record.attempt == 1 and record.admitted is not None:
                ADMISSION_WAIT_SECONDS.labels(record.tier).observe(
                    (record.admitted - record.submitted) / 1000
                )
            self._trace(record, began_ns)
        for reason in written.preempted:
            PREEMPTIONS.labels(reason).inc()

    def _trace(self, record: WorkloadRecord, began_ns: int) -> None:
        if not self._tracer.on or (place := placed(record)) is None:
            return
        facts: dict[str, str | int | bool] = {
            "windlass.workload": record.id,
            "windlass.component": record.path,
            "windlass.attempt": record.attempt,
            "windlass.site": record.site,
        }
        self._tracer.record(Span("scheduler cycle", place, began_ns, now_ns(), facts))

    def _foretell(self, records: Sequence[Standing]) -> None:
        """What newcomers that have to wait are told of their start, to be compared with it later. Of a burst
        only some: it is a measure, and the forecast of those far back costs."""
        for record in records:
            if len(self._foretold) >= _FORETOLD:
                return
            if record.generation != 1 or record.path not in self.state.lines.waiting:
                continue
            place = position(self.state, record.path)
            starts = self.forecast.starts(record.path, place.ahead) if place is not None else None
            if starts is not None:
                self._foretold.append((record.id, starts))
                was_told(self.state, record.path, self._clock(), starts)

    async def _keep_foretold(self) -> None:
        """Some at a time: a commit for each would cost more than the submit itself."""
        now = self._clock()
        if not self._foretold or 0 <= now - self._foretold_kept < _KEEP_MS:
            return
        told, self._foretold, self._foretold_kept = self._foretold, [], now

        async def unit(tx: Tx) -> None:
            for id, starts in told:
                await workloads.keep_estimate(tx, id, starts)

        await self._store.unit(self._scope, unit)

    def _cycle(self, events: list[Event]) -> tuple[State, Outcome]:
        began = perf_counter()
        decided = cycle(self.state, events, self._clock())
        CYCLE_SECONDS.observe(perf_counter() - began)
        return decided

    # --- apply ----------------------------------------------------------------------------------

    async def _write(self, outcome: Outcome, tx: Tx) -> Written | None:
        """None, and nothing is written: the catalog changed since the cycle, and what was decided under the
        old one may break a ceiling of the new."""
        await self._leadership.guard(tx)
        if tx.newest("catalog") != self._seen_revision:
            return None
        sites = {node.name: node.site for node in self.nodes}
        believed = Believed(self.known, self.state.lines.by_shape, sites)
        return await write(tx, outcome, believed, self._clock())

    async def write_moves(self, tx: Tx, plan: Plan, now: Ms) -> None:
        """Tell everything that moves to go. Raises Conflict where something moved on since the plan."""
        await self._leadership.guard(tx)
        wanted = await workloads.find(tx, self.known[plan.id].workload) if plan.id in self.known else None
        if tx.newest("catalog") != self._seen_revision or wanted is None or wanted.phase != "Pending":
            raise moved_on(plan.id)
        told = [Preempt(move.id, plan.id, "defragmentation") for move in plan.moves]
        if await stop(tx, told, self.known, now) < len(told):
            raise moved_on(plan.id)

    def moves_written(self, plan: Plan, now: Ms) -> None:
        """Those are durable: the hole is promised, and the next places are earmarked."""
        for preempt in carry_out(self.state, plan, now):
            self.known[preempt.id].stopping = True
            PREEMPTIONS.labels(preempt.reason).inc()
        self._wake.set()

    # --- wake -----------------------------------------------------------------------------------

    def _heard(self, rows: Sequence[EventRow]) -> None:
        for row in rows:
            if row.type.startswith("site."):
                self._fleet_changed = True
            if row.type.startswith(_FEED_PREFIXES):
                self._wake.set()

    async def _sleep(self) -> None:
        time = asyncio.get_running_loop().time
        now, turned = self._clock(), time()
        wake = wake_at(self.state) if self._led_under is not None else None
        keep = Ms(self._foretold_kept + _KEEP_MS) if self._foretold else None
        looks = [at for at in (wake, self._quotas_until, keep) if at is not None]
        timeout = max(0.0, (min(looks) - now) / 1000) if looks else None
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(max(_GATHER_S, turned + _APART_S - time()))


def moved_on(id: str) -> Conflict:
    return Conflict(
        f"what could be moved for {id} is not what it was when this was planned",
        remedy=f"look again: `windlass defrag --plan {id}`",
    )


async def _fleet(tx: Tx) -> tuple[list[tuple[str, NodeReport]], Collection[str]]:
    """Every node by its site, and the sites that are away."""
    return await nodes.everywhere(tx), await presence.away(tx)


def _node(site: str, node: NodeReport, away: Collection[str]) -> Node:
    """Nothing new goes where nobody would start it."""
    return Node(
        name=node.name,
        gpu_class=node.gpu_class,
        gpus=node.gpus,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        labels=node.labels,
        site=site,
        state="down" if site in away else node.state,
    )


def _sizes(nodes: Sequence[Node]) -> dict[str, tuple[NodeSize, ...]]:
    """By class, the sizes nodes come in: what a worker could ever get."""
    found: dict[str, dict[NodeSize, None]] = {}
    for node in nodes:
        found.setdefault(node.gpu_class, {})[NodeSize(node.gpus, node.cpu_milli, node.memory_mib)] = None
    return {gpu_class: tuple(sizes) for gpu_class, sizes in found.items()}
