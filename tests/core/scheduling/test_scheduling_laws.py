"""Laws that hold whatever happens: hypothesis draws a world and a history, every state is checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.scheduling.worlds import World, check_laws, node, quota, shape

from windlass.core.scheduling.engine import running
from windlass.core.scheduling.model import (
    Event,
    Node,
    NodesChanged,
    Options,
    Outcome,
    Placement,
    Quota,
    Released,
    Shape,
    Stopping,
    Submitted,
    Topology,
    Waiting,
    Withdrawn,
)
from windlass.core.scheduling.quota import Pool, QuotaTree
from windlass.core.units import Ms

LEAVES = ("a", "b", "c", "d")
amounts = st.integers(0, 12)
maybe = st.none() | amounts


@st.composite
def quota_trees(draw: st.DrawFn) -> tuple[Quota, ...]:
    """Two teams under an organisation, one beside it, one without an entry of its own."""

    def leaf(name: str, parent: str | None) -> Quota:
        guaranteed = draw(amounts)
        most = draw(maybe)
        ceiling = None if most is None else guaranteed + most
        return quota(name, parent, guaranteed, ceiling, draw(maybe), weight=draw(st.integers(0, 3)))

    children = (leaf("a", "org"), leaf("b", "org"))
    below = sum(child.limits["h100"].guaranteed for child in children) // 1000
    extra = draw(amounts)
    most = draw(maybe)
    org = quota("org", None, below + extra, None if most is None else below + extra + most, draw(maybe))
    return (org, *children, leaf("c", None), quota("d", "org"))


shapes = st.builds(
    shape,
    st.sampled_from([*LEAVES, "a", "b", "a", "b"]),
    st.sampled_from([0.25, 0.5, 1, 1, 2, 4, 8]),
    st.integers(1, 3),
    priority=st.integers(0, 2),
    cpu_milli=st.sampled_from([0, 0, 3000]),
    memory_mib=st.sampled_from([0, 0, 40]),
    preempts=st.booleans(),
    preemptible=st.sampled_from([True, True, False]),
    min_runtime=st.sampled_from([0, 0, 5]),
    expected=st.sampled_from([None, 3, 30]),
    topology=st.sampled_from([None, None, Topology("rack", "required"), Topology("rack")]),
    min_workers=st.sampled_from([None, None, 1]),
)
fleets = st.lists(
    st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([None, 8000]), st.sampled_from([None, 100])),
    min_size=1,
    max_size=4,
).map(
    lambda sizes: tuple(
        node(f"n{i}", gpus, cpu_milli=cpu, memory_mib=memory, labels={"rack": f"r{i % 2}"})
        for i, (gpus, cpu, memory) in enumerate(sizes)
    )
)
options = st.builds(Options, st.booleans(), st.booleans(), st.booleans())
# What happens: an arrival, or something to the n-th of those it can happen to, then time passes.
steps = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "submit", "release", "release", "withdraw", "stop", "node"]),
        shapes,
        st.integers(0, 99),
        st.integers(0, 4),
    ),
    max_size=30,
)


def event_of(world: World, step: tuple[str, Shape, int, int], number: int) -> Event | None:
    kind, wanted, choice, _ = step
    held = running(world.state)
    match kind:
        case "submit":
            return Submitted(Waiting(f"w{number:02}", wanted, Ms(world.now * 1000)))
        case "withdraw":
            waiting = sorted([*world.state.lines.waiting, *world.state.promises])
            return Withdrawn(waiting[choice % len(waiting)]) if waiting else None
        case "node":
            changed = [room.node for _, room in sorted(world.state.fleet.rooms.items())]
            chosen = changed[choice % len(changed)]
            flipped = replace(chosen, state="down" if chosen.state == "ready" else "ready")
            changed[choice % len(changed)] = flipped
            return NodesChanged(tuple(changed))
        case _:
            pick = held[choice % len(held)].id if held else None
            return None if pick is None else Released(pick) if kind == "release" else Stopping(pick)


def live(world: World, steps: list[tuple[str, Shape, int, int]], batch: int = 1) -> list[Outcome]:
    """Play the steps, `batch` events to a cycle, checking every state; victims leave sooner or later."""
    outcomes = []
    pending: list[Event] = []
    for number, step in enumerate(steps):
        event = event_of(world, step, number)
        pending.extend([event] if event is not None else [])
        world.now += step[3]
        if len(pending) >= batch:
            outcomes.append(world.send(*pending))
            check_outcome(world, outcomes[-1])
            check_laws(world.state)
            pending = []
    outcomes.append(world.send(*pending))
    check_laws(world.state)
    return outcomes


def check_outcome(world: World, outcome: Outcome) -> None:
    for admit in outcome.admitted:
        held = world.state.held[admit.id]
        workers = len(admit.placement.workers)
        assert held.shape.fewest <= workers <= held.shape.workers, "all workers or none"
        if not held.shape.preemptible:
            assert admit.borrowed == 0, "what may not be preempted does not borrow"
        if held.shape.topology is not None and held.shape.topology.mode == "required":
            assert len(domains_of(world, admit.placement)) == 1
    for preempt in outcome.preempted:
        victim = world.state.held[preempt.id]
        assert victim.shape.preemptible
        assert victim.stopping
        assert victim.since + victim.shape.min_runtime <= world.now * 1000


def domains_of(world: World, placement: Placement) -> set[str]:
    return {world.state.fleet.rooms[worker.node].node.labels["rack"] for worker in placement.workers}


@given(fleets, quota_trees(), options, steps, st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_no_history_breaks_a_ceiling_a_gpu_or_an_explanation(
    fleet: tuple[Node, ...],
    quotas: tuple[Quota, ...],
    options: Options,
    steps: list[tuple[str, Shape, int, int]],
    batch: int,
) -> None:
    live(World(fleet, quotas, options), steps, batch)


@given(fleets, quota_trees(), options, steps)
@settings(max_examples=50, deadline=None)
def test_the_same_history_gives_the_same_decisions(
    fleet: tuple[Node, ...],
    quotas: tuple[Quota, ...],
    options: Options,
    steps: list[tuple[str, Shape, int, int]],
) -> None:
    first = live(World(fleet, quotas, options), steps)
    assert first == live(World(tuple(reversed(fleet)), quotas, options), steps)


@given(fleets, quota_trees(), options, steps)
@settings(max_examples=50, deadline=None)
def test_when_everybody_has_left_everything_is_free_again(
    fleet: tuple[Node, ...],
    quotas: tuple[Quota, ...],
    options: Options,
    steps: list[tuple[str, Shape, int, int]],
) -> None:
    world = World(fleet, quotas, options)
    live(world, steps)
    while world.running or world.state.lines.waiting or world.state.promises:
        waiting = [*world.state.lines.waiting, *world.state.promises]
        world.send(*(Withdrawn(id) for id in waiting), *(Released(id) for id in world.running))
    for room in world.state.fleet.rooms.values():
        assert room.left == [1000] * room.node.gpus
        assert room.cpu == (room.node.cpu_milli if room.node.cpu_milli is not None else room.cpu)
    for tree in (world.state.tree, world.state.future):
        for leaf in LEAVES:
            assert all(
                (pool.use, pool.claim, pool.held) == (0, 0, 0) for pool in tree.pool(leaf, "h100").path
            )


@given(quota_trees(), st.lists(st.tuples(st.sampled_from(LEAVES), st.integers(1, 9)), max_size=12))
def test_charging_and_discharging_in_any_order_ends_where_it_began(
    quotas: tuple[Quota, ...], charges: list[tuple[str, int]]
) -> None:
    tree = QuotaTree(quotas)
    pools = [tree.pool(leaf, "h100") for leaf in LEAVES]
    start = [pool.free() for pool in pools]
    for leaf, amount in charges:
        tree.pool(leaf, "h100").charge(amount * 1000)
    for leaf, amount in sorted(charges):
        tree.pool(leaf, "h100").discharge(amount * 1000)
    assert [pool.free() for pool in pools] == start


@given(quota_trees(), st.lists(st.tuples(st.sampled_from(LEAVES), st.integers(1, 9)), max_size=12))
def test_what_is_free_keeps_every_ceiling_and_lends_no_more_than_there_is(
    quotas: tuple[Quota, ...], wishes: list[tuple[str, int]]
) -> None:
    tree = QuotaTree(quotas)
    for leaf, amount in wishes:
        pool = tree.pool(leaf, "h100")
        if amount * 1000 <= pool.free():
            pool.charge(amount * 1000)
        for each in [above for name in LEAVES for above in tree.pool(name, "h100").path]:
            assert each.max is None or each.held <= each.max
        root: Pool = pool.path[-1]
        assert root.held <= sum(each.own for each in _all(root))


def _all(root: Pool) -> list[Pool]:
    return [root, *(below for child in root.children for below in _all(child))]


@given(st.integers(1, 8), st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 2))
def test_a_lender_always_gets_its_guarantee_back_from_borrowers(
    guaranteed: int, borrowers: list[int], priority: int
) -> None:
    """Whatever a borrows, b is promised its guarantee in full as soon as it asks."""
    fleet = tuple(node(f"n{i}") for i in range(4))
    world = World(fleet, (quota("org"), quota("a", "org", 8), quota("b", "org", guaranteed)), now=10)
    for i, gpus in enumerate(borrowers):
        world.submit(f"a{i}", shape("a", gpus, priority=2))
    world.now = 20
    world.submit("b", shape("b", 1, workers=guaranteed, priority=priority))
    assert world.admitted == ["b"] or "b" in world.promised
    world.release(*world.preempted)
    assert "b" in world.running
    check_laws(world.state)


def test_a_victim_that_never_leaves_keeps_its_gpus() -> None:
    """Nothing is given away that is still held, however long it takes."""
    world = World((node("n1"),), (quota("a", None, 8, 8),))
    world.submit("low", shape("a", 8))
    world.submit("high", shape("a", 8, priority=1))
    more: dict[str, Any] = {"priority": 2, "preempts": True}
    for i in range(5):
        world.submit(f"x{i}", shape("a", 1, **more))
        check_laws(world.state)
    assert world.running == ["low"]
