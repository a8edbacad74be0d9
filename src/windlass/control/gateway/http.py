"""The gateway's front door, as one plain ASGI application.

Every request walks the same short path: find the route, authenticate, authorize (which mints the
scope), read the body within its limit, call the handler, answer. Every error of the tree in
core/errors becomes problem+json here and nowhere else; anything else that escapes is a bug and says
so with the request's id.

There is no framework underneath: one table of routes (gateway/routes.py) serves the router, the
authorization tests and OpenAPI, and a request costs microseconds (docs/decisions/0003).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from windlass.control.gateway.bounds import READ, WRITE, bodies, size_cost, streams
from windlass.control.gateway.confine import confined
from windlass.control.gateway.limiter import Limited, Limiter, Standing, asker
from windlass.control.gateway.minutes import Minutes
from windlass.control.gateway.reading import ReadingTurns, lane
from windlass.control.gateway.request import Request, Response, Stream
from windlass.control.gateway.routes import Route, Router
from windlass.control.identity.authorize import authorize
from windlass.control.identity.door import Door
from windlass.control.identity.scopes import Principal
from windlass.core.errors import (
    BadRequest,
    MethodNotAllowed,
    TooLarge,
    TooSlow,
    Unauthenticated,
    WindlassError,
)
from windlass.runtime.ids import Ids
from windlass.runtime.logging import broke
from windlass.runtime.metrics import REQUEST_SECONDS, REQUESTS, REQUESTS_IN_FLIGHT
from windlass.runtime.tracing import OFF, Span, Trace, Tracer, now_ns

MAX_BODY = 4 * 1024 * 1024
BODY_TIMEOUT_S = 30.0

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_FAILED = 500  # from here on it is the platform that failed, not the request

_ONCE = (b"authorization", b"windlass-tenant", b"idempotency-key", b"if-match", b"content-type", b"host")
"""Of two, whoever stands in front of us may have judged the other."""

_PROBLEM = b"application/problem+json"
_SAFE_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class Gateway:
    def __init__(
        self,
        routes: Sequence[Route],
        door: Door,
        ids: Ids,
        limiter: Limiter,
        tracer: Tracer = OFF,
        minutes: Minutes | None = None,
    ) -> None:
        self._router = Router(routes)
        self._door = door
        self._ids = ids
        self._limiter = limiter
        self.bounds = limiter.bounds
        self._streams, self._bodies = streams(self.bounds), bodies(self.bounds)
        self._reads = ReadingTurns()
        self._tracer = tracer
        self._minutes = minutes
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Streams come to their end; who reads one comes back for the rest, by its last id."""
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        began = perf_counter()
        request_id = self._ids("req")
        served = _Served(scope["method"], request_id)
        if self._tracer.on:
            served.trace, served.began_ns = self._tracer.enter(_traceparent(scope["headers"])), now_ns()
        REQUESTS_IN_FLIGHT.inc()
        try:
            try:
                result = await self._answer(served, scope, receive)
            finally:
                REQUESTS_IN_FLIGHT.dec()
                if served.held_bytes:
                    self._bodies.leave(served.asker, served.held_bytes)
            self._account(served, result.status, perf_counter() - began)
            if served.standing is not None and served.standing.wait_ms:
                await asyncio.sleep(self.bounds.refusal_s)
            await self._send(result, served, receive, send, bodiless=scope["method"] == "HEAD")
        finally:
            if served.streams:
                self._streams.leave(served.asker)

    async def _answer(self, served: _Served, scope: Scope, receive: Receive) -> Response | Stream:
        """The handler's answer, or what went wrong, as problem+json."""
        trace = served.trace.id if served.trace is not None else None
        try:
            served.route, parameters = self._router.find(scope["method"], scope["path"])
            return await self._handle(served.route, parameters, scope, receive, served)
        except WindlassError as error:
            if isinstance(error, Limited):
                served.standing = error.standing
            return problem(error, served.id, trace)
        except Exception as error:
            # The pattern, not the path: what people put into a path by mistake may be a secret.
            broke(
                "a request failed unexpectedly", error, request=served.id, route=served.pattern, traceId=trace
            )
            return problem(
                WindlassError(
                    "the platform made a mistake; it is in the server's log under this request id",
                    remedy="try again; if it stays, report it with the request id",
                ),
                served.id,
                trace,
            )

    async def _send(
        self, result: Response | Stream, served: _Served, receive: Receive, send: Send, *, bodiless: bool
    ) -> None:
        headers = _response_headers(result, served.id)
        if served.standing is not None:
            headers += served.standing.headers
        if isinstance(result, Stream):
            if not bodiless:
                await _stream(result, headers, receive, send, self._closing)
                return
            await result.chunks.aclose()
        body = b"" if bodiless or isinstance(result, Stream) else result.body
        await send({"type": "http.response.start", "status": result.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _account(self, served: _Served, status: int, seconds: float) -> None:
        method = served.method if served.method in _METHODS else "other"
        REQUESTS.labels(method, served.pattern, f"{status // 100}xx").inc()
        REQUEST_SECONDS.labels(served.pattern).observe(seconds)
        offered = served.route is not None and served.route.action is not None
        if offered and self._minutes is not None:
            self._minutes.count(failed=status >= _FAILED)
        if offered and served.trace is not None:
            facts: dict[str, str | int | bool] = {
                "http.request.method": method,
                "http.route": served.pattern,
                "http.response.status_code": status,
                "windlass.request": served.id,
            }
            failure = str(status) if status >= _FAILED else ""
            name = f"{method} {served.pattern}"
            self._tracer.record(
                Span(name, served.trace, served.began_ns, now_ns(), facts, failure, serves=True)
            )

    def refuse(self, error: WindlassError) -> tuple[Response, list[tuple[bytes, bytes]]]:
        """The answer, with its headers, to what never became a request."""
        request_id = self._ids("req")
        result = problem(error, request_id)
        REQUESTS.labels("none", "none", f"{result.status // 100}xx").inc()
        return result, _response_headers(result, request_id)

    async def _handle(
        self, route: Route, parameters: dict[str, str], scope: Scope, receive: Receive, served: _Served
    ) -> Response | Stream:
        headers = _headers(scope["headers"])
        if "host" not in headers and scope["http_version"] == "1.1":
            raise BadRequest("a request of HTTP/1.1 names its host", remedy="send the header Host")
        if route.action is None:
            served.standing = self._limiter.admit_address(_address(scope))
            return await route.open(parameters)
        principal = await self._authenticate(headers, scope)
        served.asker = asker(principal)
        served.standing = self._limiter.admit(principal, READ if route.method == "GET" else WRITE)
        proof = authorize(principal, route.action)
        body = await self._body(headers, receive, served) if route.method != "GET" else b""
        if more := size_cost(len(body)):
            served.standing = self._limiter.admit(principal, more)
        request = Request(
            method=route.method,
            path=scope["path"],
            parameters=parameters,
            query=confined(principal, route, parameters, _query(scope["query_string"], route)),
            headers=headers,
            body=body,
            principal=principal,
            scope=proof,
            id=served.id,
            trace=served.trace,
        )
        result = await self._run(route, request)
        if isinstance(result, Stream):
            return await self._open(result, served, principal)
        if more := size_cost(len(result.body)):
            served.standing = self._limiter.charge(principal, more) or served.standing
        return result

    async def _run(self, route: Route, request: Request) -> Response | Stream:
        if route.method != "GET" or route.action == "site.link":
            return await route.handler(request)
        turn = lane(request.principal, asker(request.principal))
        await self._reads.enter(turn)
        try:
            return await route.handler(request)
        finally:
            self._reads.leave(turn)

    async def _authenticate(self, headers: dict[str, str], scope: Scope) -> Principal:
        """Whoever shows nothing valid is counted by where they ask from."""
        try:
            return await self._door.authenticate(_bearer(headers), headers.get("windlass-tenant"))
        except Unauthenticated:
            self._limiter.admit_address(_address(scope))
            raise

    async def _open(self, stream: Stream, served: _Served, principal: Principal) -> Stream:
        """A stream has a place for as long as it is sent."""
        try:
            self._streams.take(served.asker)
        except WindlassError:
            await stream.chunks.aclose()
            raise
        served.streams = True
        return replace(stream, chunks=self._while_valid(stream.chunks, principal))

    async def _body(self, headers: dict[str, str], receive: Receive, served: _Served) -> bytes:
        stated = headers.get("content-length", "")
        if stated.isdigit() and int(stated) > MAX_BODY:
            raise _too_large()
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise BadRequest("the request ended before its body was whole")
                    piece = message.get("body", b"")
                    size += len(piece)
                    if size > MAX_BODY:
                        raise _too_large()
                    pieces.append(piece)
                    if not message.get("more_body", False):
                        return b"".join(pieces)
                    self._bodies.take(served.asker, len(piece))
                    served.held_bytes = size
        except TimeoutError:
            raise TooSlow(
                f"the body did not arrive within {BODY_TIMEOUT_S:.0f} s", remedy="send it faster"
            ) from None

    async def _while_valid(
        self, chunks: AsyncGenerator[bytes, None], principal: Principal
    ) -> AsyncGenerator[bytes, None]:
        """A stream ends with the key that opened it."""
        async with aclosing(chunks):
            async for chunk in chunks:
                if not self._door.holds(principal):
                    return
                yield chunk


@dataclass(slots=True)
class _Served:
    """One request on its way: what is known of it so far."""

    method: str
    id: str
    route: Route | None = None
    trace: Trace | None = None
    began_ns: int = 0
    asker: str = ""
    standing: Standing | None = None
    held_bytes: int = 0  # of a body that came in pieces
    streams: bool = False

    @property
    def pattern(self) -> str:
        return self.route.pattern if self.route is not None else "none"


def _traceparent(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """The caller's; one that came twice is nobody's."""
    found = [value for name, value in headers if name == b"traceparent"]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def problem(error: WindlassError, request_id: str, trace: str | None = None) -> Response:
    """problem+json (RFC 9457) of contract §5; `extra` adds the decision and the results."""
    body: dict[str, Any] = {
        "type": f"https://windlass.dev/problems/{error.code}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
        "reasons": [reason.to_wire() for reason in error.reasons],
        "remedy": error.remedy,
        "requestId": request_id,
        **error.extra,
    }
    if trace is not None:
        body["traceId"] = trace
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if isinstance(error, MethodNotAllowed):
        headers = ((b"allow", ", ".join(error.allowed).encode()),)
    elif error.status == Unauthenticated.status:
        headers = ((b"www-authenticate", b'Bearer realm="windlass"'),)
    elif error.retryable:
        headers = ((b"retry-after", b"%d" % error.retry_s),)
    return Response(error.status, msgspec.json.encode(body), _PROBLEM, headers)


def _headers(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    if len(headers) < len(raw):
        names = [name for name, _ in raw]
        for name in _ONCE:
            if names.count(name) > 1:
                raise BadRequest(f"the header {name.decode()} is given twice", remedy="keep one of the two")
    return headers


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _bearer(headers: dict[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated(
            "the request carries no API key and no token",
            remedy="send `Authorization: Bearer <key>`; `windlass up` writes one to your context,"
            " `windlass login` gets you a token",
        )
    return token.strip()


def _query(raw: bytes, route: Route) -> dict[str, str]:
    if not raw:
        return {}
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=50, errors="strict")
    except ValueError:
        raise BadRequest("the query string cannot be read", remedy="percent-encode it as UTF-8") from None
    query = dict(pairs)
    if len(query) < len(pairs):
        raise BadRequest("a query parameter is given twice", remedy="keep one of the two")
    unknown = sorted(set(query) - set(route.query))
    if unknown:
        allowed = ", ".join(route.query) or "none"
        raise BadRequest(
            f"unknown query parameter: {unknown[0][:100]}", remedy=f"this route takes: {allowed}"
        )
    if any("\x00" in value for value in query.values()):
        raise BadRequest("a query parameter contains a NUL", remedy="leave it out")
    if not query.get("cursor", "-"):
        del query["cursor"]  # a first page, for those who always send one
    return query


def _too_large() -> TooLarge:
    return TooLarge(
        f"the request is larger than {MAX_BODY // 1024 // 1024} MiB", remedy="apply fewer documents at a time"
    )


def _response_headers(result: Response | Stream, request_id: str) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"content-type", result.content_type),
        (b"x-request-id", request_id.encode()),
        *_SAFE_HEADERS,
        *result.headers,
    ]
    if isinstance(result, Response):
        headers.append((b"content-length", str(len(result.body)).encode()))
    return headers


async def _stream(
    result: Stream, headers: list[tuple[bytes, bytes]], receive: Receive, send: Send, closing: asyncio.Event
) -> None:
    """Send until the source ends, the client goes away or the platform stops, whichever is first."""
    await send({"type": "http.response.start", "status": result.status, "headers": headers})

    async def pump() -> None:
        async with aclosing(result.chunks) as chunks:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    pumping, leaving = asyncio.create_task(pump()), asyncio.create_task(gone())
    stopping = asyncio.create_task(closing.wait())
    tasks = (pumping, leaving, stopping)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        over = pumping.done() and pumping.exception() is None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if over or closing.is_set():
        await send({"type": "http.response.body", "body": b""})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
