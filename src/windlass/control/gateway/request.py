"""A request as handlers see it, and the answers they give."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from windlass.control.db.narrow import Place
from windlass.control.identity.scopes import Principal, Scope
from windlass.core.errors import BadRequest, Reason, UnsupportedMedia
from windlass.runtime.tracing import Trace

MAX_PAGE = 500
DEFAULT_PAGE = 100
MAX_EVENT = 10**18 - 1
MAX_WHOLE = 2**62
MAX_WORKER = 10_000
MAX_TAIL = 1 << 30

_encode = msgspec.json.Encoder().encode

_JSON = ("application/json", "text/json")
_YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_UNSAID = ("", "application/octet-stream", "application/x-www-form-urlencoded", "text/plain", "*/*")
"""What tools send for a body of which nobody told them the type; `curl -d` sends the third."""


@dataclass(frozen=True, slots=True)
class Request:
    """Authenticated, authorized and read to its end. `scope` is the proof for the store."""

    method: str
    path: str
    parameters: Mapping[str, str]
    query: Mapping[str, str] = field(repr=False)  # these three may hold a secret
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    principal: Principal
    scope: Scope
    id: str
    trace: Trace | None = None

    def flag(self, name: str) -> bool:
        value = self.query.get(name, "false")
        if value not in ("true", "false"):
            raise _bad_query(name, value, "true or false")
        return value == "true"

    def whole(self, name: str, default: int, *, least: int = 0, most: int = MAX_WHOLE) -> int:
        text = self.query.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 19 or not least <= int(text) <= most:
            raise _bad_query(name, text, f"a whole number from {least} to {most}")
        return int(text)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """One of them, in any case; None when it is not asked for."""
        value = self.query.get(name)
        if not value:
            return None
        for one in allowed:
            if one.lower() == value.lower():
                return one
        raise _bad_query(name, value, f"one of {', '.join(allowed)}")

    @property
    def media(self) -> Literal["json", "yaml"]:
        """What the body is, by its content type; where that says nothing, by the first character."""
        kind, _, more = self.headers.get("content-type", "").partition(";")
        kind, charset = kind.strip().lower(), more.lower().partition("charset=")[2].strip('" ')
        if charset not in ("", "utf-8", "utf8", "us-ascii"):
            raise UnsupportedMedia(f"the charset {charset[:50]} is not understood", remedy="send UTF-8")
        encoding = self.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            raise UnsupportedMedia(
                f"the content encoding {encoding[:50]} is not understood", remedy="send the body as it is"
            )
        if kind in _JSON or kind.endswith("+json"):
            return "json"
        if kind in _YAML or kind.endswith("+yaml"):
            return "yaml"
        if kind in _UNSAID:
            return "json" if self.body.lstrip()[:1] in (b"{", b"[") else "yaml"
        raise UnsupportedMedia(
            f"the content type {kind[:50]} is not understood",
            remedy="send application/json or application/yaml",
        )

    @property
    def if_match(self) -> int | None:
        """The version of the document that the asker has seen."""
        stated = self.headers.get("if-match")
        if stated is None:
            return None
        text = stated.strip().strip('"')
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise BadRequest(
                "If-Match takes a document's version, a whole number",
                remedy="send the ETag of what you read",
            )
        return int(text)

    @property
    def place(self) -> Place:
        return Place(self.query.get("tenant"), self.query.get("project"), self.query.get("env"))

    @property
    def limit(self) -> int:
        return self.whole("limit", DEFAULT_PAGE, least=1, most=MAX_PAGE)

    def cursor(self, position: str | int) -> str:
        """Where the next page of this very list begins. Another list's cursor would skip or repeat."""
        text = f"{self._list}\n{position}"
        return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()

    def after(self, first: str = "") -> str:
        """The position that the cursor of the page before named; `first` for the first page."""
        stated = self.query.get("cursor")
        if stated is None:
            return first
        try:
            text = urlsafe_b64decode(stated + "=" * (-len(stated) % 4)).decode()
        except ValueError:
            raise _bad_cursor(stated) from None
        listed, _, position = text.partition("\n")
        if listed != self._list or "\x00" in position:
            raise _bad_cursor(stated)
        return position

    def after_number(self, first: int) -> int:
        """The same, of a list whose positions are numbers."""
        position = self.after(str(first))
        if not position.isascii() or not position.isdigit() or len(position) > 19:
            raise _bad_cursor(self.query["cursor"])
        return min(int(position), MAX_WHOLE)

    @property
    def _list(self) -> str:
        return self.path.rstrip("/")


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes = b""
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on for as long as the client listens or the source has more."""

    chunks: AsyncGenerator[bytes, None]
    content_type: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = field(default=())


def answer(value: Any, status: int = 200, *, version: int | None = None) -> Response:
    """`version`: of the one document that it shows, for If-Match."""
    headers = () if version is None else ((b"etag", b'"%d"' % version),)
    return Response(status, _encode(value), headers=headers)


def _bad_cursor(stated: str) -> BadRequest:
    return BadRequest(
        f"the cursor {stated[:100]} is not one of this list",
        remedy="send the cursor of the page before, unchanged, or none for the first page",
    )


def _bad_query(name: str, value: str, allowed: str) -> BadRequest:
    return BadRequest(
        f"the query parameter {name} is not {allowed}",
        reasons=[
            Reason(
                rule="request.invalid",
                field=f"query.{name}",
                value=value[:100],
                limit=allowed,
                message=f"{name} is not {allowed}",
                remedy=f"send {allowed}",
            )
        ],
    )
