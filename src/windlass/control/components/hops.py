"""A submit's own hops as spans: its admission (load, decide, write) and the commit that makes it durable.
Nothing is timed while nobody traces."""

from __future__ import annotations

from typing import TypeVar

from windlass.contracts import api
from windlass.control.db.port import Tx, Work
from windlass.runtime.tracing import Span, Trace, Tracer, now_ns

T = TypeVar("T")


class Hops:
    def __init__(self, tracer: Tracer, trace: Trace | None, path: str) -> None:
        self._tracer = tracer
        self._trace = trace
        self._path = path
        self._began_ns = self._decided_ns = 0

    def timed(self, unit: Work[T]) -> Work[T]:
        """The unit of work, with the times it began and was done; what follows is the commit."""
        if self._trace is None:
            return unit

        async def watched(tx: Tx) -> T:
            self._began_ns = now_ns()
            try:
                return await unit(tx)
            finally:
                self._decided_ns = now_ns()

        return watched

    def tell(self, decision: api.Decision | None) -> None:
        """After the commit. Without a decision nothing changed, and there is nothing to tell."""
        if self._trace is None or decision is None:
            return
        facts: dict[str, str | int | bool] = {"windlass.component": self._path}
        decided = {**facts, "windlass.decision": decision.id, "windlass.verdict": decision.verdict}
        admission = self._trace.child("admission", self._path)
        commit = self._trace.child("commit", self._path)
        self._tracer.record(Span("admission", admission, self._began_ns, self._decided_ns, decided))
        self._tracer.record(Span("store commit", commit, self._decided_ns, now_ns(), facts))
