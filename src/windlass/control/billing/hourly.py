"""What the books do by the hour: post what running work owes, so that a bill never waits for a job to end,
and sum themselves up."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from windlass.control.billing.settle import post_until
from windlass.control.db import ledger
from windlass.control.db.port import Tx
from windlass.control.identity.scopes import system_scope
from windlass.core.errors import Unavailable
from windlass.core.metering import Holding
from windlass.core.units import HOUR_MS
from windlass.runtime.logging import warn
from windlass.runtime.metrics import IMBALANCE, LEDGER_CHECKED

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

_RETRY_S = 60.0


async def post_hourly(plane: ControlPlane) -> None:
    while True:
        now = plane.clock()
        await asyncio.sleep((HOUR_MS - now % HOUR_MS) / 1000)
        try:
            await post_running(plane)
        except Unavailable as error:
            warn("the hourly posting has to wait", detail=error.detail)
            await asyncio.sleep(_RETRY_S)


async def check_ledger(plane: ControlPlane) -> None:
    """At start and every hour, on the scan thread: every entry there is sums to zero."""
    while True:
        try:
            await measure_balance(plane)
        except Unavailable as error:
            warn("the ledger could not be checked", detail=error.detail)
        await asyncio.sleep(HOUR_MS / 1000)


async def measure_balance(plane: ControlPlane) -> None:
    sums = await plane.store.read(system_scope("billing"), ledger.ledger_sum, scan=True)
    for currency, micros in sums.items():
        IMBALANCE.labels(currency).set(micros)
        if micros:
            warn("the ledger does not sum to zero: this is a bug", currency=currency, micros=micros)
    LEDGER_CHECKED.set(plane.clock() / 1000)


async def post_running(plane: ControlPlane) -> None:
    """Each in a transaction of its own; one more or one less changes no bill."""
    if not plane.leadership.leads:
        return
    scope = system_scope("billing")
    for holding in await plane.store.read(scope, ledger.open_holdings):
        await plane.store.unit(scope, partial(_post, plane, holding))


async def _post(plane: ControlPlane, holding: Holding, tx: Tx) -> None:
    """Unless it was released, and so settled, since we looked."""
    current = await ledger.find(tx, [holding.id])
    owed = [(one, plane.clock()) for one in current if one.until is None]
    await post_until(tx, owed, plane.prices.timeline)
