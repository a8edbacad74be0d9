"""Settle: from held GPUs to money, in the transaction that released them.

A holding is posted when it ends and, so that no bill is a surprise, once an hour while it runs. Each
posting is the rounded total so far minus what is posted, so it does not matter how many there are.
"""

from __future__ import annotations

from windlass.control.db import ledger
from windlass.control.db.port import Tx
from windlass.core.coverage import bare
from windlass.core.ledger.budgets import period_bounds, period_ends
from windlass.core.ledger.postings import charged, post
from windlass.core.ledger.prices import PriceTimeline
from windlass.core.metering import Holding, close, workload_of
from windlass.core.units import Micros, Ms
from windlass.runtime.metrics import GPU_SECONDS


async def open_account(tx: Tx, holding: Holding) -> None:
    """GPUs are placed: the meter runs."""
    await ledger.open_holding(tx, holding)


async def release(tx: Tx, id: str, until: Ms, timeline: PriceTimeline) -> None:
    """GPUs are free again: close the holding and post the rest. Once only, however often it is told."""
    found = await ledger.holding(tx, id)
    if found is None or found.until is not None:
        return
    ended = close(found, until)
    assert ended.until is not None
    if await ledger.close_holding(tx, id, ended.until):
        await post_until(tx, ended, ended.until, timeline)


async def post_until(tx: Tx, holding: Holding, until: Ms, timeline: PriceTimeline) -> None:
    """Post what is owed at `until`, day by day, so that each day's money is in that day's budget."""
    posted = await ledger.posted(tx, holding.id)
    last = max((part.through for part in posted.values()), default=holding.since)
    for at in (*period_ends("day", last, until), until):
        transfers = post(holding, timeline, at, await ledger.posted(tx, holding.id))
        if not transfers:
            continue
        await ledger.add_transfers(tx, transfers)
        seconds = sum(transfer.usage.gpu_us for transfer in transfers if transfer.usage) / 1_000_000
        GPU_SECONDS.labels(bare(holding.type) or "unknown").inc(max(0.0, seconds))
        spent = Micros(sum(charged(transfer) for transfer in transfers))
        # A posting at midnight is for the day that ended.
        day, _ = period_bounds("day", Ms(at - 1))
        for scope in _scopes(holding):
            await ledger.spend(tx, scope, day, spent)
        await ledger.use_hold(tx, workload_of(holding.id), spent)


def _scopes(holding: Holding) -> tuple[str, str, str]:
    project = f"{holding.tenant}/{holding.project}"
    return holding.tenant, project, f"{project}/{holding.env}"
