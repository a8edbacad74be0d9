"""Worlds made to confuse: every claim of an answer is true, also its places, estimates and what was borrowed,
and none of it hangs on the order in which things are told."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from tests.core.scheduling.confusing_worlds import confusing
from tests.core.scheduling.foresight import Foresight
from tests.core.scheduling.judge import Judge
from tests.core.scheduling.judged_quota import milli
from tests.core.scheduling.random_scenarios import scenario
from tests.core.scheduling.test_scenario_meaning import answer, node, quota, runs, waits, work

from windlass.core.scheduling.scenario import parse_scenario
from windlass.core.scheduling.scenario_run import decide, to_json

Doc = dict[str, Any]


def told(world: Doc) -> Doc:
    return decide(parse_scenario(json.dumps(world)))


@pytest.mark.parametrize("block", range(6))
def test_every_claim_of_an_answer_is_true(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        world = confusing(seed)
        try:
            Judge(world, told(world)).check()
        except AssertionError as error:
            raise AssertionError(f"confusing {seed}: {error}") from error


@pytest.mark.parametrize("seed", [20234, 21464, 24217, 25806])
def test_every_claim_is_true_where_it_was_not(seed: int) -> None:
    """A lender that has its quota again held others up; fair share left out what a queue does not lend."""
    world = scenario(seed)
    Judge(world, told(world)).check()


def test_the_order_in_which_anything_is_told_changes_nothing() -> None:
    for seed in range(80):
        world = confusing(seed) if seed % 2 else scenario(seed)
        chance = Random(seed)
        parts = ("nodes", "quotas", "workloads")
        turned = {**world, **{part: chance.sample(world[part], len(world[part])) for part in parts}}
        assert to_json(told(world)) == to_json(told(turned)), f"world {seed}"


def alone(world: Doc, name: str) -> Doc:
    works = [it for it in world["workloads"] if "running" in it or it["name"] == name]
    return {**world, "workloads": works, "options": {"preemption": False}}


@pytest.mark.parametrize("block", range(4))
def test_who_waits_alone_starts_when_the_first_ends_have_made_room(block: int) -> None:
    seen = 0
    for seed in range(block * 100, block * 100 + 100):
        world = confusing(seed) if seed % 4 == 0 else scenario(seed)
        for name in [it["name"] for it in world["workloads"] if "running" not in it]:
            here = alone(world, name)
            said = told(here)
            if not said["waiting"] or "migProfile" in json.dumps(here) or said.get("grown"):
                continue  # where MIG instances lie on their GPU is not told
            (entry,) = said["waiting"]
            judge = Foresight(here, said)
            expected = None if entry["ahead"] is None else judge.earliest(name, judge.after)
            assert entry["estimatedStart"] == expected, f"world {seed}: {entry}"
            seen += expected is not None
    assert seen > 10


def test_what_was_borrowed_is_told_alike_of_workloads_and_queues() -> None:
    """Where nothing ran before, what the admitted borrowed is what their queues have borrowed."""
    for seed in range(300):
        world = confusing(seed) if seed % 3 == 0 else scenario(seed)
        queues = {it["name"]: (it["queue"], it["class"]) for it in world["workloads"]}
        if any("running" in it or not it.get("preemptible", True) for it in world["workloads"]):
            continue
        said = told(world)
        if any(
            "minWorkers" in it
            for it in world["workloads"]
            if it["name"] in [e["workload"] for e in said["admitted"]]
        ):
            continue  # it grew after others had started
        borrowed = dict.fromkeys(queues.values(), 0)
        for entry in said["admitted"]:
            borrowed[queues[entry["workload"]]] += milli(entry["borrowed"])
        for (queue, gpu_class), amount in borrowed.items():
            use = said["usage"][queue].get(gpu_class, {"borrowed": "0"})
            assert milli(use["borrowed"]) == amount, f"world {seed}, {queue}"


def test_who_is_passed_over_for_quota_has_an_estimate_too() -> None:
    """The one behind starts at 50; the one ahead only when its own queue has room, at 100."""
    works = [
        work("one", "a", expectedDuration=100, running=runs(0, ("n1", [0]))),
        work("three", "b", gpus=3, expectedDuration=50, running=runs(0, ("n1", [1, 2, 3]))),
        work("ahead", "a", submitted=-10, expectedDuration=10),
        work("behind", "b", gpus=3, submitted=-5, expectedDuration=10),
    ]
    said = answer([node("n1", 4)], [quota("a", 1, max=1), quota("b", 8)], works)
    assert [(it["workload"], it["estimatedStart"]) for it in said["waiting"]] == [
        ("ahead", 100),
        ("behind", 50),
    ]


def test_who_waits_for_a_lender_is_not_said_to_start_now() -> None:
    works = [
        work("loan", "b", gpus=2, expectedDuration=80, running=runs(0, ("n1", [0, 1]))),
        work("lender", "a", gpus=4, submitted=-10, preempts=False, expectedDuration=20),
        work("borrower", "b", gpus=1, submitted=-5),
    ]
    said = answer([node("n1")], [quota("a", 4), quota("b", 0)], works)
    assert (waits(said, "lender")["causes"], waits(said, "lender")["estimatedStart"]) == (["quota"], 80)
    assert (waits(said, "borrower")["causes"], waits(said, "borrower")["estimatedStart"]) == (
        ["priority"],
        100,
    )


def test_cpu_and_memory_count_in_the_sum_too() -> None:
    """Fragmentation is what moving others about could mend; where the sum is too small, it could not."""
    hosts = [node("n1", cpuMilli=4000, memoryMib=64), node("n2", cpuMilli=4000, memoryMib=64)]
    busy = [
        work(f"busy{at}", cpuMilli=3000, memoryMib=40, priority=9, running=runs(0, (f"n{at}", [0])))
        for at in (1, 2)
    ]
    asks: dict[str, Doc] = {
        "apart": {"cpuMilli": 2000},
        "cpu": {"cpuMilli": 2001},
        "memory": {"memoryMib": 49},
    }
    works = [work(name, priority=1, **needs) for name, needs in asks.items()]
    said = answer(hosts, [quota("a", 16)], [*busy, *works])
    assert waits(said, "apart")["causes"] == ["fragmentation"]
    assert waits(said, "cpu")["causes"] == ["capacity"]
    assert waits(said, "cpu")["message"] == "It needs 2001 mCPU; 2000 are free."
    assert waits(said, "memory")["message"] == "It needs 49 MiB of memory; 48 are free."


def test_fair_share_counts_what_a_queue_keeps_from_lending() -> None:
    """With its four `wants` would be two beyond its pool, `has` is one beyond its own: nobody gives way."""
    quotas = [
        quota("org", 7),
        quota("a", 1, "org", max=2),
        quota("b", 2, "org", lend=0),
        quota("c", 4, "org"),
    ]
    works = [
        work("has", "a", gpus=2, running=runs(-5, ("n1", [0, 1]))),
        work("wants", "b", gpus=4),
    ]
    said = answer([node("n1", 4)], quotas, works)
    assert (said["preempted"], waits(said, "wants")["causes"]) == ([], ["capacity"])
    assert answer([node("n1", 4)], quotas, [works[0], work("wants", "b", gpus=3)])["preempted"] == []
