"""One admitted component, as the compiler of every target sees it.

Everything is decided here: a target chooses nothing, it only writes down. What an author may not set
(namespace, queue, priority class, labels of attribution) is computed from this value alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from windlass.core.documents.kinds import HardwareProfile, Site
from windlass.core.documents.scalars import Workload
from windlass.core.scheduling.model import Topology
from windlass.core.units import Ms

Signal = Literal["TERM", "INT", "HUP", "USR1", "USR2"]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How work is told that it has to leave: the signal, and how long it may take to save itself."""

    signal: Signal
    grace: Ms


_TOLD_BY_PLATFORM = frozenset(
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
)


def told_by_platform(variable: str) -> bool:
    """Whether a variable is the platform's to set: who a worker is, which GPUs it sees. An author's value for
    one has no effect on any orchestrator."""
    return (
        variable in _TOLD_BY_PLATFORM
        or variable.startswith("WINDLASS_")
        or variable.endswith("_VISIBLE_DEVICES")
    )


@dataclass(frozen=True, slots=True)
class Work:
    """`workers` is the size of the gang, or the replicas a service starts with; `units` are of the profile,
    per worker. `nodes` has one name per worker where the platform's own queue placed it, and is empty
    where the site's queue will."""

    tenant: str
    project: str
    env: str
    name: str
    type: str  # name@version
    workload: Workload
    tier: str
    priority: int
    image: str
    units: int
    profile: str
    hardware: HardwareProfile
    site: str
    at: Site
    workers: int = 1
    most_workers: int = 1
    traits: tuple[str, ...] = ()  # name@version, sorted
    command: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a secret
    labels: Mapping[str, str] = field(default_factory=dict)
    preemptible: bool = False
    topology: Topology | None = None
    dedicated: bool = False
    checkpoint: Checkpoint | None = None
    time_limit: Ms | None = None
    retries: int = 0
    nodes: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        """One per cell: project plus env is short enough, and an env has no hyphen."""
        return f"{self.project}-{self.env}"

    @property
    def path(self) -> str:
        return f"{self.project}/{self.env}/{self.name}"

    @property
    def gpu_milli(self) -> int:
        """Thousandths of a GPU that one worker holds."""
        return self.units * self.hardware.share

    @property
    def cpu(self) -> int:
        return self.units * self.hardware.per_gpu.cpu

    @property
    def memory_gib(self) -> int:
        return self.units * self.hardware.per_gpu.memory_gib
