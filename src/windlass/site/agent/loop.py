"""The agent's story: observe, compare with what is wanted, act, report. For one site, for ever.

It acts on level, not on edges: every pass starts from what is there, so a lost hint, a crash or
an absent centre cost time and nothing else. While the centre is away the last desired state
holds; before the first one was heard nothing is started and, above all, nothing is stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import perf_counter

from windlass.contracts.agent import Desired, Link, NodeReport, Observation, SiteReport
from windlass.core.errors import Unavailable
from windlass.runtime.metrics import RECONCILE_SECONDS, WORKERS
from windlass.runtime.tracing import OFF, Tracer, now_ns
from windlass.site.agent.diff import Action, Ensure, Forget, Key, Stop, diff, key_of, to_report
from windlass.site.agent.hops import Hops
from windlass.site.orchestrators.port import Orchestrator

PERIOD_S = 30.0
BUSY_PERIOD_S = 5.0  # while something runs: a supervisor killed by force rings no bell
BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0
COALESCE_S = 0.02  # a gang of 64 rings many times within a moment
MAX_OBSERVATIONS = 500  # in one report

_LOG = logging.getLogger("windlass.site")


class AgentLoop:
    """`jitter` gives numbers from 0 up to 1, so that many agents do not come back in step."""

    def __init__(
        self,
        site: str,
        orchestrator: Orchestrator,
        link: Link,
        *,
        jitter: Callable[[], float],
        tracer: Tracer = OFF,
        period_s: float = PERIOD_S,
        busy_period_s: float = BUSY_PERIOD_S,
    ) -> None:
        self.site = site
        self._orchestrator = orchestrator
        self._link = link
        self._jitter = jitter
        self._tracer = tracer
        self._period_s, self._busy_period_s = period_s, busy_period_s
        self._hops = Hops(tracer, site)
        self._desired: Desired | None = None
        self._reported: dict[Key, Observation] = {}
        self._reported_nodes: tuple[NodeReport, ...] | None = None
        self._failures = 0
        self._busy = False

    async def run(self) -> None:
        """Until cancelled. Whatever runs on the site runs on."""
        while True:
            began = perf_counter()
            try:
                await self.converge()
                self._failures = 0
            except Unavailable as error:
                self._failures += 1
                if self._failures.bit_count() == 1:  # each time it has lasted twice as long: disks fill up
                    facts = {"site": self.site, "why": error.detail, "failures": self._failures}
                    _LOG.warning("the site is cut off", extra={"facts": facts})
            except Exception:  # a bug in one pass must not end the site; the next pass starts afresh
                self._failures += 1
                _LOG.exception("a pass failed", extra={"facts": {"site": self.site}})
            RECONCILE_SECONDS.labels("failed" if self._failures else "done").observe(perf_counter() - began)
            await self._wait()

    async def converge(self) -> None:
        """One pass. Raises `Unavailable` if centre or orchestrator was away for some of it."""
        centre = await self._hear()
        seen = await self._orchestrator.observe()
        actions = diff(self._desired, seen) if self._desired is not None else ()
        trouble = await self._act([action for action in actions if not isinstance(action, Forget)])
        if any(not isinstance(action, Forget) for action in actions):
            seen = await self._orchestrator.observe()
        self._busy = any(not observation.gone for observation in seen)
        WORKERS.labels(self.site).set(_running(seen))
        if centre is not None:
            raise centre
        await self._report(await self._orchestrator.nodes(), to_report(self._desired, seen))
        await self._act([action for action in actions if isinstance(action, Forget)])
        if trouble is not None:
            raise trouble

    async def _hear(self) -> Unavailable | None:
        """The newest desired state, or why there is none and the last one holds."""
        try:
            self._desired = await self._link.desired(self.site)
        except Unavailable as error:
            self._unsure()
            return error
        return None

    async def _act(self, actions: list[Action]) -> Unavailable | None:
        """Each on its own: one that cannot be done now does not hold up the others."""
        trouble = None
        for action in actions:
            try:
                match action:
                    case Ensure(assignment):
                        began_ns = now_ns() if self._tracer.on else 0
                        await self._orchestrator.ensure(assignment)
                        self._hops.started(assignment, began_ns)
                    case Stop(workload, attempt):
                        await self._orchestrator.stop(workload, attempt)
                    case Forget(workload, attempt):
                        await self._orchestrator.forget(workload, attempt)
                        self._reported.pop((workload, attempt), None)
            except Unavailable as error:
                trouble = error
            except Exception:
                # Which, and of what; an assignment whole would show its author's variables.
                _LOG.exception("an action failed", extra={"facts": {"site": self.site, **_named(action)}})
                trouble = Unavailable(f"{type(action).__name__} failed")
        return trouble

    async def _report(self, nodes: tuple[NodeReport, ...], seen: tuple[Observation, ...]) -> None:
        """What changed since the centre last heard of it. Nothing changed: nothing is sent."""
        there = {key_of(observation) for observation in seen}
        self._reported = {key: last for key, last in self._reported.items() if key in there}
        news = [one for one in seen if self._reported.get(key_of(one)) != one]
        fleet = nodes if nodes != self._reported_nodes else None
        try:
            while news or fleet is not None:
                batch, news = news[:MAX_OBSERVATIONS], news[MAX_OBSERVATIONS:]
                await self._link.report(SiteReport(site=self.site, nodes=fleet, observations=tuple(batch)))
                self._tell_hops(batch)
                self._reported |= {key_of(one): one for one in batch}
                if fleet is not None:
                    self._reported_nodes, fleet = fleet, None
        except Unavailable:
            self._unsure()
            raise

    def _tell_hops(self, batch: list[Observation]) -> None:
        """Of what the centre now knows and did not know before."""
        if not self._tracer.on or self._desired is None:
            return
        wanted = {key_of(one): one for one in self._desired.assignments}
        for seen in batch:
            assignment = wanted.get(key_of(seen))
            if assignment is not None and assignment.traceparent:
                self._hops.seen(assignment, seen, self._reported.get(key_of(seen)))

    def _unsure(self) -> None:
        """After trouble nobody knows what the centre has heard: say everything again."""
        self._reported.clear()
        self._reported_nodes = None

    async def _wait(self) -> None:
        """Until somebody says look, or by period; after trouble not before a growing pause."""
        generation = self._desired.generation if self._desired is not None else 0
        hints = [asyncio.ensure_future(self._orchestrator.changed())]
        if self._failures:
            timeout = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(self._failures - 1, 10))
            timeout *= 0.5 + 0.5 * self._jitter()
        else:
            timeout = self._busy_period_s if self._busy else self._period_s
            hints.append(asyncio.ensure_future(self._link.changed(self.site, generation)))
        try:
            done, _ = await asyncio.wait(hints, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                self._forget_reports_of_the_gone()
            if any(hint.exception() is not None for hint in done):
                # It cannot tell us when to look. Looking without a pause would be a busy loop.
                await asyncio.sleep(BACKOFF_FIRST_S * (0.5 + 0.5 * self._jitter()))
        finally:
            for hint in hints:
                hint.cancel()
            await asyncio.gather(*hints, return_exceptions=True)
        await asyncio.sleep(COALESCE_S)

    def _forget_reports_of_the_gone(self) -> None:
        """What is gone and still listed is said again by period: the centre may have missed it."""
        self._reported = {key: last for key, last in self._reported.items() if not last.gone}


def _running(seen: Sequence[Observation]) -> int:
    return sum(worker.state == "running" for one in seen if not one.gone for worker in one.workers)


def _named(action: Action) -> dict[str, object]:
    one = action.assignment if isinstance(action, Ensure) else action
    return {"action": type(action).__name__.lower(), "workload": one.workload, "attempt": one.attempt}
