"""How the API does, minute by minute, kept: so that its availability is known after a restart.

Counted in memory, stored once a minute while there is something to store. A killed process loses what it
counted since; it says so nowhere, because it does not know.
"""

from __future__ import annotations

import asyncio

from windlass.control.db import slo
from windlass.control.db.port import Store, Tx
from windlass.control.identity.scopes import system_scope
from windlass.core.errors import Unavailable
from windlass.core.units import Ms
from windlass.runtime.clock import Clock
from windlass.runtime.logging import warn

_MINUTE_MS = 60_000
_KEPT_MS = 40 * 86_400_000  # longer than the longest window that can be asked for


class Minutes:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._scope = system_scope("gateway")
        self._answered = self._failed = 0

    def count(self, *, failed: bool) -> None:
        self._answered += 1
        self._failed += failed

    @property
    def unsaved(self) -> tuple[int, int]:
        """Answered and failed, of what is not stored yet."""
        return self._answered, self._failed

    async def run(self) -> None:
        while True:
            await asyncio.sleep((_MINUTE_MS - self._clock() % _MINUTE_MS) / 1000)
            try:
                await self.save()
            except Unavailable as error:
                warn("how the API does could not be stored; it is counted on", detail=error.detail)

    async def save(self) -> None:
        answered, failed = self.unsaved
        if not answered:
            return
        # What belongs to the minute that just ended is stored at its end.
        minute = Ms((self._clock() - 1) // _MINUTE_MS * _MINUTE_MS)

        async def unit(tx: Tx) -> None:
            await slo.add_minute(tx, minute, answered, failed)
            await slo.forget_minutes(tx, Ms(minute - _KEPT_MS))

        # Taken before the wait: whoever is cancelled in it has stored them all the same.
        self._answered, self._failed = 0, 0
        try:
            await self._store.unit(self._scope, unit)
        except Unavailable:
            self._answered += answered
            self._failed += failed
            raise
