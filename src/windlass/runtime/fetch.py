"""One small document from another server, within limits that the other side cannot stretch.

For what a provider publishes about itself. A whole exchange has one deadline, an answer has a size, and a
redirect is an answer like any other that is not 200: whoever names an address means that address.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import httptools

Fetch = Callable[[str], Awaitable[bytes]]

DEADLINE_S = 5.0
MAX_BYTES = 256 * 1024
_CHUNK = 16_384


class FetchFailed(Exception):
    """In words that fit after "could not be read:"."""


class _Answer:
    """What httptools calls back. An answer that is not framed ends with the connection."""

    def __init__(self) -> None:
        self.body = b""
        self.headed = False
        self.framed = False
        self.complete = False

    def on_header(self, name: bytes, _: bytes) -> None:
        self.framed = self.framed or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self.headed = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


async def fetch(url: str, *, deadline_s: float = DEADLINE_S, max_bytes: int = MAX_BYTES) -> bytes:
    try:
        async with asyncio.timeout(deadline_s):
            return await _exchange(url, max_bytes)
    except TimeoutError:
        raise FetchFailed(f"no whole answer within {deadline_s:g} s") from None
    except httptools.HttpParserError:
        raise FetchFailed("the answer is not HTTP") from None
    except (OSError, ValueError) as error:
        raise FetchFailed(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None


async def _exchange(url: str, max_bytes: int) -> bytes:
    parts = urlsplit(url)
    tls = await asyncio.to_thread(ssl.create_default_context) if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        writer.write(
            f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n"
            "User-Agent: windlass\r\nConnection: close\r\n\r\n".encode("ascii")
        )
        await writer.drain()
        return await _read(reader, max_bytes)
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader, max_bytes: int) -> bytes:
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    received = 0
    while not answer.complete:
        piece = await reader.read(_CHUNK)
        received += len(piece)
        if received > max_bytes:
            raise FetchFailed(f"the answer is larger than {max_bytes // 1024} KiB")
        if not piece:
            break
        parser.feed_data(piece)
    status = parser.get_status_code() if answer.headed else 0
    if not answer.complete and (answer.framed or not status):
        raise FetchFailed("it closed the connection before the answer was whole")
    if status != 200:
        raise FetchFailed(f"it answered with status {status}")
    return answer.body
