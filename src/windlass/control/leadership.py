"""Which replica does what only one may do: the scheduler's decisions and the hourly postings.

The leader holds a lease by the database's clock and lengthens it three times in its length; the others
look as often, and whoever finds it expired takes it. Nobody trusts its own belief of leading: every
write made as leader shows the lease's token in its transaction, so a leader that was frozen and wakes
is refused there. The embedded platform is alone on its data folder and always leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from windlass.control.db import events, leases
from windlass.control.db.leases import Lease
from windlass.control.db.port import Store, Tx
from windlass.control.identity.scopes import system_scope
from windlass.core.errors import Unavailable
from windlass.core.units import Ms
from windlass.runtime.logging import say, warn

NAME = "leader"
LENGTH = Ms(3_000)
PERIOD_S = LENGTH / 1000 / 3
_ALONE = 0


class Leadership:
    """`holder` None: alone, and always leading."""

    def __init__(self, store: Store, clock: Callable[[], Ms], holder: str | None) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._scope = system_scope("leader")
        self._token: int | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def token(self) -> int | None:
        """Under which this replica leads, None while it does not. A new token is a new beginning:
        somebody else may have led in between."""
        return _ALONE if self._holder is None else self._token

    @property
    def leads(self) -> bool:
        return self.token is not None

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def guard(self, tx: Tx) -> None:
        """The first statement of whatever is written as leader."""
        if self._holder is None:
            return
        if self._token is None:
            raise leases.Deposed("another replica leads")
        await leases.check(tx, NAME, self._token)

    async def keep(self) -> None:
        """For ever: lengthen the lease, or see whether it is free."""
        while self._holder is not None:
            try:
                await self.look()
            except Unavailable as error:
                warn("the lease could not be looked at", detail=error.detail)
                self._lead(None)  # whether it still stands, the database will say when it is back
            await asyncio.sleep(PERIOD_S)
        await asyncio.Event().wait()

    async def look(self) -> None:
        found = await self._store.read(self._scope, _held)
        free = found is None or found.holder == self._holder or not found.stands(self._clock(), LENGTH)
        lease = await self._store.unit(self._scope, self._take) if free else None
        self._lead(lease.token if lease is not None else None)

    async def resign(self) -> None:
        """Going away by our own will: the next one need not wait for the lease to run out."""
        if self._holder is None or self._token is None:
            return
        self._lead(None)

        async def unit(tx: Tx) -> None:
            assert self._holder is not None
            await leases.release(tx, NAME, self._holder)

        await self._store.unit(self._scope, unit)

    async def _take(self, tx: Tx) -> Lease | None:
        assert self._holder is not None
        lease = await leases.acquire(tx, NAME, self._holder, LENGTH)
        if lease is not None and lease.token != self._token:
            told = {"holder": self._holder, "token": lease.token}
            await events.emit(tx, tx.database_ms, "platform.leader", self._holder, tenant=None, data=told)
        return lease

    def _lead(self, token: int | None) -> None:
        if token == self._token:
            return
        self._token = token
        say("leads" if token is not None else "follows", token=token)
        for listener in self._listeners:
            listener()


async def _held(tx: Tx) -> Lease | None:
    return await leases.held(tx, NAME)
