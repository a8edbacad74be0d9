"""What the JSON Schema of a type's or trait's parameters can be wrong about. Nothing is ever fetched for one:
what points outside the document is refused before a validator sees it, and a validator fetches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from windlass.core.admission.parameters import never_fetched, plain
from windlass.core.compiler.names import filled
from windlass.core.documents.problems import Path, Problems, dotted, shown

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_WORDS_OF_CEL = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in"),
        *("let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while"),
    )
)
_OF_THE_WHOLE = ("required", "minProperties", *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"))
"""What is not for one parameter to fulfil."""
MAX_FILLED = 1000
"""Values that defaults may add inside one that an author writes. Parts that hold each other, or two of the
next thirty times over, would never be done."""
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")


def check_schema(schema: Mapping[str, Any], problems: Problems) -> None:
    path: Path = ("spec", "parameters")
    before = len(problems)
    for where, ref in _outward(schema, path):
        problems.add(
            where,
            f"{dotted(where)} points outside the document",
            remedy=f"write {_DRAFTS[0]}, or leave it out"
            if where[-1] == "$schema"
            else "point to a part of the same schema, such as #/$defs/x",
            value=shown(ref),
        )
    if len(problems) > before:
        return  # the validator would try to fetch them
    for where in _circles(schema, path):
        problems.add(
            where,
            f"{dotted(where)} leads back to itself and says nothing",
            remedy="point to a schema that says what the value is",
        )
    try:
        jsonschema_rs.validator_for(plain(schema), retriever=never_fetched)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        problems.add(
            path,
            f"spec.parameters is not a JSON Schema: {str(error).splitlines()[0]}",
            remedy="correct the schema (JSON Schema 2020-12)",
        )
    for where in _swelling(schema, path):
        problems.add(
            where,
            f"the defaults inside {dotted(where)} come to more than {MAX_FILLED} values",
            remedy="leave out defaults of parts that hold more of the same",
            limit=str(MAX_FILLED),
        )
    if len(problems) == before:
        _check_parameters(schema, path, problems)


def _check_parameters(schema: Mapping[str, Any], path: Path, problems: Problems) -> None:
    """Parameters are a mapping, each has a name that an expression can say, and defaults fit."""
    stated = schema.get("type", "object")
    if stated != "object":
        problems.add(
            (*path, "type"),
            "spec.parameters.type is object: parameters are a mapping of names to values",
            remedy="write type: object, and what there is under properties",
            value=shown(stated),
        )
        return
    declared = schema.get("properties", {})
    for name in declared:
        if not _NAME.fullmatch(name) or name in _WORDS_OF_CEL:
            problems.add(
                (*path, "properties", name),
                f"“{shown(name)}” is no name for a parameter: an expression could not say it",
                remedy="use letters, digits and _, not beginning with a digit, such as maxLength",
                value=shown(name),
            )
    defaults = filled(schema, {})
    given = {name: value for name, value in defaults.items() if value is not None}
    alone = {key: value for key, value in schema.items() if key not in _OF_THE_WHOLE}
    validator = jsonschema_rs.validator_for(plain(alone), retriever=never_fetched)
    for error in validator.iter_errors(given):
        where = (*path, "properties", *error.instance_path[:1], "default")
        problems.add(
            where,
            f"{dotted(where)} does not fit its own schema: {error.message}",
            remedy="correct the default, or the schema",
        )


def _outward(schema: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """References a validator would have to fetch."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            inside = (*path, key)
            away = isinstance(value, str) and (
                (key in _REFERENCES and not value.startswith("#"))
                or (key == "$schema" and value.rstrip("#") not in _DRAFTS)
            )
            if away:
                yield inside, value
            else:
                yield from _outward(value, inside)
    elif isinstance(schema, list | tuple):
        for at, value in enumerate(schema):
            yield from _outward(value, (*path, at))


def _circles(schema: Mapping[str, Any], path: Path) -> Iterator[Path]:
    """References that come back to where they stand before anything of the value is looked at. One that comes
    back by way of a property or an item is a tree, and good. Each place is entered once."""
    done: set[Path] = set()
    for where in _references(schema, ()):
        if where in done:
            continue
        trail: list[tuple[Path, Iterator[Path]]] = [(where, _same_value(schema, where))]
        on_trail = {where}
        while trail:
            at, beyond = trail[-1]
            following = next(beyond, None)
            if following is None:
                done.add(at)
                on_trail.discard(at)
                trail.pop()
            elif following in on_trail:
                yield (*path, *at)
            elif following not in done:
                on_trail.add(following)
                trail.append((following, _same_value(schema, following)))


def _references(schema: Any, path: Path) -> Iterator[Path]:
    """Every place that holds a reference."""
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield path
        for key, value in schema.items():
            yield from _references(value, (*path, key))
    elif isinstance(schema, list | tuple):
        for at, value in enumerate(schema):
            yield from _references(value, (*path, at))


def _same_value(schema: Any, at: Path) -> Iterator[Path]:
    """Where the schema at a place sends the same value on to."""
    found = _at(schema, at)
    if not isinstance(found, Mapping):
        return
    ref = found.get("$ref")
    if isinstance(ref, str) and (ref == "#" or ref.startswith("#/")):
        yield _pointer(schema, ref)
    for name in _IN_PLACE_LISTS:
        listed = found.get(name)
        if isinstance(listed, list | tuple):
            yield from ((*at, name, index) for index in range(len(listed)))
    yield from ((*at, name) for name in _IN_PLACE if isinstance(found.get(name), Mapping))


def _swelling(schema: Mapping[str, Any], path: Path) -> Iterator[Path]:
    """Where the defaults of what is inside a value would make too much of it."""
    known: dict[int, int] = {}
    for where, place in _places(schema, ()):
        if _filling(schema, place, known) > MAX_FILLED:
            yield (*path, *where)
            return  # what holds it swells as well


def _places(schema: Any, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            yield from _places(value, (*path, key))
        if isinstance(schema.get("properties"), Mapping):
            yield path, schema
    elif isinstance(schema, list | tuple):
        for at, value in enumerate(schema):
            yield from _places(value, (*path, at))


def _filling(schema: Mapping[str, Any], place: Any, known: dict[int, int]) -> int:
    """How many values `names.filled` puts into an empty mapping of it; endless: more than are allowed."""
    for _ in range(MAX_FILLED):  # a chain of references; those in a circle were refused
        if not (isinstance(place, Mapping) and isinstance(place.get("$ref"), str)):
            break
        place = _at(schema, _pointer(schema, place["$ref"]))
    parts = place.get("properties") if isinstance(place, Mapping) else None
    if not isinstance(parts, Mapping):
        return 0
    if id(place) not in known:
        known[id(place)] = MAX_FILLED + 1  # while it is being counted: it holds itself
        added = 0
        for part in parts.values():
            default = part.get("default") if isinstance(part, Mapping) else None
            if isinstance(default, Mapping):
                added += 1 + _filling(schema, part, known)
            elif isinstance(default, list | tuple):
                added += 1 + len(default) * _filling(schema, part.get("items"), known)
            elif default is not None:
                added += 1
        known[id(place)] = min(added, MAX_FILLED + 1)
    return known[id(place)]


def _pointer(schema: Any, ref: str) -> Path:
    """`#/$defs/x` -> its steps; those into a list are numbers."""
    steps: list[str | int] = []
    at = schema
    for part in ref[2:].split("/") if len(ref) > 1 else ():
        name = part.replace("~1", "/").replace("~0", "~")
        step: str | int = int(name) if isinstance(at, list | tuple) and name.isdecimal() else name
        steps.append(step)
        at = _at(at, (step,))
    return tuple(steps)


def _at(schema: Any, path: Path) -> Any:
    for step in path:
        there = schema if isinstance(schema, Mapping) else _numbered(schema)
        if step not in there:
            return None
        schema = there[step]
    return schema


def _numbered(listed: Any) -> dict[str | int, Any]:
    return dict(enumerate(listed)) if isinstance(listed, list | tuple) else {}
