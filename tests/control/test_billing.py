"""Every second of every GPU is paid for once, at the price of that second, in the budget of that day."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.control.books import audit, holdings, transfers
from tests.control.documents import API, envelope, intent, price_book, quota
from tests.control.worlds import World, play, url

from windlass.control.billing.hourly import post_running
from windlass.core.ledger.postings import receivable

JOB = "vision/prod/job"


def charged(world: World) -> list[tuple[int, int]]:
    """Seconds and micro-dollars of each posting."""
    return [
        (
            t.usage.gpu_us // 1_000_000,
            sum(e.micros for e in t.entries if e.account == receivable(t.usage.tenant)),
        )
        for t in transfers(world)
        if t.usage is not None
    ]


async def running(world: World, gpus: int = 1) -> None:
    assert (await world.apply(intent(JOB, gpus), by="acme")).status == 200
    await world.settle()


async def ended(world: World) -> None:
    world.finish(JOB)
    await world.settle()
    await audit(world)


def test_posting_every_hour_or_once_at_the_end_is_the_same_bill(tmp_path: Path) -> None:
    bills = []
    for often in (False, True):
        folder = tmp_path / str(often)
        folder.mkdir()

        async def story(world: World, often: bool = often) -> None:
            await running(world, 3)
            for _ in range(30):
                world.advance(3601.017)
                if often:
                    await post_running(world.plane)
                    await audit(world)
            await ended(world)
            bills.append((await world.get("/v1/costs"))["totals"])
            assert len(charged(world)) > (30 if often else 1)

        play(folder, story)
    assert bills[0] == bills[1]


def test_a_price_that_changes_while_it_runs_splits_the_bill(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world, 2)
        world.advance(3600)
        assert (await world.apply(price_book("list", "5.00"))).status == 200
        world.advance(1800)
        await world.restart()
        await ended(world)
        assert charged(world) == [(7200, 4_980_000), (3600, 5_000_000)]
        assert (await world.get(url(JOB)))["status"]["cost"] == "9.98"

    play(tmp_path, story)


def test_a_price_book_takes_effect_at_its_moment_and_not_before(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.apply(price_book("next", "4.98", "2026-03-02T10:00:00Z"))).status == 200
        await running(world)
        world.advance(7200)
        await ended(world)
        assert charged(world) == [(3600, 2_490_000), (3600, 4_980_000)]

    play(tmp_path, story)


def test_what_was_posted_too_far_is_taken_back(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world)
        world.advance(600)
        world.finish(JOB)  # the site is cut off and cannot tell
        world.advance(3000)
        await post_running(world.plane)
        assert charged(world) == [(3600, 2_490_000)]
        await world.settle()
        assert charged(world) == [(3600, 2_490_000), (-3000, -2_075_000)]
        await audit(world)
        (line,) = (await world.get("/v1/costs"))["lines"]
        assert (line["cost"], line["gpuHours"]) == ("0.415", "0.166667")

    play(tmp_path, story)


@pytest.mark.parametrize("posted_at", [[], [15.5 * 3600], [3 * 3600, 20 * 3600]])
def test_each_days_money_is_in_that_days_budget(tmp_path: Path, posted_at: list[float]) -> None:
    async def story(world: World) -> None:
        await running(world)  # at nine in the morning
        at = 0.0
        for moment in posted_at:
            world.advance(moment - at)
            at = moment
            await post_running(world.plane)
        world.advance(24 * 3600 - at)
        await ended(world)
        spent = world.rows("SELECT spent FROM budgets WHERE scope = 'acme' ORDER BY day_ms")
        assert [row["spent"] for row in spent] == [15 * 2_490_000, 9 * 2_490_000]

    play(tmp_path, story)


def test_running_work_shows_what_it_has_cost_so_far(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world, 2)
        for posting in (False, True):
            world.advance(1800)
            if posting:
                await post_running(world.plane)
        world.advance(1800)
        (line,) = (await world.get("/v1/costs", by="acme"))["lines"]
        assert (line["cost"], line["running"], line["total"]) == ("4.98", "2.49", "7.47")
        assert (await world.get(url(JOB), by="acme"))["status"]["cost"] == "7.47"
        await ended(world)
        (line,) = (await world.get("/v1/costs", by="acme"))["lines"]
        assert (line["cost"], line["running"], line["total"]) == ("7.47", "0.00", "7.47")

    play(tmp_path, story)


def test_a_tier_has_its_own_price(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for path in ("chat/prod/job", JOB):
            await world.apply(intent(path))
        await world.settle()
        world.advance(3600)
        for path in ("chat/prod/job", JOB):
            world.finish(path)
        await world.settle()
        costs = (await world.get("/v1/costs?by=tenant"))["lines"]
        assert {line["tenant"]: line["cost"] for line in costs} == {"acme": "2.49", "globex": "3.99"}
        await audit(world)

    play(tmp_path, story)


def test_a_stepped_back_clock_charges_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world)
        world.advance(-3600)
        world.finish(JOB)
        await world.settle()
        (held,) = holdings(world)
        assert held.until == held.since and charged(world) == []
        assert world.phase(JOB) == "Succeeded"

    play(tmp_path, story)


def test_a_clock_stepped_back_behind_the_first_prices_makes_no_work_free(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.advance(-60)
        await running(world)
        world.advance(90)
        await ended(world)
        assert charged(world) == [(90, 62_250)]
        await world.restart()
        await audit(world)

    play(tmp_path, story)


def test_time_that_was_free_stays_free_when_the_first_prices_come(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.apply(*_in_currency("EUR")[:3])).status == 200
        await running(world)
        world.advance(3600)
        assert (await world.apply(_in_currency("EUR")[3])).status == 200
        world.advance(1800)
        await ended(world)
        assert charged(world) == [(1800, 1_000_000)]
        await world.restart()
        await audit(world)

    play(tmp_path, story)


def test_a_budget_stops_admission_when_it_is_spent_and_never_what_runs(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        budget = {"amount": "5.00", "currency": "USD", "period": "day"}
        scope = {"tenant": "acme", "project": "vision"}
        await world.apply(envelope("vision", scope, gpus=quota(2, 4), budget=budget))
        await running(world, 2)  # holds 4.98
        refused = await world.apply(intent("vision/prod/more"), by="acme")
        assert refused.codes == ["budget.exhausted"]
        world.advance(2 * 3600)
        await post_running(world.plane)
        assert world.phase(JOB) == "Running", "an exhausted budget stops nothing that runs"
        await ended(world)
        assert (await world.apply(intent("vision/prod/more"), by="acme")).codes == ["budget.exhausted"]
        world.advance(15 * 3600)  # tomorrow is another budget
        assert (await world.apply(intent("vision/prod/more"), by="acme")).status == 200

    play(tmp_path, story)


def test_a_share_of_a_gpu_costs_its_share(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        reply = await world.apply(intent("nlp/dev/slice", profile="h100-mig-1g"), by="acme")
        assert reply.json["results"][0]["decision"]["estimate"]["perHour"] == "0.35358"
        await world.settle()
        world.advance(3600)
        world.finish("nlp/dev/slice")
        await world.settle()
        assert [micros for _, micros in charged(world)] == [353_580]
        await audit(world)

    play(tmp_path, story)


def test_what_is_announced_for_a_share_is_never_less_than_what_it_costs(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        prices = [{"profileClass": "h100-80g", "perGpuHour": "0.000005"}]
        spec = {"currency": "USD", "effectiveFrom": "2026-02-01T00:00:00Z", "prices": prices}
        book = {"kind": "PriceBook", "metadata": {"name": "small"}, "spec": spec}
        await world.apply({"apiVersion": "windlass.dev/v1", **book})
        reply = await world.apply(intent("nlp/dev/slice", profile="h100-mig-1g"), by="acme")
        assert reply.json["results"][0]["decision"]["estimate"]["perHour"] == "0.000001"

    play(tmp_path, story)


def test_work_that_is_tried_again_holds_its_whole_time_limit_again(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        budget = {"amount": "500.00", "currency": "USD", "period": "day"}
        scope = {"tenant": "acme", "project": "vision"}
        await world.apply(envelope("vision", scope, gpus=quota(2, 4), budget=budget))
        await world.apply(intent(JOB, 1, timeLimit="2h", retries=1), by="acme")
        await world.settle()
        world.advance(3600)
        world.finish(JOB, 1)
        await world.settle()
        assert (world.phase(JOB), world.workload(JOB)["attempt"]) == ("Running", 2)
        (row,) = world.rows("SELECT micros FROM budget_held WHERE scope = 'acme/vision'")
        assert row["micros"] == 2 * 2_490_000
        await audit(world)
        await ended(world)
        (row,) = world.rows("SELECT micros FROM budget_held WHERE scope = 'acme/vision'")
        assert row["micros"] == 0

    play(tmp_path, story)


@pytest.mark.parametrize(("limit", "held_later"), [("2h", 1 * 2_490_000), (None, 1 * 2_490_000)])
def test_a_hold_is_used_up_by_postings_or_stays_one_hour_ahead(
    tmp_path: Path, limit: str | None, held_later: int
) -> None:
    async def story(world: World) -> None:
        budget = {"amount": "500.00", "currency": "USD", "period": "day"}
        scope = {"tenant": "acme", "project": "vision"}
        await world.apply(envelope("vision", scope, gpus=quota(2, 4), budget=budget))
        wishes = {"timeLimit": limit} if limit else {}
        await world.apply(intent(JOB, 1, **wishes), by="acme")
        await world.settle()
        assert held(world) == (2 if limit else 1) * 2_490_000
        world.advance(3600)
        await post_running(world.plane)
        assert held(world) == held_later
        await ended(world)
        assert held(world) == 0

    def held(world: World) -> int:
        (row,) = world.rows("SELECT micros FROM budget_held WHERE scope = 'acme/vision'")
        return int(row["micros"])

    play(tmp_path, story)


def test_a_budget_that_only_warns_admits_and_says_so_wherever_one_looks(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        budget = {"amount": "1.00", "currency": "USD", "period": "day", "onExhausted": "warn"}
        scope = {"tenant": "acme", "project": "vision"}
        await world.apply(envelope("vision", scope, gpus=quota(2, 4), budget=budget))
        applied = await world.apply(intent("vision/prod/big", 4), by="acme")
        assert applied.status == 200, applied.body
        decision = applied.json["results"][0]["decision"]
        assert (decision["verdict"], decision["reasons"]) == ("admitted", [])
        (warning,) = decision["warnings"]
        assert (warning["rule"], warning["limit"]) == ("budget.exhausted", "1.00")
        assert (await world.get(f"/v1/decisions/{decision['id']}"))["warnings"] == [warning]
        assert (await world.get(f"{url('vision/prod/big')}/explanation"))["warnings"] == [warning]
        (told,) = world.rows("SELECT tenant, subject, data FROM events WHERE type = 'budget.exceeded'")
        assert (told["tenant"], told["subject"]) == ("acme", "vision/prod/big")
        assert json.loads(told["data"])["decision"] == decision["id"]
        again = await world.apply(intent("nlp/dev/other", 1), by="acme")
        assert again.json["results"][0]["decision"]["warnings"] == [], "another budget"

    play(tmp_path, story)


def _in_currency(currency: str) -> list[dict[str, Any]]:
    """Acme, its budgets and a price, all in one currency."""
    budget = {"amount": "5.00", "currency": currency, "period": "month"}
    vision = {"tenant": "acme", "project": "vision"}
    book = price_book(f"list-{currency.lower()}", "2.00")
    tenant = {"displayName": "Acme", "tier": "standard", "currency": currency}
    return [
        {"apiVersion": API, "kind": "Tenant", "metadata": {"name": "acme"}, "spec": tenant},
        envelope("acme", {"tenant": "acme"}, gpus=quota(8, 16), budget=budget),
        envelope("vision", vision, gpus=quota(0, 4), budget=budget),
        {**book, "spec": {**book["spec"], "currency": currency}},
    ]


async def _spent(world: World) -> set[tuple[str, str, str]]:
    found = (await world.get("/v1/quota?tenant=acme"))["budgets"]
    return {(line["scope"], line["spent"], line["currency"]) for line in found}


def test_a_budget_counts_only_what_was_paid_in_its_own_currency(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world)
        world.advance(3600)
        await ended(world)
        assert (await world.apply(*_in_currency("EUR"))).status == 200
        assert await _spent(world) == {("acme", "0.00", "EUR"), ("acme/vision", "0.00", "EUR")}
        await running(world, 2)
        world.advance(3600)
        await ended(world)
        assert await _spent(world) == {("acme", "4.00", "EUR"), ("acme/vision", "4.00", "EUR")}
        assert (await world.apply(*_in_currency("USD")[:3])).status == 200
        assert await _spent(world) == {("acme", "2.49", "USD"), ("acme/vision", "2.49", "USD")}

    play(tmp_path, story)


def test_a_tenant_keeps_its_currency_while_work_is_paid_in_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world)
        before = world.dump()
        for dry in ("", "?dryRun=true"):
            refused = await world.call("POST", f"/v1/apply{dry}", _in_currency("EUR"))
            assert refused.status == 409
            assert f"from USD to EUR while it has work that is paid in USD: {JOB}" in refused.json["detail"]
        assert world.dump() == before
        world.advance(60)
        await ended(world)
        assert (await world.apply(*_in_currency("EUR"))).status == 200

    play(tmp_path, story)


def test_a_later_tenant_of_the_same_name_has_spent_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world)
        world.advance(3600)
        await ended(world)
        there = ("envelopes/nlp-prod", "envelopes/acme", "projects/nlp", "projects/vision", "tenants/acme")
        for path in (url(JOB), *(f"/v1/{one}" for one in there)):
            gone = await world.call("DELETE", path)
            assert gone.status == 204, gone.body
        assert (await world.apply(*_in_currency("EUR")[:2])).status == 200
        assert await _spent(world) == {("acme", "0.00", "EUR")}

    play(tmp_path, story)
