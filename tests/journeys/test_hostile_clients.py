"""A real platform and clients that mean it no good: it stays up, stays small, and answers everybody else.

Few connections, on the loopback. Limits are made small so that a minute is not waited for."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.journeys.platforms import PATIENCE_S, Platform, eventually, platform

MANY = 24
GROWTH_KIB = 24 * 1024


@contextmanager
def bounded(folder: Path, **bounds: float) -> Iterator[Platform]:
    with platform(folder) as subject:
        subject.bounds = bounds
        subject.key = subject.start()
        yield subject


@contextmanager
def connections(subject: Platform, count: int) -> Iterator[list[socket.socket]]:
    host, _, port = subject.address.rpartition(":")
    with ExitStack() as opened:
        made = [opened.enter_context(socket.socket()) for _ in range(count)]
        for connection in made:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            connection.settimeout(PATIENCE_S)
            connection.connect((host, int(port)))
        yield made


def rest(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    pieces = []
    try:
        while piece := connection.recv(65_536):
            pieces.append(piece)
    except ConnectionError:
        pass
    return b"".join(pieces)


def until(connection: socket.socket, end: bytes) -> bytes:
    answer = b""
    while end not in answer:
        piece = connection.recv(65_536)
        assert piece, answer
        answer += piece
    return answer


def problem(answer: bytes) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    told: dict[str, Any] = json.loads(body)
    return told


def resident_kib(subject: Platform) -> int:
    assert subject.process is not None
    status = Path(f"/proc/{subject.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return int(found[1])


def limited(subject: Platform, limit: str) -> float:
    found = re.search(rf'windlass_limited_total{{limit="{limit}"}} (\S+)', subject.get("/metrics"))
    assert found is not None
    return float(found[1])


def head(subject: Platform, method: str, path: str, more: str = "") -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {subject.key}\r\n{more}\r\n".encode()
    )


def test_heads_that_never_end_and_connections_that_say_nothing_are_closed(tmp_path: Path) -> None:
    with bounded(tmp_path, head_s=0.5) as subject, connections(subject, MANY) as slow:
        before = resident_kib(subject)
        for number, connection in enumerate(slow[:-2]):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: " + b"a" * number)
        assert subject.get("/v1/version"), "others are answered meanwhile"
        for connection in slow:
            told = problem(rest(connection))
            assert (told["status"], told["code"]) == (408, "request.too-slow")
        assert limited(subject, "head") == MANY
        assert resident_kib(subject) - before < GROWTH_KIB


def test_a_connection_that_is_used_again_is_not_late(tmp_path: Path) -> None:
    with bounded(tmp_path, head_s=0.2) as subject, connections(subject, 1) as (connection,):
        for _ in range(4):
            connection.sendall(head(subject, "GET", "/v1/version"))
            assert until(connection, b'"v1"}').startswith(b"HTTP/1.1 200 ")
            with connections(subject, 1) as (other,):
                rest(other)  # as long as a head may take


def test_idle_connections_make_room_and_only_busy_ones_can_fill_the_platform(tmp_path: Path) -> None:
    with bounded(tmp_path, connections=10, head_s=60) as subject, connections(subject, MANY) as idle:
        assert subject.get("/v1/version"), "the longest idle made room"
        assert limited(subject, "evicted") >= MANY - 10
        with connections(subject, 10) as busy:
            for connection in busy:
                connection.sendall(head(subject, "GET", "/v1/events?watch=true"))
                until(connection, b": windlass events")
            with connections(subject, 1) as (late,):
                answer = rest(late)
            told = problem(answer)
            assert (told["status"], told["code"]) == (503, "unavailable")
            assert b"retry-after: 5" in answer
        eventually(lambda: subject.call("GET", "/readyz")[0] == 200, "room when they are gone")
        assert idle


def test_a_watcher_that_never_reads_is_let_go_and_costs_no_memory(tmp_path: Path) -> None:
    with bounded(tmp_path, stalled_s=0.5) as subject, connections(subject, 6) as deaf:
        for connection in deaf:
            connection.sendall(head(subject, "GET", "/v1/events?watch=true&since=0"))
        before = resident_kib(subject)
        rounds = iter(range(10_000))

        def let_go() -> bool:
            assert subject.call("POST", "/v1/apply", loud(next(rounds)))[0] == 200
            return limited(subject, "reader") == len(deaf)

        eventually(let_go, "all of them given up")
        assert resident_kib(subject) - before < GROWTH_KIB
        eventually(lambda: "\nwindlass_event_watchers 0.0\n" in subject.get("/metrics"), "no watcher left")


def loud(number: int) -> list[dict[str, Any]]:
    """Documents whose change is worth many events."""
    return [
        {
            "apiVersion": "windlass.dev/v1",
            "kind": "Tier",
            "metadata": {"name": f"loud-{tier}-{'o' * 40}"},
            "spec": {"priority": number, "preempts": False, "preemptible": True},
        }
        for tier in range(100)
    ]


def test_bodies_that_come_slowly_are_bounded_together(tmp_path: Path) -> None:
    with (
        bounded(tmp_path, body_bytes=4_000_000, body_bytes_each=1_000_000) as subject,
        connections(subject, 8) as slow,
    ):
        before = resident_kib(subject)
        for connection in slow:
            connection.sendall(head(subject, "POST", "/v1/apply", "Content-Length: 3000000\r\n"))
            connection.sendall(b" " * 400_000)
        assert subject.get("/v1/version"), "others are answered meanwhile"
        eventually(lambda: limited(subject, "bodies") >= 6, "all but two refused")
        assert resident_kib(subject) - before < GROWTH_KIB
