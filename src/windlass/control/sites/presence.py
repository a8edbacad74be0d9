"""Which sites' agents are there. An agent that asks what to do has a lease. When it has run out the site is
away: nothing new is placed there, and what runs there runs on. The first question afterwards brings it back.

That a site is away is stored (its lease has no holder), decided once by the leader and told as an event, so
every replica schedules and explains alike. The embedded site has no lease: it is here as long as we are.
"""

from __future__ import annotations

import asyncio
from functools import partial

from windlass.control.db import events, leases
from windlass.control.db.port import Store, Tx
from windlass.control.identity.scopes import system_scope
from windlass.control.leadership import Leadership
from windlass.core.errors import Conflict, Unavailable
from windlass.core.units import Ms, format_timestamp
from windlass.runtime.clock import Clock
from windlass.runtime.logging import warn

LENGTH = Ms(90_000)  # a question may wait for a minute at the server
LENGTHEN = Ms(15_000)
PERIOD_S = 15.0
_PREFIX = "site/"


class Presence:
    def __init__(self, store: Store, clock: Clock, leadership: Leadership) -> None:
        self._store = store
        self._clock = clock
        self._leadership = leadership
        self._scope = system_scope("sites")
        self._lengthened: dict[str, Ms] = {}

    async def heard(self, site: str) -> None:
        """Its agent spoke to this replica."""
        now = self._clock()
        if 0 <= now - self._lengthened.get(site, -LENGTHEN) < LENGTHEN:
            return
        await self._store.unit(self._scope, partial(_lengthen, site))
        self._lengthened[site] = now

    async def watch(self) -> None:
        """For ever: see whose lease has run out."""
        while True:
            await asyncio.sleep(PERIOD_S)
            try:
                await self.look()
            except Unavailable as error:
                warn("whether sites are away could not be looked at", detail=error.detail)

    async def look(self) -> None:
        if not self._leadership.leads:
            return
        late = await self._store.read(self._scope, partial(leases.run_out, prefix=_PREFIX, at=self._clock()))
        for name in late:
            await self._store.unit(self._scope, partial(self._lose, name))

    async def _lose(self, name: str, tx: Tx) -> None:
        await self._leadership.guard(tx)
        if await leases.abandon(tx, name):
            site = name.removeprefix(_PREFIX)
            await events.emit(tx, tx.database_ms, "site.away", site, tenant=None)
            warn("a site is away: its agent has not asked for a while", site=site)


async def _lengthen(site: str, tx: Tx) -> None:
    before = await leases.held(tx, _PREFIX + site)
    await leases.acquire(tx, _PREFIX + site, site, LENGTH)
    if before is not None and not before.holder:
        await events.emit(tx, tx.database_ms, "site.back", site, tenant=None)


async def away(tx: Tx) -> frozenset[str]:
    """The sites whose agents are away."""
    return frozenset(name.removeprefix(_PREFIX) for name in await leases.abandoned(tx, _PREFIX))


async def silent_since(tx: Tx, site: str) -> Ms:
    """When a site that is away was last heard of, or up to a quarter of a minute before. Raises Conflict
    where it is not away."""
    lease = await leases.held(tx, _PREFIX + site)
    if lease is None:
        raise Conflict(
            f"the site {site} has no agent that could be away",
            remedy="a site that never had one holds no work; the site inside `windlass up` ends with it",
        )
    heard = Ms(max(0, lease.expires - LENGTH))
    if lease.holder:
        raise Conflict(
            f"the site {site} is not away: its agent was heard of at {format_timestamp(heard)}",
            remedy=f"a site is away after {LENGTH // 1000} s without a word; `windlass cancel` stops work of"
            " a site that answers",
        )
    return heard


async def forget(tx: Tx, site: str) -> None:
    """The site is deleted: a later one of that name is another one."""
    await leases.forget(tx, _PREFIX + site)
