"""What defragmentation proposes, whom it moves, and why not: tables on small worlds."""

from __future__ import annotations

from time import thread_time
from typing import Any

import pytest
from tests.core.scheduling.worlds import TWO_NODES, World, node, on, quota, shape

from windlass.core.scheduling.defrag import NoPlan, Plan, fragmented, plan_for, plan_hole
from windlass.core.scheduling.model import Adopted, Running, Topology
from windlass.core.units import GPU, HOUR_MS, Ms

PLENTY = (quota("a", None, 64), quota("b", None, 64))


def halves(nodes: Any = TWO_NODES, **more: Any) -> World:
    """Two nodes with four GPUs in use on each: eight are free, four together. It is 100 s later."""
    world = World(nodes, PLENTY, now=100)
    world.adopt("m1", shape("a", 4, **more), on(("n1", (0, 1, 2, 3))), since=0)
    world.adopt("m2", shape("a", 4, **more), on(("n2", (0, 1, 2, 3))), since=60)
    return world


def waits(world: World, **more: Any) -> Plan | NoPlan:
    world.submit("w", shape("b", 8, preempts=False, **more))
    found = plan_for(world.state, "w", Ms(world.now * 1000))
    assert found is not None
    return found


def why(found: Plan | NoPlan) -> str:
    assert isinstance(found, NoPlan), found
    return found.why


def moved(found: Plan | NoPlan) -> dict[str, tuple[list[str], list[str]]]:
    """By workload: the nodes it leaves and those it goes to."""
    assert isinstance(found, Plan), found
    return {
        move.id: ([at.node for at in move.source.workers], [at.node for at in move.target.workers])
        for move in found.moves
    }


def test_the_one_that_lost_least_moves() -> None:
    found = waits(halves(movable=True))
    assert moved(found) == {"m2": (["n2"], ["n1"])}
    assert isinstance(found, Plan)
    assert [at.node for at in found.hole.workers] == ["n2"]
    assert found.lost == 4 * GPU * 40_000  # four GPUs for the forty seconds it ran
    assert found.restarted == 1


def test_a_checkpoint_makes_a_move_cheaper() -> None:
    world = halves(movable=True)
    world.adopt(
        "m1", shape("a", 4, movable=True), on(("n1", (0, 1, 2, 3))), since=0, last_checkpoint=Ms(90_000)
    )
    assert moved(waits(world)) == {"m1": (["n1"], ["n2"])}


def test_only_work_that_accepts_moving_is_moved() -> None:
    world = halves()
    world.adopt("m1", shape("a", 4, movable=True), on(("n1", (0, 1, 2, 3))), since=0)
    assert moved(waits(world)) == {"m1": (["n1"], ["n2"])}


@pytest.mark.parametrize("wishes", [{}, {"movable": True, "preemptible": False}])
def test_where_nobody_accepts_moving_it_says_so(wishes: dict[str, bool]) -> None:
    assert why(waits(halves(**wishes))) == "Nothing that runs on h100 accepts moving."


def test_inside_its_minimum_runtime_nobody_moves() -> None:
    found = waits(halves(movable=True, min_runtime=200))
    assert "inside its minimum runtime, m1 for another 100s" in why(found)


def test_whoever_has_nowhere_to_go_is_named() -> None:
    world = halves(movable=True)
    world.adopt("fixed", shape("a", 1), on(("n2", (4,))))
    world.adopt("fixed1", shape("a", 1), on(("n1", (4,))))
    world.adopt("small", shape("a", 1), on(("n2", (5,))))
    world.send()
    found = plan_hole(world.state, shape("", 4), Ms(100_000))
    assert why(found) == "m2 would have to move, and there is no other place for it beside the hole."


def test_what_moving_cannot_help_is_told_with_its_cause() -> None:
    world = halves(movable=True)
    world.adopt("m3", shape("a", 1), on(("n1", (4,))))
    world.submit("w", shape("b", 8, preempts=False))
    found = plan_for(world.state, "w", Ms(100_000))
    assert found is not None
    assert "not enough GPUs are free in sum (capacity)" in why(found)
    assert plan_for(world.state, "nobody", Ms(100_000)) is None
    assert plan_for(world.state, "m1", Ms(100_000)) is None


def test_work_that_can_never_run_gets_no_plan() -> None:
    world = halves(movable=True)
    world.submit("w", shape("b", 16, preempts=False))
    found = plan_for(world.state, "w", Ms(100_000))
    assert found is not None
    assert "can never run" in why(found)


def test_of_equals_the_first_gets_the_hole() -> None:
    world = halves(movable=True)
    world.submit("first", shape("b", 8, preempts=False), submitted=10)
    world.submit("second", shape("b", 8, preempts=False), submitted=20)
    found = plan_for(world.state, "second", Ms(100_000))
    assert found is not None
    assert why(found).startswith("first waits for the same")
    assert fragmented(world.state) == ["first"]
    assert isinstance(plan_for(world.state, "first", Ms(100_000)), Plan)


def test_a_gang_moves_as_a_whole() -> None:
    world = World((node("n1"), node("n2"), node("n3")), PLENTY, now=100)
    world.adopt("gang", shape("a", 2, 2, movable=True), on(("n1", (0, 1)), ("n2", (0, 1))))
    world.adopt("fixed", shape("a", 2), on(("n3", (0, 1))))
    found = waits(world)
    assert moved(found) == {"gang": (["n1", "n2"], ["n3", "n3"])}
    assert isinstance(found, Plan)
    assert found.restarted == 2


def test_a_hole_for_a_gang_lies_in_one_rack() -> None:
    racks = [node(f"n{i}", labels={"rack": f"r{i // 2}"}) for i in range(4)]
    world = World(tuple(racks), PLENTY, now=100)
    for i in range(4):
        world.adopt(f"m{i}", shape("a", 4, movable=i in (0, 1)), on((f"n{i}", (0, 1, 2, 3))))
    world.submit("w", shape("b", 8, 2, preempts=False, topology=Topology("rack", "required")))
    found = plan_for(world.state, "w", Ms(100_000))
    assert moved(found or NoPlan("", shape("b"), "")) == {"m0": (["n0"], ["n2"]), "m1": (["n1"], ["n3"])}


def test_one_that_moves_may_displace_another() -> None:
    """w needs eight. Only m4 could leave its node, and only where m2 is; m2 fits beside the others."""
    world = World((node("n1"), node("n2", 4), node("n3", 2)), PLENTY, now=100)
    world.adopt("m4", shape("a", 4, movable=True), on(("n1", (0, 1, 2, 3))))
    world.adopt("m2", shape("a", 2, movable=True), on(("n2", (0, 1))))
    found = waits(world)
    assert moved(found) == {"m4": (["n1"], ["n2"]), "m2": (["n2"], ["n3"])}


def test_nobody_is_moved_onto_a_node_that_is_draining() -> None:
    world = halves((node("n1"), node("n2"), node("n3", state="draining")), movable=True)
    world.adopt("fixed", shape("a", 4), on(("n1", (4, 5, 6, 7))))
    found = plan_hole(world.state, shape("", 8), Ms(100_000))
    assert "4 GPUs of h100 are free in sum" in why(found)


def test_tenants_that_want_to_be_alone_stay_alone() -> None:
    world = halves(movable=True, dedicated=True)
    world.adopt("other", shape("b", 1), on(("n1", (4,))))
    world.adopt("other2", shape("b", 1), on(("n2", (4,))))
    found = plan_hole(world.state, shape("", 6), Ms(100_000))
    assert "no other place" in why(found)


def test_a_hole_does_not_take_what_is_reserved_for_whoever_is_ahead() -> None:
    """first needs both nodes and starts when m1 and m2 end; a hole for w would keep it from that."""
    world = halves(movable=True, expected=200)
    world.submit("first", shape("b", 8, 2, preempts=False), submitted=0)
    assert why(waits(world)) == "It would delay first, which is ahead."


def test_a_hole_that_is_there_needs_no_move() -> None:
    found = plan_hole(halves(movable=True).state, shape("", 4), Ms(100_000))
    assert isinstance(found, Plan)
    assert (found.moves, found.lost) == ((), 0)
    assert "no node of class tpu" in why(
        plan_hole(halves().state, shape("", 1, gpu_class="tpu"), Ms(HOUR_MS))
    )


def test_a_plan_is_named_by_what_it_does_and_not_by_what_it_costs() -> None:
    world = halves(movable=True)
    now = waits(world)
    later = plan_for(world.state, "w", Ms(101_000))
    assert isinstance(now, Plan) and isinstance(later, Plan)
    assert now.digest == later.digest
    assert now.lost < later.lost


def test_planning_changes_nothing() -> None:
    world = halves(movable=True)
    waits(world)
    before = _seen(world)
    for _ in range(2):
        plan_for(world.state, "w", Ms(100_000))
        plan_hole(world.state, shape("", 8), Ms(100_000))
        assert _seen(world) == before


# --- more than every set can be compared of ---------------------------------------------------------


def crowd(nodes: int, **more: Any) -> World:
    """Many nodes, each half used by two that accept moving; the later, the cheaper to move."""
    fleet = tuple(node(f"n{i:03}", labels={"rack": f"r{i // 4}"}) for i in range(nodes))
    world = World(fleet, (quota("a", None, 8 * nodes), quota("b", None, 8 * nodes)), now=1000)
    work = [
        Running(f"m{i:03}-{k}", shape("a", 2, movable=True, **more), Ms(0), Ms(1000 * (i + k)), place)
        for i in range(nodes)
        for k, place in enumerate((on((f"n{i:03}", (0, 1))), on((f"n{i:03}", (2, 3)))))
    ]
    world.send(*(Adopted(one) for one in work))
    return world


def test_among_many_the_cheapest_node_is_cleared() -> None:
    found = plan_hole(crowd(40).state, shape("", 8), Ms(1_000_000))
    assert sorted(moved(found)) == ["m039-0", "m039-1"]


def test_among_many_a_gang_gets_the_cheapest_nodes_of_one_rack() -> None:
    asked = shape("", 8, 2, topology=Topology("rack", "required"))
    found = plan_hole(crowd(40).state, asked, Ms(1_000_000))
    assert sorted(moved(found)) == ["m038-0", "m038-1", "m039-0", "m039-1"]
    anywhere = plan_hole(crowd(40).state, shape("", 8, 3), Ms(1_000_000))
    assert isinstance(anywhere, Plan)
    assert {at.node for at in anywhere.hole.workers} == {"n037", "n038", "n039"}


def test_among_many_one_that_has_nowhere_to_go_displaces_another() -> None:
    """The four of n000 fit only where m001-0 is, which fits beside the others."""
    world = World((*(node(f"n{i:03}", 4) for i in range(12)), node("big")), PLENTY, now=100)
    world.adopt("four", shape("a", 4, movable=True), on(("big", (0, 1, 2, 3))))
    for i in range(12):
        world.adopt(f"two{i}", shape("a", 2, movable=True), on((f"n{i:03}", (0, 1))), since=i)
    found = plan_hole(world.state, shape("", 8), Ms(100_000))
    assert sorted(moved(found)) == ["four", "two11"]


def test_among_many_who_accept_moving_and_are_no_help_it_says_that_none_were_found() -> None:
    world = crowd(12)
    for i in range(12):
        world.adopt(f"fixed{i}", shape("a", 1), on((f"n{i:03}", (7,))))
    found = plan_hole(world.state, shape("", 8), Ms(1_000_000))
    assert why(found) == "Among the 24 workloads that accept moving, none were found that make such a hole."


def test_a_plan_among_thousands_of_nodes_costs_less_than_half_a_second() -> None:
    """In CPU time; a search that tried every node or set would take minutes."""
    state = crowd(3000).state
    for asked in (shape("", 8), shape("", 8, 8), shape("", 8, 4, topology=Topology("rack", "required"))):
        began = thread_time()
        assert isinstance(plan_hole(state, asked, Ms(1_000_000)), Plan)
        assert thread_time() - began < 0.5


def _seen(world: World) -> object:
    state = world.state
    rooms = {
        name: (tuple(room.left), tuple(room.modes), tuple(room.slices), room.cpu, room.memory)
        for name, room in state.fleet.rooms.items()
    }
    pools = [
        (pool.held, pool.use) for tree in (state.tree, state.future) for pool in (tree.pool("a", "h100"),)
    ]
    neighbours = (state.neighbours.queues, state.neighbours.dedicated, state.neighbours.shunned)
    return rooms, pools, repr(neighbours), state.fleet.version, dict(state.held)
