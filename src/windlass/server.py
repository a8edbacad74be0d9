"""`windlass server`: one replica of the control plane, on PostgreSQL; and `windlass migrate`.

Replicas share nothing but the database. Each answers everything; one leads and decides for the queue
(control/leadership.py). Sites are elsewhere: their agents come in over HTTP (windlass/agent.py).

    1. the store, migrated; the database's clock, which is this replica's too
    2. the control plane's parts, loaded
    3. the loops, then the door
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from windlass.control.app import parts, start
from windlass.control.db.postgres import WentBack, open_postgres
from windlass.control.identity.keys import Keyring
from windlass.control.serving import listen, serve, within_files
from windlass.core.bounds import Bounds
from windlass.core.errors import Invalid
from windlass.processes import run, tracer_to
from windlass.runtime import logging
from windlass.runtime.ids import random_ids


@dataclass(frozen=True, slots=True)
class ServerOptions:
    database: str
    host: str = "127.0.0.1"
    port: int = 7420
    name: str = ""  # this replica's, in events and logs; empty: made of host and process
    log_level: str = "warning"
    otlp: str = ""
    bounds: Bounds = field(default_factory=Bounds)


@dataclass(frozen=True, slots=True)
class Open:
    """Told once the door is open."""

    address: str
    replica: str


def run_server(options: ServerOptions, ready: Callable[[Open], None]) -> None:
    """Run one replica until it is told to stop; anew, whenever the database went back in time."""
    logging.configure(options.log_level)
    port = options.port
    while True:
        listener = listen(options.host, port)
        port = listener.getsockname()[1]
        try:
            run(_serve(options, listener, ready))
        except WentBack as error:
            logging.warn("the server begins anew", why=error.detail)
        else:
            return
        finally:
            listener.close()


async def _serve(options: ServerOptions, listener: socket.socket, ready: Callable[[Open], None]) -> None:
    store = await open_postgres(options.database)
    tracer = tracer_to(options.otlp)
    try:
        ids = random_ids(store.clock)
        # Never the same twice: one that was restarted is another than the one that held a lease.
        replica = f"{options.name or socket.gethostname()}/{ids('rep').removeprefix('rep_')}"
        plane = await parts(
            store, store.clock, ids, tracer, replica=replica, bounds=within_files(options.bounds)
        )
        address = "http://{}:{}".format(*listener.getsockname()[:2])

        async def opened() -> None:
            ready(Open(address, replica))

        watching = asyncio.create_task(store.follow_until_it_goes_back(), name="database")
        await serve(plane, listener, [*start(plane), watching], opened)
    finally:
        await store.close()
        tracer.close()


def run_migrate(database: str, admin_key: Path | None) -> None:
    """Bring the database to this release's schema; and, where asked, make a key for a platform-admin.
    Whoever can reach the database can do that: it is the way in, and the way back in."""
    run(_migrate(database, admin_key))


async def _migrate(database: str, admin_key: Path | None) -> None:
    target = _new_file(admin_key) if admin_key is not None else None
    store = await open_postgres(database)
    try:
        if target is not None:
            made = await Keyring(store, store.clock, random_ids(store.clock)).bootstrap(
                "admin", "platform-admin"
            )
            with os.fdopen(target, "w") as file:
                file.write(f"{made.secret}\n")
    finally:
        await store.close()


def _new_file(path: Path) -> int:
    """Opened before the key is made: a key that cannot be written down is not made."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Invalid(
            f"cannot write {path}: {error.strerror}", remedy="name a file that is not there yet"
        ) from None
