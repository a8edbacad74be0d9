"""A network between a replica and its database that a test can slow down, stop, or cut at a word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

Cut = Literal["", "before", "after"]
COMMITTING = b"NOTIFY windlass_events"
"""In the message that ends a transaction of a unit, and in no other."""


class Proxy:
    """`cut`: at the next commit, before the server hears of it, or after it answered. `delay_s`: how long
    everything takes each way. Nothing passes while `open` is clear."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = 0
        self.cut: Cut = ""
        self.cuts = 0
        self.delay_s = 0.0
        self.open = asyncio.Event()
        self.open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    def cut_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, there_writer}
        self._writers |= both
        ends = asyncio.Event()
        try:
            await asyncio.gather(
                self._up(reader, there_writer, both, ends), self._down(there_reader, writer, both, ends)
            )
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for one in both:
                one.transport.abort()
            self._writers -= both

    async def _up(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        both: set[asyncio.StreamWriter],
        ends: asyncio.Event,
    ) -> None:
        while data := await source.read(65_536):
            await self._pass()
            if self.cut and COMMITTING in data:
                how, self.cut = self.cut, ""
                self.cuts += 1
                if how == "before":
                    break
                ends.set()
            target.write(data)
            await target.drain()
        _abort(both)

    async def _down(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        both: set[asyncio.StreamWriter],
        ends: asyncio.Event,
    ) -> None:
        while data := await source.read(65_536):
            await self._pass()
            if ends.is_set():
                break  # it is done, and nobody will hear of it
            target.write(data)
            await target.drain()
        _abort(both)

    async def _pass(self) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self.open.wait()


def _abort(both: set[asyncio.StreamWriter]) -> None:
    for one in both:
        one.transport.abort()


@asynccontextmanager
async def proxied(port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(port)
    connections: set[asyncio.Task[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
