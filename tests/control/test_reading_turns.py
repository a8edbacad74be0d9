"""Reads take turns: a tenant that asks for a hundred lists at once waits for itself, and nobody else does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent
from tests.control.worlds import World, play

from windlass.control.gateway.reading import ReadingTurns
from windlass.core.errors import Unavailable


def test_of_one_tenant_so_many_are_answered_at_once_and_the_others_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        store = world.plane.store
        answered, held, reading = asyncio.Event(), [0, 0], store.read

        async def slow(scope: Any, load: Any, **more: Any) -> Any:
            if scope.tenant == "acme":
                held[0] += 1
                held[1] = max(held)
                await answered.wait()
                held[0] -= 1
            return await reading(scope, load, **more)

        monkeypatch.setattr(store, "read", slow)
        crowd = [asyncio.create_task(world.call("GET", "/v1/decisions", by="acme")) for _ in range(50)]
        async with asyncio.timeout(30):
            while held[0] < 4:
                await asyncio.sleep(0.001)
        assert (await world.call("GET", "/v1/decisions", by="globex")).status == 200
        assert (await world.call("GET", "/v1/decisions")).status == 200, "the platform's people do not wait"
        answered.set()
        assert {reply.status for reply in await asyncio.gather(*crowd)} == {200}
        assert held == [0, 4]

    play(tmp_path, story)


def test_a_read_that_fails_gives_its_place_back(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for _ in range(10):
            assert (await world.call("GET", "/v1/decisions/none", by="acme")).status == 404
        assert (await world.call("GET", "/v1/decisions", by="acme")).status == 200

    play(tmp_path, story)


def test_places_go_to_who_waits_longest_and_to_nobody_who_left() -> None:
    async def story() -> None:
        turns, order = ReadingTurns(at_once=1, most_waiting=3), []

        async def read(name: str) -> None:
            await turns.enter("acme")
            order.append(name)
            await asyncio.sleep(0)
            turns.leave("acme")

        tasks = [asyncio.create_task(read(name)) for name in "abcd"]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="wait to be answered"):
            await turns.enter("acme")
        await turns.enter("globex")
        turns.leave("globex")
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == ["a", "b", "d"]
        await turns.enter("acme")
        turns.leave("acme")
        assert turns.lanes == 0, "nothing is kept of who is gone"

    asyncio.run(story())


@pytest.mark.parametrize("rounds", range(4))
def test_who_leaves_while_the_turn_comes_hands_it_on(rounds: int) -> None:
    async def story() -> None:
        turns = ReadingTurns(at_once=1)
        await turns.enter("acme")
        second, third = (asyncio.create_task(turns.enter("acme")) for _ in range(2))
        await asyncio.sleep(0)
        turns.leave("acme")
        for _ in range(rounds):
            await asyncio.sleep(0)
        if second.done():
            turns.leave("acme")
        second.cancel()
        async with asyncio.timeout(10):
            await third

    asyncio.run(story())


def test_reads_that_never_wait_for_anything_take_turns_all_the_same() -> None:
    """As those of the embedded database: each holds the loop until it is done."""

    async def story() -> None:
        turns, order = ReadingTurns(), []

        async def read(lane: str) -> None:
            await turns.enter(lane)
            order.append(lane)
            turns.leave(lane)

        crowd = [asyncio.create_task(read("noisy")) for _ in range(100)]
        for rounds in (5, 6, 7, 8):
            for _ in range(rounds):
                await asyncio.sleep(0)
            before = len(order)
            assert 0 < before < 20, "one in some rounds"
            await read("quiet")
            assert order.index("quiet", before) - before <= 1, "next, but for one that had begun"
        await asyncio.gather(*crowd)
        assert len(order) == 104 and turns.lanes == 0

    asyncio.run(story())


def test_a_long_answer_costs_more_and_is_paid_for_afterwards(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for number in range(30):
            assert (await world.apply(intent(f"nlp/prod/job-{number}", 1))).status == 200

        async def left(path: str) -> int:
            return int((await world.call("GET", path, by="acme")).headers["ratelimit-remaining"])

        before = await left("/v1/whoami")
        assert await left("/v1/whoami") == before - 1
        size = len((await world.call("GET", "/v1/components", by="acme")).body)
        assert size > 20_000
        assert await left("/v1/whoami") == before - 1 - (1 + size // 4096) - 1

    play(tmp_path, story)
