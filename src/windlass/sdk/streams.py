"""Two streams over one HTTP body, without I/O: server-sent events, and text as it arrives."""

from __future__ import annotations

import codecs

import msgspec

from windlass.contracts import api


class EventReader:
    """Server-sent events: feed it bytes, take whole events. Comments (keep-alives) are skipped."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[api.Event]:
        lines = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        self._rest = lines.pop()
        events = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                # The event's id and type are inside the JSON too; one source is enough.
                events.append(msgspec.json.decode(b"\n".join(self._data), type=api.Event))
                self._data = []
        return events


class TextReader:
    """UTF-8 whose characters may be cut by the pieces it comes in; bad bytes become U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes, *, last: bool = False) -> str:
        return self._decoder.decode(piece, last)
