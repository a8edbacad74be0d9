"""What a site and the control plane say to each other: desired state down, observations up.

In one process these values are handed over as they are; between machines they travel on the wire.
Either side may be away: the site keeps what it was last told, the centre keeps what it last heard.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One worker of a gang, or one replica of a service: where it runs and on which GPUs."""

    index: int
    node: str
    gpus: tuple[int, ...]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A workload the site must have running (`run`), or must not have any more (`stop`).

    `attempt` grows with every start the platform decides on; a site starts an attempt at most once. A
    database put back to an earlier day decides on the same number again: `placed_ms` tells the two apart.
    """

    workload: str
    attempt: int
    want: Literal["run", "stop"]
    tenant: str
    project: str
    env: str
    component: str
    kind: Literal["job", "service", "interactive"]
    workers: tuple[WorkerSpec, ...]
    gpu_milli: int  # thousandths of each listed GPU this workload holds
    image: str = ""
    command: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    port: int | None = None  # what a service would like to listen on, inside its own network
    time_limit_ms: int | None = None
    grace_ms: int = 10_000
    signal: Literal["TERM", "INT", "HUP", "USR1", "USR2"] = "TERM"  # how it is told to leave
    working_dir: str = ""  # where a process runs; empty: a folder of its own, removed with the attempt
    traceparent: str = ""  # what placed this attempt, where the platform traces
    known_to_run: bool = False  # the centre has heard that every worker runs
    placed_ms: int | None = None  # when the platform decided on this attempt; None: it does not say

    def __repr__(self) -> str:
        """Without what its author gave it: that may hold a secret, and this may end up in a log."""
        return f"Assignment({self.workload}, attempt {self.attempt}, {self.want})"


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the site should hold. What is not in it should not be there."""

    generation: int
    assignments: tuple[Assignment, ...]


WorkerState = Literal["starting", "running", "exited", "lost"]


class WorkerObservation(msgspec.Struct, frozen=True, kw_only=True):
    """One worker. A worker that was never started is not listed, unless it never will be.

    An exit by signal n is exit code 128 + n. `detail` is one of `time-limit`, `cancelled`,
    `peer-failed` (another worker of the gang failed first), `lost`, or a sentence for people.
    """

    index: int
    state: WorkerState
    exit_code: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    port: int | None = None
    restarts: int = 0
    detail: str = ""  # why it ended, when the exit code alone does not say


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What the site sees of one attempt of one workload.

    `gone`: nothing of it is left on the site, its GPUs are free. `failure` and `remedy` are set
    when the attempt could not be started at all. Once it is gone, `exit_code` and `detail` are its
    result: those of the worker that failed first, else 0; a lost one has no exit code. A `detail`
    of `time-limit` is a failure whatever the exit code is.
    """

    workload: str
    attempt: int
    workers: tuple[WorkerObservation, ...] = ()
    gone: bool = False
    failure: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = ()  # for the author: "the image is not used", …; the same in every observation
    exit_code: int | None = None
    detail: str = ""
    placed_ms: int | None = None  # as in its assignment


def other_placement(one: Assignment | Observation, other: Assignment | Observation) -> bool:
    """The same attempt's number, given twice: by the database of now and by one of the past."""
    return None not in (one.placed_ms, other.placed_ms) and one.placed_ms != other.placed_ms


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    gpu_class: str
    gpus: int
    cpu_milli: int | None = None
    memory_mib: int | None = None
    labels: dict[str, str] = {}
    state: Literal["ready", "draining", "unverified", "down"] = "ready"
    simulated: bool = False


class SiteReport(msgspec.Struct, frozen=True, kw_only=True):
    """One message up: the fleet (None: unchanged) and what changed of the workloads."""

    site: str
    nodes: tuple[NodeReport, ...] | None = None
    observations: tuple[Observation, ...] = ()


class LogQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a worker's log is asked for. A negative offset counts from its end."""

    id: int = 0
    workload: str
    attempt: int
    worker: int
    offset: int
    limit: int

    def place(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("workload", "attempt", "worker", "offset", "limit")}


class LogQuestions(msgspec.Struct, frozen=True, kw_only=True):
    questions: tuple[LogQuestion, ...]


class LogAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """That part, from `offset` on; `dropped` bytes before it were cut away by the log's cap."""

    id: int
    data: bytes
    offset: int
    dropped: int = 0


class Link(Protocol):
    """How an agent reaches the centre. Raises `Unavailable` while the centre is away."""

    async def desired(self, site: str) -> Desired: ...

    async def report(self, report: SiteReport) -> None: ...

    async def changed(self, site: str, generation: int) -> None:
        """Return when the desired generation is above `generation` (or by some period)."""
        ...
