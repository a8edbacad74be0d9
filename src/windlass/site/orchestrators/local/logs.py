"""Reading a worker's output while it is written, rotated and cut.

The supervisor names each file by the offset of its first byte, so an offset means the same byte
for ever, and a reader who comes too late learns exactly how much he missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from windlass.site.orchestrators.port import LogChunk

POLL_S = 0.15  # only while somebody follows


def read(folder: Path, *, offset: int, limit: int) -> LogChunk:
    """At most `limit` bytes; read on at `next_offset`. A negative offset counts from the end."""
    for _ in range(10):  # a file may be rotated away between listing and opening it
        files = _files(folder)
        if not files:
            return LogChunk(b"", max(0, offset))
        try:
            return _read(files, offset=offset, limit=limit)
        except FileNotFoundError:
            continue
    return LogChunk(b"", max(0, offset))


def _read(files: list[tuple[int, Path]], *, offset: int, limit: int) -> LogChunk:
    end = files[-1][0] + files[-1][1].stat().st_size
    wanted = max(0, end + offset) if offset < 0 else offset
    start = max(wanted, files[0][0])
    data = b""
    for base, path in files:
        place = start + len(data)
        if base <= place and len(data) < limit:
            with path.open("rb") as file:
                file.seek(place - base)
                data += file.read(limit - len(data))
    dropped = start - wanted if offset >= 0 else 0  # who asks for the end misses nothing
    return LogChunk(data, start, dropped)


def _files(folder: Path) -> list[tuple[int, Path]]:
    found = [(int(path.suffix[1:]), path) for path in folder.glob("log.*") if path.suffix[1:].isdecimal()]
    return sorted(found)


async def follow(
    folder: Callable[[], Path], ended: Callable[[], bool], *, offset: int
) -> AsyncIterator[LogChunk]:
    """`folder` is asked every time: an attempt that is forgotten meanwhile has moved."""
    while True:
        over = await asyncio.to_thread(ended)  # asked first: what was written before is read after
        while True:
            place = folder()
            chunk = await asyncio.to_thread(read, place, offset=offset, limit=1 << 18)
            if chunk.data or chunk.dropped:
                offset = chunk.next_offset
                yield chunk
            elif place.exists() or folder() == place:
                break
        if over:
            return
        await asyncio.sleep(POLL_S)
