"""Three replicas on one database share the buckets: together they pass what one would, and little more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NoReturn

import pytest
from tests.control.worlds import World, play

from windlass.core.bounds import Bounds
from windlass.core.errors import Unavailable
from windlass.core.rates import Rate

RATE = Rate(20, 60)
NAMES = ("first", "second", "third")


def with_three(folder: Path, story: Callable[[list[World]], Awaitable[None]]) -> None:
    async def told(world: World) -> None:
        world.replica, world.bounds = NAMES[0], Bounds(principal=RATE, tenant=Rate(0, 0), refusal_s=0)
        await world.restart()
        async with AsyncExitStack() as closing:
            worlds = [world]
            for name in NAMES[1:]:
                worlds.append(await world.another(name))
                closing.push_async_callback(worlds[-1].close)
            for _ in range(2):  # each hears of all
                await exchange(worlds)
                world.advance(5)
            await story(worlds)

    play(folder, told)


async def exchange(worlds: list[World]) -> None:
    for world in worlds:
        assert world.plane.exchange is not None
        await world.plane.exchange.turn()


async def passed(world: World, asked: int) -> int:
    """How many of so many requests passed."""
    statuses = [(await world.call("GET", "/v1/version", by="acme")).status for _ in range(asked)]
    assert set(statuses) <= {200, 429}
    return statuses.count(200)


async def flooded(worlds: list[World], seconds: int, asked: int = 80) -> int:
    """Each second every replica is asked far more than it may pass, then all exchange."""
    total = 0
    for _ in range(seconds):
        for world in worlds:
            total += await passed(world, asked)
        await exchange(worlds)
        worlds[0].advance(1)
    return total


def test_three_replicas_together_pass_at_most_two_bursts_and_the_rate(tmp_path: Path) -> None:
    async def story(worlds: list[World]) -> None:
        total = await flooded(worlds, 8)
        assert total <= 2 * RATE.burst + 8 * RATE.per_s
        assert total >= RATE.burst, "and not less than one would"
        before = await flooded(worlds, 8)
        assert 0.8 * 8 * RATE.per_s <= before <= 8 * RATE.per_s + 1, "in the long run: the rate"

    with_three(tmp_path, story)


def test_the_replica_that_is_asked_gets_the_rate(tmp_path: Path) -> None:
    async def story(worlds: list[World]) -> None:
        await flooded(worlds, 4)
        total = 0
        for _ in range(10):
            total += await passed(worlds[0], 60)
            await exchange(worlds)
            worlds[0].advance(1)
        assert 0.7 * 10 * RATE.per_s <= total <= 10 * RATE.per_s + RATE.burst

    with_three(tmp_path, story)


def test_what_a_replica_let_through_the_others_know(tmp_path: Path) -> None:
    async def story(worlds: list[World]) -> None:
        first, second, _ = worlds
        await passed(first, 80)
        await exchange(worlds)
        await passed(first, 80)
        await exchange(worlds)
        assert await passed(second, 80) <= RATE.burst // 4

    with_three(tmp_path, story)


def test_a_replica_that_is_cut_off_goes_on_with_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(worlds: list[World]) -> None:
        await flooded(worlds, 4)
        lost = worlds[2]

        async def away(*_: object) -> NoReturn:
            raise Unavailable("the database cannot be reached")

        with monkeypatch.context() as patched:
            patched.setattr(lost.plane.store, "unit", away)
            await exchange([lost])
            total = 0
            for _ in range(9):
                lost.advance(1)
                total += await passed(lost, 40)
                await exchange([lost])
        part = (RATE.burst + 9 * RATE.per_s) // 3
        assert 0.5 * part <= total <= part + 1
        await exchange([lost])
        await exchange(worlds)
        assert await passed(lost, 80) <= RATE.burst, "what it let through is charged"

    with_three(tmp_path, story)


def test_quiet_buckets_are_forgotten_and_the_row_is_small(tmp_path: Path) -> None:
    async def story(worlds: list[World]) -> None:
        await flooded(worlds, 2)
        for _ in range(4):
            worlds[0].advance(10)
            await exchange(worlds)
        assert [world.plane.exchange._kinds["principal"].shares for world in worlds] == [{}, {}, {}]  # type: ignore[union-attr]
        stored = worlds[0].rows("SELECT body FROM shared_limits")[0]["body"]
        assert '"principal":{}' in stored and len(stored) < 300

    with_three(tmp_path, story)


def test_when_there_are_too_many_askers_the_newcomers_share_one_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.control.gateway.sharing._MOST", 1)

    async def story(worlds: list[World]) -> None:
        assert (await worlds[0].call("GET", "/v1/version", by="admin")).status == 200
        together = await passed(worlds[0], 8) + sum(
            [(await worlds[0].call("GET", "/v1/version", by="globex")).status == 200 for _ in range(8)]
        )
        assert together == RATE.burst // 6

    with_three(tmp_path, story)
