"""What can be done to a component after it was submitted: cancel, rerun, delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from windlass.contracts import api
from windlass.control.components import views
from windlass.control.components.hops import Hops
from windlass.control.components.rejections import rejected
from windlass.control.components.steps import Move, apply_step
from windlass.control.components.stored import stored_intent
from windlass.control.components.submit import Submission, check_version, count_decision, submit_in
from windlass.control.db import components, events, workloads
from windlass.control.db.idempotency import Answer, Once, keep, replay
from windlass.control.db.port import Row, Tx
from windlass.control.identity.scopes import Scope
from windlass.core.errors import Conflict, NotFound, Rejected
from windlass.core.lifecycle import HOLDING, cancelled
from windlass.core.units import Ms
from windlass.runtime.tracing import Trace

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

Path = tuple[str, str, str]

_decode = msgspec.json.Decoder(api.Component).decode


@dataclass(frozen=True, slots=True)
class Order:
    """Something to be done to one component. `version` is the one its giver has seen, if they said."""

    path: Path
    request_id: str
    once: Once | None = None
    version: int | None = None
    trace: Trace | None = None

    @property
    def subject(self) -> str:
        return "/".join(self.path)


async def cancel(plane: ControlPlane, scope: Scope, order: Order) -> api.Component:
    """Wanted gone. What waits is gone at once, what runs when its site has stopped it; twice is once."""

    async def unit(tx: Tx) -> api.Component:
        if (kept := await replay(tx, order.once)) is not None:
            return _decode(kept.body)
        row = await _expected(tx, order)
        now = plane.clock()
        if await _cancel_run(tx, plane, row, now):
            await events.audit(
                tx, now, "component.cancel", order.subject, tenant=row["tenant"], request_id=order.request_id
            )
        shown = await views.seen(tx, plane, order.path)
        await keep(tx, order.once, Answer(200, msgspec.json.encode(shown).decode()), now)
        return shown

    return await plane.store.unit(scope, unit)


async def delete(plane: ControlPlane, scope: Scope, order: Order) -> None:
    """Remove a finished component from sight. Its decisions, usage and cost stay. A live one is
    cancelled first, and can be deleted when it has ended."""

    async def unit(tx: Tx) -> None:
        if await replay(tx, order.once) is not None:
            return
        row = await _expected(tx, order)
        now = plane.clock()
        run = await workloads.find(tx, row["workload"]) if row["workload"] else None
        subject = order.subject
        if run is not None and run.phase in HOLDING:
            raise Conflict(
                f"{subject} is {run.phase.lower()}",
                remedy=f"`windlass cancel {subject}`, wait until it ended, then delete it",
            )
        await _cancel_run(tx, plane, row, now)
        await components.delete(tx, row["id"], row["version"])
        await events.audit(
            tx, now, "component.delete", subject, tenant=row["tenant"], request_id=order.request_id
        )
        await events.emit(tx, now, "component.deleted", subject, tenant=row["tenant"])
        await keep(tx, order.once, Answer(204, "{}"), now)

    await plane.store.unit(scope, unit)


async def rerun(plane: ControlPlane, scope: Scope, order: Order) -> api.Component:
    """A new run of a finished component, judged again under today's catalog. Raises Rejected, with the
    decision that is stored by then."""
    decided: list[api.Decision | None] = []  # none where the answer is a kept one

    async def unit(tx: Tx) -> api.Component | api.Result:
        kept = await replay(tx, order.once)
        if kept is not None and kept.status == Rejected.status:
            return msgspec.json.decode(kept.body, type=api.Result)
        if kept is not None:
            return _decode(kept.body)
        row = await _expected(tx, order)
        again = Submission(stored_intent(row), order.request_id, rerun=True, trace=order.trace)
        result = await submit_in(tx, plane, again, row)
        decided.append(result.decision)
        refused = result.outcome == "rejected"
        shown = result if refused else await views.seen(tx, plane, order.path)
        status = Rejected.status if refused else 200
        await keep(tx, order.once, Answer(status, msgspec.json.encode(shown).decode()), plane.clock())
        return shown

    hops = Hops(plane.tracer, order.trace, order.subject)
    answer = await plane.store.unit(scope, hops.timed(unit))
    for decision in decided:
        hops.tell(decision)
        count_decision(decision)
    if isinstance(answer, api.Component):
        return answer
    assert answer.decision is not None
    raise rejected(answer.decision, [answer])


async def found(tx: Tx, path: Path) -> Row:
    row = await components.find(tx, *path)
    if row is None:
        raise NotFound(
            f"there is no component {'/'.join(path)}",
            remedy="`windlass get components` lists what you can see",
        )
    return row


async def _expected(tx: Tx, order: Order) -> Row:
    row = await found(tx, order.path)
    check_version(order.subject, row["version"], order.version)
    return row


async def _cancel_run(tx: Tx, plane: ControlPlane, row: Row, now: Ms) -> bool:
    """False: there was nothing left to cancel."""
    run = await workloads.find(tx, row["workload"]) if row["workload"] else None
    step = cancelled(run.life) if run is not None else None
    if run is None or step is None or run.stop_reason == "cancelled":
        return False
    if step.phases:
        return await apply_step(tx, Move(run, step), now, plane.prices.timeline)
    run.want = "stop"
    run.stop_reason = "cancelled"
    return await workloads.save(tx, run, now, (), "workload.stopping", reason="cancelled")
