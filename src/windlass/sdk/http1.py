"""HTTP/1.1 without I/O: a request as bytes, an answer fed bytes as they arrive.

Both clients share this, one over a blocking socket, one over asyncio. `http.client` was the
alternative: it costs 20 ms of imports (email, ssl) on every command line, serves only the
blocking client, and hides the connection that a cancelled log stream must close. Parsing is
llhttp's, through httptools, which the server uses too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

import httptools

from windlass.core.errors import Invalid

DEFAULT_PORT = 7420
MAX_BODY = 256 * 1024 * 1024  # an answer larger than this is a mistake, not data


class Broken(Exception):
    """The bytes on the connection are not the rest of an HTTP answer."""


class Server(NamedTuple):
    """Where the API answers."""

    host: str
    port: int
    tls: bool
    prefix: str

    @property
    def url(self) -> str:
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_server(text: str) -> Server:
    """`http://127.0.0.1:7420`, `https://gpu.example/windlass`, or a bare `host:port`."""
    full = text if "://" in text else f"http://{text}"
    remedy = "an address looks like http://127.0.0.1:7420 or https://windlass.example"
    try:
        url = httptools.parse_url(full.encode("ascii"))
    except (httptools.HttpParserInvalidURLError, UnicodeEncodeError):
        raise Invalid(f"{text!r} is not an address of a server", remedy=remedy) from None
    scheme = url.schema.decode()
    if scheme not in {"http", "https"} or not url.host or url.userinfo:
        raise Invalid(f"{text!r} is not an address of a server", remedy=remedy)
    tls = scheme == "https"
    port = url.port or (443 if tls else DEFAULT_PORT if "://" not in text else 80)
    return Server(url.host.decode(), port, tls, (url.path or b"").decode().rstrip("/"))


def target(segments: tuple[str, ...], query: Mapping[str, object]) -> str:
    """The path and query of a request; parameters that are None or False are left out."""
    path = "/" + "/".join(quote(segment, safe="") for segment in segments)
    pairs = [
        f"{name}={quote('true' if value is True else str(value), safe='')}"
        for name, value in query.items()
        if value is not None and value is not False
    ]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def encode_request(
    server: Server, method: str, path: str, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    lines = [f"{method} {server.prefix}{path} HTTP/1.1", f"Host: {server.authority}"]
    for name, value in headers.items():
        if not value.isprintable() or not value.isascii():
            raise Invalid(f"the {name} header cannot carry this value")
        lines.append(f"{name}: {value}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + (body or b"")


class Answer:
    """One answer while it is read: feed it what arrives, take the pieces of its body."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.has_head = False
        self.complete = False
        self.keep_alive = False
        self._pieces: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> bytes:
        """Give what the connection gave; empty means it closed. Returns the new part of the body."""
        if not data:
            self._closed()
            return b""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise Broken(f"not an HTTP answer: {error}") from None
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def _closed(self) -> None:
        framed = "content-length" in self.headers or "transfer-encoding" in self.headers
        if not self.has_head or framed:
            raise Broken("the connection closed in the middle of an answer")
        self.complete = True

    # What httptools calls back.

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.has_head = True

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self.complete = True
        self.keep_alive = self._parser.should_keep_alive()
