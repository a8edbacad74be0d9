"""The price in force: tier before class, newer before older, and a past that stays as it was."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.documents.kinds import Price, PriceBook
from windlass.core.ledger.prices import PriceChange, PriceTimeline, Quote, Segment
from windlass.core.metering import Holding
from windlass.core.units import Micros, Ms

KEY = ("h100-80g", "gold", "USD")
instants = st.integers(-10, 22_000_000).map(Ms)


def book(effective_from: int = 0, *, currency: str = "USD", **prices: int) -> PriceBook:
    """`h100=5, h100_gold=7`: micro-units per GPU hour."""
    listed = []
    for name, micros in prices.items():
        short, _, tier = name.partition("_")
        gpu_class = {"h100": "h100-80g", "l40s": "l40s-48g"}[short]
        listed.append(Price(gpu_class, Micros(micros), tier or None))
    return PriceBook(currency, Ms(effective_from), tuple(listed))


def timeline(*changes: tuple[int, dict[str, PriceBook]]) -> PriceTimeline:
    return PriceTimeline(tuple(PriceChange(Ms(at), tuple(books.items())) for at, books in changes))


def in_force(found: PriceTimeline, at: int, key: tuple[str, str, str] = KEY) -> tuple[int, str] | None:
    quote = found.price_at(*key, Ms(at))
    return (quote.per_gpu_hour, quote.book) if quote else None


def test_the_tiers_price_goes_before_the_classs() -> None:
    found = timeline((0, {"list": book(h100=249, h100_gold=399)}))
    assert in_force(found, 5) == (399, "list")
    assert in_force(found, 5, ("h100-80g", "bronze", "USD")) == (249, "list")


def test_a_tier_price_of_zero_is_a_price() -> None:
    assert in_force(timeline((0, {"list": book(h100=249, h100_gold=0)})), 5) == (0, "list")


def test_the_latest_effective_book_wins_and_of_two_the_last_name() -> None:
    found = timeline((0, {"new": book(10, h100=2), "old": book(0, h100=1), "zeta": book(20, h100=4)}))
    assert [in_force(found, at) for at in (0, 9, 10, 20)] == [(1, "old"), (1, "old"), (2, "new"), (4, "zeta")]
    assert in_force(timeline((0, {"b": book(h100=2), "a": book(h100=1)})), 5) == (2, "b")


def test_a_newer_class_price_goes_before_an_older_tier_price() -> None:
    found = timeline((0, {"old": book(0, h100_gold=7), "new": book(10, h100=5)}))
    assert in_force(found, 10) == (5, "new")


def test_a_book_that_does_not_price_the_work_falls_back_to_the_older_one() -> None:
    found = timeline(
        (0, {"old": book(0, h100=5), "other": book(10, l40s=1), "bronze": book(20, h100_bronze=2)})
    )
    assert in_force(found, 30) == (5, "old")


def test_other_currencies_and_unknown_classes_are_unpriced() -> None:
    found = timeline((0, {"eur": book(currency="EUR", h100=5)}))
    assert in_force(found, 5) is None
    assert in_force(found, 5, ("b200-192g", "gold", "EUR")) is None
    assert in_force(found, 5, ("h100-80g", "gold", "EUR")) == (5, "eur")


def test_a_book_accepted_today_never_reprices_yesterday() -> None:
    found = timeline((100, {"list": book(0, h100=5)}), (200, {"list": book(0, h100=9)}))
    assert found.segments(*KEY, Ms(50), Ms(300)) == (
        Segment(Ms(50), Ms(100), None, None),
        Segment(Ms(100), Ms(200), Micros(5), "list"),
        Segment(Ms(200), Ms(300), Micros(9), "list"),
    )


def test_a_book_announced_for_later_and_withdrawn_in_time_never_counts() -> None:
    now, later = book(0, h100=5), book(150, h100=9)
    found = timeline((0, {"now": now, "later": later}), (140, {"now": now}))
    assert found.segments(*KEY, Ms(0), Ms(300)) == (Segment(Ms(0), Ms(300), Micros(5), "now"),)


def test_a_book_that_takes_effect_as_the_next_revision_is_accepted_makes_no_empty_segment() -> None:
    now, later = book(0, h100=5), book(150, h100=9)
    found = timeline((0, {"now": now, "later": later}), (150, {"now": now}))
    assert found.segments(*KEY, Ms(0), Ms(300)) == (Segment(Ms(0), Ms(300), Micros(5), "now"),)


def test_a_revision_accepted_by_a_clock_that_stepped_back_still_succeeds_its_predecessor() -> None:
    found = timeline((100, {"list": book(h100=5)}), (90, {"list": book(h100=9)}))
    assert in_force(found, 95) is None
    assert in_force(found, 100) == (9, "list")


def test_revisions_that_change_no_book_leave_no_trace() -> None:
    books = {"list": book(h100=5)}
    assert timeline((0, books), (10, books), (20, books)) == timeline((0, books))


@given(st.from_type(PriceTimeline), st.from_type(Holding), instants, instants)
def test_segments_cover_the_stretch_without_gaps_and_differ_from_their_neighbours(
    found: PriceTimeline, h: Holding, since: Ms, until: Ms
) -> None:
    segments = found.segments(h.gpu_class, h.tier, h.currency, since, until)
    if since >= until:
        assert segments == ()
        return
    assert (segments[0].since, segments[-1].until) == (since, until)
    for one, other in pairwise(segments):
        assert one.until == other.since
        assert (one.per_gpu_hour, one.book) != (other.per_gpu_hour, other.book)
    assert all(segment.since < segment.until for segment in segments)


@given(st.from_type(PriceTimeline), st.from_type(Holding), instants, instants, st.data())
def test_a_segments_price_is_the_price_at_each_of_its_instants(
    found: PriceTimeline, h: Holding, since: Ms, until: Ms, data: st.DataObject
) -> None:
    for segment in found.segments(h.gpu_class, h.tier, h.currency, since, until):
        at = data.draw(
            st.sampled_from([segment.since, segment.until - 1])
            | st.integers(segment.since, segment.until - 1)
        )
        quote = found.price_at(h.gpu_class, h.tier, h.currency, Ms(at))
        assert quote == (
            None if segment.book is None else Quote(Micros(segment.per_gpu_hour or 0), segment.book)
        )


@given(st.from_type(PriceTimeline), st.from_type(PriceChange), st.from_type(Holding), instants)
def test_a_later_change_leaves_every_earlier_instant_alone(
    found: PriceTimeline, change: PriceChange, h: Holding, since: Ms
) -> None:
    longer = found.after(change)
    key = (h.gpu_class, h.tier, h.currency)
    at = max([change.at, *(earlier.at for earlier in found.changes)])
    assert longer.segments(*key, since, at) == found.segments(*key, since, at)
