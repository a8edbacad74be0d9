"""Budgets: periods that cover every instant once, holds that suffice, verdicts that are exact."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.documents.kinds import Budget, Price, PriceBook
from windlass.core.ledger.budgets import (
    Period,
    Verdict,
    budget_verdict,
    hold_amount,
    hold_left,
    period_bounds,
    period_ends,
    spent_between,
)
from windlass.core.ledger.postings import Transfer, post, posted_by_holding
from windlass.core.ledger.prices import PriceChange, PriceTimeline
from windlass.core.ledger.rating import per_hour, rate, total
from windlass.core.metering import Holding
from windlass.core.units import HOUR_MS, Micros, MilliGpu, Ms, format_timestamp, parse_timestamp

periods = st.sampled_from(get_args(Period))
# The years 1 to 9998, as far as the calendar of datetime and one period more go.
instants = st.integers(parse_timestamp("0001-01-01T00:00:00Z"), parse_timestamp("9998-12-31T23:59:59Z")).map(
    Ms
)


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        ("day", "2024-02-29", "2024-03-01"),
        ("month", "2024-02-01", "2024-03-01"),
        ("quarter", "2024-01-01", "2024-04-01"),
        ("year", "2024-01-01", "2025-01-01"),
    ],
)
def test_the_periods_of_a_leap_day(period: Period, start: str, end: str) -> None:
    bounds = period_bounds(period, parse_timestamp("2024-02-29T23:59:59.999Z"))
    assert [format_timestamp(at) for at in bounds] == [f"{start}T00:00:00.000Z", f"{end}T00:00:00.000Z"]


@given(periods, instants)
def test_every_instant_is_in_its_period_and_periods_touch(period: Period, now: Ms) -> None:
    start, end = period_bounds(period, now)
    assert start <= now < end
    assert period_bounds(period, start) == (start, end)
    assert period_bounds(period, Ms(end - 1)) == (start, end)
    if end < parse_timestamp("9999-01-01T00:00:00Z"):
        assert period_bounds(period, end)[0] == end


@given(instants)
def test_a_longer_period_contains_the_shorter_ones(now: Ms) -> None:
    bounds = [period_bounds(period, now) for period in get_args(Period)]
    for (start, end), (longer_start, longer_end) in pairwise(bounds):
        assert longer_start <= start < end <= longer_end


@given(periods, st.integers(0, 4 * 10**12), st.integers(0, 10**10))
def test_period_ends_are_all_ends_in_between(period: Period, since: int, length: int) -> None:
    ends = period_ends(period, Ms(since), Ms(since + length))
    edges = [since, *ends, since + length]
    assert edges == sorted(edges)
    assert all(period_bounds(period, end)[0] == end for end in ends)
    for one, other in pairwise(edges):
        assert one == other or period_bounds(period, Ms(one)) == period_bounds(period, Ms(other - 1))


def test_an_end_counts_as_of_its_own_instant_and_not_as_of_the_one_before() -> None:
    day = 24 * HOUR_MS
    assert period_ends("day", Ms(0), Ms(2 * day)) == (day, 2 * day)
    assert period_ends("day", Ms(day), Ms(2 * day - 1)) == ()


def test_posting_at_the_ends_keeps_a_days_money_in_that_day() -> None:
    day = 24 * HOUR_MS
    book = PriceBook("USD", Ms(0), (Price("h100-80g", Micros(2_490_001)),))
    found = PriceTimeline((PriceChange(Ms(0), (("list", book),)),))
    holding = Holding(
        "wl_1/1", "acme", "nlp", "prod", "sft", "h100-80g", "gold", "USD", MilliGpu(333), Ms(day // 2)
    )
    now, ledger = Ms(3 * day + 7), list[Transfer]()
    for at in (*period_ends("day", holding.since, now), now):
        ledger += post(holding, found, at, posted_by_holding(ledger).get(holding.id, {}))
    spent = [spent_between(ledger, "USD", Ms(n * day), Ms((n + 1) * day)) for n in range(4)]
    assert sum(spent) == total(rate(holding, found, now))
    assert spent[0] == total(rate(holding, found, Ms(day)))
    assert abs(spent[1] - 2 * spent[0]) <= 1
    assert spent_between(ledger, "EUR", Ms(0), now) == 0


def test_a_hold_is_the_time_limit_or_an_hour_rounded_up() -> None:
    assert hold_amount(Micros(19_920_000), Ms(4 * HOUR_MS)) == 79_680_000
    assert hold_amount(Micros(19_920_000), None) == 19_920_000
    assert hold_amount(Micros(1), Ms(1)) == 1
    assert hold_amount(Micros(0), None) == 0


@given(st.integers(0, 10**8), st.integers(1, 64_000), st.integers(0, 10**9))
def test_a_hold_is_never_below_the_charge(price: int, gpus: int, limit: int) -> None:
    book = PriceBook("USD", Ms(0), (Price("h100-80g", Micros(price)),))
    found = PriceTimeline((PriceChange(Ms(0), (("list", book),)),))
    holding = Holding(
        "wl_1/1", "acme", "nlp", "prod", "sft", "h100-80g", "gold", "USD", MilliGpu(gpus), Ms(0)
    )
    assert hold_amount(per_hour(Micros(price), MilliGpu(gpus)), Ms(limit)) >= total(
        rate(holding, found, Ms(limit))
    )


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_the_rest_of_a_hold_shrinks_to_nothing_at_the_time_limit(
    price: int, limit: int, elapsed: int
) -> None:
    left = hold_left(Micros(price), Ms(limit), Ms(elapsed))
    assert 0 <= left <= hold_amount(Micros(price), Ms(limit))
    if elapsed >= limit:
        assert left == 0


def test_work_without_a_limit_renews_its_hold_each_hour() -> None:
    hour = Micros(3_600_000)
    elapsed = [0, 1, HOUR_MS - 1, HOUR_MS, HOUR_MS + 1]
    assert [hold_left(hour, None, Ms(at)) for at in elapsed] == [
        3_600_000,
        3_599_999,
        1,
        3_600_000,
        3_599_999,
    ]


@pytest.mark.parametrize(
    ("spent", "held", "wanted", "verdict"),
    [
        (0, 0, 100, "ok"),
        (50, 30, 20, "ok"),
        (50, 30, 21, "exhausted"),
        (101, 0, 0, "exhausted"),
        (100, 0, 0, "ok"),
    ],
)
def test_exactly_the_whole_budget_fits_and_not_a_micro_unit_more(
    spent: int, held: int, wanted: int, verdict: Verdict
) -> None:
    stopping = Budget(Micros(100), "USD", "month")
    warning = Budget(Micros(100), "USD", "month", "warn")
    amounts = Micros(spent), Micros(held), Micros(wanted)
    assert budget_verdict(stopping, *amounts) == verdict
    assert budget_verdict(warning, *amounts) == ("ok" if verdict == "ok" else "warn")
