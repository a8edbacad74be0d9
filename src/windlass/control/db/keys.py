"""API keys and short-lived tokens at rest: only the SHA-256 of the secret. Looking one up to
authenticate needs no scope of a tenant, because it is what proves one; everything else here is filtered
by the scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from windlass.control.db.narrow import narrowed, own_row
from windlass.control.db.port import Row, Tx
from windlass.core.units import Ms

_INSERT = (
    "INSERT INTO api_keys (id, name, role, tenant, hash, created_ms, expires_ms, revoked_ms, kind, parent,"
    " account, actions, project, site) VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, $8, $9, $10, $11, $12, $13)"
)
_BY_HASH = "SELECT * FROM api_keys WHERE hash = $1"
_BY_ID = "SELECT * FROM api_keys WHERE id = $1"
_BY_NAME = "SELECT * FROM api_keys WHERE name = $1 AND revoked_ms IS NULL AND kind = 'key'"
_BY_ACCOUNT = (
    "SELECT * FROM api_keys WHERE account = $1 AND COALESCE(tenant, '') = $2 AND revoked_ms IS NULL"
    " ORDER BY id"
)
_PAGE = "SELECT * FROM api_keys WHERE id > $1 AND kind = $3{filters} ORDER BY id LIMIT $2"
_USED = "UPDATE api_keys SET last_used_ms = $2 WHERE id = $1"
_REVOKE_TENANT = "UPDATE api_keys SET revoked_ms = $2 WHERE tenant = $1 AND revoked_ms IS NULL RETURNING id"
_REVOKE_SITE = "UPDATE api_keys SET revoked_ms = $2 WHERE site = $1 AND revoked_ms IS NULL RETURNING id"
_REVOKE = "UPDATE api_keys SET revoked_ms = $2 WHERE id = $1 AND revoked_ms IS NULL"
_REVOKE_EXCHANGED = "UPDATE api_keys SET revoked_ms = $2 WHERE parent = $1 AND revoked_ms IS NULL"
_REPLACE = "UPDATE api_keys SET replaced_by = $2, expires_ms = $3 WHERE id = $1"
_REVOKE_LOGINS = (
    "UPDATE api_keys SET revoked_ms = $2 WHERE kind = 'token' AND revoked_ms IS NULL"
    " AND substr(parent, 1, length(CAST($1 AS TEXT))) = CAST($1 AS TEXT) RETURNING id, tenant"
)
_SHORTEN_EXCHANGED = "UPDATE api_keys SET expires_ms = $2 WHERE parent = $1 AND expires_ms > $2"
_FORGET = "DELETE FROM api_keys WHERE kind = 'token' AND expires_ms < $1"


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key or token as it is first stored."""

    id: str
    kind: Literal["key", "token"]
    name: str
    role: str
    tenant: str | None
    hash: str
    created: Ms
    expires: Ms | None
    parent: str | None = None
    account: str | None = None
    actions: str = ""
    project: str | None = None
    site: str | None = None


async def insert(tx: Tx, row: KeyRow) -> None:
    assert tx.scope.covers(row.tenant), "a tenant makes keys for itself only"
    await tx.insert(
        _INSERT,
        row.id,
        row.name,
        row.role,
        row.tenant,
        row.hash,
        row.created,
        row.expires,
        row.kind,
        row.parent,
        row.account,
        row.actions,
        row.project,
        row.site,
    )


async def with_hash(tx: Tx, hash: str) -> Row | None:
    return await tx.row(_BY_HASH, hash)


async def with_id(tx: Tx, id: str) -> Row | None:
    return await own_row(tx, _BY_ID, id)


async def with_name(tx: Tx, name: str) -> Sequence[Row]:
    return [row for row in await tx.rows(_BY_NAME, name) if tx.scope.covers(row["tenant"])]


async def of_account(tx: Tx, account: str, tenant: str | None) -> Sequence[Row]:
    """Those that still work."""
    return await tx.rows(_BY_ACCOUNT, account, tenant or "") if tx.scope.covers(tenant) else []


async def page(
    tx: Tx, after: str, limit: int, tenant: str | None, kind: Literal["key", "token"]
) -> Sequence[Row]:
    return await narrowed(tx, _PAGE, after, limit, kind, tenant=tenant)


async def revoke(tx: Tx, id: str, at: Ms) -> bool:
    """The tokens that were exchanged for it go with it."""
    if await with_id(tx, id) is None:
        return False
    await tx.execute(_REVOKE_EXCHANGED, id, at)
    return await tx.execute(_REVOKE, id, at) > 0


async def replace(tx: Tx, id: str, successor: str, until: Ms) -> None:
    """It and the tokens exchanged for it work until then."""
    assert await with_id(tx, id) is not None, "a tenant rotates its own keys only"
    await tx.execute(_REPLACE, id, successor, until)
    await tx.execute(_SHORTEN_EXCHANGED, id, until)


async def note_used(tx: Tx, id: str, at: Ms) -> None:
    assert tx.scope.tenant is None, "the platform itself keeps this"
    await tx.execute(_USED, id, at)


async def forget_tokens(tx: Tx, expired_before: Ms) -> None:
    assert tx.scope.tenant is None, "the platform itself does this"
    await tx.execute(_FORGET, expired_before)


async def revoke_exchanged_by(tx: Tx, provider: str, at: Ms) -> Sequence[Row]:
    """Every token that was exchanged for one of the provider's logins. Their ids and tenants."""
    assert tx.scope.tenant is None, "providers are the platform's own"
    return await tx.rows(_REVOKE_LOGINS, f"{provider}/", at)


async def revoke_all_of(tx: Tx, tenant: str, at: Ms) -> list[str]:
    """The tenant is gone, and so is everybody who acted for it. Their ids."""
    assert tx.scope.covers(tenant), "a tenant ends its own keys only"
    return sorted(row["id"] for row in await tx.rows(_REVOKE_TENANT, tenant, at))


async def revoke_all_at(tx: Tx, site: str, at: Ms) -> list[str]:
    """The site is gone, and so is its agent. Their ids."""
    assert tx.scope.tenant is None, "sites are the platform's own"
    return sorted(row["id"] for row in await tx.rows(_REVOKE_SITE, site, at))
