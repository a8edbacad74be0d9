"""Components and their decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.control.db.idempotency import Answer, Once, answered
from windlass.control.db.narrow import Place, narrowed, own_row
from windlass.control.db.port import Row, Tx
from windlass.core.units import Ms

_BY_PATH = "SELECT * FROM components WHERE project = $1 AND env = $2 AND name = $3"
_BY_PATH_AND_KEY = (
    "SELECT c.*, k.hash, k.status, k.answer FROM (SELECT 1 AS one) AS look"
    " LEFT JOIN idempotency k ON k.principal = $1 AND k.key = $2"
    " LEFT JOIN components c ON c.project = $3 AND c.env = $4 AND c.name = $5"
)
_INSERT = (
    "INSERT INTO components (id, tenant, project, env, name, version, created_ms, decision, workload, body)"
    " VALUES ($1, $2, $3, $4, $5, 1, $6, $7, $8, $9)"
)
_CHANGE = (
    "UPDATE components SET version = version + 1, decision = $3, workload = $4, body = $5"
    " WHERE id = $1 AND version = $2"
)
_DELETE = "DELETE FROM components WHERE id = $1 AND version = $2"
_JOIN = (
    "SELECT c.id AS component_id, c.tenant, c.project, c.env, c.name, c.version, c.created_ms, c.decision,"
    " c.body, w.* FROM components c LEFT JOIN workloads w ON w.id = c.workload"
)
_ONE = _JOIN + " WHERE c.project = $1 AND c.env = $2 AND c.name = $3"
_LIST = _JOIN + " WHERE c.id > $1{filters} ORDER BY c.id LIMIT $2"
_IN_PROJECT = (
    "SELECT env, name FROM components WHERE project = $1 AND ($2 = '' OR env = $2)"
    " ORDER BY env, name LIMIT 20"
)
_NAMING = _JOIN + " WHERE c.id > $1 AND (c.body LIKE $3 OR c.body LIKE $4){filters} ORDER BY c.id LIMIT $2"
_INSERT_DECISION = (
    "INSERT INTO decisions (id, tenant, component, verdict, at_ms, body) VALUES ($1, $2, $3, $4, $5, $6)"
)
_DECISION = "SELECT * FROM decisions WHERE id = $1"
_DECISIONS = "SELECT * FROM decisions WHERE id < $1{filters} ORDER BY id DESC LIMIT $2"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a list is narrowed to."""

    place: Place
    phase: str | None = None
    name: str | None = None


async def find(tx: Tx, project: str, env: str, name: str) -> Row | None:
    return await own_row(tx, _BY_PATH, project, env, name)


async def find_or_replay(
    tx: Tx, project: str, env: str, name: str, once: Once | None
) -> tuple[Row | None, Answer | None]:
    """The component, and what the same request was answered before: one look for both."""
    if once is None:
        return await find(tx, project, env, name), None
    asked = (once.principal, once.key, project, env, name)
    row = await own_row(tx, _BY_PATH_AND_KEY, *asked, column="c.tenant")
    assert row is not None, "there is always a row to join to"
    answer = await answered(tx, once, row if row["hash"] is not None else None)
    return row if row["id"] is not None else None, answer


async def find_with_workload(tx: Tx, project: str, env: str, name: str) -> Row | None:
    """The component beside its newest run (whose columns are null when it was rejected)."""
    return await own_row(tx, _ONE, project, env, name, column="c.tenant")


async def page(tx: Tx, after: str, limit: int, chosen: Chosen) -> Sequence[Row]:
    wanted = {
        **chosen.place.columns("c."),
        "c.name = $": chosen.name,
        "COALESCE(w.phase, 'Rejected') = $": chosen.phase,
    }
    tenant = chosen.place.tenant
    return await narrowed(tx, _LIST, after, limit, tenant=tenant, column="c.tenant", wanted=wanted)


async def insert(
    tx: Tx,
    id: str,
    tenant: str,
    path: tuple[str, str, str],
    created: Ms,
    decision: str,
    workload: str | None,
    body: str,
) -> None:
    assert tx.scope.covers(tenant), "a component is written in its own tenant's scope"
    await tx.insert(_INSERT, id, tenant, *path, created, decision, workload, body)


async def change(tx: Tx, id: str, version: int, decision: str, workload: str | None, body: str) -> bool:
    """False: somebody else changed it first."""
    return await tx.execute(_CHANGE, id, version, decision, workload, body) > 0


async def delete(tx: Tx, id: str, version: int) -> bool:
    return await tx.execute(_DELETE, id, version) > 0


async def in_project(tx: Tx, project: str, env: str = "") -> list[str]:
    """The first of them; enough to say who is in the way of deleting the project or its environment."""
    return [f"{project}/{row['env']}/{row['name']}" for row in await tx.rows(_IN_PROJECT, project, env)]


async def naming(tx: Tx, kind: str, name: str, after: str, limit: int, place: Place) -> Sequence[Row]:
    """Components, beside their newest runs, that may use the type or trait in any version: their stored
    words hold its name. Who reads them tells the few that only mention it."""
    begins = f'%"type":"{name}' if kind == "ComponentType" else f'%"{name}'
    likely = (f'{begins}"%', f"{begins}@%")
    return await narrowed(
        tx,
        _NAMING,
        after,
        limit,
        *likely,
        tenant=place.tenant,
        column="c.tenant",
        wanted=place.columns("c."),
    )


async def add_decision(
    tx: Tx, id: str, tenant: str | None, component: str, verdict: str, at: Ms, body: str
) -> None:
    await tx.insert(_INSERT_DECISION, id, tenant, component, verdict, at, body)


async def decision(tx: Tx, id: str) -> Row | None:
    return await own_row(tx, _DECISION, id)


async def decisions(
    tx: Tx, before: str, limit: int, tenant: str | None, project: str | None, component: str | None
) -> Sequence[Row]:
    """Newest first. A decision on a project that is not there belongs to who asked."""
    wanted = {
        "component = $": component,
        "SUBSTR(component, 1, LENGTH($)) = $": f"{project}/" if project is not None else None,
    }
    return await narrowed(tx, _DECISIONS, before, limit, tenant=tenant, wanted=wanted)
