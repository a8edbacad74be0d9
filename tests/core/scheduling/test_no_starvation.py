"""Inside its guarantee nobody starves: the bound of `owed.py`, in cases and against random crowds."""

from __future__ import annotations

from random import Random

import pytest
from tests.core.scheduling.worlds import World, check_laws, node, on, quota, shape

from windlass.core.scheduling.engine import cause_of
from windlass.core.scheduling.model import Options, Withdrawn

TEAMS = (quota("org"), quota("a", "org", 4), quota("b", "org", 4))


def half_lent(**lender: bool) -> World:
    """a holds all eight in pieces of two, so four are borrowed; b asks for its four at once."""
    world = World((node("n1"),), TEAMS, now=100)
    for i in range(4):
        world.adopt(f"a{i}", shape("a", 2, priority=5), on(("n1", (2 * i, 2 * i + 1))), since=i)
    world.submit("b", shape("b", 4, **lender))
    return world


def test_what_a_lender_waits_for_is_not_lent_again_to_any_priority() -> None:
    world = half_lent(preempts=False)
    world.submit("next", shape("a", 2, priority=9, preempts=False))
    world.release("a0")
    assert world.admitted == []
    assert (world.cause("b"), world.cause("next")) == ("quota", "priority")
    told = cause_of(world.state, "next")
    assert told is not None
    assert "guaranteed to b" in told.message
    world.release("a1")
    assert world.admitted == ["b"]
    check_laws(world.state)


def test_who_waited_for_a_lender_goes_on_when_it_withdraws() -> None:
    world = half_lent(preempts=False)
    world.submit("next", shape("a", 2, preempts=False))
    world.release("a0")
    assert world.admitted == []
    world.send(Withdrawn("b"))
    assert world.admitted == ["next"]


def test_work_inside_its_own_guarantee_waits_for_no_lender() -> None:
    world = half_lent(preempts=False)
    world.release("a0", "a1", "a2")
    assert world.admitted == ["b"]
    world = half_lent(preempts=False)
    world.submit("own", shape("a", 2, preempts=False))
    world.release("a0", "a1")
    assert world.admitted == ["b"]
    world.release("a2")
    assert world.admitted == ["own"]


@pytest.mark.parametrize("seed", range(40))
def test_the_first_of_a_queue_inside_its_guarantee_starts_within_the_bound(seed: int) -> None:
    """A crowd of higher priority borrows whatever it can, for ever. A lender asks once."""
    chance = Random(seed)
    preempts = chance.random() < 0.5
    longest, min_runtime = 40, chance.choice([0, 10, 30])
    options = Options(preemption=preempts, fair_share=chance.random() < 0.5)
    world = World((node("n1", 16),), (quota("org"), quota("a", "org", 8), quota("b", "org", 8)), options)
    ends: dict[str, int] = {}
    asked = 60
    need = chance.randint(1, 8)
    for second in range(asked + longest + 5):
        world.now = second
        size = chance.choice([1, 1, 2, 3])
        crowd = shape("a", 1, workers=size, priority=chance.choice([0, 9]), min_runtime=min_runtime)
        world.submit(f"a{second}", crowd)
        if second == asked:
            world.submit("b", shape("b", 1, workers=need))
        leaving = [id for id, work in world.state.held.items() if work.stopping and not work.promised]
        done = [id for id in world.running if id.startswith("a") and ends.get(id, second + 1) <= second]
        world.release(*{*leaving, *done})
        for id in world.running:
            ends.setdefault(id, second + chance.randint(1, longest))
        check_laws(world.state)
        if "b" in world.running:
            break
    assert "b" in world.running
    waited = world.now - asked
    assert waited <= (min_runtime if preempts else longest) + 2, "a second to leave, one to start"
