"""The engine and a brute-force reference agree on who gets in and what it costs others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.core.scheduling.random_scenarios import scenario
from tests.core.scheduling.reference import Reference

from windlass.core.scheduling.scenario import parse_scenario
from windlass.core.scheduling.scenario_run import decide

Doc = dict[str, Any]


def worlds(seed: int) -> Iterator[tuple[Doc, str]]:
    """One workload that waits among what runs: as it was drawn, and with all that protects taken away."""
    whole = scenario(seed)
    if any("parent" in quota or not quota.get("gpus") for quota in whole["quotas"]):
        return
    free = [
        {name: value for name, value in work.items() if name not in ("preemptible", "preempts", "minRuntime")}
        for work in whole["workloads"]
    ]
    for workloads in (whole["workloads"], free):
        for at, work in enumerate(workloads):
            if "running" not in work:
                asks = {**work, "priority": work.get("priority", 0) + (3 if workloads is free else 0)}
                runs = [it for it in workloads if "running" in it]
                yield {**whole, "workloads": [*runs, asks]}, asks["name"] or str(at)


@pytest.mark.parametrize("block", range(8))
def test_brute_force_finds_nobody_else_who_gets_in_and_nothing_cheaper(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * 250, block * 250 + 250):
        for world, name in worlds(seed):
            reference = Reference(world, name)
            if len(reference.candidates()) > 5:
                continue
            prices = reference.prices()
            if Reference(world, name, lucky=False).prices() != prices:
                continue  # it hangs on where instances lie, which a scenario does not tell
            told = decide(parse_scenario(json.dumps(world)))
            where = f"scenario {seed}, {name}"
            assert [it["workload"] for it in told["admitted"]] == [name] * bool(prices), where
            victims = tuple(it["workload"] for it in told["preempted"])
            if prices:
                assert (reference.price(victims) if victims else ()) in prices, where
            seen[f"{len(victims)} victims" if prices else "waits"] += 1
    assert seen["waits"] > 100 and seen["0 victims"] > 100, seen
    assert seen["1 victims"] > 5 and seen["2 victims"] > 1, seen
