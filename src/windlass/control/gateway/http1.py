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

A body that was refused before it was whole is read to its end, for a while, and thrown away: to close while
the peer still sends would reset the connection, and the answer could be lost with it.
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
MAX_HEADERS = 100
"""A header of three bytes costs a hundred and more once it is read."""
SMALL_HEAD = 8 * 1024
MAX_LARGE_HEADS = 64 * 1024 * 1024
"""Of all unfinished heads that are not small: there may be thousands of connections."""


class _Connections:
    """Of one gateway."""

    def __init__(self) -> None:
        self.idle: dict[Http1, None] = {}
        """Those on which no request is being answered, those that have been so for longest first."""
        self.large_heads = 0


_all: WeakKeyDictionary[Gateway, _Connections] = WeakKeyDictionary()


class _TooMany(Exception):
    """Headers, in one head."""


class Http1(HttpToolsProtocol):
    _head_open = True
    _head_size = 0  # since the last byte of a body, if a body is open
    _head_since: float | None = None
    _headers_seen = 0
    _held = 0  # of a large head that is not whole
    _looking: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _closing = False
    _answering = False
    _parting = False  # all was said; what is still to come of the request is let in and not looked at

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        gateway = self.config.app
        assert isinstance(gateway, Gateway)
        self._gateway, self._bounds = gateway, gateway.bounds
        self._shared = _all.setdefault(gateway, _Connections())
        self._idle = self._shared.idle

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
        self._hold(0)
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
        large = self._head_open and self._head_size > SMALL_HEAD and not self.transport.is_closing()
        self._hold(self._head_size if large else 0)
        # Only of a head that did not end with these bytes: what follows one is its body.
        if self._head_size > MAX_HEAD and not self.transport.is_closing():
            self._refuse(
                HeadTooLarge(
                    f"the address and the headers are larger than {MAX_HEAD // 1024} KiB",
                    remedy="send fewer and shorter headers",
                )
            )

    def _hold(self, size: int) -> None:
        self._shared.large_heads += size - self._held
        self._held = size
        if size and self._shared.large_heads > MAX_LARGE_HEADS:
            LIMITED.labels("head").inc()
            self._refuse(
                Unavailable(
                    "the platform holds as many large unfinished requests as it may",
                    remedy="try again in a few seconds, with smaller headers",
                    retry_s=5,
                )
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_open:
            return
        self._headers_seen += 1
        if self._headers_seen > MAX_HEADERS:
            raise _TooMany  # the parser stops, and asks for `send_400_response`
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_open, self._head_since, self._answering = False, None, True
        self._head_size = self._headers_seen = 0
        self._idle.pop(self, None)
        super().on_headers_complete()
        self.cycle.transport = _Answering(self)  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        self._head_size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_open, self._head_size, self._head_since = True, 0, None
        if self._parting:
            self.transport.close()

    def part(self) -> None:
        """The last answer of this connection was sent."""
        if self._head_open:
            self.transport.close()
        self._parting = True

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
        if self._headers_seen > MAX_HEADERS:
            self._refuse(HeadTooLarge(f"there are more than {MAX_HEADERS} headers", remedy="send fewer"))
        else:
            self._refuse(
                BadRequest("this is not a request of HTTP/1.1", remedy="/docs lists what can be asked")
            )

    def _refuse(self, error: WindlassError) -> None:
        if self._parting:
            self.transport.close()
            return
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


class _Answering:
    """The transport as an answer uses it: a head leaves together with what follows at once, and an answer
    that is the connection's last closes it when it may."""

    __slots__ = ("_begun", "_head", "_protocol", "_transport", "is_closing")

    def __init__(self, protocol: Http1) -> None:
        self._protocol, self._transport = protocol, protocol.transport
        self.is_closing = protocol.transport.is_closing
        self._begun, self._head = False, b""

    def write(self, data: bytes) -> None:
        """Two packets would cost the server and its client a system call each, and a client two looks."""
        if not self._begun:
            self._begun, self._head = True, data
            self._protocol.loop.call_soon(self._send_head)
        elif self._head:
            self._transport.writelines((self._head, data))
            self._head = b""
        else:
            self._transport.write(data)

    def _send_head(self) -> None:
        """Nothing followed: a stream that has nothing to tell yet, or an answer without a body."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        self._send_head()
        self._protocol.part()
