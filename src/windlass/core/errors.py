"""Every error a caller can meet, sorted by what the caller will do about it.

    WindlassError
    ├── Invalid          correct the document            400  exit 2
    │   ├── BadRequest   correct the request around it   400  exit 2
    │   │   ├── MethodNotAllowed  use another method     405  exit 2
    │   │   ├── UnsupportedMedia  send JSON or YAML      415  exit 2
    │   │   └── TooSlow  send it faster                  408  exit 2
    │   └── TooLarge     send less                       413  exit 2
    │       └── HeadTooLarge  send fewer headers         431  exit 2
    ├── Unauthenticated  present a valid key             401  exit 7
    ├── NotPermitted     ask for the right               403  exit 7
    ├── NotFound         look elsewhere                  404  exit 4
    ├── Conflict         read again, then decide         409  exit 5
    │   └── StaleVersion the document moved on           412  exit 5
    ├── Rejected         change the intent or the policy 422  exit 3
    ├── TooMany          slow down                       429  exit 6  retry
    └── Unavailable      wait                            503  exit 6  retry

Anything else that escapes is a bug: HTTP 500, exit 1. Foreign exceptions are translated where
they enter (the store, the orchestrator, the HTTP client), never passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that is wrong: which rule, what was found, what was allowed, what to do next."""

    rule: str
    message: str
    remedy: str = ""
    field: str = ""
    value: str = ""
    limit: str = ""
    line: int | None = None

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"rule": self.rule, "message": self.message, "remedy": self.remedy}
        if self.field:
            wire["field"] = self.field
        if self.value:
            wire["value"] = self.value
        if self.limit:
            wire["limit"] = self.limit
        if self.line is not None:
            wire["line"] = self.line
        return wire

    @staticmethod
    def from_wire(wire: dict[str, Any]) -> Reason:
        return Reason(
            rule=wire.get("rule", ""),
            message=wire.get("message", ""),
            remedy=wire.get("remedy", ""),
            field=wire.get("field", ""),
            value=wire.get("value", ""),
            limit=wire.get("limit", ""),
            line=wire.get("line"),
        )


class WindlassError(Exception):
    """The root: carries a code for programs, a status for HTTP, an exit code for shells."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    title: ClassVar[str] = "Something went wrong"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        detail: str,
        *,
        remedy: str = "",
        reasons: Sequence[Reason] = (),
        extra: dict[str, Any] | None = None,
        retry_s: int = 1,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy
        self.reasons = tuple(reasons)
        self.extra = extra or {}
        self.retry_s = retry_s


class Invalid(WindlassError):
    """The document is malformed. Nothing was stored."""

    code = "document.invalid"
    status = 400
    exit_code = 2
    title = "The document is not valid"


class BadRequest(Invalid):
    """Not a document but the request is wrong: its query, its headers, its body's form."""

    code = "request.invalid"
    title = "The request is not valid"


class MethodNotAllowed(BadRequest):
    code = "method.not-allowed"
    status = 405
    title = "This route has no such method"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} is not possible here", remedy=f"use {' or '.join(allowed)}")
        self.allowed = allowed


class UnsupportedMedia(BadRequest):
    code = "media.unsupported"
    status = 415
    title = "A body of this kind is not understood here"


class TooSlow(BadRequest):
    code = "request.too-slow"
    status = 408
    title = "The request did not arrive in time"


class TooLarge(Invalid):
    code = "request.too-large"
    status = 413
    title = "The request is too large"


class HeadTooLarge(TooLarge):
    code = "request.head-too-large"
    status = 431
    title = "The address and the headers of the request are too large"


class Unauthenticated(WindlassError):
    code = "unauthenticated"
    status = 401
    exit_code = 7
    title = "Who are you?"


class NotPermitted(WindlassError):
    code = "not-permitted"
    status = 403
    exit_code = 7
    title = "Not permitted"


class NotFound(WindlassError):
    code = "not-found"
    status = 404
    exit_code = 4
    title = "Not found"


class Conflict(WindlassError):
    code = "conflict"
    status = 409
    exit_code = 5
    title = "It conflicts with what is there"


class StaleVersion(Conflict):
    code = "version.stale"
    status = 412
    title = "The document has changed since you read it"


class Rejected(WindlassError):
    """Policy said no. The decision is stored; `extra["decision"]` carries it."""

    code = "rejected"
    status = 422
    exit_code = 3
    title = "Rejected by policy"


class TooMany(WindlassError):
    code = "too-many"
    status = 429
    exit_code = 6
    title = "Too many requests"
    retryable = True


class Unavailable(WindlassError):
    code = "unavailable"
    status = 503
    exit_code = 6
    title = "Not available right now"
    retryable = True


def received(status: int, code: str = "") -> type[WindlassError]:
    """The class a client raises for what a server answered: by its code, else by its HTTP status."""
    return _BY_CODE.get(code) or _BY_STATUS.get(status, WindlassError)


_RECEIVED: tuple[type[WindlassError], ...] = (
    Invalid,
    BadRequest,
    UnsupportedMedia,
    TooSlow,
    TooLarge,
    HeadTooLarge,
    Unauthenticated,
    NotPermitted,
    NotFound,
    Conflict,
    StaleVersion,
    Rejected,
    TooMany,
    Unavailable,
)
_BY_CODE = {kind.code: kind for kind in _RECEIVED}
_BY_STATUS = {kind.status: kind for kind in reversed(_RECEIVED)} | {
    MethodNotAllowed.status: BadRequest,
    502: Unavailable,  # a proxy in front of a server that is away
    504: Unavailable,
}
