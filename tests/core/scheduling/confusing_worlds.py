"""Random worlds made to confuse: deep trees, several classes, crowds that wait, and everything a scenario can
say at once. `random_scenarios.py` makes the small ones in which each part can be seen alone."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.core.scheduling.random_scenarios import start_some

Doc = dict[str, Any]
CLASSES = ("h100-80g", "l40s-48g", "a100-80g")


def confusing(seed: int) -> Doc:
    chance = Random(f"confusing {seed}")
    classes = CLASSES[: chance.choice([1, 1, 2, 3])]
    sites = ("fra1", "ber1")[: chance.choice([1, 1, 2])]
    nodes = [_node(chance, number, classes, sites) for number in range(chance.randint(1, 7))]
    classes = tuple(sorted({node["class"] for node in nodes}))
    quotas: list[Doc] = []
    for number in range(chance.randint(1, 2)):
        _branch(chance, quotas, f"t{number}", None, chance.randint(0, 4), classes)
    parents = {quota.get("parent") for quota in quotas}
    queues = [quota["name"] for quota in quotas if quota["name"] not in parents]
    names = [f"w{number:02}" for number in range(chance.randint(2, 24))]
    works = [_workload(chance, name, names, queues, classes, sites) for name in names]
    start_some(chance, nodes, works)
    options = {name: False for name in ("fairShare", "preemption", "backfill") if chance.random() < 0.15}
    return {"now": 0, "options": options, "nodes": nodes, "quotas": quotas, "workloads": works}


def _wish(chance: Random, **fields: tuple[float, list[Any]]) -> Doc:
    return {name: chance.choice(of) for name, (likely, of) in fields.items() if chance.random() < likely}


def _node(chance: Random, number: int, classes: tuple[str, ...], sites: tuple[str, ...]) -> Doc:
    rack = chance.randint(1, 3)
    return {
        "name": f"n{number}",
        "class": chance.choice(classes),
        "gpus": chance.choice([2, 4, 4, 8]),
        "site": chance.choice(sites),
        **_wish(
            chance,
            labels=(0.8, [{"rack": f"r{rack}", "block": f"b{rack % 2}"}, {"block": "b1"}]),
            cpuMilli=(0.4, [4000, 16000]),
            memoryMib=(0.4, [64, 256]),
            state=(0.15, ["draining", "unverified", "down"]),
            pricePerGpuHour=(0.3, ["1.99", "2.49"]),
        ),
    }


def _branch(
    chance: Random, quotas: list[Doc], name: str, parent: str | None, depth: int, classes: tuple[str, ...]
) -> dict[str, int]:
    """One part of the tree, up to five levels deep; returns what it is guaranteed of each class."""
    quota: Doc = {"name": name, **({"parent": parent} if parent else {})}
    quota |= _wish(chance, weight=(0.3, [0, 1, 2, 3]), pastUse=(0.2, [1, 4.5]))
    quotas.append(quota)
    below: dict[str, int] = dict.fromkeys(classes, 0)
    for child in range(chance.randint(1, 3) if depth else 0):
        told = _branch(chance, quotas, f"{name}-{child}", name, depth - 1, classes)
        below = {gpu_class: below[gpu_class] + told[gpu_class] for gpu_class in classes}
    limits = []
    for gpu_class in classes:
        if chance.random() < 0.75:
            below[gpu_class] += chance.choice([0, 0, 1, 2, 4, 8])
            has = below[gpu_class]
            limit: Doc = {"class": gpu_class, "guaranteed": has}
            limit |= _wish(chance, max=(0.3, [has, has + 1, has + 4]), lend=(0.3, [0, has // 2, has]))
            limits.append(limit)
    if limits:
        quota["gpus"] = limits
    return below


def _workload(
    chance: Random,
    name: str,
    names: list[str],
    queues: list[str],
    classes: tuple[str, ...],
    sites: tuple[str, ...],
) -> Doc:
    work: Doc = {
        "name": name,
        "queue": chance.choice(queues),
        "class": chance.choice(classes),
        "submitted": chance.randint(-20, 0),
    }
    if work["class"].endswith("-80g") and chance.random() < 0.15:
        profile = chance.choice(["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"])
        work |= {"migProfile": profile, "units": chance.randint(1, 2)}
    else:
        work["gpus"] = chance.choice([0.25, 0.5, 0.125, 1, 1, 1, 2, 2, 2, 4, 4, 8])
    work |= _wish(
        chance,
        workers=(0.35, [2, 3, 4]),
        cpuMilli=(0.3, [500, 2000, 5000]),
        memoryMib=(0.3, [8, 40]),
        priority=(0.7, [0, 1, 2, 3]),
        expectedDuration=(0.7, [5, 30, 100, 400]),
        preempts=(0.2, [False]),
        preemptible=(0.2, [False]),
        minRuntime=(0.2, [5, 60]),
        topology=(
            0.2,
            [{"level": at, "mode": m} for at in ("rack", "block") for m in ("required", "preferred")],
        ),
        avoid=(0.1, [[other] for other in names if other != name]),
        sites=(0.1, [[site] for site in (*sites, "gone1")]),
    )
    if chance.random() < 0.2:
        work["minWorkers"] = chance.randint(1, work.get("workers", 1))
    return work
