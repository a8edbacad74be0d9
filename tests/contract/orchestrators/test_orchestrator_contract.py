"""What the port promises, asked of every adapter. A sentence that holds for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.contract.orchestrators.levers import Levers, Subject
from tests.site.worlds import assignment, until

from windlass.contracts.agent import Observation
from windlass.core.errors import NotFound


def tell(levers: Levers, story: Callable[[Subject], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        try:
            await story(await levers.open())
        finally:
            await levers.close()

    asyncio.run(main())


async def seen(site: Subject, workload: str = "wl_1", attempt: int = 1) -> Observation | None:
    found = [one for one in await site.observe() if (one.workload, one.attempt) == (workload, attempt)]
    return found[0] if found else None


async def when(
    site: Subject, condition: Callable[[Observation], object], workload: str = "wl_1"
) -> Observation:
    last: list[Observation] = []

    async def met() -> bool:
        one = await seen(site, workload)
        last[:] = [one] if one is not None else []
        return one is not None and bool(condition(one))

    await until(met)
    return last[0]


def running(one: Observation) -> bool:
    return bool(one.workers) and all(worker.state == "running" for worker in one.workers)


def gone(one: Observation) -> bool:
    return one.gone


def test_the_fleet_is_reported(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        assert [(node.name, node.gpus) for node in await site.nodes()] == [
            ("local-h100-80g-1", 8),
            ("local-h100-80g-2", 8),
        ]

    tell(levers, story)


def test_an_empty_site_shows_nothing(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        assert await site.observe() == ()

    tell(levers, story)


def test_what_is_ensured_runs_until_it_ends_with_its_exit_code(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1", *levers.command))
        one = await when(site, running)
        assert not one.gone
        assert one.exit_code is None
        await levers.finish("wl_1", 0, 7)
        one = await when(site, gone)
        assert (one.exit_code, one.workers[0].exit_code, one.workers[0].state) == (7, 7, "exited")
        assert one.workers[0].ended_ms is not None

    tell(levers, story)


def test_an_attempt_is_started_once_however_often_it_is_ensured(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        wanted = assignment("wl_1", *levers.command, workers=2)
        await asyncio.gather(*(site.ensure(wanted) for _ in range(4)))
        await when(site, running)
        await site.ensure(wanted)
        for worker in (0, 1):
            await levers.finish("wl_1", worker, 0)
        await when(site, gone)
        await site.ensure(wanted)
        assert levers.starts("wl_1") == 2
        assert (await when(site, gone)).exit_code == 0

    tell(levers, story)


def test_a_restarted_server_finds_what_runs_and_what_ended(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        for workload, gpu in (("wl_1", 0), ("wl_2", 1)):
            await site.ensure(assignment(workload, *levers.command, gpus=(gpu,)))
            await when(site, running, workload)
        site = await levers.open()
        await levers.finish("wl_2", 0, 4)
        assert (await when(site, gone, "wl_2")).exit_code == 4
        assert running(await when(site, running))
        await site.ensure(assignment("wl_1", *levers.command))
        await levers.finish("wl_1", 0, 0)
        await when(site, gone)
        assert levers.starts("wl_1") == 1

    tell(levers, story)


def test_stop_ends_it_and_may_be_said_twice(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1", *levers.command, workers=2))
        await when(site, running)
        await site.stop("wl_1", 1)
        await site.stop("wl_1", 1)
        one = await when(site, gone)
        assert one.detail == "cancelled"
        assert {worker.detail for worker in one.workers} == {"cancelled"}
        await site.stop("wl_1", 1)
        assert await seen(site) == one

    tell(levers, story)


def test_to_stop_what_was_never_here_does_nothing(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.stop("wl_9", 1)
        await site.forget("wl_9", 1)
        assert await site.observe() == ()

    tell(levers, story)


def test_a_gang_ends_with_its_first_failure(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1", *levers.command, workers=3))
        await when(site, running)
        await levers.finish("wl_1", 1, 5)
        one = await when(site, gone)
        assert one.exit_code == 5
        assert [worker.detail for worker in one.workers] == ["peer-failed", "", "peer-failed"]

    tell(levers, story)


def test_a_gang_whose_worker_ends_well_goes_on(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1", *levers.command, workers=2))
        await when(site, running)
        await levers.finish("wl_1", 0, 0)
        one = await when(site, lambda one: one.workers[0].state == "exited")
        assert (one.gone, one.workers[1].state) == (False, "running")
        await levers.finish("wl_1", 1, 0)
        assert (await when(site, gone)).exit_code == 0

    tell(levers, story)


def test_a_lost_worker_is_said_to_be_lost(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1", *levers.command))
        await when(site, running)
        await levers.lose("wl_1", 0)
        one = await when(site, gone)
        assert (one.workers[0].state, one.exit_code, one.detail) == ("lost", None, "lost")

    tell(levers, story)


def test_without_a_command_nothing_starts_and_the_remedy_is_given(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1"))
        one = await seen(site)
        assert one is not None
        assert one.gone
        assert one.failure.startswith("nothing to run")
        assert "spec.command" in one.remedy
        assert levers.starts("wl_1") == 0

    tell(levers, story)


def test_forget_hides_what_is_gone_and_nothing_else(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1", *levers.command))
        await when(site, running)
        await site.forget("wl_1", 1)
        assert await seen(site) is not None
        await levers.finish("wl_1", 0, 0)
        await when(site, gone)
        await site.forget("wl_1", 1)
        assert await site.observe() == ()
        assert (await site.read_log("wl_1", 1, 0)).data == b"up\n"

    tell(levers, story)


def test_a_forgotten_attempt_that_is_wanted_again_shows_its_old_end_and_does_not_run(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        wanted = assignment("wl_1", *levers.command)
        await site.ensure(wanted)
        await levers.finish("wl_1", 0, 3)
        await when(site, gone)
        await site.forget("wl_1", 1)
        await site.ensure(wanted)
        assert (await when(site, gone)).exit_code == 3
        assert levers.starts("wl_1") == 1

    tell(levers, story)


def test_replicas_of_a_service_have_ports_of_their_own(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1", *levers.command, kind="service", workers=2))
        one = await when(site, running)
        ports = [worker.port for worker in one.workers]
        assert None not in ports
        assert len(set(ports)) == 2

    tell(levers, story)


def test_a_change_rings(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1", *levers.command))
        await when(site, running)
        await site.changed()  # whatever rang until now
        ring = asyncio.ensure_future(site.changed())
        await levers.finish("wl_1", 0, 0)
        async with asyncio.timeout(20):
            await ring

    tell(levers, story)


def test_logs_are_read_by_offset_and_followed_to_the_end(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1", *levers.command))
        await when(site, running)
        await levers.finish("wl_1", 0, 0)
        assert b"".join([chunk.data async for chunk in site.follow_log("wl_1", 1, 0)]) == b"up\n"
        chunk = await site.read_log("wl_1", 1, 0, offset=1, limit=1)
        assert (chunk.data, chunk.offset, chunk.next_offset, chunk.dropped) == (b"p", 1, 2, 0)
        assert (await site.read_log("wl_1", 1, 0, offset=-2)).data == b"p\n"
        assert (await site.read_log("wl_1", 1, 0, offset=3)).data == b""
        with pytest.raises(NotFound):
            await site.read_log("wl_9", 1, 0)

    tell(levers, story)


def test_a_number_given_again_by_a_restored_database_is_a_new_attempt_once_the_other_is_gone(
    levers: Levers,
) -> None:
    async def story(site: Subject) -> None:
        first = assignment("wl_1", *levers.command, placed_ms=1_000)
        again = assignment("wl_1", *levers.command, placed_ms=2_000)
        await site.ensure(first)
        await when(site, running)
        await site.ensure(again)
        one = await seen(site)
        assert one is not None and one.placed_ms == 1_000, "it lives: nothing is started beside it"
        await levers.finish("wl_1", 0, 7)
        await when(site, gone)
        await site.forget("wl_1", 1)
        await site.ensure(first)
        one = await seen(site)
        assert one is not None and one.exit_code == 7, "the same placement shows its result again"
        await site.ensure(again)
        one = await when(site, running)
        assert one.placed_ms == 2_000
        await levers.finish("wl_1", 0, 0)
        one = await when(site, gone)
        assert (one.placed_ms, one.exit_code) == (2_000, 0)

    tell(levers, story)


def test_a_forgotten_result_is_not_shown_for_another_placement(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        await site.ensure(assignment("wl_1", *levers.command, placed_ms=1_000))
        await when(site, running)
        await levers.finish("wl_1", 0, 7)
        await when(site, gone)
        await site.forget("wl_1", 1)
        await site.ensure(assignment("wl_1", *levers.command, placed_ms=2_000))
        one = await when(site, running)
        assert one.placed_ms == 2_000
        await site.stop("wl_1", 1)
        await when(site, gone)

    tell(levers, story)


def test_what_ran_and_left_no_trace_is_lost_and_not_started_again(levers: Levers) -> None:
    async def story(site: Subject) -> None:
        wanted = assignment("wl_1", *levers.command, workers=2, known_to_run=True, placed_ms=1_000)
        await site.ensure(wanted)
        await site.ensure(wanted)
        one = await when(site, gone)
        assert [worker.state for worker in one.workers] == ["lost", "lost"]
        assert {worker.ended_ms for worker in one.workers} == {1_000}
        assert one.exit_code is None and not one.failure

    tell(levers, story)
