"""From one type to another: what would differ for the components of a type that live, and the moving of those
that do not.

A move changes the stored intent and starts nothing: the next run is of the new type. It goes through
admission like a submit, and its decision is stored; one that would be refused stays where it is.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import msgspec

from windlass.contracts import api
from windlass.control.components.facts import load_facts
from windlass.control.components.stored import stored_intent
from windlass.control.components.submit import canonical_body
from windlass.control.components.wire import decision_wire, reason_wire
from windlass.control.db import components, events
from windlass.control.db.idempotency import Answer, Once, keep, replay
from windlass.control.db.narrow import Place
from windlass.control.db.port import Row, Tx
from windlass.control.identity.scopes import Scope
from windlass.core.admission.decide import decide
from windlass.core.admission.effects import World, type_differences
from windlass.core.catalog.snapshot import Catalog
from windlass.core.errors import BadRequest, NotFound
from windlass.core.intent import Intent

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

SHOWN = 100
AT_ONCE = 200
"""Moves of one request: they are one transaction, and others wait for it."""
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Retyping:
    """From `type` to `other`, each a name or name@version. A name alone means every version."""

    type: str
    other: str
    place: Place


async def differences(plane: ControlPlane, scope: Scope, wanted: Retyping) -> api.TypeDiff:
    """Of every live component of the type, were it of the other."""
    catalog, now = plane.catalog.current, plane.clock()
    _check(catalog, wanted)

    async def look(tx: Tx) -> api.TypeDiff:
        items: list[api.TypeDifference] = []
        living = [row for row in await _of_type(tx, catalog, wanted) if _alive(row)]
        for row in living[:SHOWN]:
            intent = stored_intent(row)
            world = World(catalog, await load_facts(tx, plane, intent, catalog, now))
            made = replace(intent, spec=replace(intent.spec, type=_made_of(row, intent)))
            reasons, diff = type_differences(made, wanted.other, world)
            items.append(
                api.TypeDifference(
                    component=intent.path,
                    tenant=row["tenant"],
                    phase=row["phase"],
                    diff=diff,
                    reasons=[reason_wire(reason) for reason in reasons],
                )
            )
        return api.TypeDiff(type=wanted.type, other=wanted.other, items=items, total=len(living))

    return await plane.store.read(scope, look, scan=True)


@dataclass(frozen=True, slots=True)
class Move:
    wanted: Retyping
    request_id: str
    once: Once | None
    after: str = ""
    dry_run: bool = False


async def migrate(plane: ControlPlane, scope: Scope, move: Move) -> tuple[list[api.Migrated], str | None]:
    """What became of each, and where the rest begins."""
    _check(plane.catalog.current, move.wanted)

    async def unit(tx: Tx) -> tuple[list[api.Migrated], str | None]:
        kept = await replay(tx, move.once)
        if kept is not None:
            return msgspec.json.decode(kept.body, type=tuple[list[api.Migrated], str | None])
        found = await _of_type(tx, plane.catalog.current, move.wanted, move.after, AT_ONCE + 1)
        items = [await _moved(tx, plane, move, row) for row in found[:AT_ONCE]]
        done = items, found[AT_ONCE - 1]["component_id"] if len(found) > AT_ONCE else None
        if not move.dry_run:
            await keep(tx, move.once, Answer(200, msgspec.json.encode(done).decode()), plane.clock())
        return done

    if move.dry_run:
        return await plane.store.read(scope, unit)
    return await plane.store.unit(scope, unit)


async def _moved(tx: Tx, plane: ControlPlane, move: Move, row: Row) -> api.Migrated:
    intent = stored_intent(row)
    if _alive(row):
        return _migrated(
            row,
            intent,
            "alive",
            message=f"it is {row['phase'].lower()} and stays of {intent.spec.type} until its run has ended",
            remedy=f"wait, or `windlass cancel {intent.path}`; then migrate again",
        )
    now, catalog = plane.clock(), plane.catalog.current
    then = replace(intent, spec=replace(intent.spec, type=move.wanted.other))
    facts = await load_facts(tx, plane, then, catalog, now)
    decided = decide(then, catalog, facts, tx.scope.tenant)
    decision = decision_wire(
        plane.ids("plan" if move.dry_run else "dec"),
        intent.path,
        decided,
        catalog.revision,
        tx.scope.actor,
        now,
        None,
    )
    if not move.dry_run:
        body = msgspec.json.encode(decision).decode()
        await components.add_decision(
            tx, decision.id, row["tenant"], intent.path, decision.verdict, now, body
        )
    if not decided.admitted:
        return _migrated(row, intent, "refused", decision=decision, message=decided.reasons[0].message)
    if not move.dry_run:
        await _write(tx, plane, move, row, then, decision.id)
    return _migrated(
        row, intent, "moved", decision=decision, message=f"from {intent.spec.type} to {then.spec.type}"
    )


async def _write(tx: Tx, plane: ControlPlane, move: Move, row: Row, then: Intent, decision: str) -> None:
    """Its last run, and the decision on that, stay what they were."""
    now = plane.clock()
    await components.change(
        tx, row["component_id"], row["version"], row["decision"], row["id"], canonical_body(then)
    )
    told = {"decision": decision, "from": move.wanted.type, "to": move.wanted.other}
    await events.audit(
        tx,
        now,
        "component.migrate",
        then.path,
        tenant=row["tenant"],
        request_id=move.request_id,
        detail=told,
    )
    await events.emit(tx, now, "component.migrated", then.path, tenant=row["tenant"], data=told)


async def _of_type(
    tx: Tx, catalog: Catalog, wanted: Retyping, after: str = "", most: int = sys.maxsize
) -> list[Row]:
    """Components of the type; with a version, those of that version: by the run that lives, else by what
    the next would be."""
    found: list[Row] = []
    name, _, version = wanted.type.partition("@")
    exact = catalog.component_type(wanted.type) if version else None
    last = after
    while len(found) < most and (
        page := await components.naming(tx, "ComponentType", name, last, _PAGE, wanted.place)
    ):
        last = page[-1]["component_id"]
        for row in page:
            ref = _made_of(row, stored_intent(row))
            if ref.partition("@")[0] != name or ref == wanted.other:
                continue
            if exact is None or catalog.component_type(ref) is exact:
                found.append(row)
    return found[:most]


def _check(catalog: Catalog, wanted: Retyping) -> None:
    for ref in (wanted.type, wanted.other):
        if catalog.component_type(ref) is None:
            raise NotFound(
                f"there is no component type {ref[:100]}", remedy="`windlass get componenttypes` lists them"
            )
    if wanted.type == wanted.other:
        raise BadRequest("both types are the same", remedy="name the type to move to")


def _made_of(row: Row, intent: Intent) -> str:
    return row["type"] if _alive(row) and row["type"] else intent.spec.type


def _alive(row: Row) -> bool:
    return row["phase"] is not None and row["finished_ms"] is None


def _migrated(
    row: Row,
    intent: Intent,
    outcome: Literal["moved", "alive", "refused"],
    *,
    message: str = "",
    remedy: str = "",
    decision: api.Decision | None = None,
) -> api.Migrated:
    return api.Migrated(
        component=intent.path,
        tenant=row["tenant"],
        outcome=outcome,
        message=message,
        remedy=remedy,
        decision=decision.id if decision is not None else None,
        reasons=decision.reasons if decision is not None else [],
    )
