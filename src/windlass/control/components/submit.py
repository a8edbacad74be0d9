"""Submit: from a parsed intent to a stored decision and a waiting workload. The narrative.

    1. look        what is there; the same request again gets the same answer
    2. load        the run that is there, and the facts the rules need
    3. decide      core/admission: pure, every reason at once
    4. compare     unchanged? a live run that may not change so?
    5. write       decision, component, workload, budget hold, audit, event: one transaction
    6. answer      with the decision; the commit itself wakes the scheduler

`plan` is steps 2 to 4, read-only, plus what the engine would do with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from windlass.contracts import api
from windlass.control.components.facts import load_facts
from windlass.control.components.hops import Hops
from windlass.control.components.wire import decision_wire
from windlass.control.db import components, events, ledger, workloads
from windlass.control.db.idempotency import Answer, Once, keep
from windlass.control.db.port import Row, Tx
from windlass.control.db.workloads import WorkloadRecord
from windlass.control.identity.scopes import Scope
from windlass.core.admission.decide import AdmittedWork, Decided, decide
from windlass.core.catalog.snapshot import Catalog
from windlass.core.compiler.compile import RAW
from windlass.core.coverage import bare
from windlass.core.documents.shape import write
from windlass.core.errors import Conflict, StaleVersion
from windlass.core.intent import Intent
from windlass.core.scheduling.engine import line_of
from windlass.core.units import Ms
from windlass.runtime.metrics import DECISIONS, REFUSALS, RUNS
from windlass.runtime.tracing import Trace

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

_canonical = msgspec.json.Encoder(order="sorted", decimal_format="number").encode

# What may not change while a run is alive; the rest has an action of its own.
_FIXED = ("type", "image", "gpus", "workers", "profile")


@dataclass(frozen=True, slots=True)
class Submission:
    """One intent on its way in."""

    intent: Intent
    request_id: str
    once: Once | None = None
    expected_version: int | None = None
    rerun: bool = False
    trace: Trace | None = None  # the request's own span


async def submit(plane: ControlPlane, scope: Scope, submission: Submission) -> api.Result:
    """One intent, one transaction, one decision."""

    async def unit(tx: Tx) -> api.Result:
        existing, kept = await components.find_or_replay(tx, *_place(submission.intent), submission.once)
        if kept is not None:
            return msgspec.json.decode(kept.body, type=api.Result)
        result = await submit_in(tx, plane, submission, existing)
        status = 422 if result.outcome == "rejected" else 200
        body = msgspec.json.encode(result).decode()
        await keep(tx, submission.once, Answer(status, body), plane.clock())
        return result

    hops = Hops(plane.tracer, submission.trace, submission.intent.path)
    result = await plane.store.unit(scope, hops.timed(unit))
    hops.tell(result.decision)
    count_decision(result.decision)
    return result


def count_decision(decision: api.Decision | None) -> None:
    if decision is None:
        return
    DECISIONS.labels(decision.verdict).inc()
    for rule in {reason.rule for reason in decision.reasons}:
        # Policies are named in documents, which tenants may write one day.
        REFUSALS.labels("policy" if rule.startswith("policy.") else rule).inc()


async def submit_in(tx: Tx, plane: ControlPlane, submission: Submission, existing: Row | None) -> api.Result:
    """Steps 2 to 5, in the caller's transaction."""
    now, catalog, intent = plane.clock(), plane.catalog.current, submission.intent
    run = await _current_run(tx, existing)
    version = _version(existing)
    check_version(intent.path, version, submission.expected_version)
    facts = await load_facts(tx, plane, intent, catalog, now)
    decided = decide(intent, catalog, facts, tx.scope.tenant)
    body = canonical_body(intent)
    if existing is not None and run is not None and _same(existing, body, decided, submission):
        return _unchanged(existing, run, await _stored_decision(tx, existing))
    # That of a file got, edited and applied; one that is applied again unchanged has answered above.
    check_version(intent.path, version, intent.version)
    _check_change(existing, run, body, decided, submission)
    runs = run.run if run is not None else 0
    return await _write(tx, plane, submission, decided, existing, runs, body, now)


Outcome = Literal["created", "changed", "unchanged", "rejected"]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What `submit` would do now."""

    decided: Decided
    decision: api.Decision
    outcome: Outcome
    message: str = ""


async def foresee(
    plane: ControlPlane, scope: Scope, intent: Intent, catalog: Catalog, expected_version: int | None
) -> Foreseen:
    """Steps 2 to 4 under a catalog that is, or would be; commits nothing. Raises Conflict as `submit`
    would."""
    now = plane.clock()
    submission = Submission(intent, "")

    async def load(tx: Tx) -> tuple[Decided, Outcome, str]:
        existing = await components.find(tx, *_place(intent))
        run = await _current_run(tx, existing)
        check_version(intent.path, _version(existing), expected_version)
        facts = await load_facts(tx, plane, intent, catalog, now)
        decided = decide(intent, catalog, facts, scope.tenant)
        body = canonical_body(intent)
        if existing is not None and run is not None and _same(existing, body, decided, submission):
            return decided, "unchanged", f"nothing would change; it is {run.phase.lower()}"
        check_version(intent.path, _version(existing), intent.version)
        _check_change(existing, run, body, decided, submission)
        if not decided.admitted:
            return decided, "rejected", ""
        return decided, "created" if existing is None else "changed", ""

    decided, outcome, message = await plane.store.read(scope, load)
    decision = _decision(plane.ids("plan"), submission, decided, catalog, scope.actor, now)
    return Foreseen(decided, decision, outcome, message)


def _place(intent: Intent) -> tuple[str, str, str]:
    return intent.project, intent.spec.env, intent.name


def canonical_body(intent: Intent) -> str:
    """The intent as it is stored and compared: the same words, the same bytes."""
    body: dict[str, Any] = {
        "labels": dict(intent.labels),
        "annotations": dict(intent.annotations),
        "spec": write(intent.spec),
    }
    return _canonical(body).decode()


async def _write(
    tx: Tx,
    plane: ControlPlane,
    submission: Submission,
    decided: Decided,
    existing: Row | None,
    runs: int,
    body: str,
    now: Ms,
) -> api.Result:
    intent = submission.intent
    decision = _decision(plane.ids("dec"), submission, decided, plane.catalog.current, tx.scope.actor, now)
    encoded = msgspec.json.encode(decision).decode()
    await components.add_decision(
        tx, decision.id, decided.tenant, intent.path, decision.verdict, now, encoded
    )
    component = existing["id"] if existing is not None else plane.ids("cmp")
    workload = await _start_run(tx, plane, submission, decided, component, runs + 1, now, decision.id)
    version: int | None = None
    if decided.keepable:
        version = await _put_component(
            tx, intent, decided, existing, component, decision.id, workload, body, now
        )
    await events.audit(
        tx,
        now,
        "component.apply",
        intent.path,
        tenant=decided.tenant,
        request_id=submission.request_id,
        detail={"decision": decision.id, "verdict": decision.verdict, "type": intent.spec.type},
    )
    return api.Result(
        kind="Component",
        name=intent.name,
        project=intent.project,
        env=intent.spec.env,
        tenant=decided.tenant,
        outcome="rejected" if workload is None else "created" if existing is None else "changed",
        version=version,
        decision=decision,
        reasons=decision.reasons,
    )


async def _start_run(
    tx: Tx,
    plane: ControlPlane,
    submission: Submission,
    decided: Decided,
    component: str,
    run: int,
    now: Ms,
    decision: str,
) -> str | None:
    """The workload of an admitted intent, waiting; None where it was rejected."""
    intent, trace = submission.intent, submission.trace
    data = {"decision": decision, "component": component}
    if trace is not None:
        data["traceId"] = trace.id
    if decided.work is None:
        rules = [reason.rule for reason in decided.reasons]
        told = {**data, "rules": rules}
        await events.emit(tx, now, "component.rejected", intent.path, tenant=decided.tenant, data=told)
        return None
    work = decided.work
    id = plane.ids("wl")
    for warning in decided.warnings:
        if warning.rule != "budget.exhausted":
            continue
        beyond = {"decision": decision, "message": warning.message}
        await events.emit(tx, now, "budget.exceeded", intent.path, tenant=work.tenant, data=beyond)
    seq = await events.emit(
        tx, now, "component.submitted", intent.path, tenant=work.tenant, data={**data, "workload": id}
    )
    record = WorkloadRecord(
        id=id,
        component=component,
        tenant=work.tenant,
        path=intent.path,
        run=run,
        attempt=0,
        phase="Pending",
        generation=1,
        seq=seq,
        line=line_of(work.shape),
        shape=work.shape,
        manifest=work.manifest,
        tier=work.tier,
        currency=work.currency,
        submitted=now,
        queued=now,
        traceparent=trace.header if trace is not None else "",
        type=work.type,
    )
    await workloads.insert(tx, record)
    await _count_run(tx, intent, work, decision, now)
    if work.budget_hold:
        for scope in plane.catalog.current.budget_scopes(work.tenant, intent.project, intent.spec.env):
            unlimited = work.manifest.time_limit is None
            await ledger.hold_budget(tx, id, scope, work.budget_hold, renewed=unlimited)
    return id


async def _count_run(tx: Tx, intent: Intent, work: AdmittedWork, decision: str, now: Ms) -> None:
    """By type; a use of the escape hatch is told besides."""
    name = bare(work.type)
    RUNS.labels(name).inc()
    if name == RAW:
        told = {"decision": decision, "type": work.type}
        await events.emit(tx, now, "component.raw", intent.path, tenant=work.tenant, data=told)


async def _put_component(
    tx: Tx,
    intent: Intent,
    decided: Decided,
    existing: Row | None,
    component: str,
    decision: str,
    workload: str | None,
    body: str,
    now: Ms,
) -> int:
    """A rejected change of something that ran before leaves it as it was."""
    assert decided.tenant is not None
    if existing is None:
        await components.insert(tx, component, decided.tenant, _place(intent), now, decision, workload, body)
        return 1
    version = int(existing["version"])
    if workload is None and existing["workload"] is not None:
        return version
    await components.change(tx, component, version, decision, workload, body)
    return version + 1


def _version(existing: Row | None) -> int:
    return int(existing["version"]) if existing is not None else 0


def check_version(path: str, version: int, expected: int | None) -> None:
    if expected is not None and expected != version:
        now = f"it is at version {version} now" if version else "it does not exist now"
        raise StaleVersion(
            f"{path}: the change was made to version {expected}; {now}",
            remedy="read it again, then apply your change to what is there now",
        )


def _same(existing: Row, body: str, decided: Decided, submission: Submission) -> bool:
    """What was admitted and has not changed stays as it is, whatever the policy or the budget says
    today: the budget may be exhausted by this very run. What its author may never say (a forged label)
    is no part of the body, and is refused each time."""
    if submission.rerun or existing["body"] != body:
        return False
    return decided.admitted or (decided.has_place and not submission.intent.overreach)


def _check_change(
    existing: Row | None, run: WorkloadRecord | None, body: str, decided: Decided, submission: Submission
) -> None:
    if existing is None or run is None or run.finished is not None:
        return
    if submission.rerun:
        raise Conflict(
            f"{submission.intent.path} is {run.phase.lower()}; it can run again when this run has ended",
            remedy=f"`windlass cancel {submission.intent.path}` ends it now",
        )
    if not decided.admitted:
        return
    before, after = (msgspec.json.decode(text)["spec"] for text in (existing["body"], body))
    changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    fixed = [key for key in changed if key in _FIXED]
    names = ", ".join(fixed or changed or ["labels"])
    raise Conflict(
        f"{submission.intent.path} is {run.phase.lower()}; its {names} cannot change while it lives",
        remedy=f"`windlass cancel {submission.intent.path}` first, wait until it ended, then apply again",
    )


async def _current_run(tx: Tx, existing: Row | None) -> WorkloadRecord | None:
    if existing is None or existing["workload"] is None:
        return None
    return await workloads.find(tx, existing["workload"])


async def _stored_decision(tx: Tx, existing: Row) -> api.Decision | None:
    row = await components.decision(tx, existing["decision"])
    return msgspec.json.decode(row["body"], type=api.Decision) if row is not None else None


def _unchanged(existing: Row, run: WorkloadRecord, decision: api.Decision | None) -> api.Result:
    again = " (`windlass rerun` runs it again)" if run.finished is not None else ""
    return api.Result(
        kind="Component",
        name=existing["name"],
        project=existing["project"],
        env=existing["env"],
        tenant=existing["tenant"],
        outcome="unchanged",
        version=existing["version"],
        decision=decision,
        message=f"nothing changed; it is {run.phase.lower()}{again}",
    )


def _decision(
    id: str, submission: Submission, decided: Decided, catalog: Catalog, actor: str, now: Ms
) -> api.Decision:
    trace = submission.trace.id if submission.trace is not None else None
    return decision_wire(id, submission.intent.path, decided, catalog.revision, actor, now, trace)
