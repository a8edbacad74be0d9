"""Reading a small document from a server that may be slow, endless, broken or hostile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from windlass.runtime.fetch import FetchFailed, fetch

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\n"


def says(answer: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    return serve


async def never_ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Whole megabytes for as long as somebody reads."""
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    try:
        while not writer.is_closing():
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()
    except OSError:
        pass  # they have seen enough
    finally:
        writer.close()


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()  # until the other side gives up
    writer.close()


async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never silent for long, so that a deadline per piece would not end it."""
    writer.write(HEAD + b"Content-Length: 100000\r\n\r\n")
    try:
        while not writer.is_closing() and not reader.at_eof():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.005)  # the pace of the drip, not a wait for something
    except OSError:
        pass
    finally:
        writer.close()


def fetched(serve: Serve, *, deadline_s: float = 5.0, path: str = "/doc?x=1") -> bytes:
    served: list[asyncio.Task[None] | None] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        await serve(reader, writer)
        with suppress(OSError):
            await writer.wait_closed()

    async def run() -> bytes:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            try:
                return await fetch(
                    f"http://127.0.0.1:{port}{path}", deadline_s=deadline_s, max_bytes=64 * 1024
                )
            finally:
                await asyncio.gather(*(task for task in served if task is not None))

    return asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Content-Length: 2\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        HEAD + b"\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
    ],
)
def test_a_document_is_read_however_its_length_is_told(answer: bytes) -> None:
    assert fetched(says(answer)) == b"{}"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "302"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}", "500"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "204"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP"),
        (b"\x16\x03\x01\x02\x00", "not HTTP"),
        (b"", "closed"),
        (HEAD + b"X: " + b"y" * 100_000, "larger than 64 KiB"),
        (HEAD + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000, "larger than 64 KiB"),
        (HEAD + b"Content-Length: 10\r\n\r\n{}", "closed"),
    ],
)
def test_what_is_not_a_whole_small_answer_is_refused(answer: bytes, why: str) -> None:
    with pytest.raises(FetchFailed, match=why):
        fetched(says(answer))


def test_an_answer_without_end_is_left_as_soon_as_it_is_too_large() -> None:
    with pytest.raises(FetchFailed, match="larger than 64 KiB"):
        fetched(never_ends)


@pytest.mark.parametrize("serve", [says_nothing, drips])
def test_the_deadline_is_for_the_whole_exchange(serve: Serve) -> None:
    with pytest.raises(FetchFailed, match=r"within 0\.2 s"):
        fetched(serve, deadline_s=0.2)


def test_nobody_there_is_told_as_such() -> None:
    async def run() -> None:
        server = await asyncio.start_server(says(b""), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        await fetch(f"http://127.0.0.1:{port}/")

    with pytest.raises(FetchFailed, match="Connect call failed"):
        asyncio.run(run())
