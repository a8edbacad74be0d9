"""Metering: exact quantities, and time that never runs backwards."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.metering import Holding, clip, close, gpu_hours, held, held_in_total, holding_id
from windlass.core.units import GPU_US_PER_HOUR, GpuUs, MilliGpu, Ms

instants = st.integers(-(10**6), 10**13).map(Ms)


@st.composite
def holdings(draw: st.DrawFn) -> Holding:
    since = draw(instants)
    until = draw(st.none() | st.integers(0, 10**11).map(lambda length: Ms(since + length)))
    return replace(holding(), gpu_milli=MilliGpu(draw(st.integers(0, 10**9))), since=since, until=until)


def holding(gpu_milli: int = 4000, since: int = 1000, until: int | None = None) -> Holding:
    return Holding(
        id=holding_id("wl_1", 1), tenant="acme", project="nlp", env="prod", component="sft",
        gpu_class="h100-80g", tier="gold", currency="USD", gpu_milli=MilliGpu(gpu_milli),
        since=Ms(since), until=None if until is None else Ms(until),
    )  # fmt: skip


def test_a_quarter_gpu_for_a_millisecond_is_250_gpu_microseconds() -> None:
    assert held(holding(gpu_milli=250, since=1000), Ms(1001)) == 250


def test_one_gpu_for_an_hour_is_one_gpu_hour() -> None:
    assert gpu_hours(held(holding(gpu_milli=1000, since=0, until=3_600_000), Ms(10**9))) == "1"


@given(holdings(), instants)
def test_what_is_held_is_never_below_zero_and_never_more_than_until_release(h: Holding, now: Ms) -> None:
    amount = held(h, now)
    assert amount >= 0
    if h.until is not None:
        assert amount <= h.gpu_milli * (h.until - h.since)


@given(holdings(), instants, instants)
def test_what_is_held_never_shrinks(h: Holding, one: Ms, other: Ms) -> None:
    assert held(h, min(one, other)) <= held(h, max(one, other))


@given(holdings(), instants)
def test_closing_clamps_to_the_beginning_and_the_first_release_stays(h: Holding, at: Ms) -> None:
    closed = close(h, at)
    assert closed.until is not None
    assert closed.until >= closed.since
    assert close(closed, Ms(at + 1000)) == closed
    assert held(closed, Ms(10**15)) == held(h, Ms(10**15) if h.until is not None else at)


@given(holdings(), st.lists(instants, min_size=2, max_size=6), instants)
def test_clipping_at_any_cuts_loses_and_doubles_nothing(h: Holding, cuts: list[Ms], now: Ms) -> None:
    edges = sorted([*cuts, h.since, now])
    edges = [edge for edge in edges if edge <= now]
    parts = [clip(h, since, until) for since, until in pairwise(edges)]
    assert held_in_total([part for part in parts if part is not None], now) == held(h, now)


def test_clipping_outside_leaves_nothing() -> None:
    assert clip(holding(since=1000, until=2000), Ms(2000), Ms(3000)) is None
    assert clip(holding(since=1000, until=2000), Ms(0), Ms(1000)) is None
    assert clip(holding(since=1000), Ms(1500), Ms(1800)) == holding(since=1500, until=1800)


def test_a_holding_cannot_end_before_it_begins_or_hold_less_than_nothing() -> None:
    with pytest.raises(ValueError, match="before it begins"):
        holding(since=1000, until=999)
    with pytest.raises(ValueError, match="thousandths"):
        holding(gpu_milli=-1)


@given(st.integers(0, 10**20))
def test_gpu_hours_are_half_even_to_six_decimals(amount: int) -> None:
    text = gpu_hours(GpuUs(amount))
    assert Fraction(text) * 10**6 == round(Fraction(amount * 10**6, GPU_US_PER_HOUR))
    assert len(text.partition(".")[2]) <= 6
    assert not text.endswith(".")


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (3_600_000_000, "1"),
        (1_800_000_000, "0.5"),
        (1_800, "0"),
        (5_400, "0.000002"),
        (9_000, "0.000002"),
    ],
)
def test_gpu_hours_read_plainly(amount: int, text: str) -> None:
    assert gpu_hours(GpuUs(amount)) == text
