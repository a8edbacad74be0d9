"""Wrong scenarios: refused with every error, each naming its item, or answered truly. Never a crash, and
never an answer that breaks a law."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from tests.core.scheduling.confusing_worlds import confusing
from tests.core.scheduling.judge import Judge
from tests.core.scheduling.random_scenarios import scenario

from windlass.core.errors import Invalid
from windlass.core.scheduling.scenario import Scenario, parse_scenario
from windlass.core.scheduling.scenario_run import decide

Doc = dict[str, Any]

ODD: list[Any] = [
    None, True, False, -1, 0, 0.0001, 1.5, 10**9, 10**15, 10**30, -(10**30), float("nan"), float("inf"), "",
    "x", "n0", "w0", "q-0", "1e3", "0x10", " 1", "1_000", "١", [], [[]], {}, {"a": 1}, [1, "x", None],
    "a" * 5000,
]  # fmt: skip


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document: what holds it, and under which key."""
    found: list[tuple[Any, Any]] = []
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        found.append((value, key))
        if isinstance(inner, dict | list):
            found.extend(spots(inner))
    return found


def spoil(chance: Random, world: Doc) -> Doc:
    """One to three things that are odd, missing, doubled or in the place of another."""
    spoiled: Doc = json.loads(json.dumps(world))
    for _ in range(chance.randint(1, 3)):
        holder, key = chance.choice(spots(spoiled))
        match chance.randint(0, 4):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.append(json.loads(json.dumps(holder[key])))
            case 2:
                other, there = chance.choice(spots(spoiled))
                holder[key] = json.loads(json.dumps(other[there]))
            case _:
                holder[key] = chance.choice(ODD)
        if not spoiled:
            return spoiled
    return spoiled


def read(world: Doc) -> Scenario | Invalid:
    try:
        return parse_scenario(json.dumps(world))
    except Invalid as refused:
        return refused


@pytest.mark.parametrize("block", range(6))
def test_a_spoiled_scenario_is_refused_item_by_item_or_answered_truly(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * 500, block * 500 + 500):
        chance = Random(seed)
        world = spoil(chance, scenario(seed % 300) if seed % 2 else confusing(seed % 60))
        parsed = read(world)
        if isinstance(parsed, Invalid):
            assert parsed.exit_code == 2
            assert all(reason.message for reason in parsed.reasons) and parsed.reasons, f"world {seed}"
            seen["refused"] += 1
            continue
        said = decide(parsed)
        told = {it["workload"] for it in [*said["waiting"], *said["admitted"]]}
        assert told | {it.id for it in parsed.running} == {it.id for it in parsed.waiting} | {
            it.id for it in parsed.running
        }
        seen["answered"] += 1
    assert seen["refused"] > 50 and seen["answered"] > 15, seen


def refusals(**parts: Any) -> list[tuple[str, str]]:
    base: Doc = {
        "nodes": [{"name": "n1", "class": "h", "gpus": 8}],
        "quotas": [{"name": "a", "gpus": [{"class": "h", "guaranteed": 1000000}]}],
        "workloads": [],
    }
    with pytest.raises(Invalid) as refused:
        decide(parse_scenario(json.dumps(base | parts)))
    return [(reason.field, reason.message) for reason in refused.value.reasons]


def test_a_stated_guarantee_of_nothing_includes_no_children() -> None:
    above: Doc = {"name": "p", "gpus": [{"class": "h", "guaranteed": 0}]}
    child = {"name": "q", "parent": "p", "gpus": [{"class": "h", "guaranteed": 2}]}
    ((field, message),) = refusals(quotas=[above, child])
    assert field == "quotas[0].gpus"
    assert "guarantees 0 of h, but the quotas below it 2 together" in message
    unstated = {"name": "p", "gpus": [{"class": "h", "max": 4}]}
    decide(parse_scenario(json.dumps({"quotas": [unstated, child]})))


@pytest.mark.parametrize("units", [10**9, 28673])
def test_more_mig_instances_than_any_node_could_have_are_refused(units: int) -> None:
    work = {"name": "w", "queue": "a", "class": "h", "migProfile": "1g.10gb", "units": units}
    ((field, message),) = refusals(workloads=[work])
    assert (field, "at most 28672" in message) == ("workloads[0].units", True)


@pytest.mark.parametrize("profile", ["5g.40gb", "6g.60gb", "8g.80gb", "1g"])
def test_mig_profiles_that_no_gpu_has_are_refused(profile: str) -> None:
    ((field, _),) = refusals(workloads=[{"name": "w", "queue": "a", "class": "h", "migProfile": profile}])
    assert field == "workloads[0].migProfile"


def test_a_gpu_held_twice_is_told_once_with_who_holds_it() -> None:
    def runs(name: str, amount: Doc, gpus: list[int]) -> Doc:
        held = {"since": 0, "on": [{"node": "n1", "gpus": gpus}]}
        return {"name": name, "queue": "a", "class": "h", **amount, "running": held}

    slices = {"migProfile": "1g.10gb", "units": 2}
    works = [runs("one", {"gpus": 1}, [0]), runs("two", slices, [0, 0]), runs("self", {"gpus": 2}, [1, 1])]
    assert refusals(workloads=works) == [
        ("workloads[1].running", "workloads[1].running holds GPU 0 of n1, which is held already by one"),
        ("workloads[2].running", "workloads[2].running holds GPU 1 of n1, which is held already by itself"),
    ]


def test_what_runs_beyond_every_quota_is_counted_and_let_run() -> None:
    """Nothing new gets in, and the answer says what is held."""
    world: Doc = {
        "now": 0,
        "nodes": [{"name": "n1", "class": "h", "gpus": 8}],
        "quotas": [{"name": "a", "gpus": [{"class": "h", "guaranteed": 2, "max": 2}]}],
        "workloads": [
            {
                "name": "r",
                "queue": "a",
                "class": "h",
                "gpus": 6,
                "running": {"since": -5, "on": [{"node": "n1", "gpus": list(range(6))}]},
            },
            {"name": "w", "queue": "a", "class": "h", "gpus": 1},
        ],
    }
    said = decide(parse_scenario(json.dumps(world)))
    Judge(world, said).check()
    assert said["usage"] == {"a": {"h": {"used": "6", "borrowed": "4"}}}
    assert (said["admitted"], said["waiting"][0]["cause"]) == ([], "quota")
