"""A site that never comes back is given up: its work ends as lost, and is billed up to the last word of it.

Only a site that is away can be given up, and that is looked at in each transaction: an agent that returns in
between keeps the rest. If it returns later, it hears that nothing of this is wanted any more, and stops it.
What it says of these attempts changes nothing, because they are over.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.contracts import api
from windlass.control.components.steps import Move, apply_steps
from windlass.control.db import events, workloads
from windlass.control.db.idempotency import Answer, Once, keep, replay
from windlass.control.db.port import Tx
from windlass.control.db.workloads import WorkloadRecord
from windlass.control.identity.scopes import Scope
from windlass.control.sites.presence import silent_since
from windlass.core.errors import NotFound
from windlass.core.lifecycle import Phase, lost
from windlass.core.units import Ms, format_timestamp

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

AT_ONCE = 500  # workloads in one transaction


@dataclass(frozen=True, slots=True)
class LossOrder:
    site: str
    reason: str
    request_id: str
    once: Once | None = None


async def give_up(plane: ControlPlane, scope: Scope, order: LossOrder) -> api.SiteLoss:
    """In as many transactions as it takes. Cut off in between, it is given again and does the rest."""
    if order.site not in plane.catalog.current.sites:
        raise NotFound(f"there is no site {order.site[:53]}", remedy="`windlass site list` shows the sites")
    done: Counter[Phase] = Counter()
    while True:
        done, answer = await plane.store.unit(scope, partial(_end_some, plane, order, done))
        if answer is not None:
            return answer


async def _end_some(
    plane: ControlPlane, order: LossOrder, before: Counter[Phase], tx: Tx
) -> tuple[Counter[Phase], api.SiteLoss | None]:
    """What was done so far, and the answer once nothing of the site is left."""
    if (kept := await replay(tx, order.once)) is not None:
        return before, msgspec.json.decode(kept.body, type=api.SiteLoss)
    heard, now = await silent_since(tx, order.site), plane.clock()
    wanted = list(await workloads.wanted_at(tx, order.site))
    records = await workloads.find_all(tx, wanted[:AT_ONCE])
    moves = [move for record in records.values() if (move := _move(record, order.site, heard, now))]
    ended = Counter(move.step.phase for move in moves if move.step.phase is not None)
    await apply_steps(tx, moves, now, plane.prices.timeline)
    part = _told(order, heard, ended)
    detail: dict[str, Any] = {"reason": order.reason, **msgspec.to_builtins(part)}
    await events.audit(
        tx, now, "site.lose", order.site, tenant=None, request_id=order.request_id, detail=detail
    )
    await events.emit(tx, now, "site.lost", order.site, tenant=None, data=detail)
    done = before + ended
    if len(wanted) > AT_ONCE and moves:
        return done, None
    answer = _told(order, heard, done)
    await keep(tx, order.once, Answer(200, msgspec.json.encode(answer).decode()), now)
    return done, answer


def _move(record: WorkloadRecord, site: str, heard: Ms, now: Ms) -> Move | None:
    """Nobody pays for time in which nobody can show that the work ran: nothing after the last word of its
    site, and nothing at all where that never said that it runs."""
    step = lost(record.life, site)
    if step is None:
        return None
    freed = min(now, heard) if record.phase == "Running" else record.admitted
    seen = [{**worker, "state": "lost"} for worker in record.outcome.get("workers", [])]
    return Move(record, step, freed, {"workers": seen})


def _told(order: LossOrder, heard: Ms, ended: Counter[Phase]) -> api.SiteLoss:
    return api.SiteLoss(
        site=order.site,
        last_heard=format_timestamp(heard),
        waiting=ended["Pending"],
        failed=ended["Failed"],
        cancelled=ended["Cancelled"],
    )
