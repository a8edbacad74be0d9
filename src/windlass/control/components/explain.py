"""Why: the one true cause of waiting, with position, estimate, remedy and a history without gaps.

The cause belongs to the line a workload stands in (equal shapes wait for the same reason); the
history is the line's causes cut to the times this workload was pending.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from windlass.contracts import api
from windlass.control.components.hearsay import heard, named
from windlass.control.components.steps import PREEMPTION
from windlass.control.db import components, line_causes, workloads
from windlass.control.db.port import Row, Tx
from windlass.control.db.workloads import WorkloadRecord
from windlass.control.identity.scopes import Scope
from windlass.control.sites import presence
from windlass.core.errors import NotFound
from windlass.core.lifecycle import HOLDING
from windlass.core.scheduling.engine import cause_of, estimate, position
from windlass.core.scheduling.model import LineCause
from windlass.core.units import Ms, format_timestamp

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

REMEDIES = {
    "entitlement": "ask for less, or for a larger envelope; as it is, it can never run",
    "site": "wait for the site to come back, or allow other sites in spec.placement.sites",
    "quota": "it starts when your own or borrowed GPUs come free; `windlass quota show` tells what is yours",
    "capacity": "it starts when enough GPUs of the class come free; fewer GPUs may start sooner",
    "fragmentation": "enough GPUs are free, but not together; smaller workers may start at once, and a "
    "platform-admin sees with `windlass defrag --plan` whether others could move",
    "priority": "it would fit, but would delay work ahead of it; a timeLimit lets it start in the gap",
    "budget": "wait for the next period, or ask for a larger budget",
    "starting": "the site is starting it",
}

NEVER = {
    "quota": "ask for fewer GPUs, or for larger envelopes: whatever ends, it cannot start; work that may not"
    " be preempted can borrow with `preemptible: true`; `windlass quota show` tells what is yours",
    "capacity": "ask for fewer GPUs or smaller workers: whatever ends, the nodes there are have no room",
    "fragmentation": "ask for smaller workers: whatever ends, the nodes there are have no place for it",
}
"""Of work that can never run under the present catalog and on the present nodes."""

PREEMPTIONS = {
    "reclaim": "a lender took back its guarantee",
    "priority": "work of higher priority needed its GPUs",
    "fair-share": "others were further below their fair share",
    "defragmentation": "it accepts moving, and its move made a place where others fit together",
}


_LISTENS = "127.0.0.1"
"""Where the services of a local site listen, the only kind of site so far."""

_OUT_OF_SIGHT = (
    "wait for the site: what happened there is told when it is back; if it never is, a platform-admin"
    " gives it up, and what may start again waits again"
)
"""Of work whose site is away."""

_UNSEEN = "starting"
"""Before a cycle has looked at it (a matter of milliseconds), nothing is in its way but the start."""


async def explain(plane: ControlPlane, scope: Scope, project: str, env: str, name: str) -> api.Explanation:
    async def load(
        tx: Tx,
    ) -> tuple[Row, WorkloadRecord | None, api.Decision | None, list[api.CauseSpan], bool]:
        row = await components.find(tx, project, env, name)
        if row is None:
            raise NotFound(f"there is no component {project}/{env}/{name}")
        run = await workloads.find(tx, row["workload"]) if row["workload"] else None
        stored = await components.decision(tx, row["decision"])
        decision = msgspec.json.decode(stored["body"], type=api.Decision) if stored is not None else None
        history = await pending_history(tx, run, plane.clock()) if run is not None else []
        away = run is not None and run.phase in HOLDING and run.site in await presence.away(tx)
        return row, run, decision, history, away

    row, run, decision, history, away = await plane.store.read(scope, load)
    path = f"{row['project']}/{row['env']}/{row['name']}"
    if run is None:
        return _rejected(path, decision)
    told = (
        _waiting(plane, scope, path, run, history)
        if run.phase == "Pending"
        else _settled(scope, path, run, history, plane)
    )
    if away:
        told = msgspec.structs.replace(told, message=told.message + _away(run), remedy=_OUT_OF_SIGHT)
    return msgspec.structs.replace(told, warnings=decision.warnings if decision is not None else [])


def waiting_reason(plane: ControlPlane, scope: Scope, path: str) -> api.StatusReason | None:
    cause = cause_of(plane.scheduler.state, path)
    if cause is None:
        return None
    return api.StatusReason(
        cause=cause.cause,
        message=heard(plane, scope, cause.message),
        remedy=_in_general(cause),
    )


async def pending_history(tx: Tx, run: WorkloadRecord, now: Ms) -> list[api.CauseSpan]:
    """Every second from submission until it ended: what it waited for, or that it ran."""
    entered = await workloads.transitions(tx, run.id, run.submitted)
    causes = await line_causes.since(tx, run.line, run.submitted)
    spans: list[tuple[str, int, int | None]] = []
    for index, (since, phase, _) in enumerate(entered):
        until = entered[index + 1][0] if index + 1 < len(entered) else None
        if phase == "Pending":
            spans += _cut(causes, since, now if until is None else until, open_ended=until is None)
        elif phase in HOLDING:
            spans.append(("running" if phase == "Running" else "starting", since, until))
    return [
        api.CauseSpan(
            cause=cause,
            since=format_timestamp(since),
            to=format_timestamp(until) if until is not None else None,
        )
        for cause, since, until in _merged(spans)
    ]


def _cut(
    causes: Sequence[Row], since: int, until: int, *, open_ended: bool
) -> list[tuple[str, int, int | None]]:
    """The line's causes between two instants."""
    spans: list[tuple[str, int, int | None]] = []
    at = since
    for index, row in enumerate(causes):
        begins = max(row["since_ms"], since)
        ends = causes[index + 1]["since_ms"] if index + 1 < len(causes) else until
        ends = min(ends, until)
        if ends <= begins and not (open_ended and index + 1 == len(causes)):
            continue
        if begins > at:
            spans.append((_UNSEEN, at, begins))
        spans.append((row["cause"], begins, ends))
        at = ends
    if at < until or (open_ended and not spans):
        spans.append((_UNSEEN if not spans else spans[-1][0], at, until))
    if open_ended and spans:
        cause, begins, _ = spans[-1]
        spans[-1] = (cause, begins, None)
    return spans


def _merged(spans: list[tuple[str, int, int | None]]) -> list[tuple[str, int, int | None]]:
    merged: list[tuple[str, int, int | None]] = []
    for cause, since, until in spans:
        if until is not None and until <= since:
            continue
        if merged and merged[-1][0] == cause and merged[-1][2] == since:
            merged[-1] = (cause, merged[-1][1], until)
        else:
            merged.append((cause, since, until))
    return merged


def _waiting(
    plane: ControlPlane, scope: Scope, path: str, run: WorkloadRecord, history: list[api.CauseSpan]
) -> api.Explanation:
    state = plane.scheduler.state
    cause, place = cause_of(state, path, plane.clock()), position(state, path)
    guess = estimate(state, path, plane.clock())
    return api.Explanation(
        component=path,
        phase=run.phase,
        cause=cause.cause if cause else "starting",
        also=list(cause.also) if cause else [],
        message=(heard(plane, scope, cause.message) if cause else "the scheduler is looking at it")
        + _preemptions(run),
        remedy=_remedy(plane, scope, cause),
        position=api.Position(ahead=place.ahead, of=place.of) if place else None,
        estimate=api.ExplanationEstimate(
            starts_at=format_timestamp(guess.starts),
            low=format_timestamp(guess.low),
            high=format_timestamp(guess.high),
            basis=guess.basis,
        )
        if guess
        else None,
        history=history,
        preempted_by=named(plane, scope, run.preempted_by) if run.preempted_by else None,
    )


def _remedy(plane: ControlPlane, scope: Scope, cause: LineCause | None) -> str:
    """What the engine found would help, and what can be done about such a cause in general."""
    if cause is None:
        return REMEDIES["starting"]
    general = _in_general(cause)
    if not cause.remedy:
        return general
    return f"{heard(plane, scope, cause.remedy)} {general[:1].upper()}{general[1:]}."


def _in_general(cause: LineCause) -> str:
    told = REMEDIES.get(cause.cause, "")
    return NEVER.get(cause.cause, told) if cause.never else told


def _settled(
    scope: Scope, path: str, run: WorkloadRecord, history: list[api.CauseSpan], plane: ControlPlane
) -> api.Explanation:
    starting = run.phase in ("Admitted", "Starting")
    if run.phase in HOLDING and run.want == "stop":
        message = "it is being stopped: " + (run.stop_reason or "its owner wants it gone")
        message += f", {_preempted_for(run)}" if run.stop_reason == "preempted" else ""
    elif run.phase in HOLDING:
        message = _held(run, "starts" if starting else "runs") + _preemptions(run)
    else:
        message = run.outcome.get("message", "")
    return api.Explanation(
        component=path,
        phase=run.phase,
        cause="starting" if starting else None,
        also=[],
        message=message,
        remedy=run.outcome.get("remedy", "") if not starting else REMEDIES["starting"],
        position=None,
        estimate=None,
        history=history,
        preempted_by=named(plane, scope, run.preempted_by) if run.preempted_by else None,
    )


def _held(run: WorkloadRecord, does: str) -> str:
    """Where it is, where a service listens, and what keeps ending."""
    nodes = sorted({worker.node for worker in run.placement.workers}) if run.placement else []
    workers = run.outcome.get("workers", [])
    ports = [worker["port"] for worker in workers if worker.get("port") is not None]
    told = [f"{does} on {', '.join(nodes)}"]
    if ports:
        told.append("listens on " + ", ".join(f"{_LISTENS}:{port}" for port in ports))
    for worker in workers:
        restarts = worker.get("restarts", 0)
        if restarts:
            ended = worker.get("detail", "").partition(",")[0] or "ended"
            often = "1 restart" if restarts == 1 else f"{restarts} restarts"
            told.append(f"worker {worker['index']} {ended}, {often}")
    return "; ".join(told)


def _away(run: WorkloadRecord) -> str:
    return f"; nothing has been heard of its site {run.site} for a while"


def _preemptions(run: WorkloadRecord) -> str:
    if not run.preemptions:
        return ""
    times = "once" if run.preemptions == 1 else f"{run.preemptions} times, the last time"
    return f" It was preempted {times}, {_preempted_for(run)}."


def _preempted_for(run: WorkloadRecord) -> str:
    reason = run.outcome.get(PREEMPTION, "")
    return f"because {PREEMPTIONS.get(reason, 'others came first')}" + (f" ({reason})" if reason else "")


_ORDER = ("policy", "budget", "entitlement")


def _cause_of(rule: str) -> str:
    """The word of an explanation for a rule of a decision."""
    head = rule.partition(".")[0]
    return head if head in _ORDER else "policy"


def _rejected(path: str, decision: api.Decision | None) -> api.Explanation:
    reasons = decision.reasons if decision else []
    found = {_cause_of(reason.rule) for reason in reasons} or {"policy"}
    cause, *also = (one for one in _ORDER if one in found)
    return api.Explanation(
        component=path,
        phase="Rejected",
        cause=cause,
        also=also,
        message="; ".join(reason.message for reason in reasons),
        remedy="; ".join(reason.remedy for reason in reasons),
        position=None,
        estimate=None,
        history=[],
        reasons=reasons,
    )
