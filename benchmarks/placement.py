"""How much of a fleet a placement policy fills: the method of "Beware of Fragmentation" (ATC 2023).

Tasks are sampled from a published list until they ask for 1.3 times the fleet's GPUs (or left out at
random until they do), shuffled, and arrive one by one; each is placed at once or fails for good;
nobody leaves. The figure is allocated GPU in percent of all GPU after the last arrival, the mean over
the seeds. Data: the OpenB trace (Alibaba clusterdata, Apache-2.0), given by path.

    windlass   the platform's own placement (core/scheduling/placement.py), as the scheduler calls it
    fgd        the paper's: where expected fragmentation, over the shapes of the list, grows least
    best-fit   the node that is left with least CPU and GPU, weighted equally; a share on the tightest GPU
    random     any node that fits, any GPU of it

`--mix known` tells windlass the list beforehand, as FGD must be told; `--mix learned` lets it learn from the
arrivals alone, as it does in production.

A task that names several models may use any of them. The engine's word for "one of these" is a site,
so here a node's model is its site.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import spending
from benchmarks.placing import POLICIES, Place
from benchmarks.reporting import Report, parser
from windlass.core.scheduling.mix import Mix, offer_of
from windlass.core.scheduling.model import Node, Shape
from windlass.core.scheduling.nodes import Fleet
from windlass.core.units import GPU, MilliGpu

ASKED_OF_FLEET = 1.3
CLASS = "openb"


@dataclass(frozen=True, slots=True)
class Run:
    allocated: float  # percent
    placed: int
    arrived: int


def measure(
    nodes: tuple[Node, ...],
    tasks: list[Shape],
    policy: str,
    seeds: list[int],
    settings: dict[str, object],
    *,
    learn: bool = False,
) -> Report:
    report = Report("placement", {"policy": policy, **settings})
    began = time.perf_counter()
    with spending() as spent:
        runs = {seed: one_run(nodes, tasks, POLICIES[policy](tasks), seed, learn=learn) for seed in seeds}
    seconds = time.perf_counter() - began
    mean = sum(run.allocated for run in runs.values()) / len(runs)
    arrived = sum(run.arrived for run in runs.values())
    report.add("mean", f"placement, {policy}: GPUs allocated", mean, "%")
    report.add("cpuUs", f"placement, {policy}: CPU per arrival", spent.cpu_s / arrived * 1e6, "us")
    report.add("secondsPerSeed", f"placement, {policy}: one run", seconds / len(seeds), "s")
    report.extra = {
        "policy": policy,
        "mean": round(mean, 3),
        "perSeed": {str(seed): round(run.allocated, 3) for seed, run in runs.items()},
        "seconds": round(seconds, 2),
    }
    return report


def one_run(nodes: tuple[Node, ...], tasks: list[Shape], place: Place, seed: int, *, learn: bool) -> Run:
    chance = random.Random(seed)
    mix = Mix() if learn else Mix(Counter(offer_of(shape) for shape in tasks))
    fleet = Fleet(nodes, {CLASS: mix})
    capacity = sum(node.gpus for node in nodes) * GPU
    arrivals = arrivals_of(tasks, ASKED_OF_FLEET * capacity, chance)
    allocated = placed = 0
    for shape in arrivals:
        if learn:
            mix.note(shape)
        placement = place(fleet, shape, chance)
        if placement is None:
            continue
        taken = sum(amount for take in fleet.take(shape, placement) for _, amount, *_ in take.gpus)
        assert taken == shape.gpus, "what a policy gives is there"
        allocated += taken
        placed += 1
    return Run(allocated * 100 / capacity, placed, len(arrivals))


def arrivals_of(tasks: list[Shape], wanted: float, chance: random.Random) -> list[Shape]:
    arrivals = list(tasks)
    chance.shuffle(arrivals)
    asked: int = sum(shape.gpus for shape in arrivals)
    while asked > wanted:
        asked -= arrivals.pop().gpus
    while asked < wanted:
        arrivals.append(chance.choice(tasks))
        asked += arrivals[-1].gpus
    chance.shuffle(arrivals)
    return arrivals


def read_nodes(path: Path, limit: int | None) -> tuple[Node, ...]:
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))[:limit]
    return tuple(
        Node(
            name=row["sn"],
            gpu_class=CLASS,
            gpus=int(row["gpu"]),
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row["memory_mib"]),
            site=row["model"],
        )
        for row in rows
        if int(row["gpu"])
    )


def read_tasks(path: Path) -> list[Shape]:
    with path.open(newline="") as lines:
        return [_task(row) for row in csv.DictReader(lines)]


def _task(row: dict[str, str]) -> Shape:
    count, milli = int(row["num_gpu"]), int(row["gpu_milli"] or 0)
    shared = count == 1 and milli < GPU
    return Shape(
        queue="all",
        gpu_class=CLASS,
        gpus=MilliGpu(count * milli),
        unit=MilliGpu(milli if shared else GPU),
        sharing="time-slice" if shared else "dedicated",
        cpu_milli=int(row["cpu_milli"]),
        memory_mib=int(row["memory_mib"]),
        sites=tuple(part for part in row["gpu_spec"].split("|") if part),
    )


def seeds_of(text: str) -> list[int]:
    """`42-51`, `42` or `42,45-47`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            seeds += range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text} is not like 42-51") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text} holds no seed")
    return seeds


def arguments() -> argparse.ArgumentParser:
    made = parser("placement", __doc__)
    made.add_argument("--nodes", type=Path, required=True, metavar="CSV", help="sn, cpu_milli, memory_mib, …")
    made.add_argument(
        "--tasks", type=Path, required=True, metavar="CSV", help="name, cpu_milli, …, num_gpu, …"
    )
    made.add_argument("--seeds", type=seeds_of, default=seeds_of("42-51"), help="42-51 unless told otherwise")
    made.add_argument("--policy", choices=tuple(POLICIES), default="windlass")
    made.add_argument(
        "--mix",
        choices=("known", "learned"),
        default="known",
        help="what windlass knows beforehand",
    )
    made.add_argument(
        "--limit", type=int, metavar="N", help="only the first N nodes: quicker, another figure"
    )
    return made


def main() -> int:
    asked = arguments().parse_args()
    absent = [str(path) for path in (asked.nodes, asked.tasks) if not path.is_file()]
    if absent:
        why = f"{' and '.join(absent)}: not here; benchmarks/README.md says where the data is from"
        print(json.dumps({"policy": asked.policy, "skipped": why}) if asked.json else f"skipped: {why}")
        return 0
    nodes, tasks = read_nodes(asked.nodes, asked.limit), read_tasks(asked.tasks)
    settings = {"tasks": asked.tasks.name, "nodes": len(nodes), "seeds": len(asked.seeds), "mix": asked.mix}
    learn = asked.mix == "learned"
    report = measure(nodes, tasks, asked.policy, asked.seeds, settings, learn=learn)
    return report.tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
