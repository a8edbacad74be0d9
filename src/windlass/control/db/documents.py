"""Catalog documents and revisions. The catalog is loaded whole, so reads here are for start-up and
for old revisions; scoping of what a tenant sees happens on the snapshot (control/catalog/view.py)."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.control.db.port import Row, Tx
from windlass.core.documents.kinds import DocumentKey
from windlass.core.units import Ms

_NEWEST = "SELECT revision, at_ms, actor FROM revisions ORDER BY revision DESC LIMIT 1"
_REVISION = "SELECT revision, at_ms, actor FROM revisions WHERE revision = $1"
_INSERT_REVISION = "INSERT INTO revisions (revision, at_ms, actor) VALUES ($1, $2, $3)"
_CLOSE = (
    "UPDATE documents SET to_revision = $4"
    " WHERE kind = $1 AND tenant = $2 AND name = $3 AND to_revision IS NULL"
)
_INSERT = (
    "INSERT INTO documents (kind, tenant, name, version, from_revision, to_revision, body)"
    " VALUES ($1, $2, $3, $4, $5, NULL, $6)"
)
_AT = (
    "SELECT kind, tenant, name, version, body FROM documents"
    " WHERE from_revision <= $1 AND (to_revision IS NULL OR to_revision > $1) ORDER BY kind, tenant, name"
)
_HISTORY = (
    "SELECT d.name, d.version, d.from_revision, d.to_revision, d.body, r.at_ms FROM documents d"
    " JOIN revisions r ON r.revision = d.from_revision WHERE d.kind = $1 ORDER BY d.from_revision, d.name"
)
_REVISIONS_WITH = (
    "SELECT revision, at_ms FROM revisions WHERE revision IN"
    " (SELECT from_revision FROM documents WHERE kind = $1"
    "  UNION SELECT to_revision FROM documents WHERE kind = $1 AND to_revision IS NOT NULL) ORDER BY revision"
)
_FIRST_WITH = "SELECT MIN(from_revision) AS revision FROM documents WHERE kind = $1"


async def newest_revision(tx: Tx) -> Row | None:
    return await tx.row(_NEWEST)


async def revision(tx: Tx, number: int) -> Row | None:
    return await tx.row(_REVISION, number)


async def add_revision(tx: Tx, number: int, at: Ms) -> None:
    taken = tx.take("catalog")
    assert taken == number, f"revision {number} was made of a catalog that is not the newest ({taken - 1})"
    await tx.insert(_INSERT_REVISION, number, at, tx.scope.actor)


async def put(tx: Tx, key: DocumentKey, version: int, revision: int, body: str) -> None:
    """The document from this revision on."""
    await remove(tx, key, revision)
    await tx.insert(_INSERT, key.kind, key.tenant, key.name, version, revision, body)


async def remove(tx: Tx, key: DocumentKey, revision: int) -> None:
    await tx.execute(_CLOSE, key.kind, key.tenant, key.name, revision)


async def at(tx: Tx, revision: int) -> Sequence[Row]:
    return await tx.rows(_AT, revision)


async def history(tx: Tx, kind: str) -> Sequence[Row]:
    return await tx.rows(_HISTORY, kind)


async def revisions_of(tx: Tx, kind: str) -> Sequence[Row]:
    """The revisions that changed any document of a kind."""
    return await tx.rows(_REVISIONS_WITH, kind)


async def first_revision_of(tx: Tx, kind: str) -> int | None:
    """The revision that brought the first document of a kind there ever was."""
    row = await tx.row(_FIRST_WITH, kind)
    return row["revision"] if row else None
