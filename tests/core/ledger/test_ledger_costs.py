"""Costs: posted plus running is the bill now; roll-ups lose nothing and mix no currencies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.documents.kinds import Price, PriceBook
from windlass.core.ledger.costs import CostItem, CostLine, GroupBy, cost_item, roll_up, totals
from windlass.core.ledger.postings import post, posted_by_holding
from windlass.core.ledger.prices import PriceChange, PriceTimeline
from windlass.core.ledger.rating import rate, total
from windlass.core.metering import Holding, held, held_in_total
from windlass.core.units import GpuUs, Micros, MilliGpu, Ms

instants = st.integers(0, 22_000_000).map(Ms)
many = st.lists(st.from_type(Holding), max_size=6, unique_by=lambda h: h.id)

HOLDING = Holding(
    id="wl_1/1", tenant="acme", project="nlp", env="prod", component="sft", gpu_class="h100-80g",
    tier="gold", currency="USD", gpu_milli=MilliGpu(8000), since=Ms(0),
)  # fmt: skip
BOOK = PriceBook("USD", Ms(0), (Price("h100-80g", Micros(2_490_000)),))
LIST = PriceTimeline((PriceChange(Ms(0), (("list", BOOK),)),))


def money(lines: Iterable[CostLine | CostItem]) -> int:
    return sum(line.micros + line.running_micros for line in lines)


def test_running_work_shows_its_running_cost_beside_what_is_posted() -> None:
    posted = posted_by_holding(post(HOLDING, LIST, Ms(1_800_000)))[HOLDING.id]
    (line,) = roll_up([cost_item(HOLDING, LIST, Ms(3_600_000), posted)], "component")
    assert line == CostLine(
        "nlp/prod/sft", GpuUs(8 * 3_600_000_000), Micros(9_960_000), Micros(9_960_000), "USD"
    )
    assert line.for_people() == "19.92 USD"
    assert line.to_wire() == {
        "key": "nlp/prod/sft",
        "gpuHours": "8",
        "cost": "19.92",
        "posted": "9.96",
        "running": "9.96",
        "currency": "USD",
    }


def test_each_grouping_has_its_keys_in_order() -> None:
    other = replace(HOLDING, id="wl_2/1", tenant="umbra", project="vision", component="eval")
    items = [cost_item(holding, LIST, Ms(1000)) for holding in (other, HOLDING, HOLDING)]
    keys = {by: [line.key for line in roll_up(items, by)] for by in get_args(GroupBy)}
    assert keys == {
        "tenant": ["acme", "umbra"],
        "project": ["nlp", "vision"],
        "component": ["nlp/prod/sft", "vision/prod/eval"],
    }


@given(st.from_type(Holding), st.from_type(PriceTimeline), instants, instants)
def test_posted_and_running_together_do_not_depend_on_when_was_posted(
    h: Holding, found: PriceTimeline, one: Ms, other: Ms
) -> None:
    earlier, now = min(one, other), max(one, other)
    posted = posted_by_holding(post(h, found, earlier)).get(h.id, {})
    item = cost_item(h, found, now, posted)
    assert item.micros == total(rate(h, found, earlier))
    assert item.micros + item.running_micros == total(rate(h, found, now))
    assert item.gpu_us == held(h, now)


@given(many, st.from_type(PriceTimeline), instants, st.sampled_from(get_args(GroupBy)))
def test_a_roll_up_keeps_the_sum_of_money_and_time_in_each_currency(
    holdings: list[Holding], found: PriceTimeline, now: Ms, by: GroupBy
) -> None:
    items = [cost_item(holding, found, now) for holding in holdings]
    lines = roll_up(items, by)
    assert sum(line.gpu_us for line in lines) == held_in_total(holdings, now)
    assert totals(lines) == totals(items)
    for line in totals(items):
        assert line.total_micros == money(item for item in items if item.currency == line.currency)
    assert len({(line.key, line.currency) for line in lines}) == len(lines)


def test_a_tenant_with_two_currencies_has_two_lines() -> None:
    items = [cost_item(replace(HOLDING, currency=currency), LIST, Ms(1000)) for currency in ("USD", "EUR")]
    assert [(line.key, line.currency) for line in roll_up(items, "tenant")] == [
        ("acme", "EUR"),
        ("acme", "USD"),
    ]
    assert [(line.key, line.currency) for line in totals(items)] == [("", "EUR"), ("", "USD")]
