"""Whatever people, sites and time do, in whatever order: nobody holds more than its ceiling, no GPU is
held twice, every pending millisecond has a cause, and the books balance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.control.books import HOLDING, audit
from tests.control.documents import envelope, intent, price_book, quota
from tests.control.worlds import World, play, url

CELLS = ("nlp/prod", "nlp/dev", "vision/prod", "chat/prod", "cheap/dev")

submissions = st.tuples(
    st.just("submit"),
    st.sampled_from(CELLS),
    st.integers(0, 2),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 2),
)
happenings = st.one_of(
    st.tuples(st.sampled_from(["finish", "fail", "lose"]), st.integers(0, 9)),
    st.tuples(st.sampled_from(["cancel", "rerun", "delete"]), st.integers(0, 9)),
    st.tuples(st.just("advance"), st.sampled_from([0.001, 1, 59.5, 3600, 90_000])),
    st.tuples(st.sampled_from(["turn", "converge", "settle", "restart", "slow", "fast", "reprice", "widen"])),
)


async def do(world: World, happening: tuple[Any, ...]) -> None:
    match happening:
        case ("submit", cell, number, gpus, workers):
            await world.apply(intent(f"{cell}/job{number}", gpus, workers=workers, retries=1))
        case ("advance", seconds):
            world.advance(seconds)
        case ("turn",):
            await world.plane.scheduler.turn()
        case ("converge",):
            await world.agent.converge()
        case ("settle" | "restart" as name,):
            await getattr(world, name)()
        case ("slow" | "fast" as pace,):
            world.site.slow = pace == "slow"
            world.site.settle()
        case ("reprice",):
            await world.apply(price_book("list", f"{2 + world.newest_event() % 7}.50"))
        case ("widen",):
            await world.apply(envelope("umbra", {"tenant": "umbra"}, gpus=quota(0, 24)))
        case (action, number):
            await _to_one(world, action, number)


async def _to_one(world: World, action: str, number: int) -> None:
    paths = [row["path"] for row in world.rows("SELECT DISTINCT path FROM workloads ORDER BY path")]
    if not paths:
        return
    path = paths[number % len(paths)]
    if action in ("cancel", "rerun"):
        await world.act(path, action)
        return
    if action == "delete":
        project, env, name = path.split("/")
        await world.call("DELETE", f"/v1/projects/{project}/components/{env}/{name}")
        return
    found = world.workload(path)
    attempt = world.site.attempts.get((found["id"], found["attempt"]))
    alive = [n for n, w in attempt.workers.items() if w.state in ("starting", "running")] if attempt else []
    for worker in alive if action == "finish" else alive[:1]:
        if action == "lose":
            world.site.lose(found["id"], found["attempt"], worker)
        else:
            world.site.finish(found["id"], found["attempt"], worker, 0 if action == "finish" else 1)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(happened=st.lists(st.one_of(submissions, happenings), max_size=25))
def test_the_promises_hold_at_every_moment(
    tmp_path_factory: pytest.TempPathFactory, happened: list[tuple[Any, ...]]
) -> None:
    async def story(world: World) -> None:
        for happening in happened:
            await do(world, happening)
            await audit(world)
        await everything_ends(world)

    play(tmp_path_factory.mktemp("laws"), story)


async def everything_ends(world: World) -> None:
    """Let time and the site finish all there is; then nothing is held and all is paid."""
    world.site.slow = False
    for _ in range(200):
        world.site.settle()
        await world.settle()
        live = world.rows("SELECT path FROM workloads WHERE finished_ms IS NULL")
        if not live:
            break
        world.advance(600)
        for row in live:
            if world.phase(row["path"]) in HOLDING:
                await _to_one_path(world, row["path"])
            elif (await world.get(f"{url(row['path'])}/explanation"))["position"] is None:
                await world.act(row["path"], "cancel")  # it can never run, and said so
    await audit(world)
    assert world.rows("SELECT path, phase FROM workloads WHERE finished_ms IS NULL") == []
    assert world.rows("SELECT id FROM holdings WHERE until_ms IS NULL") == []
    assert world.rows("SELECT * FROM budget_holds") == []
    started = [(workload, attempt, worker) for workload, attempt, worker in world.site.starts]
    assert len(started) == len(set(started)), "a worker was started twice"


async def _to_one_path(world: World, path: str) -> None:
    paths = [row["path"] for row in world.rows("SELECT DISTINCT path FROM workloads ORDER BY path")]
    await _to_one(world, "finish", paths.index(path))


def test_work_that_can_never_run_says_so_and_holds_nobody_up(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/dev/job", 8, workers=2), by="acme")  # 16 of 16 it may hold
        await world.settle()
        narrow = envelope("acme", {"tenant": "acme"}, gpus=quota(8, 8))
        await world.apply(intent("nlp/dev/waits", 8, workers=2), by="acme")
        await world.settle()
        assert (await world.apply(narrow)).status == 200
        await world.settle()
        why = await world.get("/v1/projects/nlp/components/dev/waits/explanation", by="acme")
        assert (why["cause"], why["position"]) == ("entitlement", None)
        assert "never" in why["remedy"]
        world.finish("nlp/dev/job")
        await world.apply(intent("nlp/dev/small"), by="acme")
        await world.settle()
        assert world.phase("nlp/dev/small") == "Running"
        assert world.phase("nlp/dev/waits") == "Pending"

    play(tmp_path, story)
