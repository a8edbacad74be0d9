"""The cause is the true one: where it is the only one, changing exactly what it names lets the work in."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from tests.core.scheduling.random_scenarios import scenario
from tests.core.scheduling.worlds import TWO_NODES, World, on, quota, shape

from windlass.core.scheduling.engine import cycle, new_state
from windlass.core.scheduling.model import Adopted, NodesChanged, QuotasChanged, Submitted
from windlass.core.scheduling.remedies import raises
from windlass.core.scheduling.scenario import Scenario, parse_scenario
from windlass.core.scheduling.scenario_run import decide
from windlass.core.units import GPU

Doc = dict[str, Any]
OFF = {"preemption": False, "backfill": False}


def alone(world: Doc, name: str) -> Doc:
    """The world with one workload waiting, nobody in its way but what runs."""
    works = [work for work in world["workloads"] if "running" in work or work["name"] == name]
    return {**world, "workloads": works, "options": OFF}


def waiting(world: Doc, name: str) -> Doc | None:
    told = decide(parse_scenario(json.dumps(world)))
    return next((entry for entry in told["waiting"] if entry["workload"] == name), None)


def state_of(parsed: Scenario) -> Any:
    events: list[Any] = [NodesChanged(parsed.nodes), QuotasChanged(parsed.quotas)]
    events += [Adopted(work) for work in parsed.running] + [Submitted(one) for one in parsed.waiting]
    return cycle(new_state(parsed.options), events, parsed.now)[0]


def with_raises(world: Doc, name: str, less: int = 0) -> Doc | None:
    """The quotas raised by what is named (by `less` thousandths too little, at the last of them)."""
    parsed = parse_scenario(json.dumps(world))
    (shape,) = [one.shape for one in parsed.waiting if one.id == name]
    steps = raises(state_of(parsed), shape)
    changed: Doc = json.loads(json.dumps(world))
    quotas = {quota["name"]: quota for quota in changed["quotas"]}
    for at, step in enumerate(steps):
        if step.quota not in quotas:
            return None  # the root of a tree with several tops: nobody can write a quota for it
        by = (step.by - (less if at == len(steps) - 1 else 0)) / GPU
        limits = quotas[step.quota].setdefault("gpus", [])
        entry = next((it for it in limits if it["class"] == shape.gpu_class), None)
        if entry is None:
            return None
        entry[step.limit] = round(entry.get(step.limit, 0) + by, 3)
    return changed


def new_node(world: Doc, work: Doc, **more: Any) -> Doc:
    sites = work.get("sites") or ["local"]
    workers = work.get("workers", 1)
    mig = work.get("units", 1) if "migProfile" in work else 0
    gpus = mig * workers if mig else max(1, int(-(-work["gpus"] // 1))) * workers
    labels = {"rack": "new", "block": "new"}
    fresh = {"name": "new", "class": work["class"], "gpus": gpus, "site": sites[0], "labels": labels}
    return {**world, "nodes": [*world["nodes"], {**fresh, **more}]}


@pytest.mark.parametrize("block", range(6))
def test_changing_exactly_what_the_cause_names_lets_the_workload_in(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * 100, block * 100 + 100):
        whole = scenario(seed)
        for work in whole["workloads"]:
            if "running" in work:
                continue
            name = work["name"]
            world = alone(whole, name)
            entry = waiting(world, name)
            if entry is None or entry["also"] or entry["ahead"] is None:
                continue
            told = f"scenario {seed}, {name}: {entry}"
            match entry["cause"]:
                case "quota":
                    changed = with_raises(world, name)
                    short = with_raises(world, name, less=1)
                    if changed is None or short is None:
                        continue
                    assert waiting(changed, name) is None, told
                    assert waiting(short, name) is not None, told
                case "capacity" | "fragmentation":
                    assert waiting(new_node(world, work), name) is None, told
                    assert waiting(new_node(world, work, state="draining"), name) is not None, told
                case "site":
                    assert waiting(new_node(world, work), name) is None, told
                case cause:
                    raise AssertionError(f"{cause} for work that is alone: {told}")
            seen[entry["cause"]] += 1
    assert all(seen[cause] for cause in ("quota", "capacity", "fragmentation", "site")), seen


def test_work_held_back_by_priority_starts_when_those_it_names_are_gone() -> None:
    held_back = 0
    for seed in range(400):
        world = {**scenario(seed), "options": {"preemption": False}}
        told = decide(parse_scenario(json.dumps(world)))["waiting"]
        for first in [entry for entry in told if entry["cause"] == "priority"]:
            held_back += 1
            here, entry = world, first
            while entry is not None and entry["cause"] == "priority":
                names = [work["name"] for work in here["workloads"]]
                (named,) = [name for name in names if f" {name}, which" in entry["message"]]
                works = [work for work in here["workloads"] if work["name"] != named]
                for work in works:
                    work["avoid"] = [name for name in work.get("avoid", []) if name != named]
                here = {**here, "workloads": works}
                entry = waiting(here, first["workload"])
            # Who was held back with it may be quicker; then it lacks what they took, and says so.
            assert entry is None or entry["cause"] in ("quota", "capacity", "fragmentation"), (seed, entry)
    assert held_back > 15


def test_a_raise_is_no_larger_than_what_is_missing_where_a_sibling_has_gone_beyond() -> None:
    """a keeps 8 for itself; b, without a guarantee, holds 5 for which team's ceiling left no room."""
    tree = (quota("org"), quota("team", "org", 8, 8), quota("a", "team", 8, None, 0), quota("b", "team", 0))
    world = World(TWO_NODES, tree)
    world.adopt("b1", shape("b", 5), on(("n1", (0, 1, 2, 3, 4))))
    assert {(step.limit, step.by) for step in raises(world.state, shape("a", 4))} == {
        ("max", 1000),
        ("guaranteed", 1000),
    }


def test_a_guarantee_is_not_raised_above_its_ceiling_alone() -> None:
    """Such a quota would be refused: the raise that is named has to be one that can be made."""
    world = World(TWO_NODES, (quota("a", None, 8, 8), quota("b", None, 4)))
    world.adopt("loan", shape("b", 6, min_runtime=1000), on(("n1", (0, 1, 2, 3, 4, 5))))
    assert [(step.limit, step.by) for step in raises(world.state, shape("a", 8))] == [
        ("max", 2000),
        ("guaranteed", 2000),
    ]
