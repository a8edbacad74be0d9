"""Which price was in force, at any instant, for a class, a tier and a currency.

The timeline is made of what the catalog said and *when it said it*: editing or adding a price book
today never re-rates yesterday, even when its `effectiveFrom` lies in the past. Looking prices up in
the present catalog at read time is the mistake this file exists to prevent.

At an instant t, of the books the catalog held at t, in that currency and with effectiveFrom <= t:
the one with the latest effectiveFrom that prices this class for this tier wins; of two with the same
effectiveFrom, the one whose name sorts last. In it, the tier's price goes before the class's.
A newer book that does not price the work falls back to the older one: a book says only what it
changes. (Were it otherwise, a book that reprices one class would make all others free.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from windlass.core.documents.kinds import PriceBook
from windlass.core.units import Micros, Ms


@dataclass(frozen=True, slots=True)
class PriceChange:
    """All price books of the catalog, by name, from the moment `at` at which it was accepted so."""

    at: Ms
    books: tuple[tuple[str, PriceBook], ...]


@dataclass(frozen=True, slots=True)
class Quote:
    """A price in force, and the book that says so."""

    per_gpu_hour: Micros
    book: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch `[since, until)` under one price. None: nothing prices it, and it costs nothing."""

    since: Ms
    until: Ms
    per_gpu_hour: Micros | None
    book: str | None


class _Step(NamedTuple):
    """From `since` on, this quote, until the next step."""

    since: Ms
    quote: Quote | None


_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class PriceTimeline:
    """Changes in the order of catalog revisions. A revision accepted by a clock that stepped back
    counts from its predecessor's instant: sorting by time would let the older revision rule for ever."""

    changes: tuple[PriceChange, ...] = ()
    # A memo of values derived from `changes`; every holding of a class and tier asks for the same one.
    _curves: dict[_Key, tuple[_Step, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "changes", tuple(_in_order(self.changes)))

    def after(self, change: PriceChange) -> PriceTimeline:
        """The timeline with one more change; everything before it stays as it was."""
        return PriceTimeline((*self.changes, change))

    def price_at(self, gpu_class: str, tier: str, currency: str, at: Ms) -> Quote | None:
        """The definition, word for word. `segments` is the same for stretches, and faster."""
        index = bisect_right(self.changes, at, key=lambda change: change.at)
        if not index:
            return None
        return _in_force(list(_offers(self.changes[index - 1], (gpu_class, tier, currency))), at)

    def segments(self, gpu_class: str, tier: str, currency: str, since: Ms, until: Ms) -> tuple[Segment, ...]:
        """`[since, until)` cut where the price in force changes; adjacent equal ones are one.

        A segment's `since` identifies it for a holding: changes to come only ever cut or add
        stretches after them, so it never moves.
        """
        steps = self._curve((gpu_class, tier, currency))
        segments: list[Segment] = []
        index = max(bisect_right(steps, since, key=lambda step: step.since) - 1, 0)
        while since < until:
            end = min(until, steps[index + 1].since) if index + 1 < len(steps) else until
            quote = steps[index].quote
            segments.append(
                Segment(since, end, quote.per_gpu_hour if quote else None, quote.book if quote else None)
            )
            since, index = end, index + 1
        return tuple(segments)

    def _curve(self, key: _Key) -> tuple[_Step, ...]:
        """Every price that was or will be in force for the key; the first step is also all time before."""
        curve = self._curves.get(key)
        if curve is None:
            curve = self._curves[key] = tuple(_steps(self.changes, key))
        return curve


class _Offer(NamedTuple):
    effective_from: Ms
    book: str
    per_gpu_hour: Micros


def _in_order(changes: Iterable[PriceChange]) -> Iterator[PriceChange]:
    """Instants that never fall, and only changes that change a book: most revisions change none."""
    last: PriceChange | None = None
    for change in changes:
        if last is None or change.books != last.books:
            last = change if last is None or change.at >= last.at else replace(change, at=last.at)
            yield last


def _steps(changes: tuple[PriceChange, ...], key: _Key) -> Iterator[_Step]:
    # Before anything was accepted nothing had a price. The instant of this step is never compared.
    last = _Step(min([Ms(0), *(change.at for change in changes)]), None)
    yield last
    for change, successor in zip(changes, [*changes[1:], None], strict=False):
        offers = list(_offers(change, key))
        cuts = {change.at, *(offer.effective_from for offer in offers if offer.effective_from > change.at)}
        for cut in sorted(cuts):
            if successor is not None and cut >= successor.at:
                break
            quote = _in_force(offers, cut)
            if quote != last.quote:
                last = _Step(cut, quote)
                yield last


def _offers(change: PriceChange, key: _Key) -> Iterator[_Offer]:
    """What each book asks of the key, where it asks anything."""
    gpu_class, tier, currency = key
    for name, book in change.books:
        if book.currency != currency:
            continue
        asked = {price.tier: price.per_gpu_hour for price in book.prices if price.profile_class == gpu_class}
        price = asked.get(tier, asked.get(None))
        if price is not None:
            yield _Offer(book.effective_from, name, price)


def _in_force(offers: list[_Offer], at: Ms) -> Quote | None:
    offer = max((offer for offer in offers if offer.effective_from <= at), default=None)
    return Quote(offer.per_gpu_hour, offer.book) if offer else None
