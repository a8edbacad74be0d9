"""Past use for the engine: read once from the holdings that ended lately, then kept up from what runs."""

from __future__ import annotations

from windlass.control.db import ledger
from windlass.control.db.port import Store, Tx
from windlass.control.identity.scopes import Scope
from windlass.core.scheduling.model import PastUseChanged, Quota
from windlass.core.scheduling.past import REMEMBERED, SAMPLED, PastUse, beyond_guarantees
from windlass.core.scheduling.state import State
from windlass.core.units import HOUR_MS, Ms


class PastUseKeeper:
    def __init__(self) -> None:
        self._kept: PastUse | None = None
        self._running_counted = False

    async def load(self, store: Store, scope: Scope, now: Ms) -> None:
        """Once: a state that is loaded anew later has the same past."""
        if self._kept is not None:
            return

        async def read(tx: Tx) -> list[ledger.HourOfUse]:
            return await ledger.ended_since(tx, Ms(now - REMEMBERED))

        past = PastUse(now)
        for hour in await store.read(scope, read):
            past.remember(hour.queue, hour.gpu_class, hour.gpu_us, Ms(hour.hour * HOUR_MS))
        self._kept = past

    def news(self, state: State, quotas: tuple[Quota, ...], now: Ms, *, again: bool) -> list[PastUseChanged]:
        """What to tell the engine, if it is time to look or the quotas are new (`again`)."""
        if self._kept is None or not (again or now - self._kept.at >= SAMPLED):
            return []
        if self._running_counted or not state.held:
            self._kept.advance(state, now)
        else:  # the first look after the first load: what runs has run since long before this process
            self._kept.at = now
            self._kept.remember_running(state)
            self._running_counted = True
        return [PastUseChanged(beyond_guarantees(quotas, self._kept.averages))]
