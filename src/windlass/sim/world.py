"""What is simulated: a fleet, quotas, and the work that comes.

A world is described (a scenario, and perhaps a trace of arrivals) or made from a seed. The same seed makes
the same world on every machine.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import log

from windlass.core.scheduling.model import Limit, Node, Options, Quota, Running, Shape, Topology
from windlass.core.units import GPU, HOUR_MS, Micros, MilliGpu, Ms

CLASS = "h100-80g"
GPUS_PER_NODE = 8
NODES_PER_RACK, RACKS_PER_BLOCK = 8, 8
TIERS = {"firm": 100, "standard": 50, "spot": 0}
"""Priorities of the tiers a seeded world has; others are called by their number."""
_TENANTS = ("atlas", "borea", "cirrus", "delta")
_SIZES: tuple[tuple[float, float, int], ...] = (
    (0.20, 0.25, 1),
    (0.10, 0.5, 1),
    (0.30, 1, 1),
    (0.12, 2, 1),
    (0.12, 4, 1),
    (0.11, 8, 1),
    (0.03, 8, 2),
    (0.015, 8, 4),
    (0.005, 8, 8),
)
"""How likely, GPUs per worker, workers: much small work, and most of the GPU time in little large work."""
_TIER_SHARES = (("firm", 0.1), ("standard", 0.6), ("spot", 0.3))
_MEDIAN_MS, _SPREAD = 50 * 60_000, 1.1
_AT_LEAST = Ms(10 * 60_000)
_LONGEST = Ms(20 * HOUR_MS)


@dataclass(frozen=True, slots=True)
class Arrival:
    """Comes at `at` and then needs `duration` with all of its workers. What it says beforehand
    (`shape.expected`) may be wrong."""

    id: str
    at: Ms
    shape: Shape
    duration: Ms


@dataclass(frozen=True, slots=True)
class World:
    nodes: tuple[Node, ...]
    quotas: tuple[Quota, ...]
    arrivals: tuple[Arrival, ...]
    until: Ms
    options: Options = field(default_factory=Options)
    running: tuple[tuple[Running, Ms], ...] = ()  # and when each really ends
    since: Ms = Ms(0)
    origin: str = "described"
    facts: dict[str, object] = field(default_factory=dict)


def tier_of(shape: Shape) -> str:
    names = {priority: name for name, priority in TIERS.items()}
    return names.get(shape.priority, f"priority {shape.priority}")


def seeded(*, nodes: int, sites: int, hours: float, seed: int, load: float) -> World:
    """`load` is what is asked for in that time, as a part of what the fleet has."""
    chance = random.Random(seed)  # noqa: S311  # a simulation, not a secret
    until = Ms(round(hours * HOUR_MS))
    fleet = tuple(_node(number, nodes, sites) for number in range(nodes))
    quotas = _quotas(nodes * GPUS_PER_NODE)
    wanted = load * nodes * GPUS_PER_NODE * GPU * until
    arrivals: list[Arrival] = []
    while wanted > 0:
        arrival = _arrival(chance, until, len(arrivals))
        wanted -= arrival.shape.total * arrival.duration
        arrivals.append(arrival)
    arrivals.sort(key=lambda one: (one.at, one.id))
    facts: dict[str, object] = {"nodes": nodes, "sites": sites, "hours": hours, "seed": seed, "load": load}
    return World(fleet, quotas, tuple(arrivals), until, origin="seeded", facts=facts)


def _node(number: int, nodes: int, sites: int) -> Node:
    site = number * sites // nodes
    rack = number // NODES_PER_RACK
    return Node(
        f"node-{number:05}",
        CLASS,
        GPUS_PER_NODE,
        cpu_milli=GPUS_PER_NODE * 16_000,
        memory_mib=GPUS_PER_NODE * 131_072,
        labels={"rack": f"rack-{rack}", "block": f"block-{rack // RACKS_PER_BLOCK}"},
        site=f"site-{site + 1}",
        price=Micros(2_000_000 + 250_000 * site),
    )


def _quotas(gpus: int) -> tuple[Quota, ...]:
    """Four tenants of two projects, each guaranteed an eighth and free to borrow the rest."""
    quotas = [Quota("org")]
    for number, tenant in enumerate(_TENANTS):
        quotas.append(Quota(tenant, "org", weight=1 + number % 2))
        for project in ("research", "product"):
            share = MilliGpu(gpus * GPU // (2 * len(_TENANTS)))
            limit = Limit(share, MilliGpu(gpus * GPU))
            quotas.append(Quota(f"{tenant}/{project}", tenant, limits={CLASS: limit}))
    return tuple(quotas)


def _arrival(chance: random.Random, until: Ms, number: int) -> Arrival:
    # More comes by day than by night: a second look at the hour for those that come at night.
    at = chance.random() * until
    if not 8 <= at / HOUR_MS % 24 < 20 and chance.random() < 0.5:
        at = chance.random() * until
    _, gpus, workers = chance.choices(_SIZES, [size[0] for size in _SIZES])[0]
    tier = chance.choices([name for name, _ in _TIER_SHARES], [share for _, share in _TIER_SHARES])[0]
    # Large work runs longer.
    median = _MEDIAN_MS * (1 + log(max(1.0, gpus * workers)))
    duration = Ms(min(_LONGEST, max(30_000, round(chance.lognormvariate(log(median), _SPREAD)))))
    tenant = chance.choices(_TENANTS, (4, 2, 2, 1))[0]  # one asks for more than its part
    share, hungry = gpus < 1, chance.random() < 0.15
    amount = MilliGpu(round(gpus * GPU))
    shape = Shape(
        queue=f"{tenant}/{chance.choice(('research', 'product'))}",
        gpu_class=CLASS,
        gpus=amount,
        workers=workers,
        unit=amount if share else MilliGpu(GPU),
        sharing="time-slice" if share else "dedicated",
        cpu_milli=round(gpus * (16_000 if hungry else 12_000)),
        memory_mib=round(gpus * 98_304),
        priority=TIERS[tier],
        preempts=tier == "firm",
        min_runtime=_AT_LEAST,
        expected=_stated(chance, duration),
        topology=Topology("block") if workers > 1 else None,
    )
    return Arrival(f"{shape.queue}/job-{number:06}", Ms(round(at)), shape, duration)


def _stated(chance: random.Random, duration: Ms) -> Ms | None:
    """What people say: one in ten nothing, the others a round number of hours, mostly too many."""
    if chance.random() < 0.1:
        return None
    hours = duration / HOUR_MS * chance.uniform(1.0, 2.0)
    for round_number in (0.25, 0.5, 1, 2, 4, 8, 12, 24, 48):
        if hours <= round_number:
            return Ms(round(round_number * HOUR_MS))
    return Ms(48 * HOUR_MS)
