"""Why it waits: one true cause at every moment, and a past that nobody rewrites."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.books import audit, audit_history
from tests.control.documents import envelope, intent, quota
from tests.control.worlds import FLEET, World, play, url

JOB = "vision/prod/job"


async def cause(world: World, path: str = JOB) -> str | None:
    found: str | None = (await world.get(f"{url(path)}/explanation"))["cause"]
    return found


async def causes(world: World, path: str = JOB) -> list[tuple[str, int]]:
    """The history as causes and seconds."""
    return [(name, (until - since) // 1000) for name, since, until in await audit_history(world, path)]


async def a_changing_wait(world: World) -> None:
    """Ten seconds for quota, then twenty for capacity."""
    ceiling = {"tenant": "acme", "project": "vision"}
    world.site.nodes = FLEET[1:]  # eight H100s; sixteen are promised
    await world.settle()
    await world.apply(envelope("vision", ceiling, gpus=quota(1, 4)))
    await world.apply(intent("vision/prod/first", 4))
    await world.apply(intent("chat/prod/other", 4))
    await world.settle()
    world.advance(60)
    await world.apply(intent(JOB, 4), by="acme")
    await world.settle()
    assert await cause(world) == "quota"
    world.advance(10)
    await world.apply(envelope("vision", ceiling, gpus=quota(1, 8)))
    await world.settle()
    assert await cause(world) == "capacity"
    world.advance(20)
    await world.settle()


def test_a_cause_that_changes_is_recorded_when_it_changes(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_changing_wait(world)
        assert await causes(world) == [("quota", 10), ("capacity", 20)]
        world.finish("vision/prod/first")
        await world.settle()
        world.advance(30)
        world.finish(JOB)
        await world.settle()
        assert await causes(world) == [("quota", 10), ("capacity", 20), ("running", 30)]
        await audit(world)

    play(tmp_path, story)


def test_a_restart_does_not_rewrite_why_something_waited(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_changing_wait(world)
        for _ in range(2):
            await world.restart()
            await world.settle()
        assert await causes(world) == [("quota", 10), ("capacity", 20)]
        world.advance(5)
        assert await causes(world) == [("quota", 10), ("capacity", 25)]

    play(tmp_path, story)


def test_work_that_comes_back_keeps_what_it_waited_for_before(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        borrower, lender = "cheap/dev/job", "chat/prod/job"
        await world.apply(intent("nlp/dev/full", 8, workers=2))
        await world.settle()
        await world.apply(intent(borrower, 8, workers=2))
        await world.settle()
        world.advance(10)
        world.finish("nlp/dev/full")
        await world.settle()
        before = [span for span in await causes(world, borrower) if span[0] != "running"]
        assert sum(seconds for _, seconds in before) == 10
        world.advance(20)
        await world.apply(intent(lender, 8))
        await world.settle()
        assert world.phase(borrower) == "Pending"
        world.advance(30)
        await world.settle()
        after = await causes(world, borrower)
        assert after[: len(before)] == before
        assert sum(seconds for _, seconds in after) == 60
        await audit(world)

    play(tmp_path, story)


def test_a_newcomer_in_a_line_has_only_its_own_past(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_changing_wait(world)
        await world.apply(intent("vision/prod/late", 4), by="acme")
        await world.settle()
        world.advance(5)
        assert await causes(world, "vision/prod/late") == [("capacity", 5)]

    play(tmp_path, story)


def test_work_for_a_class_without_a_node_waits_for_capacity(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.site.nodes = FLEET[:2]
        await world.settle()
        reply = await world.apply(intent(JOB, profile="l40s-48g"), by="acme")
        assert reply.status == 200, "a class that has no node yet is not impossible"
        await world.settle()
        assert await cause(world) == "capacity"

    play(tmp_path, story)


def test_position_and_estimate_come_with_the_cause(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("vision/prod/full", 8, workers=2, timeLimit="1h"))
        await world.settle()
        for name in ("one", "two", "three"):
            world.advance(1)
            await world.apply(intent(f"vision/prod/{name}", 8), by="acme")
        await world.settle()
        why = await world.get(f"{url('vision/prod/three')}/explanation", by="acme")
        assert why["position"] == {"ahead": 2, "of": 3}
        assert why["estimate"]["startsAt"] >= "2026-03-02T09:59" and why["estimate"]["basis"]
        assert why["remedy"]
        queue = await world.get("/v1/queue", by="acme")
        assert [entry["component"] for entry in queue["waiting"]] == [
            "vision/prod/one",
            "vision/prod/two",
            "vision/prod/three",
        ]
        assert [entry["ahead"] for entry in queue["waiting"]] == [0, 1, 2]
        assert (queue["waitingTotal"], queue["runningTotal"]) == (3, 1)

    play(tmp_path, story)


@pytest.mark.parametrize("running_s", [0, 30])
def test_work_that_ends_after_the_clock_stepped_back_has_a_whole_history_and_a_true_bill(
    tmp_path: Path, running_s: int
) -> None:
    async def story(world: World) -> None:
        await world.apply(intent(JOB, 4), by="acme")
        await world.settle()
        world.advance(running_s)
        await world.settle()
        world.advance(-3600)
        world.finish(JOB)
        await world.settle()
        row = world.workload(JOB)
        assert row["phase"] == "Succeeded" and row["finished_ms"] >= row["submitted_ms"]
        await audit(world)

    play(tmp_path, story)
