"""What went wrong, translated once: an HTTP status or a broken connection becomes one of the
errors in `core/errors`, with the server's own words, reasons and remedy.

`extra` of a raised error holds `problem` (the `Problem` as received), and from it `decision`,
`results` and `requestId` where the server sent them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from windlass.contracts import api
from windlass.core import errors
from windlass.sdk.calls import Call
from windlass.sdk.http1 import Answer, Server

T = TypeVar("T")

START_IT = "start it with `windlass up` (or `make up`), or point --server / WINDLASS_SERVER at one"


def decode(call: Call[T], answer: Answer, body: bytes) -> T:
    """The typed answer, or the error it stands for."""
    if answer.status >= 400:
        raise from_answer(answer, body)
    try:
        if call.answer is type(None):
            return None
        return msgspec.json.decode(body, type=call.answer)
    except msgspec.DecodeError as error:
        raise errors.WindlassError(
            f"the server's answer to {call.method} {call.path} is not what this client knows: {error}",
            remedy="compare the versions of both with `windlass version`",
        ) from None


def from_answer(answer: Answer, body: bytes) -> errors.WindlassError:
    try:
        problem = msgspec.json.decode(body, type=api.Problem)
    except msgspec.DecodeError:
        return errors.received(answer.status)(
            f"the server answered HTTP {answer.status}{_excerpt(body)}",
            extra={"requestId": answer.headers.get("x-request-id", "")},
        )
    return errors.received(answer.status, problem.code)(
        problem.detail,
        remedy=problem.remedy,
        reasons=[to_core(reason) for reason in problem.reasons],
        extra=_extra(problem),
    )


def to_core(reason: api.Reason) -> errors.Reason:
    return errors.Reason(
        rule=reason.rule,
        message=reason.message,
        remedy=reason.remedy,
        field=reason.field,
        value=reason.value,
        limit=reason.limit,
        line=reason.line,
    )


def refused(server: Server, error: OSError) -> errors.Unavailable:
    """Nobody answers at the address at all."""
    return errors.Unavailable(f"no server answers at {server.url} ({_words(error)})", remedy=START_IT)


def too_slow(server: Server, timeout_s: float) -> errors.Unavailable:
    return errors.Unavailable(
        f"the server at {server.url} did not answer within {timeout_s:g} s",
        remedy="try again; if it stays slow, ask who runs it, and look at its /healthz",
    )


def lost(server: Server, why: str) -> errors.Unavailable:
    return errors.Unavailable(
        f"the connection to {server.url} was lost ({why})",
        remedy="try again; a write that was sent twice with the same idempotency key counts once",
    )


def _extra(problem: api.Problem) -> dict[str, Any]:
    extra: dict[str, Any] = {"problem": problem, "requestId": problem.request_id}
    if problem.decision is not None:
        extra["decision"] = problem.decision
    if problem.results is not None:
        extra["results"] = problem.results
    return extra


def _excerpt(body: bytes) -> str:
    """The first line of what is not a problem document (a proxy's page), shortened."""
    lines = body.decode("utf-8", "replace").strip().splitlines()
    return f": {lines[0][:200]}" if lines and not lines[0].startswith("<") else ""


def _words(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
