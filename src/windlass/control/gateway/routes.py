"""One row per route: how it is found, what it needs, what it answers. The table itself is made in
gateway/table.py; OpenAPI, the reference and the isolation tests are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from windlass.control.gateway.request import Request, Response, Stream
from windlass.control.identity.authorize import Action
from windlass.core.errors import MethodNotAllowed, NotFound

Handler = Callable[[Request], Awaitable[Response | Stream]]
OpenHandler = Callable[[Mapping[str, str]], Awaitable[Response | Stream]]


@dataclass(frozen=True, slots=True)
class Route:
    """`action` of None: open to everybody (health, metrics, the description of the API)."""

    method: str
    pattern: str  # "/v1/tiers/{name}"
    summary: str
    action: Action | None
    run: Handler | OpenHandler
    query: Mapping[str, str] = field(default_factory=dict)
    takes: Any = None  # what the body is, for OpenAPI
    gives: Any = None  # what a 200 carries, for OpenAPI
    media: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)  # what it heeds, for OpenAPI
    makes: bool = False  # a 201 instead of a 200
    streams: str = ""  # another media type that a 200 may have, for OpenAPI

    @property
    def handler(self) -> Handler:
        assert self.action is not None
        return cast(Handler, self.run)

    @property
    def open(self) -> OpenHandler:
        assert self.action is None
        return cast(OpenHandler, self.run)


class Router:
    """Finds by the number of path segments, then segment by segment; literal before parameter. HEAD is
    answered by what answers GET."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._by_length: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        for route in sorted(routes, key=lambda route: route.pattern.count("{")):
            parts = tuple(route.pattern.strip("/").split("/"))
            same_length = self._by_length.setdefault(len(parts), [])
            for known, methods in same_length:
                if known == parts:
                    methods[route.method] = route
                    break
            else:
                same_length.append((parts, {route.method: route}))

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        segments = path.strip("/").split("/")
        for parts, methods in self._by_length.get(len(segments), ()):
            parameters = _match(parts, segments)
            if parameters is None:
                continue
            route = methods.get("GET" if method == "HEAD" else method)
            if route is None:
                allowed = {*methods, "HEAD"} if "GET" in methods else methods
                raise MethodNotAllowed(method, sorted(allowed))
            return route, parameters
        raise NotFound(f"there is no route {path[:200]}", remedy="/docs and /openapi.json list the routes")


def _match(parts: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    parameters: dict[str, str] = {}
    for part, segment in zip(parts, segments, strict=True):
        if part[:1] == "{":
            if not segment:
                return None
            parameters[part[1:-1]] = segment
        elif part != segment:
            return None
    return parameters
