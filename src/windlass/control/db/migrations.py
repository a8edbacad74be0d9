"""The schema and how it grows: numbered steps, applied at start under a lock, never backwards.

A step, once released, is never edited. The statements keep to what SQLite and PostgreSQL share: TEXT,
BIGINT, plain and partial indexes. What differs is said in `_as_sqlite` and in pg_migrations.py.

Replicas are upgraded one after the other, so a step must leave a schema on which the release before it
still works: it adds tables, and columns with a default; what it replaces goes in the release after.
Each step begins with `-- serves: N`, the oldest step whose release can run on the result. A release
that is older than what the database serves refuses to start and touches nothing.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from importlib.resources import files

from windlass.core.errors import Unavailable

STEPS: tuple[str, ...] = (
    "0001_spine.sql",
    "0002_replicas.sql",
    "0003_observability.sql",
    "0004_identity.sql",
    "0005_agents.sql",
    "0006_limits.sql",
    "0007_types.sql",
)

CREATE = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL, serves BIGINT NOT NULL)"
READ = "SELECT version, serves FROM schema_version"
_FORGET = "DELETE FROM schema_version"
_WRITE = "INSERT INTO schema_version (version, serves) VALUES ({version:d}, {serves:d})"


def migrate(connection: sqlite3.Connection, known: Sequence[str] | None = None) -> None:
    """Bring an SQLite file to this release's schema, in one transaction."""
    texts = known if known is not None else steps()
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(CREATE)
        row = connection.execute(READ).fetchone()
        for statement in missing(texts, (row[0], row[1]) if row else None, _as_sqlite):
            connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def missing(texts: Sequence[str], found: tuple[int, int] | None, adapt: Callable[[str], str]) -> list[str]:
    """The statements that bring a database from what was found to the last step."""
    version, serves = found or (0, 0)
    refuse_newer(version, serves, len(texts))
    if version >= len(texts):
        return []
    statements = [statement for text in texts[version:] for statement in _statements(adapt(text))]
    newest = _WRITE.format(version=len(texts), serves=serves_of(texts[-1]))
    return [*statements, _FORGET, newest]


def refuse_newer(version: int, serves: int, known: int) -> None:
    """A release touches no database that is only for later ones."""
    if version > known and serves > known:
        raise Unavailable(
            f"the database has schema {version}, for releases that know at least {serves}; this one knows"
            f" {known}",
            remedy="start the newer release again, or restore a backup taken with this one",
        )


def serves_of(text: str) -> int:
    found = re.match(r"-- serves: (\d+)\n", text)
    assert found is not None, "a step begins with what it serves"
    return int(found[1])


def steps() -> list[str]:
    """The text of every step this release knows."""
    folder = files("windlass.control.db").joinpath("schema")
    return [folder.joinpath(name).read_text(encoding="utf-8") for name in STEPS]


def _as_sqlite(text: str) -> str:
    return text.replace("/* clustered */", "WITHOUT ROWID")


def _statements(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [statement for part in "\n".join(lines).split(";") if (statement := part.strip())]
