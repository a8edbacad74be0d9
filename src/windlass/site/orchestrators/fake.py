"""An orchestrator in memory: it records what it was asked and fails when it is told to.

`FakeSite` is the world and survives; `FakeOrchestrator` is a view on it, as a restarted server
makes one. Nothing moves by itself: a test ends workers with `finish`, and lets stopped ones die
with `settle` (or at once, unless `slow`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec

from windlass.contracts.agent import (
    Assignment,
    NodeReport,
    Observation,
    WorkerObservation,
    WorkerState,
    other_placement,
)
from windlass.core.errors import NotFound, Unavailable
from windlass.site.orchestrators.port import CANCELLED, LOST, PEER_FAILED, LogChunk, failed, result

Key = tuple[str, int]
NO_COMMAND = "nothing to run: the component has no command"


@dataclass(slots=True)
class _Attempt:
    assignment: Assignment
    workers: dict[int, WorkerObservation] = field(default_factory=dict)
    stopping: str = ""
    failure: str = ""
    forgotten: bool = False
    output: dict[int, bytes] = field(default_factory=dict)


class FakeSite:
    """The world, and the switches a test turns.

    `refusals`: so many next calls raise `Unavailable`. `slow`: what is started stays `starting`,
    what is stopped stays, until `settle`.
    """

    def __init__(self, nodes: tuple[NodeReport, ...] = ()) -> None:
        self.nodes = nodes
        self.calls: list[tuple[str, str, int]] = []
        self.starts: list[tuple[str, int, int]] = []
        self.refusals = 0
        self.slow = False
        self.now_ms = 0
        self.attempts: dict[Key, _Attempt] = {}
        self.rung = asyncio.Event()

    def finish(self, workload: str, attempt: int, worker: int, exit_code: int) -> None:
        self._end(self.attempts[workload, attempt], worker, "exited", exit_code, "")

    def lose(self, workload: str, attempt: int, worker: int) -> None:
        self._end(self.attempts[workload, attempt], worker, "lost", None, LOST)

    def say(self, workload: str, attempt: int, worker: int, output: bytes) -> None:
        written = self.attempts[workload, attempt].output
        written[worker] = written.get(worker, b"") + output

    def settle(self) -> None:
        """Let everything that is on its way arrive."""
        for attempt in self.attempts.values():
            for index, worker in list(attempt.workers.items()):
                if attempt.stopping and worker.state in ("starting", "running"):
                    self._end(attempt, index, "exited", 143, attempt.stopping)
                elif worker.state == "starting":
                    attempt.workers[index] = msgspec.structs.replace(worker, state="running")
        self.rung.set()

    def _end(
        self, attempt: _Attempt, worker: int, state: WorkerState, exit_code: int | None, detail: str
    ) -> None:
        attempt.workers[worker] = msgspec.structs.replace(
            attempt.workers[worker], state=state, exit_code=exit_code, detail=detail, ended_ms=self.now_ms
        )
        gang = attempt.assignment.kind == "job"
        if gang and not attempt.stopping and failed(attempt.workers[worker]):
            attempt.stopping = PEER_FAILED
            if not self.slow:
                self.settle()
        self.rung.set()


class FakeOrchestrator:
    def __init__(self, site: FakeSite) -> None:
        self.site = site

    async def nodes(self) -> tuple[NodeReport, ...]:
        return self.site.nodes

    async def ensure(self, assignment: Assignment) -> None:
        key = self._called("ensure", assignment.workload, assignment.attempt)
        attempt = self.site.attempts.get(key)
        if attempt is not None and other_placement(attempt.assignment, assignment):
            if not self._seen(key, attempt).gone:
                return
            attempt = None
        if attempt is None:
            failure = "" if assignment.command else NO_COMMAND
            attempt = self.site.attempts[key] = _Attempt(assignment, failure=failure)
            if assignment.known_to_run:
                self._lost(attempt)
        attempt.forgotten = False
        if attempt.failure or attempt.stopping:
            return
        for worker in assignment.workers:
            if worker.index not in attempt.workers:
                self.site.starts.append((*key, worker.index))
                attempt.workers[worker.index] = WorkerObservation(
                    index=worker.index,
                    state="starting",
                    started_ms=self.site.now_ms,
                    port=None if assignment.kind == "job" else 20_000 + len(self.site.starts),
                )
        if not self.site.slow:
            self.site.settle()

    async def stop(self, workload: str, attempt: int) -> None:
        found = self.site.attempts.get(self._called("stop", workload, attempt))
        if found is not None and not found.stopping:
            found.stopping = CANCELLED
        if found is not None and not self.site.slow:
            self.site.settle()

    async def observe(self) -> tuple[Observation, ...]:
        self._called("observe", "", 0)
        return tuple(
            self._seen(key, attempt)
            for key, attempt in sorted(self.site.attempts.items())
            if not attempt.forgotten
        )

    async def forget(self, workload: str, attempt: int) -> None:
        key = self._called("forget", workload, attempt)
        found = self.site.attempts.get(key)
        if found is not None and self._seen(key, found).gone:
            found.forgotten = True

    async def changed(self) -> None:
        await self.site.rung.wait()
        self.site.rung.clear()

    async def read_log(
        self, workload: str, attempt: int, worker: int, *, offset: int = 0, limit: int = 1 << 20
    ) -> LogChunk:
        found = self.site.attempts.get((workload, attempt))
        if found is None:
            raise NotFound(f"there is no log of {workload}, attempt {attempt}")
        output = found.output.get(worker, b"")
        start = max(0, len(output) + offset) if offset < 0 else offset
        return LogChunk(output[start : start + limit], start)

    async def follow_log(
        self, workload: str, attempt: int, worker: int, *, offset: int = 0
    ) -> AsyncIterator[LogChunk]:
        while True:
            over = self.site.attempts[workload, attempt].workers[worker].ended_ms is not None
            while (chunk := await self.read_log(workload, attempt, worker, offset=offset)).data:
                offset = chunk.next_offset
                yield chunk
            if over:
                return
            await asyncio.sleep(0)

    def _lost(self, attempt: _Attempt) -> None:
        at = attempt.assignment.placed_ms or self.site.now_ms
        for worker in attempt.assignment.workers:
            lost = WorkerObservation(index=worker.index, state="lost", ended_ms=at, detail=LOST)
            attempt.workers[worker.index] = lost

    def _called(self, what: str, workload: str, attempt: int) -> Key:
        self.site.calls.append((what, workload, attempt))
        if self.site.refusals:
            self.site.refusals -= 1
            raise Unavailable("the fake refuses")
        return workload, attempt

    def _seen(self, key: Key, attempt: _Attempt) -> Observation:
        workers = tuple(worker for _, worker in sorted(attempt.workers.items()))
        never = () if attempt.failure or not attempt.stopping else attempt.assignment.workers
        workers += tuple(
            WorkerObservation(index=worker.index, state="exited", detail=attempt.stopping)
            for worker in never
            if worker.index not in attempt.workers
        )
        gone = bool(attempt.failure) or (
            len(workers) == len(attempt.assignment.workers)
            and all(worker.state in ("exited", "lost") for worker in workers)
        )
        exit_code, detail = result(workers) if gone and not attempt.failure else (None, "")
        return Observation(
            workload=key[0],
            attempt=key[1],
            workers=workers,
            gone=gone,
            failure=attempt.failure,
            remedy="give spec.command" if attempt.failure else "",
            exit_code=exit_code,
            detail=detail,
            placed_ms=attempt.assignment.placed_ms,
        )
