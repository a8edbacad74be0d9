"""Nobody of lower priority has what somebody of higher priority waits for, but by quota, by topology, or in a
gap that is free for as long as it runs."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from tests.core.scheduling.confusing_worlds import confusing
from tests.core.scheduling.foresight import Foresight
from tests.core.scheduling.random_scenarios import scenario
from tests.core.scheduling.test_scenario_meaning import answer, node, quota, runs, waits, work

from windlass.core.scheduling.scenario import parse_scenario
from windlass.core.scheduling.scenario_run import decide

Doc = dict[str, Any]


def told(world: Doc) -> Doc:
    return decide(parse_scenario(json.dumps(world)))


def by_quota(judge: Foresight, high: str, low: str) -> bool:
    """What the higher one waits for is quota, or what it would have is lent and was wanted back."""
    entry = judge.waiting[high]
    reasons = {it["reason"] for it in judge.victims.values() if it["for"] == low}
    return (
        "quota" in (entry["cause"], *entry["also"])
        or high in judge.victims
        or bool(reasons - {"priority"})
        or judge.borrows_from(high, low, judge.without(low))
    )


def by_patience(judge: Foresight, high: str, low: str) -> bool:
    """Work that does not preempt never waits for victims: what they leave goes to whoever does."""
    return bool(judge.admitted[low]["after"]) and not judge.works[high].get("preempts", True)


def starts_without(world: Doc, high: str, low: str) -> bool:
    """Whether the higher one would have been admitted had the lower one never come."""
    rest = json.loads(json.dumps([it for it in world["workloads"] if it["name"] != low]))
    return high in [entry["workload"] for entry in told({**world, "workloads": rest})["admitted"]]


def inversions(world: Doc, seen: Counter[str]) -> list[str]:
    judge = Foresight(world, told(world))
    found = []
    for high, low in judge.ahead():
        if by_quota(judge, high, low) or by_patience(judge, high, low) or judge.fits(high, judge.after):
            seen["by quota"] += 1
            continue
        without = judge.without(low)
        if not judge.possible(without):
            continue
        seen["judged"] += 1
        if judge.fits(high, without) and starts_without(world, high, low):
            found.append(f"{high} would have started in the place of {low}")
        elif judge.waiting[high]["ahead"] == 0 and not judge.fits(high, without):
            with_it, alone = judge.earliest(high, judge.after), judge.earliest(high, without)
            if alone is not None and (with_it is None or with_it > alone):
                found.append(f"{low} delays {high}, which is next, from {alone} to {with_it}")
    return found


@pytest.mark.parametrize("block", range(6))
def test_no_lower_priority_has_what_a_higher_one_waits_for(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * 250, block * 250 + 250):
        assert inversions(scenario(seed), seen) == [], f"scenario {seed}"
    for seed in range(block * 40, block * 40 + 40):
        assert inversions(confusing(seed), seen) == [], f"confusing {seed}"
    assert seen["judged"] > 10, seen


def test_many_that_can_never_start_do_not_hide_one_that_can() -> None:
    """Three gangs larger than the fleet are ahead of `high`, which must not pay for them."""
    busy = work("busy", gpus=4, priority=9, expectedDuration=100, running=runs(0, ("n1", [0, 1, 2, 3])))
    giants = [work(f"giant{at}", gpus=8, workers=10 + at, priority=5) for at in range(4)]
    high = work("high", gpus=8, priority=3, expectedDuration=10)
    low = work("low", gpus=4, expectedDuration=1000)
    said = answer([node("n1")], [quota("a", 400)], [busy, *giants, high, low])
    assert said["admitted"] == []
    assert waits(said, "high")["estimatedStart"] == 100
    assert waits(said, "low")["causes"] == ["priority"]
    assert "delay high," in waits(said, "low")["message"]


def test_preempting_does_not_delay_who_is_ahead() -> None:
    """`low` could send `victim` away, and `high` would wait ten times as long for what it left."""
    fixed = work(
        "fixed",
        gpus=4,
        priority=9,
        preemptible=False,
        expectedDuration=100,
        running=runs(0, ("n1", [0, 1, 2, 3])),
    )
    victim = work("victim", gpus=4, expectedDuration=90, running=runs(-1, ("n1", [4, 5, 6, 7])))
    high = work("high", gpus=8, priority=8, expectedDuration=10)
    low = work("low", gpus=4, priority=5, expectedDuration=1000)
    said = answer([node("n1")], [quota("a", 400)], [fixed, victim, high, low])
    assert (said["admitted"], said["preempted"]) == ([], [])
    assert waits(said, "high")["estimatedStart"] == 100
    assert "once nobody who is ahead" in waits(said, "low")["remedy"]
    beside = answer([node("n1"), node("n2", 4)], [quota("a", 400)], [fixed, victim, high, low])
    assert [entry["workload"] for entry in beside["admitted"]] == ["low"], "there is room elsewhere"
    brief = {**low, "expectedDuration": 90}
    assert [
        it["for"] for it in answer([node("n1")], [quota("a", 400)], [fixed, victim, high, brief])["preempted"]
    ]


def test_what_a_victim_leaves_is_not_lent_out_until_the_victim_would_have_ended() -> None:
    victim = work("victim", gpus=8, expectedDuration=1000, running=runs(0, ("n1", list(range(8)))))
    first = work("first", gpus=2, priority=9)
    high = work("high", gpus=6, priority=5, preempts=False)
    low = work("low", gpus=4, priority=3, expectedDuration=50)
    said = answer([node("n1")], [quota("a", 100)], [victim, first, high, low])
    assert [entry["workload"] for entry in said["admitted"]] == ["first"]
    assert (waits(said, "high")["causes"], waits(said, "high")["estimatedStart"]) == (["starting"], 0)


@pytest.mark.parametrize("wish", [{"avoid": ["low"]}, {"dedicated": True}, {"avoid": ["b"]}])
def test_a_gap_beside_what_is_kept_apart_is_no_gap(wish: Doc) -> None:
    """`high` gets the whole node at 100 and wants nobody of `b` there; `low` would stay for longer."""
    busy = work("busy", "b", gpus=4, priority=9, expectedDuration=100, running=runs(0, ("n1", [0, 1, 2, 3])))
    apart = {**wish, "avoid": ["busy", *wish.get("avoid", [])]}
    high = work("high", gpus=2, priority=5, **apart)
    low = work("low", "b", gpus=2, expectedDuration=1000)
    said = answer([node("n1")], [quota("a", 8), quota("b", 8)], [busy, high, low])
    assert said["admitted"] == []
    assert waits(said, "high")["estimatedStart"] == 100
    assert waits(said, "low")["causes"] == ["priority"]


def test_what_a_lender_leaves_of_a_victim_goes_to_who_is_next() -> None:
    """`back` sends `loan` away and uses one of its eight; `high` was tried before, `low` comes after."""
    loan = work("loan", gpus=8, priority=1, running=runs(-5, ("n1", list(range(8)))))
    works = [
        loan,
        work("high", gpus=4, priority=1),
        work("back", "b", gpus=1),
        work("low", gpus=4),
    ]
    said = answer([node("n1")], [quota("a", 4), quota("b", 4)], works)
    assert [entry["workload"] for entry in said["admitted"]] == ["back", "high"]
    assert "low" in [entry["workload"] for entry in said["waiting"]]


def test_taking_back_does_not_pass_who_is_ahead_in_the_same_queue() -> None:
    """`second` may send `loan` away, and `first`, which is to start at 10, would have to wait for it."""
    works = [
        work("busy", "c", gpus=3, expectedDuration=10, running=runs(0, ("n1", [0, 1, 2]))),
        work("loan", "b", gpus=1, expectedDuration=5, running=runs(0, ("n1", [3]))),
        work("first", gpus=4, priority=1, preempts=False),
        work("second", gpus=1, expectedDuration=1000),
    ]
    quotas = [quota("a", 2), quota("b", 0), quota("c", 3), quota("d", 4)]
    said = answer([node("n1", 4)], quotas, works)
    assert (said["admitted"], said["preempted"]) == ([], [])
    assert waits(said, "first")["estimatedStart"] == 10
    alone = answer([node("n1", 4)], quotas, [it for it in works if it["name"] != "first"])
    assert [(it["workload"], it["reason"]) for it in alone["preempted"]] == [("loan", "reclaim")]


def test_a_minimum_runtime_protects_only_what_has_begun() -> None:
    """Of the two that start now in `a`, `low` borrows: it waits when `b` wants its own, not `high`."""
    works = [
        work("high", gpus=1, priority=5),
        work("low", gpus=4, priority=1, minRuntime=30),
        work("back", "b", gpus=2),
    ]
    said = answer([node("n1", 6)], [quota("a", 2), quota("b", 4)], works)
    assert sorted(entry["workload"] for entry in said["admitted"]) == ["back", "high"]
    begun = [{**it, "running": runs(-5, ("n1", [1, 2, 3, 4]))} if it["name"] == "low" else it for it in works]
    said = answer([node("n1", 6)], [quota("a", 2), quota("b", 4)], begun)
    assert "low" not in [entry["workload"] for entry in said["preempted"]]


def test_room_that_victims_leave_is_kept_for_who_is_next_once_they_have_left_the_quota() -> None:
    """`loan` goes for `first`; `next` has its quota when it is gone, and its node when `first` has ended."""
    there = runs(-5, ("n1", [0, 1, 2, 3]), ("n2", [0, 1, 2, 3]))
    works = [
        work("loan", "b", gpus=4, workers=2, priority=5, running=there),
        work("first", gpus=1, priority=2, expectedDuration=10),
        work("other", gpus=2, priority=2, expectedDuration=1000, avoid=["first"]),
        work("next", gpus=4, priority=1),
        work("low", "b", gpus=3, expectedDuration=1000),
    ]
    said = answer([node("n1", 4), node("n2", 4)], [quota("a", 7), quota("b", 1)], works)
    assert sorted(it["workload"] for it in said["admitted"]) == ["first", "other"]
    assert waits(said, "next")["estimatedStart"] == 10
