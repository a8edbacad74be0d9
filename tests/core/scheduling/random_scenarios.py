"""Random small worlds in the words of contract §8: everything a scenario can say, in odd combinations."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.core.scheduling.judged_quota import WHOLE, unit_of

Doc = dict[str, Any]


def scenario(seed: int) -> Doc:
    chance = Random(seed)
    classes = ["h100", "h100", "l40s"] if chance.random() < 0.2 else ["h100"]
    sites = ["s1", "s2"] if chance.random() < 0.25 else ["local"]
    nodes = [_node(chance, number, classes, sites) for number in range(chance.randint(1, 4))]
    quotas: list[Doc] = []
    _quotas(chance, quotas, "", chance.randint(0, 2), classes, rich=chance.random() < 0.5)
    parents = {quota.get("parent") for quota in quotas}
    leaves = [quota["name"] for quota in quotas if quota["name"] not in parents]
    count = chance.randint(1, chance.choice([9, 9, 20]))
    works = [_workload(chance, number, count, leaves, classes, sites) for number in range(count)]
    known = {entry["class"] for entry in [*nodes, *(it for q in quotas for it in q.get("gpus", []))]}
    for work in works:
        work["class"] = work["class"] if work["class"] in known else min(known)
    start_some(chance, nodes, works)
    _shrink(Random(f"small {seed}"), works)
    _set_apart(Random(f"apart {seed}"), works, [quota["name"] for quota in quotas])
    options = {name: False for name in ("fairShare", "preemption", "backfill") if chance.random() < 0.2}
    return {"now": 0, "options": options, "nodes": nodes, "quotas": quotas, "workloads": works}


def _shrink(chance: Random, works: list[Doc]) -> None:
    """Some elastic gangs run with fewer workers than they want."""
    for work in works:
        if "running" in work and "minWorkers" in work and chance.random() < 0.5:
            work["running"]["on"] = work["running"]["on"][: work["minWorkers"]]


def _set_apart(chance: Random, works: list[Doc], quotas: list[str]) -> None:
    """Some want no other tenant beside them, some name one, in a few worlds."""
    if chance.random() < 0.25:
        for work in works:
            work.update(_some(chance, {"dedicated": (0.3, [True])}))
            if chance.random() < 0.1:
                work["avoid"] = [*work.get("avoid", []), chance.choice(quotas)]


def _some(chance: Random, wishes: dict[str, tuple[float, list[Any]]]) -> Doc:
    """Each field with its likelihood, one of its values."""
    return {
        name: chance.choice(values) for name, (likely, values) in wishes.items() if chance.random() < likely
    }


def _node(chance: Random, number: int, classes: list[str], sites: list[str]) -> Doc:
    return {
        "name": f"n{number}",
        "class": chance.choice(classes),
        "gpus": chance.choice([1, 2, 4, 8]),
        "site": chance.choice(sites),
        **_some(
            chance,
            {
                "cpuMilli": (0.4, [4000, 8000]),
                "memoryMib": (0.4, [100, 200]),
                "labels": (0.8, [{"rack": r, "block": b} for r in ("r1", "r2") for b in ("b1", "b2")]),
                "state": (0.15, ["draining", "unverified", "down"]),
                "pricePerGpuHour": (0.2, ["1.99", "2.49"]),
            },
        ),
    }


def _quotas(
    chance: Random, quotas: list[Doc], parent: str, depth: int, classes: list[str], *, rich: bool
) -> dict[str, int]:
    """Grows a part of the tree; returns what it is guaranteed by class."""
    together: dict[str, int] = {}
    for number in range(chance.randint(1, 3)):
        quota: Doc = {"name": f"{parent or 'q'}-{number}"}
        quota |= {"parent": parent} if parent else {}
        quota |= _some(chance, {"weight": (0.3, [0, 1, 2]), "pastUse": (0.2, [0, 1, 5])})
        quotas.append(quota)
        below: dict[str, int] = {}
        if depth and chance.random() < 0.6:
            below = _quotas(chance, quotas, quota["name"], depth - 1, classes, rich=rich)
        for gpu_class in sorted(set(classes)):
            if chance.random() < 0.9:
                guaranteed = below.get(gpu_class, 0) + chance.choice(
                    [4, 8, 16] if rich else [0, 0, 1, 2, 4, 8]
                )
                limit = {"class": gpu_class, "guaranteed": guaranteed}
                limit |= _some(chance, {"max": (0.3, [guaranteed + n for n in (0, 1, 2, 4, 8)])})
                limit |= _some(chance, {"lend": (0.4, [min(n, guaranteed) for n in (0, 1, 2, 4, 8)])})
                quota.setdefault("gpus", []).append(limit)
                below[gpu_class] = guaranteed
        for gpu_class, guaranteed in below.items():
            together[gpu_class] = together.get(gpu_class, 0) + guaranteed
    return together


def _workload(
    chance: Random, number: int, count: int, leaves: list[str], classes: list[str], sites: list[str]
) -> Doc:
    work: Doc = {
        "name": f"w{number}",
        "queue": chance.choice(leaves),
        "class": chance.choice(classes),
        "submitted": chance.randint(-10, 0),
    }
    if chance.random() < 0.1:
        work |= {"migProfile": chance.choice(["1g.10gb", "3g.40gb"]), "units": chance.randint(1, 3)}
    else:
        work["gpus"] = chance.choice([0.25, 0.333, 0.5, 1, 1, 1, 1, 2, 2, 2, 4, 4, 8, 16])
    work |= _some(
        chance,
        {
            "workers": (0.4, [1, 2, 3, 4]),
            "cpuMilli": (0.2, [1000, 3000, 9000]),
            "memoryMib": (0.2, [10, 90]),
            "priority": (0.5, [0, 1, 2]),
            "expectedDuration": (0.6, [5, 10, 100]),
            "preempts": (0.15, [False]),
            "preemptible": (0.2, [False]),
            "minRuntime": (0.2, [5, 50]),
            "topology": (
                0.2,
                [{"level": at, "mode": m} for at in ("rack", "block") for m in ("required", "preferred")],
            ),
            "avoid": (0.15, [[f"w{other}"] for other in range(count) if other != number] or [[]]),
            "sites": (0.15, [[site] for site in (*sites, "s9")]),
        },
    )
    if chance.random() < 0.2:
        work["minWorkers"] = chance.randint(1, work.get("workers", 1))
    return work


def start_some(chance: Random, nodes: list[Doc], works: list[Doc]) -> None:
    """Let some of the work run where there is room for it, whatever the quotas say."""
    free = {(node["name"], gpu): WHOLE for node in nodes for gpu in range(node["gpus"])}
    modes: dict[tuple[str, int], str] = {}
    hosts = {
        what: {node["name"]: node.get(what, 10**9) for node in nodes} for what in ("cpuMilli", "memoryMib")
    }
    share = chance.choice([0, 0.5, 0.8])
    for work in works:
        if chance.random() < share:
            on = _room(chance, work, nodes, free, modes, hosts)
            if on:
                work["running"] = {"since": chance.randint(-30, -1), "on": on}


def _room(
    chance: Random, work: Doc, nodes: list[Doc], free: dict[Any, int], modes: dict[Any, str], hosts: Doc
) -> list[Doc]:
    pieces, unit, mode = unit_of(work)
    mode = work.get("migProfile", mode)  # instances of one kind always lie beside each other
    left, shared = dict(free), dict(modes)
    spare = {what: dict(of_node) for what, of_node in hosts.items()}
    site = chance.choice(sorted({node["site"] for node in nodes}))
    able = [node for node in nodes if node["class"] == work["class"] and node["site"] == site]
    on: list[Doc] = []
    for _ in range(work.get("workers", 1)):
        for node in chance.sample(able, len(able)):
            name = node["name"]
            slots = [
                (name, gpu)
                for gpu in range(node["gpus"])
                if shared.get((name, gpu), mode) == mode
                for _ in range(left[name, gpu] // unit)
            ]
            if len(slots) >= pieces and all(spare[what][name] >= work.get(what, 0) for what in spare):
                taken = chance.sample(slots, pieces)
                on.append({"node": name, "gpus": [gpu for _, gpu in taken]})
                for key in taken:
                    left[key] -= unit
                    shared[key] = mode
                for what, of_node in spare.items():
                    of_node[name] -= work.get(what, 0)
                break
        else:
            return []
    free.update(left)
    modes.update(shared)
    hosts.update(spare)
    return on
