"""A control plane behind its HTTP door: the loops run, the door is open, until it is told to stop.

Stopping closes the door first, then the loops, so that nobody is answered by a plane that has stopped
working. A loop never ends by itself; if one does, the process stops rather than limps.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import uvicorn

from windlass.control.app import ControlPlane
from windlass.control.gateway.http import Gateway
from windlass.control.gateway.http1 import Http1
from windlass.control.gateway.table import routes
from windlass.core.bounds import Bounds
from windlass.core.errors import Unavailable
from windlass.runtime import logging

_UNREAD_BYTES = 256 * 1024
_OWN_FILES = 200


async def serve(
    plane: ControlPlane,
    listener: socket.socket,
    loops: Sequence[asyncio.Task[None]],
    opened: Callable[[], Awaitable[None]],
) -> None:
    """Until a signal, or until a loop or `opened` (called once the door is open) fails: then with its
    error."""
    gateway = Gateway(routes(plane), plane.door, plane.ids, plane.limiter, plane.tracer, plane.minutes)
    server = _Server(
        uvicorn.Config(
            gateway,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            date_header=False,
            lifespan="off",
            http=Http1,
            ws="none",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
        )
    )
    server.closing = gateway.close
    # What exists now lives as long as the process: the collector need not look at it again. Nor so often
    # at what follows: the engine's state is large and has no cycles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    telling = asyncio.create_task(_tell(server, opened))
    watching = asyncio.create_task(_first_failure(loops, server))
    try:
        await server.serve(sockets=[listener])
    finally:
        for task in (telling, watching, *loops):
            task.cancel()
        await asyncio.gather(telling, watching, *loops, return_exceptions=True)
        with suppress(Unavailable):  # the store is away: then so much is not counted, and the lease runs out
            await plane.minutes.save()
            await plane.leadership.resign()
    for task in (telling, watching):
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would raise them again before the loops and the store are closed.
    Streams would keep it from stopping for as long as it has patience, so they end first."""

    closing: Callable[[], None]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.closing()
        await super().shutdown(sockets)


async def _tell(server: uvicorn.Server, opened: Callable[[], Awaitable[None]]) -> None:
    """A server that nobody hears of is none: it stops."""
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        await opened()
    except Exception:
        server.should_exit = True
        raise


async def _first_failure(loops: Sequence[asyncio.Task[None]], server: uvicorn.Server) -> None:
    done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        error = task.exception()
        logging.broke(f"the loop '{task.get_name()}' ended", error or RuntimeError("it returned"))
        server.should_exit = True
        raise error or RuntimeError(f"the loop '{task.get_name()}' returned")


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted connections inherit it. Left to itself, the kernel keeps megabytes for each that does not read.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD_BYTES)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        raise Unavailable(
            f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}",
            remedy="another platform may run there; choose another port with --listen"
            if taken
            else "choose an address of this machine with --listen HOST:PORT",
        ) from None
    listener.setblocking(False)  # noqa: FBT003 (the socket's own signature)
    return listener


def within_files(bounds: Bounds) -> Bounds:
    """No more connections than the process may have files, less those it needs itself: running out of
    them would be worse than refusing."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(16, files - _OWN_FILES) if files != resource.RLIM_INFINITY else bounds.connections
    return replace(bounds, connections=min(bounds.connections, most))
