"""The whole platform in one process: `windlass up`.

Puts the control plane and an embedded site together; this is the only place that sees both. The
order is what a reader needs to know of starting and stopping:

    1. the fleet, real or simulated; the data folder, locked: one platform per folder
    2. the store, migrated; the control plane's parts, loaded
    3. a key for whoever started it
    4. the demo's catalog, where asked for and the catalog is empty
    5. the site: its nodes, its jobs found again, its agent
    6. the loops (control/app.py), then the door: HTTP; now the context `local` may point here

Stopping closes the door, then the loops, then the store. Jobs belong to their supervisors and run on.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from windlass.contracts.agent import SiteReport
from windlass.control.app import ControlPlane, parts, start
from windlass.control.db import backup as backups
from windlass.control.db.sqlite import SqliteStore
from windlass.control.identity.keys import NewKey
from windlass.control.serving import listen, serve, within_files
from windlass.core.bounds import Bounds
from windlass.core.errors import Unauthenticated, Unavailable
from windlass.processes import run, tracer_to
from windlass.runtime import logging
from windlass.runtime.clock import system_clock
from windlass.runtime.ids import random_ids
from windlass.sdk.contexts import load_contexts, save_context
from windlass.site.agent.loop import AgentLoop
from windlass.site.nodes.inventory import Inventory, from_nvml, simulated
from windlass.site.orchestrators.local.orchestrator import LocalOrchestrator

SITE = "local"
Copy = backups.Copy
DEFAULT_FLEET = "h100-80gx8,l40s-48gx4"
CONTEXT = "local"
_ANSWERS_S = 0.3
"""Database, logs that are followed, supervisors that are started."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    data: Path
    host: str = "127.0.0.1"
    port: int = 7420
    demo: bool = False
    gpus: str | None = None
    nodes: int = 2
    context: str | None = CONTEXT  # None: write no context
    log_level: str = "warning"
    otlp: str = ""  # where traces go; empty: nowhere
    bounds: Bounds = field(default_factory=Bounds)


@dataclass(frozen=True, slots=True)
class Ready:
    """Told once the door is open."""

    address: str
    secret: str
    inventory: Inventory
    data: Path
    context: str | None


def run_up(options: UpOptions, ready: Callable[[Ready], None]) -> None:
    """Run the platform until it is told to stop."""
    logging.configure(options.log_level)
    inventory = _inventory(options)
    lock = lock_data(options.data)
    listener = listen(options.host, options.port)
    try:
        run(_serve(options, inventory, listener, ready))
    finally:
        listener.close()
        os.close(lock)


async def _serve(
    options: UpOptions, inventory: Inventory, listener: socket.socket, ready: Callable[[Ready], None]
) -> None:
    clock = system_clock
    ids = random_ids(clock)
    tracer = tracer_to(options.otlp)
    store = SqliteStore(options.data / backups.DATABASE)
    plane = await parts(store, clock, ids, tracer, bounds=within_files(options.bounds))
    address = "http://{}:{}".format(*listener.getsockname()[:2])
    secret = await _own_key(plane, options)
    if options.demo and plane.catalog.current.revision == 0:
        await plane.catalog.seed_demo()
    containers = plane.catalog.current.sites[SITE].containers
    orchestrator = LocalOrchestrator(options.data, inventory, clock=clock, containers=containers)
    await orchestrator.open()
    plane.logs = orchestrator
    # Before the scheduler's first look: the store has the fleet of before, and it may be gone.
    await plane.link.report(SiteReport(site=SITE, nodes=await orchestrator.nodes()))
    agent = AgentLoop(SITE, orchestrator, plane.link, jitter=random.random, tracer=tracer)
    tasks = [*start(plane), asyncio.create_task(agent.run(), name="agent")]

    async def opened() -> None:
        """Only now does a context point here. One that cannot be written: then nobody has a key for it."""
        name = options.context
        if name is not None:
            name = await asyncio.to_thread(_free_context, name, address)
            save_context(name, address, secret, make_current=name == options.context)
        ready(Ready(address, secret, inventory, options.data, name))

    try:
        await serve(plane, listener, tasks, opened)
    finally:
        await orchestrator.close()
        await store.close()
        tracer.close()


def back_up(data: Path, file: Path, *, force: bool) -> Copy:
    """A copy of the database, also while a platform uses it."""
    return backups.back_up(data, file, force=force)


def restore(data: Path, file: Path, *, force: bool) -> tuple[Copy, Path | None]:
    """A copy back in its place; what was there is kept. Never under a running platform."""
    lock = lock_data(data)
    try:
        day = time.strftime("%Y-%m-%d", time.gmtime(system_clock() / 1000))
        return backups.restore(data, file, day, force=force)
    finally:
        os.close(lock)


def _free_context(wanted: str, address: str) -> str:
    """`local`, unless that is another platform which answers: then a name with this one's port."""
    known = load_contexts().contexts.get(wanted)
    if known is None or known.server == address:
        return wanted
    url = urlsplit(known.server)
    try:
        with socket.create_connection((url.hostname or "", url.port or 80), timeout=_ANSWERS_S):
            return f"{wanted}-{urlsplit(address).port}"
    except (OSError, ValueError):
        return wanted


async def _own_key(plane: ControlPlane, options: UpOptions) -> str:
    """The starter's key: one that some context of theirs has for this platform, else a new one."""
    if options.context is not None:
        for known in load_contexts().contexts.values():
            try:
                principal = await plane.keyring.authenticate(known.api_key)
            except Unauthenticated:
                continue
            if principal.role == "platform-admin":
                return known.api_key
    made: NewKey = await plane.keyring.bootstrap("admin", "platform-admin")
    return made.secret


def _inventory(options: UpOptions) -> Inventory:
    if options.gpus is None and (real := from_nvml()) is not None:
        return real
    return simulated(options.gpus or DEFAULT_FLEET, nodes=options.nodes)


def lock_data(data: Path) -> int:
    """Hold the folder for this process. The kernel lets go of it whatever way the process ends."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(
            f"the data folder {data} cannot be used: {error.strerror}",
            remedy="make it writable for this user, free some space, or choose another with --data",
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(descriptor, 100, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise Unavailable(
            f"another platform uses the data folder {data}" + (f" (process {holder})" if holder else ""),
            remedy="stop it first, or give this one a folder of its own with --data",
        ) from None
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        pass  # the lock holds without its note
    return descriptor


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
