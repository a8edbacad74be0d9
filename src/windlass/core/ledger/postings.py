"""Double entry: transfers whose entries sum to zero, and the ones that usage makes.

Nothing is ever changed or removed. A charge that turns out too high (a release reported late, with an
earlier time) is put right by one more transfer, the other way. Amounts are debits where positive: a
tenant's receivable grows, the platform's revenue shrinks below zero, and all accounts sum to zero.

Ids are for ever unique by (source, id) and made from what is charged: holding, segment, and how many
transfers that segment already has. Hence two writers that start from the same state make the same id,
one of them wins and the other finds it taken. The instant posted through would not do as the last
part: two writers a millisecond apart would both post the same usage under different ids.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NewType

import msgspec

from windlass.core.ledger.prices import PriceTimeline, Segment
from windlass.core.ledger.rating import Charge, rate
from windlass.core.metering import Holding
from windlass.core.units import GpuUs, Micros, MilliGpu, Ms

Account = NewType("Account", str)

USAGE = "usage"
"""The source of transfers that charge for holdings."""

_INT64 = 2**63
_NO_TIME = GpuUs(0)


@dataclass(frozen=True, slots=True)
class Entry:
    """One side: a debit where positive, a credit where negative, never nothing."""

    account: Account
    currency: str
    micros: Micros

    def __post_init__(self) -> None:
        if not self.micros:
            raise ValueError(f"an entry of nothing on {self.account}")
        if abs(self.micros) >= _INT64:
            raise ValueError(f"an entry of {self.micros} on {self.account} is more than a ledger can store")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a transfer charges for: whose, and the part of one segment this transfer adds.

    `through` is where the segment ends as charged so far; a quantity below zero takes back. Time too
    short to cost a micro-unit makes no transfer and is in the next one's quantity.
    """

    holding: str
    tenant: str
    project: str
    env: str
    component: str
    gpu_class: str
    tier: str
    gpu_milli: MilliGpu
    segment: Ms
    sequence: int
    through: Ms
    gpu_us: GpuUs
    per_gpu_hour: Micros | None
    book: str | None


@dataclass(frozen=True, slots=True)
class Transfer:
    """Money moved, at once and whole. Refuses to exist unless every currency sums to zero."""

    source: str
    id: str
    at: Ms
    memo: str
    entries: tuple[Entry, ...]
    usage: Usage | None = None

    def __post_init__(self) -> None:
        if not self.source or not self.id or not self.entries:
            raise ValueError("a transfer has a source, an id and entries")
        sums: defaultdict[str, int] = defaultdict(int)
        for entry in self.entries:
            sums[entry.currency] += entry.micros
        if any(sums.values()):
            raise ValueError(f"transfer {self.source}/{self.id} does not sum to zero: {dict(sums)}")


@dataclass(frozen=True, slots=True)
class Posted:
    """What a segment of a holding was charged so far, and in how many transfers."""

    micros: Micros = Micros(0)
    gpu_us: GpuUs = _NO_TIME
    count: int = 0
    through: Ms = Ms(0)


NOTHING: Mapping[Ms, Posted] = {}
"""What was posted of a holding that is new: by segment, nothing."""


def receivable(tenant: str) -> Account:
    """What a tenant owes."""
    return Account(f"tenant/{_plain(tenant)}/receivable")


def revenue(gpu_class: str) -> Account:
    """What the platform earned with a class."""
    return Account(f"platform/revenue/{_plain(gpu_class)}")


def post(
    holding: Holding, timeline: PriceTimeline, until: Ms, posted: Mapping[Ms, Posted] = NOTHING
) -> tuple[Transfer, ...]:
    """The transfers that bring what was posted of a holding (by segment) to what it owes at `until`.

    Nothing to add makes nothing. A segment that was charged and is no longer owed (the release lies
    before it) is taken back. Dated at `until`, so that a correction falls into the period in which it
    is made and a closed one stays as it was.
    """
    at = horizon(holding, until, posted)
    charges = {charge.segment.since: charge for charge in rate(holding, timeline, at)}
    for since in posted:
        charges.setdefault(since, _nothing_owed(since))
    transfers = (
        charge_transfer(holding, charges[since], posted.get(since, Posted()), at) for since in sorted(charges)
    )
    return tuple(transfer for transfer in transfers if transfer is not None)


def horizon(holding: Holding, until: Ms, posted: Mapping[Ms, Posted]) -> Ms:
    """`until`, but not before what is posted: a clock that stepped back takes no charge back."""
    return max([holding.since, until, *(part.through for part in posted.values())])


def charge_transfer(holding: Holding, charge: Charge, posted: Posted, at: Ms) -> Transfer | None:
    """The rounded total so far minus what is posted, as one transfer; None where that is zero."""
    delta = charge.micros - posted.micros
    if not delta:
        return None
    return Transfer(
        source=USAGE,
        id=f"{holding.id}/{charge.segment.since}/{posted.count}",
        at=at,
        memo="GPU time" if delta > 0 else "GPU time, corrected",
        entries=(
            Entry(receivable(holding.tenant), holding.currency, Micros(delta)),
            Entry(revenue(holding.gpu_class), holding.currency, Micros(-delta)),
        ),
        usage=_usage(holding, charge, posted),
    )


def posted_by_holding(transfers: Iterable[Transfer]) -> dict[str, dict[Ms, Posted]]:
    """What `post` needs to go on: per holding, per segment, what was charged so far."""
    posted: dict[str, dict[Ms, Posted]] = {}
    charges = [(transfer.usage, charged(transfer)) for transfer in transfers if transfer.usage is not None]
    # In the order they were made: the last one says how far a segment is charged, and after a
    # correction that is not the greatest.
    for usage, micros in sorted(charges, key=lambda charge: charge[0].sequence):
        segments = posted.setdefault(usage.holding, {})
        part = segments.get(usage.segment, Posted())
        segments[usage.segment] = Posted(
            micros=Micros(part.micros + micros),
            gpu_us=GpuUs(part.gpu_us + usage.gpu_us),
            count=part.count + 1,
            through=usage.through,
        )
    return posted


def posted_with(posted: Mapping[Ms, Posted], transfers: Iterable[Transfer]) -> Mapping[Ms, Posted]:
    """What is posted of a holding once these transfers of it are, too."""
    total = dict(posted)
    for transfer in transfers:
        usage = transfer.usage
        assert usage is not None, "only usage charges for a holding"
        part = total.get(usage.segment, Posted())
        total[usage.segment] = Posted(
            micros=Micros(part.micros + charged(transfer)),
            gpu_us=GpuUs(part.gpu_us + usage.gpu_us),
            count=part.count + 1,
            through=max(part.through, usage.through),
        )
    return total


def charged(transfer: Transfer) -> Micros:
    """What a transfer adds to what its tenant owes."""
    owing = [entry.micros for entry in transfer.entries if entry.account.startswith("tenant/")]
    return Micros(sum(owing))


def balance(entries: Iterable[Entry]) -> dict[tuple[Account, str], Micros]:
    """The sum of each account in each currency."""
    sums: defaultdict[tuple[Account, str], int] = defaultdict(int)
    for entry in entries:
        sums[entry.account, entry.currency] += entry.micros
    return {key: Micros(amount) for key, amount in sorted(sums.items())}


def payload_hash(transfer: Transfer) -> str:
    """SHA-256 of all a transfer says: the same id with another hash is a conflict, never a replay."""
    return hashlib.sha256(msgspec.json.encode(transfer, order="sorted")).hexdigest()


def _usage(holding: Holding, charge: Charge, posted: Posted) -> Usage:
    return Usage(
        holding=holding.id,
        tenant=holding.tenant,
        project=holding.project,
        env=holding.env,
        component=holding.component,
        gpu_class=holding.gpu_class,
        tier=holding.tier,
        gpu_milli=holding.gpu_milli,
        segment=charge.segment.since,
        sequence=posted.count,
        through=charge.segment.until,
        gpu_us=GpuUs(charge.gpu_us - posted.gpu_us),
        per_gpu_hour=charge.segment.per_gpu_hour,
        book=charge.segment.book,
    )


def _nothing_owed(since: Ms) -> Charge:
    return Charge(Segment(since, since, None, None), GpuUs(0), Micros(0))


def _plain(name: str) -> str:
    if not name or "/" in name:
        raise ValueError(f"{name!r} cannot be part of an account's name")
    return name
