"""The control plane, assembled: one value with its parts, and one list of everything that runs.

Start reading here. `parts` builds the plane from a store; `LOOPS` names each loop, what wakes it
and where its story is told. Nothing is started anywhere else.

    submit   gateway/apply.py -> components/submit.py         a request
    schedule scheduler/loop.py -> core/scheduling/cycle.py     a commit that changed a workload
    run      sites/link.py <-> site/agent/loop.py              a commit that admits or stops one
    settle   billing/settle.py                                 in the transaction of a release
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from windlass.contracts import api
from windlass.control.billing.hourly import check_ledger, post_hourly
from windlass.control.billing.prices import Prices
from windlass.control.catalog.keeper import CatalogKeeper
from windlass.control.db import workloads
from windlass.control.db.port import EventRow, Store, Tx
from windlass.control.gateway.components import LogSource
from windlass.control.gateway.feed import EventFeed
from windlass.control.gateway.limiter import Limiter, OwnBuckets
from windlass.control.gateway.minutes import Minutes
from windlass.control.gateway.sharing import Exchange
from windlass.control.identity.accounts import Accounts
from windlass.control.identity.door import Door
from windlass.control.identity.judge import judge
from windlass.control.identity.keys import Keyring
from windlass.control.identity.logins import Logins
from windlass.control.identity.scopes import system_scope
from windlass.control.leadership import Leadership
from windlass.control.scheduler.loop import Scheduler
from windlass.control.sites.link import SiteLink
from windlass.control.sites.presence import Presence
from windlass.control.sites.remote_logs import RemoteLogs
from windlass.core.bounds import Bounds
from windlass.core.scheduling.engine import running
from windlass.core.units import GPU, format_gpus
from windlass.runtime.clock import Clock
from windlass.runtime.fetch import Fetch, fetch
from windlass.runtime.ids import Ids
from windlass.runtime.logging import say
from windlass.runtime.tracing import OFF, Tracer


@dataclass(slots=True)
class ControlPlane:
    """Everything handlers and loops need, made once at start."""

    store: Store
    clock: Clock
    ids: Ids
    catalog: CatalogKeeper
    prices: Prices
    keyring: Keyring
    door: Door
    accounts: Accounts
    scheduler: Scheduler
    link: SiteLink
    presence: Presence
    leadership: Leadership
    feed: EventFeed
    minutes: Minutes
    limiter: Limiter
    tracer: Tracer
    remote_logs: RemoteLogs
    exchange: Exchange | None = None
    logs: LogSource | None = None  # of the embedded site

    def node_infos(self) -> list[api.NodeInfo]:
        held: dict[str, int] = {}
        for work in running(self.scheduler.state):
            for worker in work.placement.workers:
                held[worker.node] = held.get(worker.node, 0) + work.shape.gpus
        return [
            api.NodeInfo(
                name=node.name,
                site=node.site,
                gpu_class=node.gpu_class,
                gpus=node.gpus,
                free=format_gpus(node.gpus * GPU - held.get(node.name, 0)),
                state=node.state,
                simulated=node.name in self.scheduler.simulated,
                labels=dict(node.labels),
            )
            for node in self.scheduler.nodes
        ]


async def parts(
    store: Store,
    clock: Clock,
    ids: Ids,
    tracer: Tracer = OFF,
    reach: Fetch = fetch,
    *,
    replica: str | None = None,
    bounds: Bounds | None = None,
) -> ControlPlane:
    """Load what is kept in memory and put the parts together. Starts nothing. `reach` is how identity
    providers are read; `replica` is this one's name among several on one database, None: it is alone."""
    judge()  # a policy that is not in order is found now, not at the first request
    store.listen(log_events)
    prices = Prices()
    catalog = CatalogKeeper(store, clock, prices)
    await catalog.load()
    leadership = Leadership(store, clock, replica)
    keyring = Keyring(store, clock, ids)
    limiter, exchange = _limits(store, clock, replica, bounds or Bounds())
    return ControlPlane(
        store=store,
        clock=clock,
        ids=ids,
        catalog=catalog,
        prices=prices,
        keyring=keyring,
        door=Door(store, keyring, Logins(lambda: catalog.current, reach, clock), lambda: catalog.current),
        accounts=Accounts(store, clock, keyring),
        scheduler=Scheduler(store, clock, lambda: catalog.current, leadership, tracer),
        link=SiteLink(store, clock, lambda: prices.timeline, tracer),
        presence=Presence(store, clock, leadership),
        leadership=leadership,
        feed=EventFeed(store),
        minutes=Minutes(store, clock),
        limiter=limiter,
        exchange=exchange,
        tracer=tracer,
        remote_logs=RemoteLogs(partial(_is_over, store)),
    )


async def _is_over(store: Store, workload: str, attempt: int) -> bool:
    async def load(tx: Tx) -> bool:
        record = await workloads.find(tx, workload)
        return record is None or record.finished is not None or record.attempt != attempt

    return await store.read(system_scope("logs"), load)


def _limits(
    store: Store, clock: Clock, replica: str | None, bounds: Bounds
) -> tuple[Limiter, Exchange | None]:
    """Alone, a process keeps the buckets itself."""
    if replica is None:
        return Limiter(bounds, clock, OwnBuckets(bounds.principal), OwnBuckets(bounds.tenant)), None
    exchange = Exchange(store, clock, replica)
    principals = exchange.buckets("principal", bounds.principal)
    return Limiter(bounds, clock, principals, exchange.buckets("tenant", bounds.tenant)), exchange


async def share_limits(plane: ControlPlane) -> None:
    await (plane.exchange.run() if plane.exchange is not None else asyncio.Event().wait())


_TRACED = '"traceId":'


def log_events(rows: Sequence[EventRow]) -> None:
    """Everything that happens is one structured line, at level info."""
    for row in rows:
        told: dict[str, object] = {"subject": row.subject, "tenant": row.tenant, "actor": row.actor}
        if _TRACED in row.data:
            told["traceId"] = msgspec.json.decode(row.data)["traceId"]
        say(row.type, **told, event=row.id)


@dataclass(frozen=True, slots=True)
class Loop:
    name: str
    wakes: str
    run: Callable[[ControlPlane], Awaitable[None]]


LOOPS: tuple[Loop, ...] = (
    Loop("leadership", "a third of the lease's length", lambda p: p.leadership.keep()),
    Loop(
        "scheduler", "a commit that changed a workload, the fleet or the catalog", lambda p: p.scheduler.run()
    ),
    Loop("sites", "a quarter of a minute, to see whose agent is away", lambda p: p.presence.watch()),
    Loop("hourly posting", "the hour, while GPUs are held and this replica leads", post_hourly),
    Loop("ledger check", "at start and every hour: the ledger sums to zero", check_ledger),
    Loop("API minutes", "every minute, to store how many requests were answered", lambda p: p.minutes.run()),
    Loop("limits", "every second while requests come, where replicas share them", share_limits),
    Loop("key use", "every minute, to store which keys were used", lambda p: p.keyring.keep_use()),
)


def start(plane: ControlPlane) -> list[asyncio.Task[None]]:
    async def forever(loop: Loop) -> None:
        await loop.run(plane)

    return [asyncio.create_task(forever(loop), name=loop.name) for loop in LOOPS]
