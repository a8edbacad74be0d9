"""Postings: double entry that sums to zero, no drift however often one posts, replays that match."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.documents.kinds import Price, PriceBook
from windlass.core.ledger.check import check
from windlass.core.ledger.postings import (
    Entry,
    Transfer,
    balance,
    charged,
    payload_hash,
    post,
    posted_by_holding,
    receivable,
    revenue,
)
from windlass.core.ledger.prices import PriceChange, PriceTimeline
from windlass.core.ledger.rating import rate, total
from windlass.core.metering import Holding, close, held
from windlass.core.units import Micros, MilliGpu, Ms

END = Ms(22_000_000)
instants = st.integers(0, END).map(Ms)
postings = st.lists(instants, max_size=8)

HOLDING = Holding(
    id="wl_1/1", tenant="acme", project="nlp", env="prod", component="sft", gpu_class="h100-80g",
    tier="gold", currency="USD", gpu_milli=MilliGpu(4000), since=Ms(1000),
)  # fmt: skip
BOOK = PriceBook("USD", Ms(0), (Price("h100-80g", Micros(2_490_000)),))
LIST = PriceTimeline((PriceChange(Ms(0), (("list", BOOK),)),))


def posted_at(h: Holding, found: PriceTimeline, times: list[Ms]) -> list[Transfer]:
    """A ledger to which `h` was posted at each of the times, in that order."""
    ledger: list[Transfer] = []
    for at in times:
        ledger += post(h, found, at, posted_by_holding(ledger).get(h.id, {}))
    return ledger


def charged_in_all(ledger: list[Transfer]) -> int:
    return sum(charged(transfer) for transfer in ledger)


def test_a_charge_debits_the_tenant_and_credits_the_revenue_of_the_class() -> None:
    (transfer,) = post(HOLDING, LIST, Ms(3_601_000))
    assert (transfer.source, transfer.id, transfer.at) == ("usage", "wl_1/1/1000/0", 3_601_000)
    assert balance(transfer.entries) == {
        ("platform/revenue/h100-80g", "USD"): -9_960_000,
        ("tenant/acme/receivable", "USD"): 9_960_000,
    }
    assert transfer.usage is not None
    assert (transfer.usage.per_gpu_hour, transfer.usage.book) == (2_490_000, "list")


@given(st.from_type(Holding), st.from_type(PriceTimeline), postings)
def test_any_number_of_partial_postings_adds_up_to_one(
    h: Holding, found: PriceTimeline, times: list[Ms]
) -> None:
    often = posted_at(h, found, [*sorted(times), END])
    once = posted_at(h, found, [END])
    assert charged_in_all(often) == charged_in_all(once) == total(rate(h, found, END))


@given(st.from_type(Holding), st.from_type(PriceTimeline), postings)
def test_after_every_posting_exactly_what_is_owed_then_is_posted(
    h: Holding, found: PriceTimeline, times: list[Ms]
) -> None:
    ledger: list[Transfer] = []
    for at in sorted(times):
        ledger += post(h, found, at, posted_by_holding(ledger).get(h.id, {}))
        assert charged_in_all(ledger) == total(rate(h, found, at))
        assert check(ledger, [h], found, until=at) == ()


@given(st.from_type(Holding), st.from_type(PriceTimeline), postings)
def test_a_clock_that_steps_back_takes_nothing_back(
    h: Holding, found: PriceTimeline, times: list[Ms]
) -> None:
    ledger = posted_at(h, found, times)
    assert all(charged(transfer) > 0 for transfer in ledger)
    assert charged_in_all(ledger) == total(rate(h, found, max(times, default=Ms(0))))


@given(st.from_type(Holding), st.lists(st.from_type(PriceChange), max_size=5), postings)
def test_prices_that_change_between_postings_split_and_nothing_is_rated_again(
    h: Holding, changes: list[PriceChange], times: list[Ms]
) -> None:
    """Each posting knows only the changes accepted by then; in the end it is as if all had been known."""
    changes = sorted(changes, key=lambda change: change.at)
    ledger: list[Transfer] = []
    for at in [*sorted(times), END]:
        known = PriceTimeline(tuple(change for change in changes if change.at <= at))
        ledger += post(h, known, at, posted_by_holding(ledger).get(h.id, {}))
    assert all(charged(transfer) > 0 for transfer in ledger)
    assert check(ledger, [h], PriceTimeline(tuple(changes)), until=END) == ()


@given(st.from_type(Holding), st.from_type(PriceTimeline), postings, instants)
def test_a_release_reported_late_is_put_right_by_adding(
    h: Holding, found: PriceTimeline, times: list[Ms], released: Ms
) -> None:
    running = replace(h, until=None)
    closed = close(running, released)
    ledger = posted_at(running, found, sorted(times))
    ledger += post(closed, found, END, posted_by_holding(ledger).get(h.id, {}))
    assert charged_in_all(ledger) == total(rate(closed, found, END))
    assert check(ledger, [closed], found, until=END) == ()
    assert all(part.gpu_us <= held(closed, END) for part in posted_by_holding(ledger).get(h.id, {}).values())
    assert post(closed, found, END, posted_by_holding(ledger).get(h.id, {})) == ()


@given(st.from_type(Holding), st.from_type(PriceTimeline), postings)
def test_every_ledger_sums_to_zero_in_integers_under_unique_ids(
    h: Holding, found: PriceTimeline, times: list[Ms]
) -> None:
    ledger = posted_at(h, found, sorted(times))
    entries = [entry for transfer in ledger for entry in transfer.entries]
    assert sum(entry.micros for entry in entries) == 0
    assert all(type(entry.micros) is int for entry in entries)
    assert len({(transfer.source, transfer.id) for transfer in ledger}) == len(ledger)
    assert all(balance(transfer.entries)[receivable(h.tenant), h.currency] for transfer in ledger)


@given(st.from_type(Holding), st.from_type(PriceTimeline), postings)
def test_a_replay_makes_the_same_ids_and_hashes(h: Holding, found: PriceTimeline, times: list[Ms]) -> None:
    one = posted_at(h, found, sorted(times))
    # A timeline built anew, as after a restart: nothing may hang on what this one remembers.
    other = posted_at(h, PriceTimeline(found.changes), sorted(times))
    assert [(t.id, payload_hash(t)) for t in one] == [(t.id, payload_hash(t)) for t in other]


@given(st.permutations(range(5)))
def test_what_was_posted_is_read_back_in_any_order(order: list[int]) -> None:
    ledger = posted_at(HOLDING, LIST, [Ms(at) for at in (9_000, 10_000, 11_000, 12_000, 13_000)])
    assert posted_by_holding(ledger[index] for index in order) == posted_by_holding(ledger)


def test_two_writers_from_one_state_make_the_same_id_so_that_only_one_can_win() -> None:
    (one,), (other,) = post(HOLDING, LIST, Ms(50_000)), post(HOLDING, LIST, Ms(50_001))
    assert one.id == other.id
    assert payload_hash(one) != payload_hash(other)


def test_preempted_and_restarted_work_pays_for_what_it_held_once() -> None:
    first = replace(HOLDING, id="wl_1/1", since=Ms(0), until=Ms(1_800_000))
    second = replace(HOLDING, id="wl_1/2", since=Ms(3_600_000), until=Ms(5_400_000))
    ledger = [*posted_at(first, LIST, [END, END]), *posted_at(second, LIST, [Ms(4_000_000), END, END])]
    assert held(first, END) + held(second, END) == 4 * 3_600_000_000
    assert charged_in_all(ledger) == 9_960_000
    assert check(ledger, [first, second], LIST, until=END) == ()


def test_a_segment_that_a_late_release_undoes_is_taken_back_whole() -> None:
    dearer = replace(BOOK, prices=(Price("h100-80g", Micros(9_000_000)),))
    found = LIST.after(PriceChange(Ms(3_601_000), (("list", dearer),)))
    ledger = posted_at(HOLDING, found, [Ms(7_201_000)])
    assert [charged(transfer) for transfer in ledger] == [9_960_000, 36_000_000]
    back = post(close(HOLDING, Ms(1_801_000)), found, Ms(8_000_000), posted_by_holding(ledger)[HOLDING.id])
    assert [(charged(transfer), transfer.id, transfer.at) for transfer in back] == [
        (-4_980_000, "wl_1/1/1000/1", 8_000_000),
        (-36_000_000, "wl_1/1/3601000/1", 8_000_000),
    ]
    gpu_us = [t.usage.gpu_us for t in (*ledger, *back) if t.usage]
    assert sum(gpu_us) == held(close(HOLDING, Ms(1_801_000)), END)


def test_a_posting_after_the_clock_stepped_back_adds_and_takes_back_nothing() -> None:
    ledger = posted_at(HOLDING, LIST, [Ms(3_601_000), Ms(1_801_000)])
    assert [charged(transfer) for transfer in ledger] == [9_960_000]
    assert check(ledger, [HOLDING], LIST, until=Ms(1_801_000)) == ()


def test_nothing_to_charge_makes_no_transfer() -> None:
    assert post(HOLDING, PriceTimeline(), END) == ()
    assert post(HOLDING, LIST, HOLDING.since) == ()
    assert post(HOLDING, LIST, Ms(0)) == ()
    assert len(posted_at(HOLDING, LIST, [Ms(9_000), Ms(9_000)])) == 1


def test_time_too_short_to_cost_waits_for_the_next_transfer() -> None:
    cheap = PriceTimeline(
        (PriceChange(Ms(0), (("list", PriceBook("USD", Ms(0), (Price("h100-80g", Micros(1)),))),)),)
    )
    ledger = posted_at(HOLDING, cheap, [Ms(2_000), Ms(3_601_000)])
    assert [transfer.usage.gpu_us for transfer in ledger if transfer.usage] == [held(HOLDING, Ms(3_601_000))]


def test_the_hash_of_a_transfer_is_pinned_because_stored_ones_are_compared_with_it() -> None:
    (transfer,) = post(HOLDING, LIST, Ms(3_601_000))
    assert payload_hash(transfer) == "35f0bb50907821fa6bbef4a981e510d4ef05e360e6bc6003f4140c235cf2d309"


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (Entry(receivable("acme"), "USD", Micros(1)),),
        (Entry(receivable("acme"), "USD", Micros(1)), Entry(revenue("h100-80g"), "EUR", Micros(-1))),
    ],
)
def test_a_transfer_that_does_not_sum_to_zero_cannot_be_made(entries: tuple[Entry, ...]) -> None:
    with pytest.raises(ValueError, match="transfer"):
        Transfer("manual", "1", Ms(0), "", entries)


@pytest.mark.parametrize("micros", [0, 2**63, -(2**63)])
def test_an_entry_is_something_and_fits_its_column(micros: int) -> None:
    with pytest.raises(ValueError, match="an entry of"):
        Entry(receivable("acme"), "USD", Micros(micros))


@pytest.mark.parametrize("name", ["", "acme/receivable"])
def test_an_account_cannot_be_forged_through_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="account"):
        receivable(name)
    with pytest.raises(ValueError, match="account"):
        revenue(name)
