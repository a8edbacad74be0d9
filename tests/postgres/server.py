"""One PostgreSQL for the whole test process, with as many databases as there are worlds."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from tools.postgres_server import FAST, PostgresServer, Session


@cache
def shared_server() -> PostgresServer:
    """One for the whole test process, quick and forgetful."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-pg-"))
    server = PostgresServer(folder / "server", FAST)
    server.create()
    server.start()

    def gone() -> None:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(gone)
    return server


@cache
def shared_session() -> Session:
    return Session(shared_server().url())


_numbers = itertools.count(1)


def new_database(template: str = "template0") -> str:
    """Its name. A copy of the template takes milliseconds."""
    name = f"w{os.getpid()}_{next(_numbers)}"
    shared_session().rows(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return name


def drop_database(name: str) -> None:
    shared_session().rows(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
