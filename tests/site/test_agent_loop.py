"""The agent's story in memory: what it does, what it says, and what it does when cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.site.worlds import UNTIL_TOLD, FakeLink, LocalWorld, assignment, until

from windlass.core.errors import Unavailable
from windlass.site.agent import loop as module
from windlass.site.agent.loop import AgentLoop
from windlass.site.nodes.inventory import simulated
from windlass.site.orchestrators.fake import FakeOrchestrator, FakeSite
from windlass.site.orchestrators.port import Orchestrator

JOB = assignment("wl_1", "train", workers=2)
STOP = msgspec.structs.replace(JOB, want="stop")


def agent(site: FakeSite, link: FakeLink) -> AgentLoop:
    return AgentLoop("local", FakeOrchestrator(site), link, jitter=lambda: 0.0)


def pass_after_pass(
    *assignments: Any,
) -> Callable[[Callable[[FakeSite, FakeLink, AgentLoop], Coroutine[Any, Any, None]]], None]:
    def told(story: Callable[[FakeSite, FakeLink, AgentLoop], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            site, link = FakeSite(simulated("h100-80gx8", nodes=1).nodes), FakeLink(*assignments)
            await story(site, link, agent(site, link))

        asyncio.run(main())

    return told


def test_it_starts_what_is_wanted_reports_once_and_then_is_silent() -> None:
    @pass_after_pass(JOB)
    async def story(site: FakeSite, link: FakeLink, agent: AgentLoop) -> None:
        await agent.converge()
        assert site.starts == [("wl_1", 1, 0), ("wl_1", 1, 1)]
        (report,) = link.reports
        assert report.nodes is not None
        assert [worker.state for worker in report.observations[0].workers] == ["running", "running"]
        await agent.converge()
        await agent.converge()
        assert len(link.reports) == 1


def test_a_change_is_reported_alone() -> None:
    @pass_after_pass(JOB, assignment("wl_2", "x"))
    async def story(site: FakeSite, link: FakeLink, agent: AgentLoop) -> None:
        await agent.converge()
        site.finish("wl_1", 1, 0, 0)
        await agent.converge()
        last = link.reports[-1]
        assert last.nodes is None
        assert [one.workload for one in last.observations] == ["wl_1"]


def test_an_end_is_reported_while_it_is_listed_and_forgotten_when_it_no_longer_is() -> None:
    @pass_after_pass(JOB)
    async def story(site: FakeSite, link: FakeLink, agent: AgentLoop) -> None:
        await agent.converge()
        for worker in (0, 1):
            site.finish("wl_1", 1, worker, 0)
        await agent.converge()
        assert link.heard()[-1].gone
        assert link.heard()[-1].exit_code == 0
        assert ("forget", "wl_1", 1) not in site.calls
        link.want()
        await agent.converge()
        assert ("forget", "wl_1", 1) in site.calls
        assert site.attempts["wl_1", 1].forgotten


def test_an_orphan_is_stopped_its_end_is_reported_and_then_it_is_forgotten() -> None:
    @pass_after_pass()
    async def story(site: FakeSite, link: FakeLink, agent: AgentLoop) -> None:
        await FakeOrchestrator(site).ensure(JOB)
        await agent.converge()
        assert link.heard()[-1].gone
        assert link.heard()[-1].detail == "cancelled"
        await agent.converge()
        assert site.attempts["wl_1", 1].forgotten


def test_a_stop_of_something_that_is_not_here_is_answered_with_gone() -> None:
    @pass_after_pass(STOP)
    async def story(site: FakeSite, link: FakeLink, agent: AgentLoop) -> None:
        await agent.converge()
        (heard,) = link.heard()
        assert (heard.workload, heard.attempt, heard.gone) == ("wl_1", 1, True)
        await agent.converge()
        assert len(link.heard()) == 1


def test_before_the_first_word_of_the_centre_nothing_is_stopped() -> None:
    @pass_after_pass()
    async def story(site: FakeSite, link: FakeLink, agent: AgentLoop) -> None:
        await FakeOrchestrator(site).ensure(JOB)
        link.away = True
        with pytest.raises(Unavailable):
            await agent.converge()
        assert not [call for call in site.calls if call[0] == "stop"]


def test_while_the_centre_is_away_the_last_desired_state_holds_and_all_is_said_again_after() -> None:
    @pass_after_pass(JOB)
    async def story(site: FakeSite, link: FakeLink, agent: AgentLoop) -> None:
        await agent.converge()
        link.away = True
        site.attempts.clear()  # the site lost it: it is still wanted
        with pytest.raises(Unavailable):
            await agent.converge()
        assert site.starts[2:] == [("wl_1", 1, 0), ("wl_1", 1, 1)]
        link.away = False
        await agent.converge()
        assert link.reports[-1].nodes is not None
        assert link.reports[-1].observations == link.reports[0].observations


def test_nothing_is_forgotten_before_its_end_was_heard() -> None:
    class Deaf(FakeLink):
        async def report(self, report: object) -> None:
            raise Unavailable("the report got lost")

    async def main() -> None:
        site, link = FakeSite(), Deaf()
        await FakeOrchestrator(site).ensure(JOB)
        subject = agent(site, link)
        for _ in range(2):
            with pytest.raises(Unavailable):
                await subject.converge()
        assert ("forget", "wl_1", 1) not in site.calls

    asyncio.run(main())


def test_one_action_that_fails_does_not_hold_up_the_others() -> None:
    class Moody(FakeOrchestrator):
        async def ensure(self, assignment: Any) -> None:
            if assignment.workload == "wl_1":
                raise RuntimeError("a bug")
            await super().ensure(assignment)

    async def main() -> None:
        site, link = FakeSite(), FakeLink(JOB, assignment("wl_2", "x"))
        subject = AgentLoop("local", Moody(site), link, jitter=lambda: 0.0)
        with pytest.raises(Unavailable):
            await subject.converge()
        assert site.starts == [("wl_2", 1, 0)]
        assert [one.workload for one in link.heard()] == ["wl_2"]

    asyncio.run(main())


def test_a_new_attempt_waits_for_the_end_of_the_old_one() -> None:
    @pass_after_pass(JOB)
    async def story(site: FakeSite, link: FakeLink, agent: AgentLoop) -> None:
        await agent.converge()
        site.slow = True
        link.want(msgspec.structs.replace(JOB, attempt=2))
        await agent.converge()
        assert ("wl_1", 2, 0) not in site.starts
        site.settle()
        await agent.converge()
        assert ("wl_1", 2, 0) in site.starts


def test_many_observations_go_up_in_several_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OBSERVATIONS", 2)

    @pass_after_pass(*(assignment(f"wl_{number}", "x") for number in range(5)))
    async def story(site: FakeSite, link: FakeLink, agent: AgentLoop) -> None:
        await agent.converge()
        assert [len(report.observations) for report in link.reports] == [2, 2, 1]
        assert [report.nodes is not None for report in link.reports] == [True, False, False]


# --- running by itself ---------------------------------------------------------------------------


def live(
    orchestrator: Orchestrator,
    link: FakeLink,
    story: Callable[[], Coroutine[Any, Any, None]],
    **periods: Any,
) -> Coroutine[Any, Any, None]:
    async def main() -> None:
        subject = AgentLoop("local", orchestrator, link, jitter=lambda: 0.0, **periods)
        running = asyncio.ensure_future(subject.run())
        try:
            await story()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    return main()


def test_a_long_absence_is_told_ever_more_rarely(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log may be on the very disk that is full."""
    monkeypatch.setattr(module, "BACKOFF_FIRST_S", 0.0)
    monkeypatch.setattr(module, "COALESCE_S", 0.0)
    passes = 0

    class Counting(FakeLink):
        async def desired(self, site: str) -> Any:
            nonlocal passes
            passes += 1
            return await super().desired(site)

    async def main() -> None:
        link = Counting()
        link.away = True

        async def story() -> None:
            await until(lambda: passes > 40)

        await live(FakeOrchestrator(FakeSite()), link, story)

    asyncio.run(main())
    told = [record for record in caplog.records if record.message == "the site is cut off"]
    assert [record.facts["failures"] for record in told][:6] == [1, 2, 4, 8, 16, 32]  # type: ignore[attr-defined]


def test_it_wakes_on_both_sides_hints_and_not_otherwise() -> None:
    async def main() -> None:
        site, link = FakeSite(), FakeLink()

        async def story() -> None:
            await until(lambda: site.calls)
            link.want(JOB)
            await until(lambda: site.starts)
            site.finish("wl_1", 1, 0, 3)
            await until(lambda: link.heard() and link.heard()[-1].gone)
            assert link.heard()[-1].exit_code == 3
            link.want()
            await until(lambda: site.attempts["wl_1", 1].forgotten)

        await live(FakeOrchestrator(site), link, story, period_s=3600, busy_period_s=3600)

    asyncio.run(main())


def test_a_hint_that_got_lost_costs_one_period() -> None:
    async def main() -> None:
        site, link = FakeSite(), FakeLink(JOB)

        async def story() -> None:
            await until(link.heard)
            site.finish("wl_1", 1, 0, 0)
            site.finish("wl_1", 1, 1, 0)
            site.rung.clear()
            await until(lambda: link.heard()[-1].gone)
            count = len(link.heard())
            await until(lambda: len(link.heard()) > count)  # said again: it is still listed

        await live(FakeOrchestrator(site), link, story, period_s=0.05, busy_period_s=0.05)

    asyncio.run(main())


def test_it_outlives_an_absent_centre_and_a_refusing_orchestrator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_FIRST_S", 0.01)

    async def main() -> None:
        site, link = FakeSite(), FakeLink(JOB)
        link.away, site.refusals = True, 3

        async def story() -> None:
            await until(lambda: site.refusals == 0)
            link.away = False
            await until(lambda: link.heard() and link.heard()[-1].workers)

        await live(FakeOrchestrator(site), link, story, period_s=3600, busy_period_s=3600)

    asyncio.run(main())


def test_a_real_site_from_start_to_forgotten(world: LocalWorld) -> None:
    async def main() -> None:
        site = world.orchestrator()
        await site.open()
        link = FakeLink(assignment("wl_1", *UNTIL_TOLD, image="img"))

        async def story() -> None:
            await until(
                lambda: (
                    link.heard()
                    and link.heard()[-1].workers
                    and link.heard()[-1].workers[0].state == "running"
                )
            )
            await asyncio.to_thread(world.tell, 6)
            await until(lambda: link.heard()[-1].gone)
            assert link.heard()[-1].exit_code == 6
            link.want()
            await until(lambda: not list(world.data.glob("site/jobs/*")))

        try:
            await live(site, link, story, period_s=3600, busy_period_s=3600)
        finally:
            await site.close()

    asyncio.run(main())
