"""One connection to the server on asyncio streams; the twin of `connection.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from windlass.sdk import failures
from windlass.sdk.connection import Lost, keep_alive
from windlass.sdk.http1 import Answer, Broken, Server

_CHUNK = 65_536


class AsyncConnection:
    """Open from `open` until `close`. Used by one exchange at a time."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._timeout_s: float | None = None

    @classmethod
    async def open(cls, server: Server, *, connect_timeout_s: float) -> AsyncConnection:
        try:
            async with asyncio.timeout(connect_timeout_s):
                reader, writer = await asyncio.open_connection(
                    server.host, server.port, ssl=True if server.tls else None
                )
        except OSError as error:  # TimeoutError is one
            raise failures.refused(server, error) from None
        keep_alive(writer.get_extra_info("socket"))
        return cls(server, reader, writer)

    async def send(self, request: bytes, timeout_s: float | None) -> tuple[Answer, bytes]:
        """The answer once its head is here, and the part of the body that came with it."""
        self._timeout_s = timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(request)
                await self._writer.drain()
        except TimeoutError:
            raise failures.too_slow(self._server, timeout_s or 0) from None
        except OSError as error:
            raise Lost(str(error)) from None
        answer = Answer()
        body = b""
        while not answer.has_head:
            body += await self._receive(answer)
        return answer, body

    async def rest(self, answer: Answer) -> AsyncIterator[bytes]:
        """The rest of the body, piece by piece as it arrives."""
        while not answer.complete:
            if piece := await self._receive(answer):
                yield piece

    def wait_forever(self) -> None:
        """For streams: silence is not an error any more."""
        self._timeout_s = None

    def close(self) -> None:
        self._writer.close()

    async def _receive(self, answer: Answer) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                data = await self._reader.read(_CHUNK)
            return answer.feed(data)
        except TimeoutError:
            raise failures.too_slow(self._server, self._timeout_s or 0) from None
        except (OSError, Broken) as error:
            raise Lost(str(error)) from None
