"""Work on its way to another place: nobody takes that place, and whatever happens, nobody is lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.core.scheduling.test_defrag_laws import movable
from tests.core.scheduling.worlds import TWO_NODES, World, check_laws, node, on, quota, shape

from windlass.core.scheduling.defrag import Plan, fragmented, plan_for
from windlass.core.scheduling.defrag_apply import carry_out
from windlass.core.scheduling.engine import cause_of, cycle, new_state, running
from windlass.core.scheduling.model import (
    Adopted,
    Event,
    NodesChanged,
    QuotasChanged,
    Released,
    Submitted,
    Waiting,
    Withdrawn,
)
from windlass.core.scheduling.scenario import Scenario, parse_scenario
from windlass.core.scheduling.state import State
from windlass.core.units import Ms

QUOTAS = (quota("a", None, 8, 8), quota("b", None, 8, 8))
NOW = Ms(100_000)


@pytest.fixture
def world() -> World:
    """m2 leaves n2 for n1, so that w gets n2. Queue a may hold no more than it does."""
    world = World(TWO_NODES, QUOTAS, now=100)
    world.adopt("m1", shape("a", 4), on(("n1", (0, 1, 2, 3))))
    world.adopt("m2", shape("a", 4, movable=True), on(("n2", (0, 1, 2, 3))))
    world.submit("w", shape("b", 8))
    plan = plan_for(world.state, "w", NOW)
    assert isinstance(plan, Plan)
    carry_out(world.state, plan, NOW)
    world.send()
    return world


def comes_back(world: World, id: str = "m2") -> None:
    work = next(work for work in running(world.state) if work.id == id)
    world.send(Released(id), Submitted(Waiting(id, work.shape, work.submitted, NOW)))


def place(world: World, id: str) -> list[tuple[str, tuple[int, ...]]]:
    found = next(work for work in running(world.state) if work.id == id)
    return [(worker.node, worker.gpus) for worker in found.placement.workers]


def test_both_start_when_the_moved_one_has_left(world: World) -> None:
    told = cause_of(world.state, "w")
    assert told is not None
    assert (told.cause, "m2 has left" in told.message) == ("starting", True)
    comes_back(world)
    assert sorted(world.admitted) == ["m2", "w"]
    assert place(world, "m2") == [("n1", (4, 5, 6, 7))]
    assert place(world, "w") == [("n2", tuple(range(8)))]


def test_nobody_takes_the_next_place_nor_the_quota_for_it(world: World) -> None:
    world.submit("thief", shape("a", 4, priority=9, preempts=False))
    world.submit("other", shape("b", 4, priority=9, preempts=False))
    assert world.admitted == []
    comes_back(world)
    assert sorted(world.admitted) == ["m2", "w"]
    assert world.cause("thief") == "quota"
    check_laws(world.state)


def test_whoever_ends_instead_of_moving_leaves_its_next_place_free(world: World) -> None:
    world.release("m2")
    assert world.admitted == ["w"]
    world.submit("next", shape("a", 4))
    assert world.admitted == ["next"]
    check_laws(world.state)


def test_if_the_hole_is_not_wanted_any_more_the_moved_still_move(world: World) -> None:
    world.send(Withdrawn("w"))
    comes_back(world)
    assert world.admitted == ["m2"]
    assert place(world, "m2") == [("n1", (4, 5, 6, 7))]
    assert sum(world.state.fleet.rooms["n2"].left) == 8000


def test_if_the_next_place_is_lost_it_waits_like_anybody_else(world: World) -> None:
    world.send(NodesChanged((node("n1", state="down"), node("n2"))))
    assert not world.state.moving
    comes_back(world)
    assert world.admitted == ["w"]
    assert world.cause("m2") == "capacity"
    world.send(NodesChanged(TWO_NODES))
    assert world.admitted == ["m2"]
    check_laws(world.state)


def test_if_the_fleet_is_another_both_are_considered_anew(world: World) -> None:
    world.send(NodesChanged((*TWO_NODES, node("n3"))))
    comes_back(world)
    assert {"m1", "m2", "w"} == set(world.running)
    check_laws(world.state)


def test_if_the_quotas_change_both_are_considered_anew(world: World) -> None:
    world.send(QuotasChanged((quota("a", None, 4, 4), quota("b", None, 8, 8))))
    assert not world.state.moving
    comes_back(world)
    assert world.admitted == ["w"]
    assert world.state.lines.by_shape[shape("a", 4, movable=True)].members
    check_laws(world.state)


def test_a_moved_one_that_is_found_at_a_place_already_is_there(world: World) -> None:
    work = next(work for work in running(world.state) if work.id == "m2")
    world.send(Released("m2"), Adopted(replace(work, placement=on(("n1", (4, 5, 6, 7))), stopping=False)))
    assert not world.state.moving
    assert world.admitted == ["w"]
    assert place(world, "m2") == [("n1", (4, 5, 6, 7))]
    check_laws(world.state)


@pytest.mark.parametrize("block", range(4))
def test_on_random_worlds_everybody_ends_where_the_plan_said(block: int) -> None:
    done = 0
    for seed in range(block * 300, block * 300 + 300):
        told = parse_scenario(json.dumps(movable(seed)))
        state = _begun(told)
        for id in fragmented(state):
            plan = plan_for(state, id, told.now)
            if isinstance(plan, Plan):
                _carried_out(state, plan, told.now, seed)
                done += 1
                break
    assert done


def _begun(told: Scenario) -> State:
    events: list[Event] = [NodesChanged(told.nodes), QuotasChanged(told.quotas), *map(Adopted, told.running)]
    state, _ = cycle(new_state(told.options), [*events, *map(Submitted, told.waiting)], told.now)
    return state


def _carried_out(state: State, plan: Plan, now: Ms, seed: int) -> None:
    before = {work.id: work for work in running(state)}
    carry_out(state, plan, now)
    state, _ = cycle(state, [], now)
    for move in plan.moves:
        work = before[move.id]
        again = Submitted(Waiting(work.id, work.shape, work.submitted, now))
        state, _ = cycle(state, [Released(work.id), again], now)
        for room in state.fleet.rooms.values():
            assert all(0 <= left <= 1000 for left in room.left), seed
    places = {work.id: work.placement for work in running(state)}
    assert set(before) | {plan.id} <= set(places), seed
    assert places[plan.id].workers[: len(plan.hole.workers)] == plan.hole.workers, seed
    for move in plan.moves:
        assert places[move.id].workers[: len(move.target.workers)] == move.target.workers, seed
