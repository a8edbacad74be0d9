"""One run: virtual time moves from tick to tick, and the engine decides exactly as it does in production.

    1. what has happened since the last tick becomes events: arrivals, ends, victims that are gone
    2. one cycle of the engine
    3. what it decided happens: work starts, grows, or is told to leave
    4. the measures look

A tick stands for the platform folding what arrives together into one cycle. Preempted work leaves after a
grace, keeps what it did up to its last checkpoint, and waits again with its age.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from windlass.core.scheduling.engine import State, cycle, foretell, new_state, wake_at
from windlass.core.scheduling.model import (
    Adopted,
    Event,
    NodesChanged,
    Outcome,
    PastUseChanged,
    QuotasChanged,
    Released,
    Submitted,
    Waiting,
)
from windlass.core.scheduling.past import PastUse, beyond_guarantees
from windlass.core.units import Ms
from windlass.sim.measures import Measures
from windlass.sim.world import Arrival, World

TICK = Ms(15_000)
GRACE = Ms(30_000)
CHECKPOINT_EVERY = Ms(30 * 60_000)
PAST_EVERY = Ms(10 * 60_000)
ESTIMATED_EVERY = 20
"""Of those that have to wait, one in so many is told an estimate, which is compared with what happens."""


@dataclass(slots=True)
class Job:
    """`left` is what is still to do, in milliseconds of one worker; `since` when this attempt began."""

    arrival: Arrival
    left: int
    workers: int = 0
    since: Ms = Ms(0)
    attempt: int = 0
    leaving: bool = False


@dataclass(slots=True)
class _Run:
    world: World
    measures: Measures
    state: State
    jobs: dict[str, Job] = field(default_factory=dict)
    due: list[tuple[Ms, int, str, str, int]] = field(default_factory=list)
    """When, a number that keeps order, what, of whom, and of which attempt."""
    number: int = 0

    def at(self, when: Ms, what: str, id: str = "", attempt: int = 0) -> None:
        self.number += 1
        heapq.heappush(self.due, (when, self.number, what, id, attempt))


def simulate(world: World, tick: Ms = TICK) -> Measures:
    run = _Run(world, Measures(world), new_state(world.options))
    events = _begin(run)
    now = world.since
    past = PastUse(now)
    next_arrival = 0
    while True:
        while next_arrival < len(world.arrivals) and world.arrivals[next_arrival].at <= now:
            events.append(_arrived(run, world.arrivals[next_arrival]))
            next_arrival += 1
        while run.due and run.due[0][0] <= now:
            events += _happened(run, *heapq.heappop(run.due)[2:], now)
        if now - past.at >= PAST_EVERY:
            past.advance(run.state, now)
            events.append(PastUseChanged(beyond_guarantees(world.quotas, past.averages)))
        run.state, outcome = cycle(run.state, events, now)
        _carry_out(run, outcome, now)
        _ask(run, events, now)
        run.measures.look(run.state, now)
        events = []
        upcoming = [
            when for when in (wake_at(run.state), run.due[0][0] if run.due else None) if when is not None
        ]
        if next_arrival < len(world.arrivals):
            upcoming.append(world.arrivals[next_arrival].at)
        if not upcoming or min(upcoming) > world.until:
            break
        now = Ms(max(now + tick, -(-(min(upcoming) - world.since) // tick) * tick + world.since))
        if now > world.until:
            break
    run.measures.close(run.state, world.until)
    return run.measures


def _begin(run: _Run) -> list[Event]:
    world = run.world
    events: list[Event] = [NodesChanged(world.nodes), QuotasChanged(world.quotas)]
    for work, ends in world.running:
        arrival = Arrival(work.id, work.submitted, work.shape, Ms(ends - work.since))
        workers = len(work.placement.workers)
        run.jobs[work.id] = Job(arrival, (ends - world.since) * workers, workers, world.since, 1)
        run.measures.was_running(work)
        run.at(ends, "end", work.id, 1)
        events.append(Adopted(work))
    return events


def _arrived(run: _Run, arrival: Arrival) -> Event:
    run.jobs[arrival.id] = Job(arrival, arrival.duration * arrival.shape.workers)
    run.measures.arrived(arrival)
    return Submitted(Waiting(arrival.id, arrival.shape, arrival.at))


def _happened(run: _Run, what: str, id: str, attempt: int, now: Ms) -> list[Event]:
    job = run.jobs.get(id)
    if job is None or job.attempt != attempt:
        return []
    if what == "end":
        del run.jobs[id]
        run.measures.ended(id, now)
        return [Released(id)]
    job.workers, job.leaving = 0, False
    job.attempt += 1
    run.measures.left(id, now)
    arrival = job.arrival
    return [Released(id), Submitted(Waiting(id, arrival.shape, arrival.at, now))]


def _carry_out(run: _Run, outcome: Outcome, now: Ms) -> None:
    for preempt in outcome.preempted:
        job = run.jobs[preempt.id]
        kept = (now - job.since) // CHECKPOINT_EVERY * CHECKPOINT_EVERY
        lost = (now - job.since - kept) * job.workers
        job.left -= kept * job.workers
        job.leaving = True
        run.measures.preempted(preempt, job.arrival, lost)
        run.at(Ms(now + GRACE), "leave", preempt.id, job.attempt)
    for admit in outcome.admitted:
        if admit.after:
            continue
        job = run.jobs[admit.id]
        job.attempt += 1
        job.workers, job.since = len(admit.placement.workers), now
        run.measures.started(job.arrival, admit.placement, now)
        _plan_end(run, job)
    for grow in outcome.grown:
        job = run.jobs[grow.id]
        job.left -= (now - job.since) * job.workers
        job.attempt += 1
        job.workers, job.since = len(grow.placement.workers), now
        run.measures.grew(job.arrival, grow.placement, now)
        _plan_end(run, job)


def _plan_end(run: _Run, job: Job) -> None:
    run.at(Ms(job.since + max(1, -(-job.left // job.workers))), "end", job.arrival.id, job.attempt)


def _ask(run: _Run, events: list[Event], now: Ms) -> None:
    for event in events:
        if isinstance(event, Submitted) and event.workload.id in run.state.lines.waiting:
            run.measures.waits += 1
            if run.measures.waits % ESTIMATED_EVERY == 0:
                told = foretell(run.state, event.workload.id, now)
                if told is not None:
                    run.measures.told(event.workload.id, told, now)
