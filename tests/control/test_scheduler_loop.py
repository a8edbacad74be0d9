"""The scheduler's loop between the engine and the store: what changes under its hands, what wakes it,
and what it does when the store refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.control.books import audit, holdings
from tests.control.documents import envelope, intent, quota
from tests.control.engines import on_sqlite_only
from tests.control.worlds import World, play

from windlass.contracts.agent import SiteReport
from windlass.control.db.sqlite import SqliteStore
from windlass.control.db.workloads import WorkloadRecord
from windlass.control.scheduler import loop as module
from windlass.control.scheduler.fold import Known, fold
from windlass.core.errors import Unavailable
from windlass.core.scheduling.model import Event
from windlass.site.orchestrators.fake import FakeOrchestrator

JOB = "nlp/prod/job"


async def report(world: World) -> None:
    """What the site sees now, told at once."""
    seen = await FakeOrchestrator(world.site).observe()
    await world.plane.link.report(SiteReport(site="local", observations=seen))


def test_a_cancel_that_comes_between_decision_and_write_wins(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent(JOB, 8))
        # Both units run in one batch: the cancel first, then what the cycle decided without knowing.
        cancelled, _ = await asyncio.gather(world.act(JOB, "cancel"), world.plane.scheduler.turn())
        assert cancelled.status == 200
        assert world.phase(JOB) == "Cancelled" and holdings(world) == []
        await world.apply(intent("nlp/prod/next", 8))
        await world.settle()
        assert world.phase("nlp/prod/next") == "Running", "the GPUs were free all the time"
        await audit(world)

    play(tmp_path, story)


@on_sqlite_only  # whose turn comes first is for another database to say
def test_a_ceiling_that_comes_down_between_decision_and_write_holds(tmp_path: Path) -> None:
    job = "vision/prod/job"

    async def story(world: World) -> None:
        await world.apply(intent(job, 8))
        lowered = envelope("vision", {"tenant": "acme", "project": "vision"}, gpus=quota(0, 4))
        applied, _ = await asyncio.gather(world.apply(lowered), world.plane.scheduler.turn())
        assert applied.status == 200
        await world.settle()
        assert world.phase(job) == "Pending" and holdings(world) == []
        await world.apply(envelope("vision", {"tenant": "acme", "project": "vision"}, gpus=quota(0, 8)))
        await world.settle()
        assert world.phase(job) == "Running"
        await audit(world)

    play(tmp_path, story)


def test_work_that_ends_while_it_is_being_preempted_has_ended(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("cheap/dev/borrower", 8, workers=2))
        await world.settle()
        world.advance(60)
        world.finish("cheap/dev/borrower")
        await world.apply(intent("chat/prod/lender", 8))
        await asyncio.gather(report(world), world.plane.scheduler.turn())
        assert world.phase("cheap/dev/borrower") == "Succeeded"
        await world.settle()
        assert world.phase("chat/prod/lender") == "Running"
        ended = world.workload("cheap/dev/borrower")
        assert (ended["preemptions"], ended["want"], ended["stop_reason"]) == (0, "", "")
        await audit(world)

    play(tmp_path, story)


def test_a_cancel_of_what_is_being_preempted_is_a_cancel(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.site.slow = True
        await world.apply(intent("cheap/dev/borrower", 8, workers=2))
        await world.settle()
        await world.apply(intent("chat/prod/lender", 8))
        await world.settle()
        assert world.workload("cheap/dev/borrower")["stop_reason"] == "preempted"
        await world.act("cheap/dev/borrower", "cancel")
        world.site.slow = False
        world.site.settle()
        await world.settle()
        assert world.phase("cheap/dev/borrower") == "Cancelled"
        assert world.phase("chat/prod/lender") == "Running"
        await audit(world)

    play(tmp_path, story)


def test_a_burst_window_opens_and_closes_by_the_clock_alone(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        burst = {
            "profileClass": "h100-80g",
            "extra": 4,
            "from": "2026-03-02T10:00:00Z",
            "until": "2026-03-02T11:00:00Z",
            "reason": "launch",
        }
        cell = {"tenant": "acme", "project": "nlp", "env": "prod"}
        await world.apply(envelope("nlp-prod", cell, gpus=quota(4, 8), burst=[burst]))
        for name in ("a", "b", "c", "d"):
            await world.apply(intent(f"nlp/prod/{name}", 4))
        await world.settle()

        def holding() -> list[str]:
            return [name for name in "abcd" if world.phase(f"nlp/prod/{name}") == "Running"]

        assert holding() == ["a", "b"]
        world.advance(3600)
        await world.settle()
        assert holding() == ["a", "b", "c"]
        world.finish("nlp/prod/a")
        world.advance(3600)
        await world.settle()
        assert holding() == ["b", "c"], "the window is closed; what runs, runs on"

    play(tmp_path, story)


async def reach(condition: Callable[[], bool]) -> None:
    """Let everybody run until it holds."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)  # a turn of the event loop and of the committing thread


def test_a_commit_wakes_the_loop_and_an_idle_one_does_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        running = asyncio.create_task(world.plane.scheduler.run())
        await reach(lambda: world.plane.scheduler.ready)
        cycles = 0
        original = world.plane.scheduler._cycle

        def counted(events: list[object]) -> object:
            nonlocal cycles
            cycles += 1
            return original(events)  # type: ignore[arg-type]

        world.plane.scheduler._cycle = counted  # type: ignore[method-assign, assignment]
        await world.apply(intent(JOB))
        await reach(lambda: world.phase(JOB) == "Admitted")
        before = cycles
        for _ in range(50):
            await asyncio.sleep(0)
        assert cycles <= before + 1, "its own writes wake it once, then it sleeps"
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    play(tmp_path, story)


@on_sqlite_only
def test_a_store_that_refuses_a_while_costs_the_scheduler_time_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_S", 0.001)

    async def story(world: World) -> None:
        assert isinstance(world.plane.store, SqliteStore)
        await world.apply(intent(JOB, 8))
        refusals = 0
        original = world.plane.store.unit

        async def refusing(scope: object, work: object) -> object:
            nonlocal refusals
            if refusals < 3:
                refusals += 1
                raise Unavailable("the disk is full")
            return await original(scope, work)  # type: ignore[arg-type]

        monkeypatch.setattr(world.plane.store, "unit", refusing)
        running = asyncio.create_task(world.plane.scheduler.run())
        await reach(lambda: world.phase(JOB) == "Admitted")
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert refusals == 3
        await world.settle()
        assert world.phase(JOB) == "Running"
        await audit(world)

    play(tmp_path, story)


def test_after_a_restart_only_what_is_alive_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        for number in range(5):
            await world.apply(intent(f"nlp/prod/j{number}"))
            await world.settle()
            world.finish(f"nlp/prod/j{number}")
            await world.settle()
        await world.restart()
        looked: list[str] = []

        def watched(record: WorkloadRecord, known: dict[str, Known]) -> list[Event]:
            looked.append(record.path)
            return fold(record, known)

        monkeypatch.setattr(module, "fold", watched)
        await world.plane.scheduler.turn()
        assert looked == []

    play(tmp_path, story)
