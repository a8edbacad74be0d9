"""What a site does for an attempt, as spans below the cycle that placed it: start, running, ended.

Times are those the site saw, so a span is the same whenever it is told. An attempt that the centre knows to
run is not told of again by an agent that starts anew; one that is over and heard of has no assignment.
"""

from __future__ import annotations

from windlass.contracts.agent import Assignment, Observation
from windlass.runtime.tracing import Span, Tracer, now_ns, read_traceparent

_NS = 1_000_000  # in a millisecond

Facts = dict[str, str | int | bool]


class Hops:
    def __init__(self, tracer: Tracer, site: str) -> None:
        self._tracer = tracer
        self._site = site

    def started(self, assignment: Assignment, began_ns: int) -> None:
        """The orchestrator was asked to start it."""
        if self._tracer.on:
            self._record("site start", assignment, began_ns, now_ns(), {})

    def seen(self, assignment: Assignment, now: Observation, before: Observation | None) -> None:
        """What the centre was just told, beside what it was told last."""
        if not self._tracer.on:
            return
        began = [worker.started_ms for worker in now.workers if worker.started_ms is not None]
        knew = assignment.known_to_run or (before is not None and _runs(before))
        if began and not knew and (_runs(now) or now.gone):
            self._record("site running", assignment, min(began) * _NS, max(began) * _NS, {})
        if now.gone and not (before is not None and before.gone):
            ended = [worker.ended_ms for worker in now.workers if worker.ended_ms is not None]
            facts: Facts = {"windlass.exit_code": now.exit_code} if now.exit_code is not None else {}
            until = max(ended) * _NS if ended else now_ns()
            failure = now.failure or ("" if now.exit_code in (0, None) else f"exit code {now.exit_code}")
            self._record("site run", assignment, min(began) * _NS if began else until, until, facts, failure)

    def _record(
        self, name: str, assignment: Assignment, began: int, ended: int, facts: Facts, failure: str = ""
    ) -> None:
        place = read_traceparent(assignment.traceparent)
        if place is None:
            return
        told: Facts = {
            "windlass.site": self._site,
            "windlass.workload": assignment.workload,
            "windlass.attempt": assignment.attempt,
            **facts,
        }
        self._tracer.record(Span(name, place.child(name), began, ended, told, failure))


def _runs(seen: Observation) -> bool:
    return bool(seen.workers) and all(worker.state in ("running", "exited") for worker in seen.workers)
