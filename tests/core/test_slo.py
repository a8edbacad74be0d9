"""Service levels as numbers: what counts, what does not yet, and what is left of the error budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core import slo
from windlass.core.units import Ms

NOW = Ms(10_000_000)


def run(wait: int | None, *, tier: str = "gold", age: int = 1_000_000, **facts: int | None) -> slo.Run:
    """Submitted `age` ago, placed after `wait` (None: it still waits)."""
    submitted = Ms(NOW - age)
    times = {name: None if at is None else Ms(submitted + at) for name, at in facts.items()}
    admitted = None if wait is None else Ms(submitted + wait)
    return slo.Run(tier, "line-a", submitted, admitted, **times)


@pytest.mark.parametrize(
    ("runs", "good", "total"),
    [
        ([run(1_000), run(30_000)], 2, 2),
        ([run(1_000), run(30_001)], 1, 2),
        ([run(1_000), run(None)], 1, 2),
        ([run(1_000), run(None, age=20_000)], 1, 1),
        ([run(None, finished=5_000)], 0, 0),
        ([run(None, finished=50_000)], 0, 1),
    ],
    ids=[
        "in time",
        "late",
        "waits for too long",
        "may still be in time",
        "cancelled early",
        "cancelled late",
    ],
)
def test_an_intent_is_judged_once_it_can_be(runs: list[slo.Run], good: int, total: int) -> None:
    [level] = slo.admission(runs, {"gold": Ms(30_000)}, NOW)
    assert (level.good, level.total) == (good, total)


def test_a_tier_without_a_promise_is_measured_only() -> None:
    [level] = slo.admission([run(1_000), run(3_000), run(9_000)], {"gold": None}, NOW)
    assert (level.target, level.measured, level.met) == (None, None, None)
    assert (level.middle, level.high) == (3_000, 9_000)


def test_a_promise_nobody_used_is_shown_without_data() -> None:
    [level] = slo.admission([], {"gold": Ms(30_000)}, NOW)
    assert (level.of, level.measured, level.budget_left) == ("gold", None, None)


def test_work_that_its_site_does_not_start_counts_once_it_is_late() -> None:
    level = slo.reconcile([run(0, started=1_000), run(0), run(0, age=10_000), run(0, finished=500)], NOW)
    assert (level.good, level.total) == (1, 2)


def test_time_before_the_first_cause_is_dark_unless_it_is_the_way_to_the_first_cycle() -> None:
    waits = [
        ("seen", Ms(1_000), Ms(11_000)),
        ("late", Ms(1_000), Ms(11_000)),
        ("never", Ms(1_000), Ms(11_000)),
        ("quick", Ms(1_000), Ms(1_005)),
    ]
    level = slo.explained(waits, {"seen": Ms(1_000), "late": Ms(4_000)})
    assert (level.good, level.total) == (10_000 + 7_000 + 0 + 5, 30_005)


def test_an_estimate_may_be_off_by_a_minute_or_a_quarter_of_the_wait() -> None:
    runs = [
        run(0, started=100_000, estimated=40_000),
        run(0, started=100_000, estimated=39_999),
        run(0, started=400_000, estimated=300_000),
        run(0, started=400_000),
        run(None, estimated=5_000),
    ]
    level = slo.estimates(runs)
    assert (level.good, level.total) == (2, 3)
    assert (level.middle, level.high) == (60_001, 100_000)


@pytest.mark.parametrize(
    ("answered", "failed", "left"),
    [(1_000, 0, 1_000_000), (1_000, 1, 0), (2_000, 1, 500_000), (1_000, 2, -1_000_000), (0, 0, None)],
)
def test_the_budget_is_what_the_target_allows_minus_what_went_wrong(
    answered: int, failed: int, left: int | None
) -> None:
    level = slo.availability(answered, failed)
    assert level.budget_left == left
    assert level.met == (None if left is None else left >= 0)


@given(st.integers(1, 10**9), st.data())
def test_a_level_is_met_exactly_when_its_share_reaches_the_target(total: int, data: st.DataObject) -> None:
    failed = data.draw(st.integers(0, total))
    level = slo.availability(total, failed)
    assert level.target is not None
    assert level.met == ((total - failed) * slo.WHOLE >= level.target * total)


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_percentiles_are_values_that_occurred_and_in_order(lengths: list[int]) -> None:
    middle, high = slo.spread([Ms(one) for one in lengths])
    assert middle in lengths and high in lengths
    assert (middle or 0) <= (high or 0)
