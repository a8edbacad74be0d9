"""Laws of defragmentation: what a plan leaves behind is judged by a judge of its own, and on small worlds by
trying everything."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.scheduling.judge import Judge
from tests.core.scheduling.random_scenarios import scenario
from tests.core.scheduling.worlds import World, check_laws, node, on, quota, shape

from windlass.core.scheduling.defrag import NoPlan, Plan, plan_for, plan_hole
from windlass.core.scheduling.defrag_apply import carry_out
from windlass.core.scheduling.defrag_search import EXACT
from windlass.core.scheduling.defrag_words import told
from windlass.core.scheduling.engine import running
from windlass.core.scheduling.model import Released, Submitted, Waiting
from windlass.core.scheduling.scenario import parse_scenario
from windlass.core.scheduling.scenario_run import decide, propose
from windlass.core.units import Ms

Doc = dict[str, Any]


def movable(seed: int) -> Doc:
    """A random world in which most work accepts moving, and there is quota for all: fragmentation shows."""
    world, chance = scenario(seed), Random(f"movable {seed}")
    for work in world["workloads"]:
        work["movable"] = chance.random() < 0.7
    for limits in (entry.get("gpus", []) for entry in world["quotas"] if chance.random() < 0.8):
        for limit in limits:
            limit.pop("max", None)
            limit.pop("lend", None)
    return world


def judged(world: Doc, plan: Doc) -> None:
    """The world with the plan carried out, all at once."""
    judge = Judge(world, decide(parse_scenario(json.dumps(world))))
    before = dict(judge.after)
    for move in plan["moves"]:
        name = move["workload"]
        work = judge.works[name]
        assert work["movable"] and work.get("preemptible", True), f"{name} does not accept moving"
        assert world["now"] - work.get("running", {"since": 0})["since"] >= work.get("minRuntime", 0)
        assert _places(move["from"]) == _places(before[name]), "from where it is"
        assert len(move["to"]) == len(before[name]), "the whole gang, and no more"
        assert _places(move["to"]) != _places(before[name]), "a move goes elsewhere"
    new = {move["workload"]: {"placement": move["to"]} for move in plan["moves"]}
    new[plan["for"]] = {"placement": plan["hole"]}
    judge.admitted, judge.grown = new, {}
    judge.after = {**before, **{name: entry["placement"] for name, entry in new.items()}}
    judge.placements_are_real()
    for gpu_class in {work["class"] for work in judge.works.values()}:
        was, now = judge.tree(gpu_class, before), judge.tree(gpu_class, judge.after)
        for name in judge.quotas:
            most = now.most(name)
            assert most is None or now.below(name) <= max(most, was.below(name)), f"{name} is past its max"


def _places(workers: Sequence[Doc]) -> list[tuple[str, list[int]]]:
    return sorted((worker["node"], list(worker["gpus"])) for worker in workers)


@pytest.mark.parametrize("block", range(8))
def test_what_a_plan_leaves_behind_keeps_every_rule_of_placement(block: int) -> None:
    for seed in range(block * 150, block * 150 + 150):
        world = movable(seed)
        for proposal in propose(parse_scenario(json.dumps(world)), None):
            if isinstance(proposal, Plan):
                try:
                    judged(world, told(proposal))
                except AssertionError as error:
                    raise AssertionError(f"scenario {seed}: {error}") from error


def test_the_random_worlds_have_plans_and_every_kind_of_refusal() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1200):
        for proposal in propose(parse_scenario(json.dumps(movable(seed))), None):
            seen["plan" if isinstance(proposal, Plan) else _kind(proposal.why)] += 1
    kinds = ("plan", "accepts moving", "no other place", "no such hole", "minimum runtime", "would delay")
    assert [kind for kind in kinds if seen[kind] < 3] == [], seen


def _kind(why: str) -> str:
    kinds = ("accepts moving.", "no other place", "no such hole", "minimum runtime", "would delay")
    return next((kind.rstrip(".") for kind in kinds if kind in why), why)


# --- against trying everything ------------------------------------------------------------------

SIZES = (1, 2, 4, 8)


@st.composite
def fragmented(draw: st.DrawFn) -> tuple[World, int]:
    """A few nodes of eight GPUs, work of sizes that divide one another on them, and a size that is wanted."""
    world = World(
        tuple(node(f"n{i}") for i in range(draw(st.integers(2, 4)))), (quota("a", None, 99),), now=100
    )
    movable = 0
    for name in sorted(world.state.fleet.rooms):
        free = list(range(8))
        for number in range(draw(st.integers(0, 4))):
            size = draw(st.sampled_from(SIZES[:3]))
            if size > len(free):
                break
            may = movable < EXACT and draw(st.booleans())
            movable += may
            gpus, free = tuple(free[:size]), free[size:]
            since = draw(st.integers(0, 99))
            world.adopt(f"{name}-{number}", shape("a", size, movable=may), on((name, gpus)), since=since)
    return world, draw(st.sampled_from(SIZES[1:]))


@given(fragmented())
def test_on_small_worlds_no_plan_is_cheaper(made: tuple[World, int]) -> None:
    world, size = made
    found = plan_hole(world.state, shape("", size), Ms(100_000))
    best = cheapest(world, size)
    if isinstance(found, NoPlan):
        assert best is None, (found.why, best)
    else:
        assert (found.lost, len(found.moves)) == best


def cheapest(world: World, size: int) -> tuple[int, int] | None:
    """GPU time and moves of the cheapest plan there is, by sums of free GPUs alone."""
    held = {work.id: work for work in running(world.state)}
    free = dict.fromkeys(world.state.fleet.rooms, 8)
    for work in held.values():
        free[work.placement.workers[0].node] -= work.shape.gpus // 1000
    candidates = sorted(id for id, work in held.items() if work.shape.movable)
    prices = sorted(
        (sum(held[id].shape.gpus * (100_000 - held[id].since) for id in some), count, some)
        for count in range(len(candidates) + 1)
        for some in combinations(candidates, count)
    )
    for lost, count, some in prices:
        left = dict(free)
        for id in some:
            left[held[id].placement.workers[0].node] += held[id].shape.gpus // 1000
        if _packs(list(left.values()), [size, *(held[id].shape.gpus // 1000 for id in some)]):
            return lost, count
    return None


def _packs(bins: list[int], sizes: list[int]) -> bool:
    """Every way to put them down."""
    if not sizes:
        return True
    first, *rest = sizes
    for at in {room: at for at, room in enumerate(bins) if room >= first}.values():
        bins[at] -= first
        if _packs(bins, rest):
            bins[at] += first
            return True
        bins[at] += first
    return False


# --- carried out --------------------------------------------------------------------------------


@given(fragmented(), st.randoms(use_true_random=False))
def test_carried_out_nobody_is_lost_and_everybody_is_where_the_plan_said(
    made: tuple[World, int], chance: Random
) -> None:
    world, size = made
    before = set(world.running)
    world.submit("w", shape("a", size, preempts=False), submitted=0)
    plan = plan_for(world.state, "w", Ms(100_000))
    if not isinstance(plan, Plan):
        return
    told_to_go = carry_out(world.state, plan, Ms(100_000))
    assert [(one.id, one.by, one.reason) for one in told_to_go] == [
        (move.id, "w", "defragmentation") for move in plan.moves
    ]
    # Somebody who would fit in the hole, or where the moved go, comes in between and gets neither.
    world.submit("thief", shape("a", size, priority=9, preempts=False), submitted=0)
    leaving = [move.id for move in plan.moves]
    chance.shuffle(leaving)
    for some in _in_parts(leaving, chance):
        gone = {work.id: work for work in running(world.state) if work.id in some}
        again = (Submitted(Waiting(id, work.shape, work.submitted, Ms(100_000))) for id, work in gone.items())
        world.send(*(Released(id) for id in some), *again)
        check_laws(world.state)
    places = {work.id: work.placement for work in running(world.state)}
    assert set(places) - {"thief"} == before | {"w"}
    assert places["w"] == plan.hole
    assert {move.id: places[move.id] for move in plan.moves} == {move.id: move.target for move in plan.moves}
    assert not world.state.moving and not world.state.promises
    check_laws(world.state)


def _in_parts(ids: list[str], chance: Random) -> Iterator[list[str]]:
    while ids:
        count = chance.randint(1, len(ids))
        yield ids[:count]
        ids = ids[count:]
