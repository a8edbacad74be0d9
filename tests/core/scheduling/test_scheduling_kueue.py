"""Quota and preemption against what a real Kueue decided (shared/facts/quota-truth.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.core.scheduling.worlds import SHARED, World, node, on

from windlass.core.scheduling.engine import position
from windlass.core.scheduling.model import Limit, Options, Quota, Shape
from windlass.core.units import GPU, MilliGpu

FLEET = tuple(node(f"n{i:02}", gpu_class="gpu") for i in range(64))
"""More GPUs than any of the worlds has quota for: only quota decides."""


def worlds(name: str) -> list[dict[str, Any]]:
    path = SHARED / "data" / "kueue" / name
    if not path.exists():
        pytest.skip(f"{path} is absent: the decisions of the real Kueue are not part of the project")
    return [json.loads(line) for line in path.read_text().splitlines()]


def quotas(described: list[dict[str, Any]]) -> tuple[Quota, ...]:
    def milli(entry: dict[str, Any], name: str) -> MilliGpu | None:
        return MilliGpu(entry[name] * GPU) if name in entry else None

    return tuple(
        Quota(
            entry["name"],
            entry.get("parent"),
            limits={
                limit["class"]: Limit(
                    milli(limit, "guaranteed") or MilliGpu(0), milli(limit, "max"), milli(limit, "lend")
                )
                for limit in entry.get("gpus", [])
            },
        )
        for entry in described
    )


def as_kueue_has_it(described: dict[str, Any], admitted: list[tuple[int, dict[str, Any]]]) -> World:
    """A fresh world with exactly the work in it that Kueue has admitted and not preempted."""
    options = Options(fair_share=False, preemption=described["preemption"])
    world = World(FLEET, quotas(described["quotas"]), options)
    free = [(n.name, gpu) for n in FLEET for gpu in range(n.gpus)]
    for at, arrival in admitted:
        workers = []
        for _ in range(arrival["workers"]):
            name = free[0][0]
            mine = [spot for spot in free if spot[0] == name][: arrival["gpus"]]
            if len(mine) < arrival["gpus"]:
                free = [spot for spot in free if spot[0] != name]
                mine = free[: arrival["gpus"]]
            free = [spot for spot in free if spot not in mine]
            workers.append((mine[0][0], tuple(gpu for _, gpu in mine)))
        world.adopt(arrival["name"], wanted(arrival), on(*workers), since=at)
    return world


def wanted(arrival: dict[str, Any]) -> Shape:
    gpus = MilliGpu(arrival["gpus"] * GPU)
    return Shape(arrival["queue"], "gpu", gpus, arrival["workers"], priority=arrival["priority"])


def decisions(name: str) -> list[tuple[dict[str, Any], dict[str, Any], World, list[dict[str, Any]]]]:
    """Every arrival, what Kueue said, our world after the arrival, and what ran before it."""
    found = []
    for described in worlds(name):
        admitted: list[tuple[int, dict[str, Any]]] = []
        for at, (arrival, kueue) in enumerate(zip(described["arrivals"], described["kueue"], strict=True)):
            world = as_kueue_has_it(described, admitted)
            world.now = at
            world.submit(arrival["name"], wanted(arrival))
            found.append((arrival, kueue, world, [work for _, work in admitted]))
            gone = {victim["workload"] for victim in kueue["preempted"]}
            admitted = [(since, work) for since, work in admitted if work["name"] not in gone]
            if kueue["admitted"]:
                admitted.append((at, arrival))
    return found


@pytest.mark.parametrize("name", ["fit.jsonl", "preempt.jsonl"])
def test_admitted_and_never_are_what_kueue_said(name: str) -> None:
    for arrival, kueue, world, _ in decisions(name):
        admitted = arrival["name"] in world.admitted or arrival["name"] in world.promised
        assert admitted == kueue["admitted"], arrival
        never = not admitted and position(world.state, arrival["name"]) is None
        assert never == kueue["never"], arrival


def test_nobody_is_asked_to_leave_that_kueue_let_stay_without_need() -> None:
    """Never more victims than Kueue, and of no higher priority. Other ones where it is fewer (we look for
    the fewest, Kueue takes them in order), where they lose less, or where Kueue's whole seconds tie."""
    total = fewer = different = 0
    for _, kueue, world, before in decisions("preempt.jsonl"):
        total += 1
        theirs = {victim["workload"]: victim["reason"] for victim in kueue["preempted"]}
        if world.preempted == theirs:
            continue
        priority = {work["name"]: work["priority"] for work in before}
        assert len(world.preempted) <= len(theirs)
        assert max(priority[id] for id in world.preempted) <= max(priority[id] for id in theirs)
        assert set(world.preempted.values()) <= set(theirs.values())
        fewer += len(world.preempted) < len(theirs)
        different += len(world.preempted) == len(theirs)
    assert (total, fewer, different) == (481, 1, 3), "the record of the engine tells these"
