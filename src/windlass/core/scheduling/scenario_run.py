"""One cycle on a scenario, and its answer as contract §8 writes it: the same scenario, the same bytes."""

from __future__ import annotations

import json
from typing import Any

from windlass.core.errors import NotFound
from windlass.core.scheduling.causes import explain
from windlass.core.scheduling.cycle import cycle, keep_promises
from windlass.core.scheduling.defrag import NoPlan, Plan, fragmented, plan_for, plan_hole
from windlass.core.scheduling.estimate import estimate, estimates
from windlass.core.scheduling.events import apply
from windlass.core.scheduling.fit import quota_allows
from windlass.core.scheduling.model import (
    Admit,
    Adopted,
    Event,
    Grow,
    NodesChanged,
    Outcome,
    Placement,
    Preempt,
    QuotasChanged,
    Released,
    Shape,
    Submitted,
    Waiting,
)
from windlass.core.scheduling.owed import forget_owed
from windlass.core.scheduling.questions import cause_of, position, running, usage
from windlass.core.scheduling.scenario import Scenario
from windlass.core.scheduling.state import State, new_state
from windlass.core.units import Ms, format_gpus


def decide(scenario: Scenario) -> dict[str, Any]:
    """What one cycle decides. Promised work counts as admitted, its victims as waiting again."""
    state, outcome, victims = _played(scenario)
    starts = {
        id: at
        for gpu_class in state.lines.by_class
        for id, at in estimates(state, gpu_class, scenario.now).items()
    }
    told = [
        _waiting(state, workload, victims.get(workload.id), starts, scenario.now)
        for workload in state.lines.waiting.values()
    ]
    return {
        "admitted": [_admitted(admit) for admit in outcome.admitted],
        "preempted": [
            {"workload": preempt.id, "for": preempt.by, "reason": preempt.reason}
            for preempt in outcome.preempted
        ],
        "waiting": sorted(told, key=_by_position),
        **({"grown": [_grown(grow) for grow in outcome.grown]} if outcome.grown else {}),
        "usage": {
            queue: {
                gpu_class: {"used": format_gpus(use.used), "borrowed": format_gpus(use.borrowed)}
                for gpu_class, use in classes.items()
            }
            for queue, classes in usage(state).items()
        },
    }


def propose(scenario: Scenario, wanted: str | Shape | None) -> list[Plan | NoPlan]:
    """What moving would free after that cycle: for one workload, for a hole, or (None) for everybody who
    waits because of fragmentation. Raises NotFound for a workload that does not wait then."""
    state, _, _ = _played(scenario)
    if wanted is None:
        found = (plan_for(state, id, scenario.now) for id in fragmented(state))
        return [one for one in found if one is not None]
    if isinstance(wanted, Shape):
        return [plan_hole(state, wanted, scenario.now)]
    plan = plan_for(state, wanted, scenario.now)
    if plan is None:
        raise NotFound(
            f"no workload {wanted} waits in this scenario after one cycle",
            remedy="`windlass schedule` shows who waits",
        )
    return [plan]


def _played(scenario: Scenario) -> tuple[State, Outcome, dict[str, Preempt]]:
    """One cycle, its victims gone and its promised work started."""
    events: list[Event] = [NodesChanged(scenario.nodes), QuotasChanged(scenario.quotas)]
    events += [Adopted(work) for work in sorted(scenario.running, key=lambda work: (work.since, work.id))]
    waiting = sorted(scenario.waiting, key=lambda workload: (workload.submitted, workload.id))
    events += [Submitted(workload) for workload in waiting]
    state, outcome = cycle(new_state(scenario.options), events, scenario.now)
    return state, outcome, _change_over(state, outcome, scenario.now)


def to_json(answer: dict[str, Any]) -> str:
    """Canonical: sorted keys, no spaces, one line."""
    return json.dumps(answer, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _change_over(state: State, outcome: Outcome, now: Ms) -> dict[str, Preempt]:
    """Let the victims go and the promised start, without a second cycle: nobody else moves."""
    leaving = {preempt.id: preempt for preempt in outcome.preempted}
    victims = [work for work in running(state) if work.id in leaving]
    for work in victims:
        apply(state, Released(work.id))
    keep_promises(state, now)
    for admit in outcome.admitted:
        state.held[admit.id] = state.held.pop(admit.id)  # who came last borrows: as they were admitted
    for work in victims:
        apply(state, Submitted(Waiting(work.id, work.shape, work.submitted)))
    for line in state.lines.by_shape.values():
        if quota_allows(state.pool(line.shape), line.shape):
            forget_owed(state, line)  # what the victims left is enough for what it was owed
    for line in state.lines.by_shape.values():
        explain(state, line, now)
    return leaving


def _admitted(admit: Admit) -> dict[str, Any]:
    return {
        "workload": admit.id,
        "borrowed": format_gpus(admit.borrowed),
        "after": list(admit.after),
        "placement": _placed(admit.placement),
    }


def _grown(grow: Grow) -> dict[str, Any]:
    """Not part of an answer in which nothing grew."""
    return {
        "workload": grow.id,
        "borrowed": format_gpus(grow.borrowed),
        "placement": _placed(grow.placement),
    }


def _placed(placement: Placement) -> list[dict[str, Any]]:
    return [
        {"worker": worker.worker, "node": worker.node, "gpus": list(worker.gpus)}
        for worker in placement.workers
    ]


def _waiting(
    state: State, workload: Waiting, preempted: Preempt | None, replayed: dict[str, Ms | None], now: Ms
) -> dict[str, Any]:
    cause = cause_of(state, workload.id, now)
    assert cause is not None, "whatever waits has a cause"
    place = position(state, workload.id)
    starts = now if cause.cause == "starting" else _starts(state, workload.id, replayed, now)
    note = "" if preempted is None else f"Preempted for {preempted.by} ({preempted.reason}). "
    return {
        "workload": workload.id,
        "cause": cause.cause,
        "also": list(cause.also),
        "message": note + cause.message,
        "remedy": cause.remedy,
        "ahead": None if place is None else place.ahead,
        "estimatedStart": None if starts is None else _seconds(starts),
    }


def _starts(state: State, id: str, replayed: dict[str, Ms | None], now: Ms) -> Ms | None:
    """From the one replay of the first in order; far behind them each gets its own coarse guess."""
    if id in replayed:
        return replayed[id]
    guess = estimate(state, id, now)
    return None if guess is None else guess.starts


def _by_position(entry: dict[str, Any]) -> tuple[bool, int, str]:
    ahead = entry["ahead"]
    return ahead is None, ahead or 0, entry["workload"]


def _seconds(at: Ms) -> int | float:
    return at // 1000 if at % 1000 == 0 else at / 1000
