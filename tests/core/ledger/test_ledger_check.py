"""The auditor: silent about a good ledger, and it finds every way in which one can be bad."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.documents.kinds import Price, PriceBook
from windlass.core.ledger.check import check, check_entries
from windlass.core.ledger.postings import (
    Entry,
    Posted,
    Transfer,
    post,
    posted_by_holding,
    receivable,
    revenue,
)
from windlass.core.ledger.prices import PriceChange, PriceTimeline
from windlass.core.metering import Holding
from windlass.core.units import Micros, MilliGpu, Ms

END = Ms(22_000_000)
HOLDING = Holding(
    id="wl_1/1", tenant="acme", project="nlp", env="prod", component="sft", gpu_class="h100-80g",
    tier="gold", currency="USD", gpu_milli=MilliGpu(4000), since=Ms(1000), until=Ms(7_201_000),
)  # fmt: skip
BOOK = PriceBook("USD", Ms(0), (Price("h100-80g", Micros(2_490_000)),))
LIST = PriceTimeline((PriceChange(Ms(0), (("list", BOOK),)),))


def good_ledger() -> list[Transfer]:
    ledger: list[Transfer] = []
    for at in (1_000_000, 2_000_000, END):
        ledger += post(HOLDING, LIST, Ms(at), posted_by_holding(ledger).get(HOLDING.id, {}))
    return ledger


def codes(ledger: list[Transfer], holding: Holding = HOLDING, until: Ms | None = END) -> list[str]:
    return [problem.code for problem in check(ledger, [holding], LIST, until=until)]


@given(st.lists(st.from_type(Holding), max_size=5, unique_by=lambda h: h.id), st.from_type(PriceTimeline))
def test_a_good_ledger_of_many_holdings_has_no_problem(holdings: list[Holding], found: PriceTimeline) -> None:
    ledger = [transfer for holding in holdings for transfer in post(holding, found, END)]
    assert check(ledger, holdings, found, until=END) == ()
    assert check(ledger, holdings, found) == ()


def test_what_is_not_posted_yet_is_a_problem_only_when_it_should_be() -> None:
    assert codes(good_ledger()[:2], until=None) == []
    assert codes([], until=None) == []
    assert codes(good_ledger()[:2]) == ["drift"]
    assert codes([]) == ["drift"]


def test_a_transfer_that_counts_twice_is_found() -> None:
    ledger = good_ledger()
    assert codes([*ledger, ledger[1]]) == ["duplicate", "drift"]


def test_a_lost_transfer_is_found() -> None:
    first, _, last = good_ledger()
    assert codes([first, last]) == ["gap", "drift"]


def test_a_micro_unit_too_much_is_found() -> None:
    first, *rest = good_ledger()
    debit, credit = first.entries
    more = (
        replace(debit, micros=Micros(debit.micros + 1)),
        replace(credit, micros=Micros(credit.micros - 1)),
    )
    assert codes([replace(first, entries=more), *rest]) == ["drift"]


def test_a_charge_to_another_tenant_is_found() -> None:
    first, *rest = good_ledger()
    stray = replace(first.entries[0], account=receivable("umbra"))
    assert codes([replace(first, entries=(stray, first.entries[1])), *rest]) == ["misposted", "drift"]


def test_a_charge_for_a_holding_that_never_was_is_found() -> None:
    problems = check(good_ledger(), [], LIST)
    assert [problem.code for problem in problems] == ["unknown-holding"]
    assert problems[0].subject == HOLDING.id


def test_two_holdings_of_one_id_are_found() -> None:
    assert [problem.code for problem in check(good_ledger(), [HOLDING, HOLDING], LIST)] == ["duplicate"]


def test_a_charge_beyond_the_release_is_found_until_it_is_put_right() -> None:
    shorter = replace(HOLDING, until=Ms(1_500_000))
    ledger = good_ledger()
    assert codes(ledger, shorter, until=None) == ["drift"]
    ledger += post(shorter, LIST, END, posted_by_holding(ledger)[HOLDING.id])
    assert codes(ledger, shorter) == []


def test_the_wrong_price_is_found() -> None:
    dearer = PriceTimeline(
        (PriceChange(Ms(0), (("list", replace(BOOK, prices=(Price("h100-80g", Micros(9)),))),)),)
    )
    assert [p.code for p in check(list(post(HOLDING, dearer, END)), [HOLDING], LIST)] == ["drift"]


def test_a_row_that_lost_its_other_side_is_found_although_no_code_can_make_one() -> None:
    (transfer,) = post(HOLDING, LIST, END, {})
    object.__setattr__(transfer, "entries", transfer.entries[:1])
    assert [problem.code for problem in check_entries([transfer])] == ["unbalanced", "unbalanced"]


def test_transfers_that_are_not_usage_must_balance_and_be_unique_too() -> None:
    credit = (Entry(receivable("acme"), "USD", Micros(-5)), Entry(revenue("h100-80g"), "USD", Micros(5)))
    manual = Transfer("sla", "credit-1", Ms(0), "below 99.9 percent", credit)
    assert codes([*good_ledger(), manual]) == []
    assert codes([*good_ledger(), manual, manual]) == ["duplicate"]


def test_a_posting_from_a_forgotten_state_is_found() -> None:
    ledger = [*good_ledger(), *post(HOLDING, LIST, END, {HOLDING.since: Posted(count=3)})]
    assert codes(ledger) == ["drift"]
