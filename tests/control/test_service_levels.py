"""`GET /v1/slo`: measured from what is stored, so a restart changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.control.documents import CATALOG, intent
from tests.control.worlds import World, play

PROMISED = CATALOG.replace(
    "spec: {priority: 50, preempts: true, preemptible: true}",
    "spec: {priority: 50, preempts: true, preemptible: true, objectives: {admitWithin: 30s}}",
)


async def levels(world: World, window: str = "24h", by: str = "admin") -> dict[str, Any]:
    reply = await world.call("GET", f"/v1/slo?window={window}", by=by)
    assert reply.status == 200, reply.body
    return {f"{one['name']}/{one['of']}".rstrip("/"): one for one in reply.json["levels"]}


async def a_busy_hour(world: World) -> None:
    """One that starts at once, one that waits ten minutes, as it was told at submission."""
    await world.settle()
    await world.apply(intent("nlp/prod/first", 8, timeLimit="10m"))
    await world.settle()
    world.advance(2)
    await world.settle()
    await world.apply(intent("nlp/prod/second", 8, timeLimit="10m"))
    await world.settle()
    world.advance(598)
    world.finish("nlp/prod/first")
    await world.settle()
    world.advance(1)
    await world.settle()
    assert world.phase("nlp/prod/second") == "Running"


def test_every_level_is_there_and_says_what_was_promised_and_what_was_kept(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_busy_hour(world)
        found = await levels(world)
        assert set(found) == {
            "admission/standard",
            "reconcile",
            "availability",
            "explained",
            "estimate",
        }
        placed = found["admission/standard"]
        assert (placed["within"], placed["target"], placed["measured"]) == ("30s", "95", "50")
        assert (placed["good"], placed["total"], placed["met"]) == (1, 2, False)
        assert (placed["budgetLeft"], placed["p95S"]) == ("-900", "598.000")
        assert (found["reconcile"]["good"], found["reconcile"]["total"]) == (2, 2)
        assert found["explained"]["measured"] == "100"
        assert found["explained"]["total"] == 598_000
        assert (found["estimate"]["good"], found["estimate"]["total"]) == (1, 1)
        assert found["availability"]["measured"] == "100"

    play(tmp_path, story, catalog=PROMISED)


def test_a_restart_changes_none_of_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_busy_hour(world)
        before = await levels(world)
        await world.plane.minutes.save()
        await world.restart()
        after = await levels(world)
        answered = after.pop("availability")["total"]
        assert answered == before.pop("availability")["total"] + 1, "the first question was one request"
        assert after == before

    play(tmp_path, story, catalog=PROMISED)


def test_what_the_platform_fails_counts_against_it_and_what_the_asker_does_wrong_does_not(
    tmp_path: Path,
) -> None:
    async def story(world: World) -> None:
        start = (await levels(world))["availability"]["total"]
        assert (await world.call("GET", "/v1/tiers/none")).status == 404
        plane, world.plane.scheduler.state = world.plane.scheduler.state, None  # type: ignore[assignment]
        assert (await world.call("GET", "/v1/queue")).status == 500
        world.plane.scheduler.state = plane
        await world.call("GET", "/healthz", by=None)
        found = (await levels(world))["availability"]
        assert found["total"] - start == 3, "the first look, the 404 and the 500; health is nobody's request"
        assert found["total"] - found["good"] == 1

    play(tmp_path, story)


def test_what_lies_before_the_window_does_not_count(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_busy_hour(world)
        await world.plane.minutes.save()
        world.advance(7200)
        found = await levels(world, "1h")
        assert found["reconcile"]["total"] == found["explained"]["total"] == 0
        assert found["availability"]["total"] == 0, "stored two hours ago"
        assert found["admission/standard"]["measured"] is None

    play(tmp_path, story, catalog=PROMISED)


def test_a_tenant_sees_the_levels_of_its_own_work_only(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_busy_hour(world)
        own = await levels(world, by="acme")
        assert own["admission/standard"]["total"] == 2
        assert "availability" not in own
        others = await levels(world, by="globex")
        assert all(one["total"] == 0 for one in others.values())

    play(tmp_path, story, catalog=PROMISED)


def test_waiting_again_after_a_retry_is_waiting_that_has_to_be_explained(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.settle()
        await world.apply(intent("nlp/prod/job", 8, retries=1))
        await world.settle()
        before = (await levels(world))["explained"]["total"]
        world.finish("nlp/prod/job", 1)
        await world.agent.converge()
        world.advance(30)
        assert (await levels(world))["explained"]["total"] == before + 30_000

    play(tmp_path, story)


def test_a_window_that_is_none_is_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for bad in ("31d", "0s", "yesterday", "-1h"):
            assert (await world.call("GET", f"/v1/slo?window={bad}")).status == 400

    play(tmp_path, story)
