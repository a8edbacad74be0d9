"""What the API says of defragmentation: which moves would free which hole, at what cost. Part of `api`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.contracts.wire import Wire


class PlacedWorker(Wire, frozen=True, kw_only=True):
    worker: int
    node: str
    gpus: list[int]


class WantedTopology(Wire, frozen=True, kw_only=True):
    level: str
    mode: str


class WantedHole(Wire, frozen=True, kw_only=True):
    """So many GPUs for each of so many workers."""

    gpu_class: str = msgspec.field(name="class")
    gpus: str
    workers: int
    topology: WantedTopology | None = None


class DefragMove(Wire, frozen=True, kw_only=True):
    """A whole gang, stopped and started again elsewhere. Lost is the GPU time since its last checkpoint, or
    since it started; work that saves itself when it is told to go loses less."""

    workload: str
    source: list[PlacedWorker] = msgspec.field(name="from")
    to: list[PlacedWorker]
    lost_gpu_hours: str
    restarted_workers: int


class DefragProposal(Wire, frozen=True, kw_only=True):
    """A plan, named by its digest; or `why` there is none, and then no moves. `for` is null for a hole that
    the asker named."""

    component: str | None = msgspec.field(name="for")
    wanted: WantedHole
    digest: str
    hole: list[PlacedWorker]
    moves: list[DefragMove]
    lost_gpu_hours: str
    restarted_workers: int
    why: str


class DefragProposals(Wire, frozen=True, kw_only=True):
    """Each as if it were the only one."""

    items: list[DefragProposal]


class DefragRequest(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Carry out the plan for this component (project/env/name) that has this digest."""

    component: Annotated[str, Meta(min_length=5, max_length=200)]
    digest: Annotated[str, Meta(min_length=1, max_length=64)]
