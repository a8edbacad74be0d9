"""What the replicas tell each other of their buckets: one row, rewritten at each exchange."""

from __future__ import annotations

from windlass.control.db.port import Tx

_READ = "SELECT body FROM shared_limits WHERE name = 'all'"
_FIRST = "INSERT INTO shared_limits (name, body) VALUES ('all', $1)"
_WRITE = "UPDATE shared_limits SET body = $1 WHERE name = 'all'"


async def read(tx: Tx) -> str | None:
    assert tx.scope.tenant is None, "limits are the platform's own"
    row = await tx.row(_READ)
    return None if row is None else str(row["body"])


async def write(tx: Tx, body: str, *, first: bool) -> None:
    assert tx.scope.tenant is None, "limits are the platform's own"
    if first:
        await tx.insert(_FIRST, body)
    else:
        await tx.execute(_WRITE, body)
