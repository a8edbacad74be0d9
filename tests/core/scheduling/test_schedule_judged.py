"""Answers of `windlass schedule` on random worlds, every claim recomputed by a judge of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.core.scheduling.judge import Judge
from tests.core.scheduling.random_scenarios import scenario

from windlass.core.scheduling.scenario import parse_scenario
from windlass.core.scheduling.scenario_run import decide, to_json


@pytest.mark.parametrize("block", range(10))
def test_every_claim_of_an_answer_is_true(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        world = scenario(seed)
        answer = decide(parse_scenario(json.dumps(world)))
        try:
            Judge(world, answer).check()
        except AssertionError as error:
            raise AssertionError(f"scenario {seed}: {error}") from error


@pytest.mark.parametrize("seed", [7111, 8214])
def test_a_promise_keeps_its_gpu_in_its_mode_while_the_victim_leaves(seed: int) -> None:
    """Worlds in which a time-slice once landed on a GPU promised to a MIG slice."""
    world = scenario(seed)
    Judge(world, decide(parse_scenario(json.dumps(world)))).check()


def test_the_random_worlds_exercise_everything_there_is_to_claim() -> None:
    """A judge that never sees a preemption proves nothing about preemption."""
    seen: dict[str, int] = {}
    for seed in range(300):
        answer = decide(parse_scenario(json.dumps(scenario(seed))))
        told = [entry["cause"] for entry in answer["waiting"]]
        told += [entry["reason"] for entry in answer["preempted"]]
        told += ["after victims" for entry in answer["admitted"] if entry["after"]]
        for what in told:
            seen[what] = seen.get(what, 0) + 1
    wanted = [
        "entitlement",
        "site",
        "quota",
        "capacity",
        "fragmentation",
        "priority",
        "reclaim",
        "after victims",
    ]
    assert [what for what in wanted if seen.get(what, 0) < 3] == []


def test_the_answer_does_not_hang_on_the_order_of_hashes(tmp_path: Path) -> None:
    (tmp_path / "worlds.json").write_text(json.dumps([json.dumps(scenario(seed)) for seed in range(40)]))
    program = (
        "import json, sys\n"
        "from windlass.core.scheduling.scenario import parse_scenario\n"
        "from windlass.core.scheduling.scenario_run import decide, to_json\n"
        "for text in json.load(open(sys.argv[1])):\n"
        "    print(to_json(decide(parse_scenario(text))))\n"
    )
    here = [to_json(decide(parse_scenario(json.dumps(scenario(seed))))) for seed in range(40)]
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "worlds.json")],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.splitlines() == here


def test_the_order_in_which_things_are_told_changes_nothing() -> None:
    for seed in range(60):
        world = scenario(seed)
        turned = {**world, "nodes": world["nodes"][::-1], "quotas": world["quotas"][::-1]}
        assert to_json(decide(parse_scenario(json.dumps(world)))) == to_json(
            decide(parse_scenario(json.dumps(turned)))
        )
