"""OpenAPI 3.1 from the table of routes: what is served is what is described."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from windlass import __version__
from windlass.contracts import api
from windlass.control.gateway.request import (
    DEFAULT_PAGE,
    MAX_EVENT,
    MAX_PAGE,
    MAX_TAIL,
    MAX_WHOLE,
    MAX_WORKER,
)
from windlass.control.gateway.routes import Route
from windlass.core.documents.kinds import KINDS
from windlass.core.documents.wire import document_schema
from windlass.core.lifecycle import Phase

_PARAMETER = re.compile(r"\{(\w+)\}")
_REFUSED = {
    name: {"description": text, "schema": {"type": "integer"}}
    for name, text in {
        "Retry-After": "with 429 and 503: seconds to wait",
        "RateLimit-Limit": "with a valid credential that has a limit: units that can be asked for at once",
        "RateLimit-Remaining": "likewise: how many of them are left",
        "RateLimit-Reset": "likewise: seconds until all of them are there again",
    }.items()
}
_SHOWN = {"ETag": {"description": "its version, for If-Match", "schema": {"type": "string"}}}
_BEARER = (
    "An API key, a short-lived token, or a token of an identity provider. With the last, the header"
    " Windlass-Tenant says in which of several tenants to act."
)
_REF = "#/components/schemas/{name}"

_TEXT: dict[str, Any] = {"type": "string"}
_FLAG = {"type": "boolean", "default": False}
_COUNT = {"type": "integer", "minimum": 0, "maximum": MAX_WHOLE}
_PAGE = {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}
_QUERY: dict[str, dict[str, Any]] = {
    "limit": {**_PAGE, "default": DEFAULT_PAGE},
    "last": _PAGE,
    "since": {**_COUNT, "maximum": MAX_EVENT},
    "revision": _COUNT,
    "at": _COUNT,
    "worker": {**_COUNT, "maximum": MAX_WORKER, "default": 0},
    "attempt": {**_COUNT, "minimum": 1},
    "tail": {**_COUNT, "maximum": MAX_TAIL},
    "dryRun": _FLAG,
    "watch": _FLAG,
    "follow": _FLAG,
    "by": {"type": "string", "enum": ["tenant", "project", "component"]},
    "phase": {"type": "string", "enum": list(get_args(Phase))},
}
"""Of the query parameters that are not any text, on whatever route they stand."""
_PATH: dict[str, dict[str, Any]] = {"action": {"type": "string", "enum": ["cancel", "rerun"]}}
_HEADER: dict[str, dict[str, Any]] = {
    "If-Match": {"type": "string", "pattern": '^("[0-9]{1,18}"|[0-9]{1,18})$'},
    "Last-Event-ID": {"type": "string", "pattern": "^[0-9]{1,18}$"},
}


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    shown = sorted(
        {route.gives for route in routes if _is_struct(route.gives)}, key=lambda kind: kind.__name__
    )
    taken = [route.takes for route in routes if _is_struct(route.takes)]
    _, schemas = msgspec.json.schema_components([*shown, *taken, api.Problem], ref_template=_REF)
    for kind in (*KINDS, "Component"):
        schemas[f"{kind}Document"] = document_schema(kind)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.pattern, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": __version__,
            "description": "Declare intent; Windlass decides under policy, says why, runs, meters and bills.",
        },
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": _BEARER,
                }
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "x-windlass-action": route.action,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": _PATH.get(name, _TEXT)}
                for name in _PARAMETER.findall(route.pattern)
            ),
            *(
                {"name": name, "in": "query", "description": text, "schema": _QUERY.get(name, _TEXT)}
                for name, text in route.query.items()
            ),
        ],
        "responses": _responses(route),
    }
    if route.method != "GET":
        operation["parameters"].append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "schema": {"type": "string", "pattern": "^[ -~]{1,200}$"},
            }
        )
    operation["parameters"] += [
        {"name": name, "in": "header", "description": text, "schema": _HEADER.get(name, _TEXT)}
        for name, text in route.headers.items()
    ]
    if route.takes is not None:
        operation["requestBody"] = {"required": True, "content": _taken(route)}
    return operation


def _responses(route: Route) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}}
    if route.gives is None and route.media == "application/json":
        good: dict[str, Any] = {"204": {"description": "Done"}}
    else:
        schema: dict[str, Any] = (
            {"type": "string"} if route.media != "application/json" else _schema(route.gives)
        )
        status = "201" if route.makes else "200"
        content = {route.media: {"schema": schema}}
        if route.streams:
            content[route.streams] = {"schema": {"type": "string"}}
        good = {status: {"description": "Done", "content": content}}
    if route.gives in (api.Document, api.Component) and route.method == "GET":
        good["200"]["headers"] = _SHOWN
    refused = {"description": "Refused, with what to do next", "headers": _REFUSED, "content": problem}
    return {**good, "default": refused}


def _taken(route: Route) -> dict[str, Any]:
    if route.takes != "documents":
        return {"application/json": {"schema": _schema(route.takes)}}
    kinds = [{"$ref": _REF.format(name=f"{kind}Document")} for kind in (*KINDS, "Component")]
    one: dict[str, Any] = {"oneOf": kinds}
    schema = {"oneOf": [*kinds, {"type": "array", "items": one}]}
    return {"application/json": {"schema": schema}, "application/yaml": {"schema": schema}}


def _schema(kind: Any) -> dict[str, Any]:
    if _is_struct(kind):
        return {"$ref": _REF.format(name=kind.__name__)}
    return {"type": "object"}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _operation_id(route: Route) -> str:
    words = re.sub(r"[{}]", "", route.pattern.removeprefix("/v1")).strip("/").replace("/", "-")
    return f"{route.method.lower()}-{words}"
