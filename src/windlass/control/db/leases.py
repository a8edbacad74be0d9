"""Leases: who does what only one may do, or is there at all, for how long, under which token."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.control.db.port import Tx
from windlass.core.errors import Unavailable
from windlass.core.units import Ms

_READ = "SELECT holder, token, expires_ms FROM leases WHERE name = $1"
_FIRST = "INSERT INTO leases (name, holder, token, expires_ms) VALUES ($1, $2, 1, $3)"
_CHANGE = "UPDATE leases SET holder = $2, token = $3, expires_ms = $4 WHERE name = $1"
_RELEASE = "UPDATE leases SET expires_ms = 0 WHERE name = $1 AND holder = $2"
_RUN_OUT = "SELECT name FROM leases WHERE name LIKE $1 AND holder <> '' AND expires_ms <= $2 ORDER BY name"
_ABANDON = "UPDATE leases SET holder = '' WHERE name = $1 AND holder <> '' AND expires_ms <= $2"
_ABANDONED = "SELECT name FROM leases WHERE name LIKE $1 AND holder = ''"
_FORGET = "DELETE FROM leases WHERE name = $1"


@dataclass(frozen=True, slots=True)
class Lease:
    holder: str
    token: int
    expires: Ms

    def stands(self, now: Ms, length: Ms) -> bool:
        """One that would last much longer than any is given was written before the clock was put back: by
        this clock nobody knows when its holder was last heard of."""
        return now < self.expires <= now + 2 * length


class Deposed(Unavailable):
    """Somebody else holds the lease now. What was decided under the old one must not be written."""


async def held(tx: Tx, name: str) -> Lease | None:
    row = await tx.row(_READ, name)
    return Lease(row["holder"], row["token"], row["expires_ms"]) if row is not None else None


async def acquire(tx: Tx, name: str, holder: str, length: Ms) -> Lease | None:
    """The holder's lease, begun or lengthened; None while another has it. By the database's clock."""
    assert tx.scope.tenant is None, "leases are the platform's own"
    now, found = tx.database_ms, await held(tx, name)
    expires = Ms(now + length)
    if found is None:
        await tx.insert(_FIRST, name, holder, expires)
        return Lease(holder, 1, expires)
    stands = found.stands(now, length)
    if found.holder != holder and stands:
        return None
    # One that let its lease run out and takes it again is a new holder: others may have acted between.
    renewed = found.holder == holder and stands
    token = found.token if renewed else found.token + 1
    await tx.execute(_CHANGE, name, holder, token, expires)
    return Lease(holder, token, expires)


async def release(tx: Tx, name: str, holder: str) -> None:
    await tx.execute(_RELEASE, name, holder)


async def run_out(tx: Tx, prefix: str, at: Ms) -> list[str]:
    """The names of leases that ended and were not abandoned yet."""
    return [row["name"] for row in await tx.rows(_RUN_OUT, f"{prefix}%", at)]


async def abandon(tx: Tx, name: str) -> bool:
    """Nobody's from now on, if it has run out. False: somebody has lengthened it, or it is nobody's."""
    return await tx.execute(_ABANDON, name, tx.database_ms) > 0


async def abandoned(tx: Tx, prefix: str) -> list[str]:
    return [row["name"] for row in await tx.rows(_ABANDONED, f"{prefix}%")]


async def forget(tx: Tx, name: str) -> None:
    await tx.execute(_FORGET, name)


async def check(tx: Tx, name: str, token: int) -> None:
    """In the transaction that writes under the lease. A token that is not the newest is refused, also
    when its holder does not know yet that it was asleep for too long."""
    found = await held(tx, name)
    if found is None or found.token != token:
        raise Deposed(f"the lease '{name}' has moved on from token {token}", remedy="")
