"""The words the scheduling engine speaks: nodes, quotas, workloads, events in, decisions out.

All times are milliseconds, all GPU amounts thousandths. The engine never reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from windlass.core.units import Micros, MilliGpu, Ms

NodeState = Literal["ready", "draining", "unverified", "down"]
SharingMode = Literal["dedicated", "mig", "time-slice"]
TopologyMode = Literal["required", "preferred"]

Cause = Literal[
    "hold",
    "policy",
    "budget",
    "entitlement",
    "site",
    "quota",
    "capacity",
    "fragmentation",
    "priority",
    "starting",
]
CAUSE_ORDER: tuple[Cause, ...] = (
    "hold",
    "policy",
    "budget",
    "entitlement",
    "site",
    "quota",
    "capacity",
    "fragmentation",
    "priority",
    "starting",
)
PreemptionReason = Literal["reclaim", "priority", "fair-share", "defragmentation"]


@dataclass(frozen=True, slots=True)
class Node:
    """`cpu_milli` or `memory_mib` of None: not counted on this node. `price` is micros per GPU hour."""

    name: str
    gpu_class: str
    gpus: int
    cpu_milli: int | None = None
    memory_mib: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    site: str = "local"
    state: NodeState = "ready"
    price: Micros = Micros(0)


@dataclass(frozen=True, slots=True)
class Limit:
    """One class in one quota node. `None` for max: no ceiling; for lend: all that is unused."""

    guaranteed: MilliGpu = MilliGpu(0)
    max: MilliGpu | None = None
    lend: MilliGpu | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """A node of the quota tree. A class absent from `limits` here and on every ancestor is not entitled.
    `past_use` is what it and all below it had lately, decayed: thousandths of a GPU, of any class."""

    name: str
    parent: str | None = None
    weight: int = 1
    past_use: int = 0
    limits: Mapping[str, Limit] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Topology:
    level: str
    mode: TopologyMode = "preferred"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a workload needs and how it may be treated. Equal shapes in one queue stand in one line.

    `gpus` is per worker, in thousandths of a GPU of the class, sharing already multiplied in.
    A share (below 1000, or `units` shares of `unit` each) sits on one GPU per unit.
    `min_workers` below `workers` makes the gang elastic: it starts with those and grows with what is left.
    `avoid` names work, or parts of the quota tree; `dedicated` wants no other tenant on its nodes.
    `mig_profile` names the kind of MIG instance each unit is; without it only the share counts.
    `movable`: where it may be preempted, it may also be stopped to start again at another place at once.
    """

    queue: str
    gpu_class: str
    gpus: MilliGpu
    workers: int = 1
    unit: MilliGpu = MilliGpu(1000)
    sharing: SharingMode = "dedicated"
    cpu_milli: int = 0
    memory_mib: int = 0
    priority: int = 0
    preempts: bool = True
    preemptible: bool = True
    min_runtime: Ms = Ms(0)
    expected: Ms | None = None
    topology: Topology | None = None
    sites: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    min_workers: int | None = None
    dedicated: bool = False
    mig_profile: str | None = None
    movable: bool = False

    @property
    def fewest(self) -> int:
        """The smallest number of workers it starts with."""
        return self.workers if self.min_workers is None else self.min_workers

    @property
    def needed(self) -> int:
        """What it has to have to start, all workers together."""
        return self.gpus * self.fewest

    @property
    def total(self) -> MilliGpu:
        return MilliGpu(self.gpus * self.workers)


@dataclass(frozen=True, slots=True)
class WorkerPlacement:
    worker: int
    node: str
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    workers: tuple[WorkerPlacement, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """`submitted` gives its place in the order; `queued`, since when it waits this time (after a
    preemption it keeps its place, but waits anew)."""

    id: str
    shape: Shape
    submitted: Ms
    queued: Ms | None = None

    @property
    def began(self) -> Ms:
        return self.submitted if self.queued is None else self.queued


@dataclass(frozen=True, slots=True)
class Running:
    """Holds GPUs: admitted, starting, running, or on its way out (`stopping`). What it did since its
    `last_checkpoint`, or else since it started, is lost when it has to go."""

    id: str
    shape: Shape
    submitted: Ms
    since: Ms
    placement: Placement
    stopping: bool = False
    last_checkpoint: Ms | None = None


# --- events in --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submitted:
    """New, or back again after a preemption or for a retry."""

    workload: Waiting


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Left the queue without having run (cancelled while waiting)."""

    id: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """Holds its GPUs still, but has been told to go."""

    id: str


@dataclass(frozen=True, slots=True)
class Released:
    """Its GPUs are free again."""

    id: str


@dataclass(frozen=True, slots=True)
class Adopted:
    """Work that holds GPUs already: at start-up, after the fleet and the quotas were told."""

    running: Running


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """The whole fleet as it is now."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class QuotasChanged:
    """The whole quota tree as it is now."""

    quotas: tuple[Quota, ...]


@dataclass(frozen=True, slots=True)
class PastUseChanged:
    """What each quota node had lately, as told anew: in place of the `past_use` of its quota. It changes
    who is next, so nothing that waits can start because of it."""

    use: Mapping[str, MilliGpu]


Event = Submitted | Withdrawn | Stopping | Released | Adopted | NodesChanged | QuotasChanged | PastUseChanged


# --- decisions out ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Admit:
    """Give it these GPUs. `after` names victims that must be gone first; while any is there, the
    workload is only promised them, and a later cycle admits it with an empty `after`."""

    id: str
    placement: Placement
    borrowed: MilliGpu
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preempt:
    id: str
    by: str
    reason: PreemptionReason


@dataclass(frozen=True, slots=True)
class Grow:
    """An elastic gang that runs gets more workers: `placement` is all of it, `borrowed` what it has borrowed
    for the new ones."""

    id: str
    placement: Placement
    borrowed: MilliGpu


@dataclass(frozen=True, slots=True)
class LineCause:
    """Why the line `line` of equal workloads waits, from `since` on. `remedy` and whether it can
    `never` run are told when asked for."""

    line: str
    cause: Cause
    also: tuple[Cause, ...]
    message: str
    since: Ms
    remedy: str = ""
    never: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one cycle decided. `causes` holds only what changed."""

    admitted: tuple[Admit, ...] = ()
    preempted: tuple[Preempt, ...] = ()
    causes: tuple[LineCause, ...] = ()
    grown: tuple[Grow, ...] = ()


# --- answers to questions ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Position:
    """Of the `of` workloads that wait for the same class, `ahead` come first."""

    ahead: int
    of: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """When it will probably start, and what the guess rests on."""

    starts: Ms
    low: Ms
    high: Ms
    basis: str


@dataclass(frozen=True, slots=True)
class Use:
    """What a queue holds of one class; `borrowed` is the part beyond every guarantee on its path."""

    used: MilliGpu
    borrowed: MilliGpu


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would happen to a workload submitted now: a placement (after victims), or a cause."""

    placement: Placement | None
    borrowed: MilliGpu = MilliGpu(0)
    after: tuple[str, ...] = ()
    cause: LineCause | None = None
    position: Position | None = None
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """`growth`: running elastic gangs get more workers; off where nobody can carry that out."""

    fair_share: bool = True
    preemption: bool = True
    backfill: bool = True
    growth: bool = True
