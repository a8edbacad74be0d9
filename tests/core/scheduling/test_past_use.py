"""What queues had lately: it fades, and only what was beyond a guarantee counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.scheduling.worlds import World, node, on, quota, shape

from windlass.core.scheduling.past import HALF_LIFE, PastUse, beyond_guarantees
from windlass.core.units import HOUR_MS, Ms

Q = ("a", "h100")


def busy() -> World:
    world = World((node("n1"),), (quota("a", None, 8),))
    world.adopt("w", shape("a", 8), on(("n1", tuple(range(8)))))
    return world


def test_use_of_a_half_life_ago_counts_half() -> None:
    world = busy()
    past = PastUse(Ms(0), {Q: 8000.0})
    world.release("w")
    past.advance(world.state, HALF_LIFE)
    assert past.averages[Q] == pytest.approx(4000)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_how_often_one_looks_makes_no_difference(hours: list[int]) -> None:
    world = busy()
    often, once = PastUse(Ms(0)), PastUse(Ms(0))
    for hour in hours:
        often.advance(world.state, Ms(often.at + hour * HOUR_MS))
    once.advance(world.state, Ms(sum(hours) * HOUR_MS))
    assert often.averages[Q] == pytest.approx(once.averages[Q])
    assert once.averages[Q] <= 8000


def test_what_ended_is_remembered_like_what_was_watched() -> None:
    world = busy()
    watched = PastUse(Ms(0))
    watched.advance(world.state, Ms(2 * HOUR_MS))
    told = PastUse(Ms(2 * HOUR_MS))
    told.remember("a", "h100", 8000 * 2 * HOUR_MS, Ms(HOUR_MS))
    running = PastUse(Ms(2 * HOUR_MS))
    running.remember_running(world.state)
    assert told.averages[Q] == pytest.approx(watched.averages[Q], rel=0.01)
    assert running.averages[Q] == pytest.approx(watched.averages[Q])


def test_only_what_was_beyond_a_guarantee_counts_and_it_counts_for_all_above() -> None:
    quotas = (quota("t", None, 8), quota("t/p", "t"), quota("t/p/e", "t/p"), quota("u", None, 8))
    averages = {("t/p/e", "h100"): 10_000.0, ("u", "h100"): 7000.0, ("gone", "h100"): 1.0}
    assert beyond_guarantees(quotas, averages) == {"t": 2000, "t/p": 10_000, "t/p/e": 10_000}
