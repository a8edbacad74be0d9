"""Service accounts at rest. The same name may be used by several tenants and by the platform."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.control.db.narrow import narrowed
from windlass.control.db.port import Row, Tx
from windlass.core.units import Ms

_INSERT = (
    "INSERT INTO service_accounts (tenant, name, role, note, created_ms, created_by)"
    " VALUES ($1, $2, $3, $4, $5, $6)"
)
_ONE = "SELECT * FROM service_accounts WHERE tenant = $1 AND name = $2"
_PAGE = (
    "SELECT * FROM service_accounts WHERE (name > $1 OR (name = $1 AND tenant > $2)){filters}"
    " ORDER BY name, tenant LIMIT $3"
)
_DELETE = "DELETE FROM service_accounts WHERE tenant = $1 AND name = $2"
_DELETE_TENANT = "DELETE FROM service_accounts WHERE tenant = $1"


async def insert(tx: Tx, name: str, tenant: str | None, role: str, note: str, at: Ms) -> None:
    assert tx.scope.covers(tenant), "a tenant makes service accounts for itself only"
    await tx.execute(_INSERT, tenant or "", name, role, note, at, tx.scope.actor)


async def one(tx: Tx, name: str, tenant: str | None) -> Row | None:
    return await tx.row(_ONE, tenant or "", name) if tx.scope.covers(tenant) else None


async def page(tx: Tx, after: tuple[str, str], limit: int, tenant: str | None) -> Sequence[Row]:
    return await narrowed(tx, _PAGE, *after, limit, tenant=tenant)


async def delete(tx: Tx, name: str, tenant: str | None) -> None:
    assert tx.scope.covers(tenant), "a tenant ends its own service accounts only"
    await tx.execute(_DELETE, tenant or "", name)


async def delete_all_of(tx: Tx, tenant: str) -> None:
    assert tx.scope.covers(tenant), "a tenant ends its own service accounts only"
    await tx.execute(_DELETE_TENANT, tenant)
