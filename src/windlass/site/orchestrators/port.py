"""The boundary between the agent and whatever executes work on a site.

What every adapter promises:

* An *attempt* (workload, attempt number) is started at most once, for ever, whatever dies when. A
  number that comes with another `placed_ms` is another attempt: the one before it has to be gone, is
  forgotten, and its result is never shown for the new one. What was known to run and has left no trace
  is lost, not started.
* What an attempt consists of (workers, GPUs, command) never changes; a change is a new attempt.
* `ensure` and `stop` are idempotent and return before their effect is complete; what became of
  them is seen in `observe`, never in their return value. Something that can never work (no
  command, a node that is not here) is a `failure` of the observation, not an exception.
* `observe` shows everything on the site, also what nobody asked for (a centre that lost its
  memory finds its orphans so). Once an attempt is `gone` its observation never changes again.
* `forget` removes a gone attempt from what `observe` shows. Its logs stay readable for a while.
* `changed` is a hint to look; it carries nothing, may come without a reason, and may get lost.

Errors, sorted by what the agent does:

    Unavailable  (core/errors)  the orchestrator or its disk is away: try again later
    Invalid                     an id or a request nobody may send: a bug of the caller
    NotFound                    logs of an attempt that was never here, or is long forgotten
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass.contracts.agent import (
    Assignment,
    NodeReport,
    Observation,
    WorkerObservation,
)

PEER_FAILED = "peer-failed"
CANCELLED = "cancelled"
TIME_LIMIT = "time-limit"
LOST = "lost"


class Orchestrator(Protocol):
    """Runs what it is told on the nodes it has."""

    async def nodes(self) -> tuple[NodeReport, ...]:
        """The fleet as it is now."""
        ...

    async def ensure(self, assignment: Assignment) -> None:
        """Start this attempt, or what is missing of it, unless it was started before."""
        ...

    async def stop(self, workload: str, attempt: int) -> None:
        """Begin to end the attempt: TERM, its grace period, KILL. Nothing there: nothing to do."""
        ...

    async def observe(self) -> tuple[Observation, ...]: ...

    async def forget(self, workload: str, attempt: int) -> None:
        """The centre has taken note that the attempt is gone. Not gone yet: nothing happens."""
        ...

    async def changed(self) -> None:
        """Return when something may have changed since the last `observe` began."""
        ...


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes of a worker's output (stdout and stderr, in order of arrival).

    `offset` is where they stand in everything the worker ever wrote. `dropped` bytes before them
    are no longer kept: the reader asked for more than the cap holds, or fell behind it.
    """

    data: bytes
    offset: int
    dropped: int = 0

    @property
    def next_offset(self) -> int:
        return self.offset + len(self.data)


class Logs(Protocol):
    """An ability some orchestrators have: the output of their workers."""

    async def read_log(
        self, workload: str, attempt: int, worker: int, *, offset: int = 0, limit: int = 1 << 20
    ) -> LogChunk:
        """At most `limit` bytes from `offset`. A negative offset counts from the end."""
        ...

    def follow_log(
        self, workload: str, attempt: int, worker: int, *, offset: int = 0
    ) -> AsyncIterator[LogChunk]:
        """Chunks as they come; ends when the worker has ended and everything was read."""
        ...


def failed(worker: WorkerObservation) -> bool:
    """It ended, and not as it should. Being stopped by a peer's failure is not a failure of its own."""
    if worker.state == "lost":
        return True
    if worker.state != "exited" or worker.detail in (PEER_FAILED, CANCELLED):
        return False
    return worker.exit_code != 0 or worker.detail == TIME_LIMIT


def result(workers: Sequence[WorkerObservation]) -> tuple[int | None, str]:
    """Exit code and detail of an attempt whose workers have all ended: the first failure's, else 0."""
    failures = [worker for worker in workers if failed(worker)]
    if failures:
        first = min(failures, key=lambda worker: (worker.ended_ms or 0, worker.index))
        return first.exit_code, first.detail
    stopped = [worker for worker in workers if worker.detail in (CANCELLED, PEER_FAILED)]
    if stopped:
        return stopped[0].exit_code, stopped[0].detail
    return 0, ""
