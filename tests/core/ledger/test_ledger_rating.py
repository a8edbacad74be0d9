"""Rating: exact, rounded half-even once per segment, split where the price changes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.documents.kinds import Price, PriceBook
from windlass.core.ledger.prices import PriceChange, PriceTimeline, Segment
from windlass.core.ledger.rating import Charge, owed, per_hour, rate, total
from windlass.core.metering import Holding, held, quantity
from windlass.core.units import GPU_US_PER_HOUR, HOUR_MS, GpuUs, Micros, MilliGpu, Ms, parse_money

instants = st.integers(0, 22_000_000).map(Ms)

HOLDING = Holding(
    id="wl_1/1", tenant="acme", project="nlp", env="prod", component="sft", gpu_class="h100-80g",
    tier="gold", currency="USD", gpu_milli=MilliGpu(1000), since=Ms(0),
)  # fmt: skip


def priced(*prices: tuple[int, int]) -> PriceTimeline:
    """From each instant on, micro-units per GPU hour."""
    return PriceTimeline(
        tuple(
            PriceChange(Ms(at), (("list", PriceBook("USD", Ms(0), (Price("h100-80g", Micros(micros)),))),))
            for at, micros in prices
        )
    )


def test_eight_gpus_for_an_hour_at_2_49_cost_19_92() -> None:
    charges = rate(replace(HOLDING, gpu_milli=MilliGpu(8000)), priced((0, 2_490_000)), Ms(HOUR_MS))
    assert total(charges) == parse_money("19.92")


@pytest.mark.parametrize(("price", "micros"), [(1, 0), (3, 2), (5, 2), (7, 4)])
def test_half_a_micro_unit_goes_to_the_even_side(price: int, micros: int) -> None:
    assert total(rate(HOLDING, priced((0, price)), Ms(HOUR_MS // 2))) == micros


def test_a_change_of_price_splits_and_each_part_has_its_own_price() -> None:
    charges = rate(HOLDING, priced((0, 1_000_000), (HOUR_MS, 3_000_000)), Ms(3 * HOUR_MS))
    assert charges == (
        Charge(
            Segment(Ms(0), Ms(HOUR_MS), Micros(1_000_000), "list"), GpuUs(GPU_US_PER_HOUR), Micros(1_000_000)
        ),
        Charge(
            Segment(Ms(HOUR_MS), Ms(3 * HOUR_MS), Micros(3_000_000), "list"),
            GpuUs(2 * GPU_US_PER_HOUR),
            Micros(6_000_000),
        ),
    )


def test_unpriced_time_is_counted_and_costs_nothing() -> None:
    assert owed(HOLDING, priced((HOUR_MS, 5)), Ms(2 * HOUR_MS)) == ((0, 0), (HOUR_MS, 5))
    assert rate(HOLDING, PriceTimeline(), Ms(HOUR_MS))[0].gpu_us == GPU_US_PER_HOUR


@given(st.from_type(Holding), st.from_type(PriceTimeline), instants)
def test_the_quantity_of_all_segments_is_what_was_held(h: Holding, found: PriceTimeline, until: Ms) -> None:
    assert sum(charge.gpu_us for charge in rate(h, found, until)) == held(h, until)


@given(st.from_type(Holding), st.from_type(PriceTimeline), instants)
def test_each_segment_is_within_half_a_micro_unit_of_the_exact_amount(
    h: Holding, found: PriceTimeline, until: Ms
) -> None:
    for charge in rate(h, found, until):
        exact = Fraction(charge.gpu_us * (charge.segment.per_gpu_hour or 0), GPU_US_PER_HOUR)
        assert abs(charge.micros - exact) <= Fraction(1, 2)
        assert type(charge.micros) is int
        assert type(charge.gpu_us) is int


@given(st.from_type(Holding), st.from_type(PriceTimeline), instants, instants)
def test_what_is_owed_never_shrinks_and_its_segments_stay(
    h: Holding, found: PriceTimeline, one: Ms, other: Ms
) -> None:
    earlier, later = dict(owed(h, found, min(one, other))), dict(owed(h, found, max(one, other)))
    assert earlier.keys() <= later.keys()
    assert all(earlier[since] <= later[since] for since in earlier)


@given(st.integers(0, 10**9), st.integers(0, 10**6))
def test_the_announced_price_per_hour_is_never_below_the_charge(price: int, gpus: int) -> None:
    announced = per_hour(Micros(price), MilliGpu(gpus))
    exact = Fraction(quantity(gpus, Ms(HOUR_MS)) * price, GPU_US_PER_HOUR)
    assert exact <= announced < exact + 1
