"""What comes before a request is one, and after its answer is made: heads, connections, readers, all within
limits, and a problem for what is no HTTP.

The server underneath keeps a header until it has all of it, however long it is or takes, before anybody
has shown a key; a connection that says nothing it keeps for ever, and so it does with an answer that
nobody reads; what it cannot read or has no room for it answers in plain text. All of that ends here.

When there are as many connections as there may be, the one that has been idle for longest makes room:
one on which no request is being answered, so also one whose head does not come to its end. Only when all
are busy is a new one refused.

What comes beside the parts of a body (sizes of chunks and what is written after them, trailers) is held to
the same size as a head. Trailers are not read: a header that comes after the body is one that nobody in
front of us has seen. An answer to what is no request is never sent in place of another's.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from windlass.control.gateway.http import Gateway
from windlass.core.errors import BadRequest, HeadTooLarge, TooSlow, Unavailable, WindlassError
from windlass.runtime.metrics import LIMITED

MAX_HEAD = 64 * 1024

_idle: WeakKeyDictionary[Gateway, dict[Http1, None]] = WeakKeyDictionary()
"""Connections on which no request is being answered, those that have been so for longest first."""


class Http1(HttpToolsProtocol):
    _head_open = True
    _head_size = 0  # since the last byte of a body, if a body is open
    _head_since: float | None = None
    _looking: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _closing = False
    _answering = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        gateway = self.config.app
        assert isinstance(gateway, Gateway)
        self._gateway, self._bounds = gateway, gateway.bounds
        self._idle = _idle.setdefault(gateway, {})

    # --- connections: so many at once, and none that stays without a word ------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_since = self.loop.time()
        self._looking = self.loop.call_later(self._bounds.head_s, self._look)
        if len(self.connections) > self._bounds.connections and not self._make_room():
            LIMITED.labels("connections").inc()
            self._refuse(
                Unavailable(
                    f"the platform has {self._bounds.connections} busy connections, the most it may",
                    remedy="try again in a few seconds; keep one connection and use it again",
                    retry_s=5,
                )
            )
        else:
            self._idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.pop(self, None)
        for timer in (self._looking, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _make_room(self) -> bool:
        for other in self._idle:
            del self._idle[other]
            LIMITED.labels("evicted").inc()
            other.transport.abort()
            return True
        return False

    def _look(self) -> None:
        """One look now and then instead of a timer for every request. A head is late if it began before
        the last look and is still open; a connection that closes all that time has a peer that does not
        read."""
        self._looking = self.loop.call_later(self._bounds.head_s, self._look)
        if self.transport.is_closing():
            if self._closing:
                self.transport.abort()
            self._closing = True
        elif self._head_since is not None and self.loop.time() - self._head_since >= self._bounds.head_s:
            LIMITED.labels("head").inc()
            if not self._head_open:
                self.transport.abort()  # the rest of a body, after its answer: all was said
                return
            late = TooSlow(
                f"the address and the headers did not arrive within {self._bounds.head_s:g} s",
                remedy="send them at once",
            )
            self._refuse(late)

    # --- requests ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._head_open and self._head_since is None:
            self._head_since = self.loop.time()
        self._head_size += len(data)
        super().data_received(data)
        # Only of a head that did not end with these bytes: what follows one is its body.
        if self._head_size > MAX_HEAD and not self.transport.is_closing():
            self._refuse(
                HeadTooLarge(
                    f"the address and the headers are larger than {MAX_HEAD // 1024} KiB",
                    remedy="send fewer and shorter headers",
                )
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_open:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_open, self._head_since, self._answering = False, None, True
        self._head_size = 0
        self._idle.pop(self, None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_open, self._head_size, self._head_since = True, 0, None

    def on_response_complete(self) -> None:
        self._answering = bool(self.pipeline)
        if not self._head_open and not self._answering:
            self._head_since = (
                self.loop.time()
            )  # answered before its body was whole: the rest has an end, too
        if not self._answering and not self.transport.is_closing():
            self._idle[self] = None
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (theirs; it says no more than ours)
        self._refuse(BadRequest("this is not a request of HTTP/1.1", remedy="/docs lists what can be asked"))

    def _refuse(self, error: WindlassError) -> None:
        if self._answering:  # whoever waits for that answer would take this one for it
            self.transport.abort()
            return
        answer, headers = self._gateway.refuse(error)
        head = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}".encode()]
        head += [name + b": " + value for name, value in (*headers, (b"connection", b"close"))]
        self.transport.write(b"\r\n".join([*head, b"", answer.body]))
        self.transport.close()

    # --- answers: nothing is kept for who does not read --------------------------------------------------

    def pause_writing(self) -> None:
        """So much waits to be read that no more is made. A stream can be resumed by its last id."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._bounds.stalled_s, self._give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _give_up(self) -> None:
        LIMITED.labels("reader").inc()
        self.transport.abort()
