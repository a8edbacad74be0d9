"""One blocking connection to the server. It sends a request and gives the answer in pieces.

What can go wrong is told apart by what the caller does next: `Unavailable` when nobody answers,
`Lost` when a connection that worked broke, which another try may cure.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

from windlass.sdk import failures
from windlass.sdk.http1 import Answer, Broken, Server

_CHUNK = 65_536
# A stream that follows a quiet job may be silent for hours; the kernel notices a dead peer for us.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class Lost(Exception):
    """The connection broke before the answer was complete."""


class Connection:
    """Open from its making until `close`. Used by one exchange at a time."""

    def __init__(self, server: Server, *, connect_timeout_s: float) -> None:
        self._server = server
        try:
            # As bytes: a str would load the idna codec (3 ms) for an ASCII name.
            address: Any = (server.host.encode("ascii"), server.port)
            plain = socket.create_connection(address, connect_timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(plain)
            self._socket = _with_tls(plain, server.host) if server.tls else plain
        except OSError as error:
            raise failures.refused(server, error) from None

    def send(self, request: bytes, timeout_s: float | None) -> tuple[Answer, bytes]:
        """The answer once its head is here, and the part of the body that came with it."""
        self._socket.settimeout(timeout_s)
        try:
            self._socket.sendall(request)
        except TimeoutError:
            raise failures.too_slow(self._server, timeout_s or 0) from None
        except OSError as error:
            raise Lost(str(error)) from None
        answer = Answer()
        body = b""
        while not answer.has_head:
            body += self._receive(answer)
        return answer, body

    def rest(self, answer: Answer) -> Iterator[bytes]:
        """The rest of the body, piece by piece as it arrives."""
        while not answer.complete:
            if piece := self._receive(answer):
                yield piece

    def wait_forever(self) -> None:
        """For streams: silence is not an error any more."""
        self._socket.settimeout(None)

    def close(self) -> None:
        self._socket.close()

    def _receive(self, answer: Answer) -> bytes:
        try:
            return answer.feed(self._socket.recv(_CHUNK))
        except TimeoutError:
            raise failures.too_slow(self._server, self._socket.gettimeout() or 0) from None
        except (OSError, Broken) as error:
            raise Lost(str(error)) from None


def keep_alive(plain: socket.socket) -> None:
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if (option := getattr(socket, name, None)) is not None:  # not on every system
            plain.setsockopt(socket.IPPROTO_TCP, option, value)


def _with_tls(plain: socket.socket, host: str) -> socket.socket:
    import ssl  # only for https: it costs 10 ms

    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
