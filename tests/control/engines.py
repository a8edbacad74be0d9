"""The two engines a world can stand on. WINDLASS_TEST_STORE=postgres tells every story of this folder
on a real PostgreSQL; by default it is SQLite."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from windlass.control.db.port import Store
from windlass.control.db.sqlite import SqliteStore

PG_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
POSTGRES = os.environ.get("WINDLASS_TEST_STORE") == "postgres"
on_sqlite_only = pytest.mark.skipif(POSTGRES, reason="about the embedded engine alone")


class Database(Protocol):
    """The state of one world, which outlives its processes."""

    async def open(self) -> Store: ...

    def rows(self, statement: str, *args: object) -> Sequence[Any]:
        """What is stored, seen from outside. Parameters are written `?`."""
        ...

    def tables(self) -> list[str]: ...

    def close(self) -> None: ...


class CopiedDatabase(Database, Protocol):
    """One of which a test can have copies."""

    def keep(self) -> object:
        """Its content, to be copied by `fill`."""
        ...

    def fill(self, content: Any) -> None: ...


class SqliteDatabase:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "windlass.db"

    async def open(self) -> Store:
        return SqliteStore(self.path)

    def rows(self, statement: str, *args: object) -> Sequence[Any]:
        with sqlite3.connect(self.path) as connection:
            connection.row_factory = sqlite3.Row
            found = connection.execute(statement, args).fetchall()
        connection.close()
        return found

    def tables(self) -> list[str]:
        found = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return [row["name"] for row in found]

    def keep(self) -> object:
        return self.path.read_bytes()

    def fill(self, content: Any) -> None:
        self.path.write_bytes(content)

    def close(self) -> None:
        pass


class PostgresDatabase:
    def __init__(self) -> None:
        from tests.postgres.server import new_database, shared_server

        self.name = new_database()
        self.url = shared_server().url(self.name)
        self._session: Any = None

    async def open(self) -> Store:
        from windlass.control.db.postgres import open_postgres

        return await open_postgres(self.url)

    def rows(self, statement: str, *args: object) -> Sequence[Any]:
        from tools.postgres_server import Session

        if self._session is None:
            self._session = Session(self.url)
        numbers = iter(range(1, 100))
        return list(self._session.rows(re.sub(r"\?", lambda _: f"${next(numbers)}", statement), *args))

    def tables(self) -> list[str]:
        found = self.rows(PG_TABLES)
        return [row["tablename"] for row in found]

    def keep(self) -> object:
        from tests.postgres.server import new_database

        self.close_session()
        return new_database(self.name)

    def fill(self, content: Any) -> None:
        from tests.postgres.server import drop_database, new_database, shared_server

        self.close_session()
        drop_database(self.name)
        self.name = new_database(content)
        self.url = shared_server().url(self.name)

    def close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def close(self) -> None:
        from tests.postgres.server import drop_database

        self.close_session()
        drop_database(self.name)


def new_world_database(folder: Path) -> CopiedDatabase:
    return PostgresDatabase() if POSTGRES else SqliteDatabase(folder)
