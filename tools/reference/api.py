"""api.md: every route, then the shape of everything they answer with."""

from __future__ import annotations

import inspect
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from tools.reference.markdown import code, lines_of, link, sentence, table
from tools.reference.routes import all_routes, openapi
from windlass.contracts import agent, api
from windlass.contracts.wire import Wire
from windlass.control.gateway.http import MAX_BODY
from windlass.control.gateway.routes import Route

_HEADERS = ["Method and path", "Does", "Needs", "Query", "Takes", "Answers"]


def page() -> str:
    closed = [route for route in all_routes() if route.action is not None]
    free = [route for route in all_routes() if route.action is None]
    lines = [
        "A machine reads the same at `/openapi.json`, a person at `/docs`.",
        "",
        "## Routes",
        "",
        "Each takes `Authorization: Bearer KEY`, where KEY is an API key or a token"
        " ([who may do what](../guides/identity.md)). *Needs* is the action the key's role must have"
        " ([authorization](authorization.md)). Other methods than GET take `Idempotency-Key`."
        f" A body is JSON or YAML, {MAX_BODY // 1024 // 1024} MiB at most. What goes wrong is answered as"
        f" {link('Problem')} ([errors](errors.md)).",
        "",
        "A list comes by the page: send the `cursor` of one page, unchanged, for the next; it opens no other"
        " list. One document or component comes with its version as `ETag`; sent back as `If-Match`, a"
        " change is made only if nobody else made one meanwhile (412). `GET /v1/events?watch=true` streams;"
        " it is taken up again after the event in `since` or `Last-Event-ID`.",
        "",
        *table(_HEADERS, map(_row, closed)),
        "## Open routes",
        "",
        "These need no key.",
        "",
        *table(
            ["Method and path", "Does", "Answers"], ([_path(one), one.summary, one.media] for one in free)
        ),
        "## Shapes",
        "",
        " ".join((api.__doc__ or "").split()),
        "",
    ]
    for shape in shapes():
        lines += _shape(shape)
    return lines_of("HTTP API", "the gateway's table of routes and the types of its answers", *lines)


def shapes() -> list[type[msgspec.Struct]]:
    """Every type of contracts/api.py that goes over the wire, in the order of the file; then what a site's
    agent and a server say to each other."""
    told = [
        found
        for found in vars(api).values()
        if inspect.isclass(found) and issubclass(found, Wire) and found is not Wire
    ]
    linked = [
        found
        for found in vars(agent).values()
        if inspect.isclass(found) and issubclass(found, msgspec.Struct) and found.__module__ == agent.__name__
    ]
    return [*told, *linked]


def _row(route: Route) -> list[str]:
    query = "; ".join(f"{code(name)}: {text}" for name, text in route.query.items())
    return [_path(route), route.summary, code(route.action or ""), query, _taken(route), _given(route)]


def _path(route: Route) -> str:
    return code(f"{route.method} {route.pattern}")


def _taken(route: Route) -> str:
    if route.takes is None:
        return ""
    return "[documents](documents.md)" if route.takes == "documents" else type_text(route.takes)


def _given(route: Route) -> str:
    """The status OpenAPI promises, and what comes with it."""
    responses = openapi()["paths"][route.pattern][route.method.lower()]["responses"]
    status = next(name for name in responses if name.isdigit())
    if route.gives is not None:
        return f"{status} {type_text(route.gives)}"
    return f"{status} {route.media}" if route.media != "application/json" else status


def _shape(shape: type[msgspec.Struct]) -> list[str]:
    hints = get_type_hints(shape)
    rows = []
    for field in msgspec.structs.fields(shape):
        default = "always there" if field.required else code(_default(field))
        rows.append([code(field.encode_name), type_text(hints[field.name]), default])
    said = sentence(vars(shape).get("__doc__"))
    return [f"### {shape.__name__}", "", *([said, ""] if said else []), *table(["Field", "Is", "Else"], rows)]


def _default(field: msgspec.structs.FieldInfo) -> str:
    made = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return msgspec.json.encode(made).decode()


def type_text(hint: Any) -> str:
    """A type in words: `list of [Reason](#reason)`, `string or null`."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(code(str(choice)) for choice in inner)
    if origin in (Union, UnionType):
        return " or ".join(type_text(option) for option in inner)
    if origin in (list, tuple):
        return f"list of {type_text(inner[0])}"
    if origin is dict:
        return "object" if inner[1] is Any else f"object of {type_text(inner[1])}"
    if inspect.isclass(hint) and issubclass(hint, msgspec.Struct):
        return link(hint.__name__)
    words = {str: "string", int: "integer", bool: "true or false", dict: "object", NoneType: "null"}
    words |= {bytes: "string, base64"}
    assert hint in words, f"the reference has no word for the type {hint}"
    return words[hint]
