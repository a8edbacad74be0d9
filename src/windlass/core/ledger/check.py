"""The auditor: finds what is wrong with a ledger, by other means than those that wrote it.

It shares no arithmetic with rating: it asks the timeline for the price instant by instant
(`price_at`, the definition) at every instant at which one could change, multiplies in fractions, and
rounds with Python's own half-even. Used by the tests, the demo and the platform's own audit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from windlass.core.ledger.postings import USAGE, Transfer, Usage, receivable, revenue
from windlass.core.ledger.prices import PriceTimeline, Quote
from windlass.core.metering import Holding
from windlass.core.units import GPU_US_PER_HOUR, Micros, Ms


@dataclass(frozen=True, slots=True)
class Problem:
    """`code` is one of unbalanced, duplicate, gap, unknown-holding, misposted, drift."""

    code: str
    subject: str
    message: str


def check(
    transfers: Sequence[Transfer],
    holdings: Sequence[Holding],
    timeline: PriceTimeline,
    *,
    until: Ms | None = None,
) -> tuple[Problem, ...]:
    """Everything that is wrong; empty when the ledger holds.

    With `until`, every holding must be posted through it. Without, each is judged as far as it was
    posted: what is not posted yet is no mistake.
    """
    return (*check_entries(transfers), *check_rating(transfers, holdings, timeline, until=until))


def check_entries(transfers: Sequence[Transfer]) -> tuple[Problem, ...]:
    """Sums to zero, each and all; every (source, id) once; no transfer of a segment missing."""
    problems = []
    seen: set[tuple[str, str]] = set()
    total: defaultdict[str, int] = defaultdict(int)
    for transfer in transfers:
        name = f"{transfer.source}/{transfer.id}"
        sums: defaultdict[str, int] = defaultdict(int)
        for entry in transfer.entries:
            sums[entry.currency] += entry.micros
            total[entry.currency] += entry.micros
        problems += [
            Problem("unbalanced", name, f"its entries sum to {amount} micro-{currency}")
            for currency, amount in sorted(sums.items())
            if amount
        ]
        if (transfer.source, transfer.id) in seen:
            problems.append(Problem("duplicate", name, "it was posted more than once"))
        seen.add((transfer.source, transfer.id))
    problems += [
        Problem("unbalanced", currency, f"all entries together sum to {amount} micro-{currency}")
        for currency, amount in sorted(total.items())
        if amount
    ]
    return (*problems, *_gaps(transfers))


def check_rating(
    transfers: Sequence[Transfer],
    holdings: Sequence[Holding],
    timeline: PriceTimeline,
    *,
    until: Ms | None = None,
) -> tuple[Problem, ...]:
    """Every holding is charged what it owes, to its tenant, for its class, in its currency."""
    problems = []
    by_holding: defaultdict[str, list[tuple[Usage, Transfer]]] = defaultdict(list)
    for transfer in transfers:
        if transfer.source == USAGE and transfer.usage is not None:
            by_holding[transfer.usage.holding].append((transfer.usage, transfer))
    known: set[str] = set()
    for holding in holdings:
        if holding.id in known:
            problems.append(Problem("duplicate", holding.id, "two holdings have this id"))
            continue
        known.add(holding.id)
        problems += _check_holding(holding, by_holding[holding.id], timeline, until)
    problems += [
        Problem("unknown-holding", name, "it was charged, and there is no such holding")
        for name in sorted(by_holding.keys() - known)
    ]
    return tuple(problems)


def _gaps(transfers: Iterable[Transfer]) -> list[Problem]:
    sequences: defaultdict[tuple[str, Ms], set[int]] = defaultdict(set)
    for transfer in transfers:
        if transfer.usage is not None:
            sequences[transfer.usage.holding, transfer.usage.segment].add(transfer.usage.sequence)
    return [
        Problem("gap", f"{holding}/{segment}", "a transfer of this segment is missing")
        for (holding, segment), found in sorted(sequences.items())
        if found != set(range(len(found)))
    ]


def _check_holding(
    holding: Holding, charges: list[tuple[Usage, Transfer]], timeline: PriceTimeline, until: Ms | None
) -> list[Problem]:
    problems = []
    sides = {(receivable(holding.tenant), holding.currency), (revenue(holding.gpu_class), holding.currency)}
    posted: defaultdict[Ms, int] = defaultdict(int)
    for usage, transfer in charges:
        if {(entry.account, entry.currency) for entry in transfer.entries} != sides:
            problems.append(
                Problem("misposted", transfer.id, "its accounts or currency are not its holding's")
            )
        posted[usage.segment] += sum(
            entry.micros for entry in transfer.entries if entry.account == receivable(holding.tenant)
        )
    through = max((usage.through for usage, _ in charges), default=holding.since)
    end = through if until is None else max(through, until)
    owed = _owed(holding, timeline, end if holding.until is None else min(end, holding.until))
    for segment in sorted({*posted, *owed}):
        if posted[segment] != owed.get(segment, 0):
            message = f"it owes {owed.get(segment, 0)} micro-{holding.currency}, posted are {posted[segment]}"
            problems.append(Problem("drift", f"{holding.id}/{segment}", message))
    return problems


def _owed(holding: Holding, timeline: PriceTimeline, end: Ms) -> dict[Ms, Micros]:
    """By segment, rated from the definition: every instant at which a price could change is looked at."""
    cuts = {holding.since}
    for change in timeline.changes:
        cuts |= {change.at, *(book.effective_from for _, book in change.books)}
    instants = [*sorted(cut for cut in cuts if holding.since <= cut < end), end]
    exact: dict[Ms, Fraction] = {}
    segment, last = holding.since, None
    for since, until in pairwise(instants):
        quote: Quote | None = timeline.price_at(holding.gpu_class, holding.tier, holding.currency, since)
        if quote != last:
            segment, last = since, quote
        price = Fraction(quote.per_gpu_hour if quote else 0, GPU_US_PER_HOUR)
        exact[segment] = exact.get(segment, Fraction(0)) + holding.gpu_milli * (until - since) * price
    return {since: Micros(round(amount)) for since, amount in exact.items()}
