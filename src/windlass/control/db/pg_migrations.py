"""The schema's steps on PostgreSQL, while servers of the release before go on working.

Whoever writes waits for its turn meanwhile: a writer in between, with locks of its own, and the migration
would wait for each other. Readers do not take turns; one that did come in between makes the migration begin
again. A step may take as long as it needs, or a large database could never take it; but it does not stand
long in line for a table that somebody holds, because everybody else would stand behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

import asyncpg

from windlass.control.db.migrations import CREATE, READ, missing, steps
from windlass.control.db.pg_connections import FOR_EVER_S, LOCK_TIMEOUT, TURN, Connection

_MIGRATING = 7420_002
"""The advisory lock under which the schema grows."""
_BEGIN = (
    "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;"
    f" SELECT pg_advisory_xact_lock({_MIGRATING}); SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"
)
_TRIES = 5


async def migrate_postgres(connection: Connection, known: Sequence[str] | None = None) -> None:
    """Bring the database to this release's schema, in one transaction. Of several replicas that start
    together one does it, the others wait."""
    texts = known if known is not None else steps()
    for _ in range(_TRIES - 1):
        with suppress(asyncpg.DeadlockDetectedError):
            return await _migrate(connection, texts)
    return await _migrate(connection, texts)


async def _migrate(connection: Connection, texts: Sequence[str]) -> None:
    try:
        await connection.execute(_BEGIN, timeout=FOR_EVER_S)
        await connection.execute(CREATE)
        row = await connection.fetchrow(READ)
        todo = missing(texts, (row[0], row[1]) if row else None, _as_postgres)
        for statement in [f"SELECT pg_advisory_xact_lock({TURN})", *todo] if todo else ():
            await connection.execute(statement, timeout=FOR_EVER_S)
        await connection.execute("COMMIT", timeout=FOR_EVER_S)
    except BaseException:
        with suppress(Exception):  # what went wrong first is what counts
            await connection.execute("ROLLBACK")
        raise


def _as_postgres(text: str) -> str:
    """Text sorts by its bytes, as it does on SQLite, whatever language the database was made for."""
    return re.sub(r"\bTEXT\b", 'TEXT COLLATE "C"', text)
