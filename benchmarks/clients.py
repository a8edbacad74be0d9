"""Lean HTTP clients: so many connections, each sending its next request when it has its answer.

They run in a process of their own (`python -m benchmarks.clients`, an order on stdin, what was found
on stdout), so that their work is not counted as the platform's. Connections are kept alive; every
write carries an Idempotency-Key of its own, as a careful client's would.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import cast

_PATIENCE_S = 900.0
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


@dataclass(frozen=True, slots=True)
class Order:
    """What to send. As many requests as there are bodies, or `requests` of them without a body;
    paths and bodies are taken in turn. `keep` answers are brought back for a look."""

    method: str
    paths: list[str]
    bodies: list[str] = field(default_factory=list)
    clients: int = 1
    requests: int = 0
    keep: int = 0


@dataclass(slots=True)
class Found:
    """`statuses` counts answers by status; times are as a client sees them, in seconds."""

    seconds: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)
    median_s: float = 0.0
    p99_s: float = 0.0
    kept: list[str] = field(default_factory=list)

    @property
    def answers(self) -> int:
        return sum(self.statuses.values())


def drive(port: int, secret: str, order: Order) -> Found:
    """Carry out an order in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.clients", str(port)],
        input=json.dumps(asdict(order)).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=_PATIENCE_S,
        cwd=Path(__file__).resolve().parent.parent,
        env={**os.environ, "BENCHMARK_SECRET": secret},
    )
    return Found(**json.loads(done.stdout))


class _Client(asyncio.Protocol):
    """One connection: answer in, next request out."""

    def __init__(self, requests: Iterator[bytes], found: Found, times: list[float], keep: int) -> None:
        self._requests, self._found, self._times, self._keep = requests, found, times, keep
        self._buffer = b""
        self._sent = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._next()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(_END_OF_HEAD)
        if head < 0:
            return
        start = self._buffer.index(_LENGTH) + len(_LENGTH)
        size = int(self._buffer[start : self._buffer.index(b"\r", start)])
        body = head + len(_END_OF_HEAD)
        if len(self._buffer) < body + size:
            return
        self._times.append(time.perf_counter() - self._sent)
        status = self._buffer[9:12].decode()
        self._found.statuses[status] = self._found.statuses.get(status, 0) + 1
        if len(self._found.kept) < self._keep or status != "200":
            self._found.kept.append(self._buffer[body : body + size].decode())
        self._buffer = self._buffer[body + size :]
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the platform closed the connection"))

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            if not self.done.done():
                self.done.set_result(None)
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)


async def _carry_out(port: int, secret: str, order: Order) -> Found:
    found, times = Found(), list[float]()
    requests = iter(list(_requests(secret, order)))
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    clients: list[_Client] = []
    for _ in range(order.clients):
        _, client = await loop.create_connection(
            lambda: _Client(requests, found, times, order.keep), "127.0.0.1", port
        )
        clients.append(client)
    await asyncio.gather(*(client.done for client in clients))
    found.seconds = time.perf_counter() - began
    times.sort()
    found.median_s, found.p99_s = times[len(times) // 2], times[int(len(times) * 0.99)]
    return found


def _requests(secret: str, order: Order) -> Iterator[bytes]:
    once = f"{os.getpid()}-{time.time_ns()}"
    for number in count():
        if number >= (len(order.bodies) or order.requests):
            return
        path = order.paths[number % len(order.paths)]
        body = order.bodies[number].encode() if order.bodies else b""
        written = (
            f"Content-Type: application/json\r\nIdempotency-Key: {once}-{number}\r\n"
            f"Content-Length: {len(body)}\r\n"
            if order.method != "GET"
            else ""
        )
        who = f"Host: bench\r\nAuthorization: Bearer {secret}\r\n"
        yield f"{order.method} {path} HTTP/1.1\r\n{who}{written}\r\n".encode() + body


def main() -> int:
    import uvloop

    order = Order(**json.load(sys.stdin))
    secret = os.environ["BENCHMARK_SECRET"]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(_carry_out(int(sys.argv[1]), secret, order))
    # Not print: with PYTHONUNBUFFERED it hands the text over in one write, and what a pipe does not take
    # of a long answer is lost.
    with open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False) as whole:
        json.dump(asdict(found), whole)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
