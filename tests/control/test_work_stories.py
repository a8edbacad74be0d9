"""The life of work, from submission to the bill, in time that moves by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.control.books import audit, audit_history, holdings, summary, transfers
from tests.control.documents import envelope, intent, quota
from tests.control.worlds import FLEET, World, play, url

from windlass.contracts.agent import SiteReport
from windlass.site.orchestrators.fake import FakeSite

JOB = "nlp/prod/job"
FULL = "nlp/prod/full"
Step = Callable[[World], Awaitable[None]]


def after(seconds: float) -> Step:
    async def step(world: World) -> None:
        world.advance(seconds)

    return step


def submit(path: str, gpus: int = 1, **spec: object) -> Step:
    async def step(world: World) -> None:
        reply = await world.apply(intent(path, gpus, **spec))
        assert reply.status == 200, reply.body

    return step


def ends(path: str, code: int = 0) -> Step:
    async def step(world: World) -> None:
        world.finish(path, code)

    return step


def cancel(path: str) -> Step:
    async def step(world: World) -> None:
        assert (await world.act(path, "cancel")).status == 200

    return step


async def turn(world: World) -> None:
    await world.plane.scheduler.turn()


async def converge(world: World) -> None:
    await world.agent.converge()


async def settle(world: World) -> None:
    await world.settle()


async def slow_site(world: World) -> None:
    world.site.slow = True


async def site_catches_up(world: World) -> None:
    world.site.slow = False
    world.site.settle()


STORIES: dict[str, tuple[tuple[Step, ...], dict[str, str]]] = {
    "a job succeeds": (
        (submit(JOB, 4), turn, after(1), converge, after(3600), ends(JOB), converge, turn),
        {JOB: "Succeeded"},
    ),
    "a job fails": (
        (submit(JOB), settle, after(5), ends(JOB, 3), settle),
        {JOB: "Failed"},
    ),
    "a job is tried again": (
        (submit(JOB, retries=1), settle, after(5), ends(JOB, 3), settle, after(7), ends(JOB), settle),
        {JOB: "Succeeded"},
    ),
    "retries run out": (
        (submit(JOB, retries=1), settle, after(5), ends(JOB, 3), settle, after(7), ends(JOB, 4), settle),
        {JOB: "Failed"},
    ),
    "cancelled while it waits": (
        (submit(FULL, 8), settle, submit(JOB), turn, after(3), cancel(JOB), settle, ends(FULL), settle),
        {JOB: "Cancelled", FULL: "Succeeded"},
    ),
    "cancelled before the site has heard of it": (
        (submit(JOB), turn, after(3), cancel(JOB), converge, turn),
        {JOB: "Cancelled"},
    ),
    "cancelled while it starts": (
        (slow_site, submit(JOB), turn, converge, after(3), cancel(JOB), converge, site_catches_up, settle),
        {JOB: "Cancelled"},
    ),
    "cancelled while it runs": (
        (submit(JOB), settle, after(3), cancel(JOB), settle),
        {JOB: "Cancelled"},
    ),
    "done before the cancel arrived": (
        (submit(JOB), settle, after(3), ends(JOB), cancel(JOB), settle),
        {JOB: "Succeeded"},
    ),
    "a gang": (
        (submit(JOB, 4, workers=2), settle, after(60), ends(JOB), settle),
        {JOB: "Succeeded"},
    ),
    "one waits for another": (
        (
            submit(JOB, 8),
            submit("nlp/prod/next", 8),
            settle,
            after(60),
            settle,
            ends(JOB),
            settle,
            after(60),
            ends("nlp/prod/next"),
            settle,
        ),
        {JOB: "Succeeded", "nlp/prod/next": "Succeeded"},
    ),
    "a lender takes back its guarantee": (
        (
            submit("cheap/dev/borrower", 8, workers=2),
            settle,
            after(600),
            slow_site,
            submit("chat/prod/lender", 8),
            turn,
            converge,
            after(5),
            site_catches_up,
            settle,
            after(1200),
            settle,
            ends("chat/prod/lender"),
            settle,
            after(300),
            ends("cheap/dev/borrower"),
            settle,
        ),
        {"chat/prod/lender": "Succeeded", "cheap/dev/borrower": "Succeeded"},
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_the_story_ends_well_and_the_books_are_right(tmp_path: Path, name: str) -> None:
    steps, ended = STORIES[name]

    async def story(world: World) -> None:
        for step in steps:
            await step(world)
            await audit(world)
        assert {path: world.phase(path) for path in ended} == ended
        assert all(holding.until is not None for holding in holdings(world))

    play(tmp_path, story)


@pytest.mark.parametrize("name", STORIES)
def test_a_restart_at_any_step_changes_nothing_of_the_end(tmp_path: Path, name: str) -> None:
    steps, _ = STORIES[name]
    told = []

    def playing(restart_before: int) -> Callable[[World], Awaitable[None]]:
        async def story(world: World) -> None:
            for number, step in enumerate(steps):
                if number == restart_before:
                    await world.restart()
                await step(world)
            await audit(world)
            told.append(summary(world))

        return story

    for number in range(-1, len(steps)):
        folder = tmp_path / str(number)
        folder.mkdir()
        play(folder, playing(number))
        assert told[-1] == told[0], f"after a restart before step {number}"


def test_a_preempted_borrower_pays_once_for_what_it_held_and_finishes_later(tmp_path: Path) -> None:
    steps, _ = STORIES["a lender takes back its guarantee"]

    async def story(world: World) -> None:
        for step in steps:
            await step(world)
        first, second = (h for h in holdings(world) if h.component == "borrower")
        assert [(h.until or 0) - h.since for h in (first, second)] == [605_000, 300_000]
        shown = await world.get(url("cheap/dev/borrower"))
        assert shown["status"]["preemptions"] == 1 and shown["status"]["attempt"] == 2
        assert shown["status"]["cost"] == "10.015333"  # 16 GPUs x 905 s x 2.49 an hour
        spans = await audit_history(world, "cheap/dev/borrower")
        assert [cause for cause, _, _ in spans] == ["running", "quota", "running"]

    play(tmp_path, story)


def test_an_observation_told_twice_or_late_changes_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent(JOB, retries=1))
        await world.settle()
        world.finish(JOB, 1)
        (seen,) = await world.plane.logs.observe()  # type: ignore[union-attr]
        await world.plane.link.report(SiteReport(site="local", observations=(seen,)))
        assert world.phase(JOB) == "Pending"
        before = world.dump()
        for _ in range(2):
            await world.plane.link.report(SiteReport(site="local", observations=(seen, seen)))
        assert world.dump() == before
        await world.plane.scheduler.turn()
        before = world.dump()
        await world.plane.link.report(SiteReport(site="local", observations=(seen,)))
        await world.plane.link.report(SiteReport(site="elsewhere", observations=(seen,)))
        assert world.dump() == before, "an attempt that is over says nothing of the next"

    play(tmp_path, story)


def test_a_centre_that_was_away_does_not_charge_for_its_absence(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent(JOB, 2))
        await world.settle()
        world.advance(600)
        world.finish(JOB)
        world.advance(86_400)  # nobody hears of it for a day
        await world.restart()
        await world.settle()
        (held,) = holdings(world)
        assert (held.until or 0) - held.since == 600_000
        await audit(world)

    play(tmp_path, story)


def test_applying_what_is_unchanged_changes_nothing_in_any_phase(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for step in (turn, settle, after(10), ends(JOB), settle):
            reply = await world.apply(intent(JOB, 4), by="acme")
            assert reply.status == 200
            before = world.dump()
            again = await world.apply(intent(JOB, 4), by="acme")
            assert again.json["results"][0]["outcome"] == "unchanged"
            assert world.dump() == before
            await step(world)
        # Also when policy would refuse it today; what runs, runs.
        narrow = envelope("nlp-prod", {"tenant": "acme", "project": "nlp", "env": "prod"}, gpus=quota(1, 2))
        assert (await world.apply(narrow)).status == 200
        assert (await world.apply(intent(JOB, 4), by="acme")).json["results"][0]["outcome"] == "unchanged"
        forged = intent(JOB, 4, labels={"windlass.dev/tenant": "globex"})
        assert (await world.apply(forged, by="acme")).codes == ["label.reserved", "entitlement.max"]

    play(tmp_path, story)


def test_a_job_whose_own_hold_fills_the_budget_can_be_applied_again(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        small = {"amount": "10.00", "currency": "USD", "period": "month"}
        await world.apply(
            envelope("share", {"tenant": "acme", "project": "vision"}, gpus=quota(2, 4), budget=small)
        )
        job = intent("vision/prod/job", 4)  # 9.96 an hour
        assert (await world.apply(job, by="acme")).status == 200
        assert (await world.apply(job, by="acme")).json["results"][0]["outcome"] == "unchanged"
        other = await world.apply(intent("vision/prod/other", 1), by="acme")
        assert other.codes == ["budget.exhausted"]
        live = await world.act("vision/prod/job", "rerun", by="acme")
        assert live.status == 409, "it is alive: that is what stands in the way, not the budget"
        await world.act("vision/prod/job", "cancel", by="acme")
        assert (await world.apply(intent("vision/prod/other", 1), by="acme")).status == 200
        await audit(world)

    play(tmp_path, story)


def test_what_may_not_change_while_it_lives_is_a_conflict(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent(JOB), by="acme")
        for phase, step in (("pending", turn), ("admitted", settle), ("running", turn)):
            before = world.dump()
            for changed in (intent(JOB, 2), intent(JOB, image="ghcr.io/acme/sft:v4"), intent(JOB, workers=2)):
                reply = await world.apply(changed, by="acme")
                assert reply.status == 409 and phase in reply.json["detail"], reply.body
                assert reply.json["results"][0]["outcome"] == "conflict"
            assert world.dump() == before
            await step(world)

    play(tmp_path, story)


def test_a_node_that_leaves_and_comes_back_is_used_again(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/prod/a", 8), by="acme")
        await world.settle()
        why = await world.get(f"{url('nlp/prod/a')}/explanation", by="acme")
        assert (why["phase"], why["cause"]) == ("Pending", "capacity")
        world.advance(30)
        world.site.nodes = FLEET
        await world.settle()
        assert world.phase("nlp/prod/a") == "Running"
        await audit(world)

    play(tmp_path, story, site=FakeSite(FLEET[2:]))


def test_money_is_posted_once_however_often_it_is_told(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent(JOB, 2))
        await world.settle()
        world.advance(1800)
        world.finish(JOB)
        await world.settle()
        posted = transfers(world)
        assert [sum(e.micros for e in t.entries if e.micros > 0) for t in posted] == [2_490_000]
        for _ in range(3):
            world.agent._unsure()
            await world.settle()
        assert transfers(world) == posted

    play(tmp_path, story)
