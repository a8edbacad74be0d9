"""What is read, narrowed to a place and to the scope it is read in, in one way for every table.

A tenant that asks for another's rows gets none, as for a tenant that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.control.db.port import Row, Tx
from windlass.control.identity.scopes import Scope


@dataclass(frozen=True, slots=True)
class Place:
    """What a list is narrowed to; None does not narrow."""

    tenant: str | None = None
    project: str | None = None
    env: str | None = None

    def has(self, scope: Scope, tenant: str, project: str, env: str) -> bool:
        """Whether something there is in the place, and is the scope's to see."""
        return (
            scope.covers(tenant)
            and self.tenant in (None, tenant)
            and self.project in (None, project)
            and self.env in (None, env)
        )

    def columns(self, table: str = "") -> dict[str, str | None]:
        """As conditions for `narrowed`; `table` is its alias and a dot."""
        return {f"{table}project = $": self.project, f"{table}env = $": self.env}


async def own_row(tx: Tx, statement: str, *args: object, column: str = "tenant") -> Row | None:
    """The row of `statement`, which ends with its conditions, if it is the scope's. Another tenant's never
    leaves the store: to read it and then drop it would be work that tells it is there."""
    if tx.scope.tenant is None:
        return await tx.row(statement, *args)
    return await tx.row(f"{statement} AND {column} = ${len(args) + 1}", *args, tx.scope.tenant)


async def own_rows(tx: Tx, statement: str, keys: Sequence[str]) -> Sequence[Row]:
    """The same for the rows of many keys."""
    if tx.scope.tenant is None:
        return await tx.rows_of(statement, keys)
    return await tx.rows_of(f"{statement} AND tenant = $2", keys, tx.scope.tenant)


async def narrowed(
    tx: Tx,
    statement: str,
    *args: object,
    tenant: str | None,
    column: str = "tenant",
    wanted: Mapping[str, str | None] | None = None,
) -> Sequence[Row]:
    """The rows of `statement`, which says where its `{filters}` go. `wanted` are conditions with a `$`
    for their value; those without a value are left out."""
    if tenant is not None and not tx.scope.covers(tenant):
        return []
    own = tx.scope.tenant if tx.scope.tenant is not None else tenant
    given = {
        condition: value
        for condition, value in {f"{column} = $": own, **(wanted or {})}.items()
        if value is not None
    }
    filters = "".join(
        f" AND {condition.replace('$', f'${number}')}"
        for number, condition in enumerate(given, start=len(args) + 1)
    )
    return await tx.rows(statement.replace("{filters}", filters), *args, *given.values())
