"""Settle: from held GPUs to money, in the transaction that released them.

A holding is posted when it ends and, so that no bill is a surprise, once an hour while it runs. Each
posting is the rounded total so far minus what is posted, so it does not matter how many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from windlass.control.db import ledger
from windlass.control.db.port import Tx
from windlass.core.coverage import bare
from windlass.core.ledger.budgets import period_bounds, period_ends
from windlass.core.ledger.postings import NOTHING, Posted, Transfer, charged, post, posted_with
from windlass.core.ledger.prices import PriceTimeline
from windlass.core.metering import Holding, close, workload_of
from windlass.core.units import Ms
from windlass.runtime.metrics import GPU_SECONDS


async def open_accounts(tx: Tx, holdings: Iterable[Holding]) -> None:
    """GPUs are placed: the meter runs."""
    await ledger.open_all(tx, holdings)


async def release(tx: Tx, freed: Mapping[str, Ms], timeline: PriceTimeline) -> None:
    """GPUs are free again, by holding since when: close the holdings and post the rest. Once only, however
    often it is told."""
    if not freed:
        return
    found = await ledger.find(tx, list(freed))
    ended = [close(holding, freed[holding.id]) for holding in found if holding.until is None]
    await ledger.close_all(tx, ended)
    await post_until(
        tx, [(holding, holding.until) for holding in ended if holding.until is not None], timeline
    )


async def post_until(tx: Tx, owed: Sequence[tuple[Holding, Ms]], timeline: PriceTimeline) -> None:
    """Post what each holding owes at its instant, day by day, so that each day's money is in that day's
    budget."""
    if not owed:
        return
    posted = await ledger.posted(tx, [holding.id for holding, _ in owed])
    made: list[Transfer] = []
    spent: Counter[tuple[str, Ms]] = Counter()
    used: Counter[str] = Counter()
    for holding, until in owed:
        for at, transfers in _by_day(holding, until, timeline, posted.get(holding.id, NOTHING)):
            made += transfers
            seconds = sum(transfer.usage.gpu_us for transfer in transfers if transfer.usage) / 1_000_000
            GPU_SECONDS.labels(bare(holding.type) or "unknown").inc(max(0.0, seconds))
            micros = sum(charged(transfer) for transfer in transfers)
            # A posting at midnight is for the day that ended.
            day, _ = period_bounds("day", Ms(at - 1))
            for scope in _scopes(holding):
                spent[scope, day] += micros
            used[workload_of(holding.id)] += max(0, micros)
    await ledger.add_transfers(tx, made)
    await ledger.spend(tx, spent)
    await ledger.use_holds(tx, used)


def _by_day(
    holding: Holding, until: Ms, timeline: PriceTimeline, posted: Mapping[Ms, Posted]
) -> Iterator[tuple[Ms, tuple[Transfer, ...]]]:
    last = max((part.through for part in posted.values()), default=holding.since)
    for at in (*period_ends("day", last, until), until):
        transfers = post(holding, timeline, at, posted)
        if transfers:
            posted = posted_with(posted, transfers)
            yield at, transfers


def _scopes(holding: Holding) -> tuple[str, str, str]:
    project = f"{holding.tenant}/{holding.project}"
    return holding.tenant, project, f"{project}/{holding.env}"
