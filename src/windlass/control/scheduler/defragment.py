"""Defragmentation against the running platform: proposals for whoever asks, and one of them carried out.

A proposal is made of the engine's state of the moment and changes nothing. To carry one out, the leader looks
at everything anew and plans again with no cycle in between; is that the plan its giver has seen, one
transaction tells the moved to go, and the engine earmarks their next places and the hole. Otherwise it is a
conflict, and nothing happens.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from windlass.contracts import api
from windlass.control.db import events
from windlass.control.db.idempotency import Answer, Once, keep, replay
from windlass.control.db.port import Tx
from windlass.control.identity.scopes import Scope
from windlass.control.scheduler.loop import moved_on
from windlass.core.errors import Conflict, NotFound
from windlass.core.scheduling.defrag import NoPlan, Plan, fragmented, plan_for, plan_hole
from windlass.core.scheduling.defrag_words import told
from windlass.core.scheduling.model import Shape

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane


@dataclass(frozen=True, slots=True)
class MoveOrder:
    """Carry out the plan with this digest, made for this component."""

    component: str
    digest: str
    request_id: str
    once: Once | None = None


async def propose(plane: ControlPlane, wanted: str | Shape | None) -> api.DefragProposals:
    """For one component, for a hole, or (None) for everybody who waits because of fragmentation."""
    state, now = plane.scheduler.state, plane.clock()
    if isinstance(wanted, Shape):
        return api.DefragProposals(items=[_wire(plan_hole(state, wanted, now))])
    if wanted is not None:
        return api.DefragProposals(items=[_wire(_plan(plane, wanted))])
    items = []
    for id in fragmented(state):
        found = plan_for(plane.scheduler.state, id, plane.clock())
        if found is not None:
            items.append(_wire(found))
        await asyncio.sleep(0)  # each costs a search; others are served in between
    return api.DefragProposals(items=items)


async def carry_out(plane: ControlPlane, scope: Scope, order: MoveOrder) -> api.DefragProposal:
    """What was carried out. Raises NotFound, Conflict, or Unavailable where this replica does not lead."""
    async with plane.scheduler.held_still():

        async def kept(tx: Tx) -> Answer | None:
            return await replay(tx, order.once)

        before = await plane.store.read(scope, kept)
        if before is not None:
            return msgspec.json.decode(before.body, type=api.DefragProposal)
        now, plan = plane.clock(), _agreed(plane, order)
        done = _wire(plan)

        async def unit(tx: Tx) -> None:
            await plane.scheduler.write_moves(tx, plan, now)
            detail = {"digest": plan.digest, "moved": [move.id for move in plan.moves]}
            await events.audit(
                tx,
                now,
                "workload.move",
                order.component,
                tenant=None,
                request_id=order.request_id,
                detail=detail,
            )
            await keep(tx, order.once, Answer(200, msgspec.json.encode(done).decode()), now)

        await plane.store.unit(scope, unit)
        plane.scheduler.moves_written(plan, now)
        return done


def _agreed(plane: ControlPlane, order: MoveOrder) -> Plan:
    """The plan as it is now, if it is the one that was seen."""
    plan = _plan(plane, order.component)
    if isinstance(plan, NoPlan):
        raise Conflict(f"nothing can be moved for {order.component}: {plan.why}")
    if plan.digest != order.digest:
        raise moved_on(order.component)
    return plan


def _plan(plane: ControlPlane, component: str) -> Plan | NoPlan:
    found = plan_for(plane.scheduler.state, component, plane.clock())
    if found is None:
        raise NotFound(f"no component {component} waits", remedy="`windlass queue` shows who waits")
    return found


def _wire(proposal: Plan | NoPlan) -> api.DefragProposal:
    return msgspec.convert(told(proposal), api.DefragProposal)
