"""On a real socket: what is no request, and heads without end, are answered like everything else."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.control.worlds import World, play

from windlass.control.gateway import http1
from windlass.control.gateway.http1 import MAX_HEAD, MAX_HEADERS, Http1

GOOD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def served(world: World) -> AsyncIterator[int]:
    """The world's gateway behind a real server; its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(world.gateway, http=Http1, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve([listener]))
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await serving
        listener.close()


async def ask(port: int, *pieces: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def problem(answer: bytes) -> tuple[bytes, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head and b"connection: close" in head
    told = json.loads(body)
    assert f"x-request-id: {told['requestId']}".encode() in head and told["remedy"]
    return head.split(b"\r\n")[0], told


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\r\n\r\n",
        b"GET /v1/tiers?limit=\xd9\xa3 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/apply HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/apply HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_request_is_a_problem(tmp_path: Path, sent: bytes) -> None:
    async def story(world: World) -> None:
        async with served(world) as port:
            line, told = problem(await ask(port, sent))
            assert line == b"HTTP/1.1 400 Bad Request" and told["code"] == "request.invalid"

    play(tmp_path, story)


@pytest.mark.parametrize("before", [b"", GOOD], ids=["first", "second"])
def test_a_head_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path, before: bytes) -> None:
    async def story(world: World) -> None:
        async with served(world) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(before)
            if before:
                await reader.readuntil(b'"ok"}')
            writer.write(b"GET /healthz HTTP/1.1\r\nX: " + b"a" * (MAX_HEAD + 1))
            async with asyncio.timeout(10):
                line, told = problem(await reader.read())
            assert line.startswith(b"HTTP/1.1 431 ") and told["code"] == "request.head-too-large"
            writer.close()

    play(tmp_path, story)


@pytest.mark.parametrize(("count", "status"), [(MAX_HEADERS, 200), (MAX_HEADERS + 1, 431), (12_000, 431)])
def test_a_head_has_so_many_headers_and_no_more(tmp_path: Path, count: int, status: int) -> None:
    async def story(world: World) -> None:
        async with served(world) as port:
            more = b"a:b\r\n" * (count - 2)
            answer = await ask(
                port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + more + b"\r\n"
            )
            assert answer.startswith(b"HTTP/1.1 %d " % status), answer
            assert (await ask(port, GOOD + LAST)).count(b"HTTP/1.1 200 OK") == 2

    play(tmp_path, story)


def test_large_heads_that_do_not_end_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "MAX_LARGE_HEADS", 50_000)
    large = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Large: " + b"a" * 20_000

    async def story(world: World) -> None:
        async with served(world) as port:
            opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for _, writer in opened:
                writer.write(large)
                await writer.drain()
            async with asyncio.timeout(10):
                while http1._all[world.gateway].large_heads < 2 * len(large):
                    await asyncio.sleep(0.01)
            line, _ = problem(await ask(port, large))
            assert line == b"HTTP/1.1 503 Service Unavailable"
            assert (await ask(port, LAST)).startswith(b"HTTP/1.1 200"), "small ones have room"
            opened[0][1].write(b"\r\n\r\n")
            assert (await opened[0][0].readline()).startswith(b"HTTP/1.1 200"), "it was whole"
            whole = await ask(port, large + b"\r\nConnection: close\r\n\r\n")
            assert whole.startswith(b"HTTP/1.1 200"), "which made room"
            for _, writer in opened:
                writer.close()

    play(tmp_path, story)


def test_a_large_body_in_one_piece_with_its_head_is_no_large_head(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        size = 4 * MAX_HEAD
        head = f"POST /v1/apply HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.keys['admin']}\r\n"
        whole = f"{head}Content-Length: {size}\r\n\r\n".encode() + b" " * size
        async with served(world) as port:
            answer = await ask(port, whole, LAST)
            assert answer.startswith(b"HTTP/1.1 400 ") and b"document.invalid" in answer
            assert answer.count(b"HTTP/1.1 ") == 2, "the connection goes on"

    play(tmp_path, story)


def test_who_sends_too_much_and_closes_then_hears_why(tmp_path: Path) -> None:
    """Many clients send all of a body before they read. One that closes afterwards is no exception."""

    async def story(world: World) -> None:
        size = 12 * 1024 * 1024
        head = f"POST /v1/apply HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.keys['admin']}\r\n"
        head += f"Connection: close\r\nContent-Length: {size}\r\n\r\n"
        async with served(world) as port:
            line, told = problem(await ask(port, head.encode(), *[b" " * 65_536] * (size // 65_536)))
            assert line.startswith(b"HTTP/1.1 413 ") and told["code"] == "request.too-large"
            anonymous = re.sub("Authorization.*?\r\n", "", head)
            line, _ = problem(await ask(port, anonymous.encode(), *[b" " * 65_536] * (size // 65_536)))
            assert line.startswith(b"HTTP/1.1 401 ")

    play(tmp_path, story)


def test_requests_in_one_piece_are_answered_in_order(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        async with served(world) as port:
            answer = await ask(port, GOOD + b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n" + LAST)
            assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"404", b"200"]

    play(tmp_path, story)


# --- attacks: what one party reads otherwise than another ---------------------------------------------


@pytest.mark.parametrize(
    "first", [b"GET /healthz", b"GET /v1/components", b"GET /v1/events"], ids=["short", "read", "stream"]
)
def test_what_is_no_request_is_never_the_answer_to_the_one_before(tmp_path: Path, first: bytes) -> None:
    """Whoever sent the first, perhaps a proxy for somebody else, takes the first answer for theirs."""

    async def story(world: World) -> None:
        key = f"Authorization: Bearer {world.keys['admin']}".encode()
        async with served(world) as port:
            answer = await ask(port, first + b" HTTP/1.1\r\nHost: x\r\n" + key + b"\r\n\r\n\x00\r\n\r\n")
            assert b"400" not in answer.partition(b"\r\n")[0]

    play(tmp_path, story)


def test_a_header_after_the_body_is_not_read(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        key = f"Authorization: Bearer {world.keys['admin']}\r\n".encode()
        head = b"GET /v1/whoami HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        async with served(world) as port:
            answer = await ask(port, head + b"\r\n0\r\n" + key + b"\r\n" + LAST)
            assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"401", b"200"]
            other = await ask(port, head + key + b"\r\n0\r\nWindlass-Tenant: acme\r\n\r\n" + LAST)
            assert re.findall(rb"HTTP/1.1 (\d+)", other) == [b"200", b"200"]
            assert b'"tenant":null' in other

    play(tmp_path, story)


@pytest.mark.parametrize("flood", [b"X: " + b"a" * 1000, b"a" * 1000], ids=["trailers", "one trailer"])
@pytest.mark.parametrize("start", [b"0\r\n", b"1;"], ids=["after the body", "after a size"])
def test_what_comes_beside_a_body_has_an_end(tmp_path: Path, start: bytes, flood: bytes) -> None:
    async def story(world: World) -> None:
        key = f"Authorization: Bearer {world.keys['admin']}\r\n".encode()
        head = b"POST /v1/apply HTTP/1.1\r\nHost: x\r\n" + key + b"Transfer-Encoding: chunked\r\n\r\n"
        end = b"\r\n" if flood.startswith(b"X") and start == b"0\r\n" else b""
        async with served(world) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + start)
            sent = 0
            try:
                while not reader.at_eof() and sent < 100 * MAX_HEAD:
                    writer.write(flood + end)
                    await writer.drain()
                    sent += len(flood)
                    await asyncio.sleep(0)
            except ConnectionError:
                pass
            assert sent < 100 * MAX_HEAD, "it was let go before that"
            writer.transport.abort()

    play(tmp_path, story)


@pytest.mark.parametrize("name", ["Authorization", "Windlass-Tenant", "Idempotency-Key", "Host"])
def test_a_header_that_decides_something_is_not_taken_twice(tmp_path: Path, name: str) -> None:
    async def story(world: World) -> None:
        own = {"Authorization": f"Bearer {world.keys['admin']}", "Host": "x", name: "Bearer other"}
        own["Authorization"] = f"Bearer {world.keys['admin']}"
        lines = [f"{key}: {value}" for key, value in own.items()] + [f"{name}: Bearer other"]
        whole = "\r\n".join(["GET /v1/whoami HTTP/1.1", *lines, "Connection: close", "", ""]).encode()
        async with served(world) as port:
            answer = await ask(port, whole)
            assert answer.startswith(b"HTTP/1.1 400 ") and b"is given twice" in answer

    play(tmp_path, story)


def test_a_request_names_the_host_it_was_sent_to(tmp_path: Path) -> None:
    """Whoever stands in front of us may have filled in another. HTTP/1.0 knew no such header."""

    async def story(world: World) -> None:
        async with served(world) as port:
            answer = await ask(port, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 400 ") and b"send the header Host" in answer
            assert (await ask(port, b"GET /healthz HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")

    play(tmp_path, story)


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_a_body_that_goes_on_after_its_answer_does_not_go_on_for_ever(
    tmp_path: Path, connection: str
) -> None:
    async def story(world: World) -> None:
        world.gateway.bounds = replace(world.gateway.bounds, head_s=0.2)
        async with served(world) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n"
            writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            await reader.readuntil(b'"ok"}')

            async def drip() -> None:
                while True:
                    writer.write(b"1\r\nx\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.01)

            dripping = asyncio.create_task(drip())
            try:
                async with asyncio.timeout(10):
                    with suppress(ConnectionError):
                        assert await reader.read() == b"", "nothing more is said"
            finally:
                dripping.cancel()
                await asyncio.gather(dripping, return_exceptions=True)
                writer.transport.abort()

    play(tmp_path, story)


def test_a_head_leaves_with_its_body_and_alone_where_nothing_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []
    answering = http1._Answering.__init__

    def watched(answer: http1._Answering, protocol: Http1) -> None:
        answering(answer, protocol)
        answer._transport = _Watched(protocol.transport, sent)  # type: ignore[assignment]

    async def story(world: World) -> None:
        async with served(world) as port:
            whole = await ask(port, GOOD.replace(b"GET", b"HEAD"), LAST)
        heads = whole.count(b"HTTP/1.1 200 ")
        assert heads == len(sent) == 2
        assert b"".join(sent) == whole

    monkeypatch.setattr(http1._Answering, "__init__", watched)
    play(tmp_path, story)


class _Watched:
    """A transport that notes what leaves in one piece."""

    def __init__(self, transport: asyncio.Transport, sent: list[bytes]) -> None:
        self._transport, self._sent = transport, sent

    def write(self, data: bytes) -> None:
        self._sent.append(data)
        self._transport.write(data)

    def writelines(self, pieces: tuple[bytes, ...]) -> None:
        self.write(b"".join(pieces))
