"""Components as their readers see them: one with everything, many with what a list needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.contracts import api
from windlass.control.components.explain import waiting_reason
from windlass.control.components.wire import component_wire, reason_wire, spec_of
from windlass.control.db import components, ledger, workloads
from windlass.control.db.port import Row, Tx
from windlass.control.identity.scopes import Scope
from windlass.core.admission.deprecation import deprecations
from windlass.core.errors import NotFound
from windlass.core.ledger.rating import rate, total
from windlass.core.lifecycle import HOLDING
from windlass.core.metering import Holding, held
from windlass.core.scheduling.engine import position
from windlass.core.scheduling.model import Position
from windlass.core.units import GpuUs, Micros, Ms, format_timestamp

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane


Path = tuple[str, str, str]
Spent = tuple[GpuUs, Micros]
_NOTHING: Spent = (GpuUs(0), Micros(0))


async def one(plane: ControlPlane, scope: Scope, project: str, env: str, name: str) -> api.Component:
    async def load(tx: Tx) -> api.Component:
        return await seen(tx, plane, (project, env, name))

    return await plane.store.read(scope, load)


async def seen(tx: Tx, plane: ControlPlane, where: tuple[str, str, str]) -> api.Component:
    """With position, estimate, GPU hours and cost up to this instant."""
    path = "/".join(where)
    row = await components.find_with_workload(tx, *where)
    if row is None:
        raise NotFound(
            f"there is no component {path}",
            remedy="`windlass get components` lists what you can see",
        )
    now = plane.clock()
    gpu_us, micros = await _spent(tx, plane, row, now) if row["run"] != 1 or row["attempt"] else _NOTHING
    waits = row["phase"] == "Pending"
    place = position(plane.scheduler.state, path) if waits else None
    starts = plane.scheduler.forecast.starts(path, place.ahead) if place is not None else None
    return component_wire(
        row,
        reason=waiting_reason(plane, tx.scope, path) if waits else None,
        position=_place(place),
        estimated_start=_instant(starts),
        gpu_us=gpu_us,
        micros=micros,
        conditions=await _conditions(tx, row),
        warnings=_warnings(plane, row, now),
    )


async def page(
    plane: ControlPlane, scope: Scope, after: str, limit: int, chosen: components.Chosen
) -> tuple[list[api.Component], str | None]:
    """A page of components, and where the next begins; `api.ComponentList` says what a list leaves out
    because it would cost too much for a hundred."""

    async def load(tx: Tx) -> tuple[list[Row], dict[Path, Spent]]:
        rows = list(await components.page(tx, after, limit + 1, chosen))
        return rows, await _spent_by(tx, plane, rows[:limit])

    rows, spent = await plane.store.read(scope, load)
    now = plane.clock()
    reasons: dict[str, api.StatusReason | None] = {}  # of lines: equal work waits for the same reason
    items = []
    for row in rows[:limit]:
        path = _path(row)
        gpu_us, micros = spent.get(path, _NOTHING)
        name = "/".join(path)
        waits = row["phase"] == "Pending"
        place, starts = plane.scheduler.forecast.listed(name) if waits else (None, None)
        items.append(
            component_wire(
                row,
                reason=_reason(plane, scope, row, name, reasons),
                position=_place(place),
                estimated_start=_instant(starts),
                gpu_us=gpu_us,
                micros=micros,
                warnings=_warnings(plane, row, now),
            )
        )
    return items, items[-1].metadata.id if len(rows) > limit else None


def _warnings(plane: ControlPlane, row: Row, now: Ms) -> list[api.Reason]:
    """Of its type as the catalog has it today: work that was admitted before the type was deprecated is
    what has to move."""
    found = plane.catalog.current.component_type(spec_of(row["body"])["type"])
    return [reason_wire(warning) for warning in deprecations(found, now)]


def _place(place: Position | None) -> api.Position | None:
    return api.Position(ahead=place.ahead, of=place.of) if place is not None else None


def _instant(at: Ms | None) -> str | None:
    return format_timestamp(at) if at is not None else None


def _reason(
    plane: ControlPlane, scope: Scope, row: Row, path: str, known: dict[str, api.StatusReason | None]
) -> api.StatusReason | None:
    if row["phase"] != "Pending":
        return None
    line = row["line"]
    if path in plane.scheduler.state.promises:
        return waiting_reason(plane, scope, path)
    if line not in known:
        known[line] = waiting_reason(plane, scope, path)
    return known[line]


async def _spent_by(tx: Tx, plane: ControlPlane, rows: list[Row]) -> dict[Path, Spent]:
    """What each of a page cost: what is posted of those at rest, to this instant of those that hold GPUs."""
    ran = [row for row in rows if row["attempt"]]
    holding = [row for row in ran if row["phase"] in HOLDING]
    spent = await ledger.spent_of(
        tx, {_path(row): row["tenant"] for row in ran if row["phase"] not in HOLDING}
    )
    now = plane.clock()
    return {**spent, **{_path(row): await _spent(tx, plane, row, now) for row in holding}}


def _path(row: Row) -> Path:
    return row["project"], row["env"], row["name"]


async def _spent(tx: Tx, plane: ControlPlane, row: Row, now: Ms) -> Spent:
    holdings = await ledger.holdings_of(tx, row["tenant"], *_path(row))
    return (
        GpuUs(sum(held(holding, now) for holding in holdings)),
        Micros(sum(_owed(plane, holding, now) for holding in holdings)),
    )


def _owed(plane: ControlPlane, holding: Holding, now: Ms) -> Micros:
    until = now if holding.until is None else holding.until
    return total(rate(holding, plane.prices.timeline, until))


async def _conditions(tx: Tx, row: Row) -> list[api.Condition]:
    if row["phase"] is None:
        return []
    return [
        api.Condition(type=phase, status="True", at=format_timestamp(at), message=message)
        for at, phase, message in await workloads.transitions(tx, row["id"], row["submitted_ms"])
    ]
