"""Templates: structured data whose values may be expressions. There is no text templating, so nothing that
an author writes can become structure.

    port: "${parameters.port}"                         the value of the expression, of whatever type
    replicas: "${work.workers > 1 ? dyn(2) : null}"    null: the key, or the list's element, is left out
    autoscaling: {$if: "${parameters.autoscale}", …}   the mapping, only where it is true
    literally: "$${not an expression}"

An expression is a whole value or nothing: text around it is joined inside, `${'a-' + metadata.name}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from windlass.core.admission.parameters import plain
from windlass.core.documents.problems import Path, Problems, dotted, shown
from windlass.core.expressions import BadExpression, Bound, Names, Unevaluable

Template = Callable[[Bound], Any]

MAX_RENDERED = 256 * 1024
"""Bytes of canonical JSON that one template may give. etcd takes 1.5 MiB of an object."""

_CONDITION = "$if"
_OMITTED = object()


def read_template(data: Any, names: Names, path: Path, problems: Problems) -> Template:
    """Checked once, rendered often. What is wrong with it goes to `problems`."""
    root = _read(plain(data), names, path, problems)

    def render(bound: Bound) -> Any:
        rendered = root(bound)
        if rendered is _OMITTED:
            return None
        size = len(msgspec.json.encode(rendered))
        if size > MAX_RENDERED:
            raise Unevaluable(f"{dotted(path)} gives {size} bytes; at most {MAX_RENDERED} are allowed")
        return rendered

    return render


def _read(value: Any, names: Names, path: Path, problems: Problems) -> Template:
    if isinstance(value, str):
        return _text(value, names, path, problems)
    if isinstance(value, Mapping):
        return _mapping(value, names, path, problems)
    if isinstance(value, list | tuple):
        return _list(value, names, path, problems)
    return _constant(value)


def _constant(value: Any) -> Template:
    def render(_: Bound) -> Any:
        return value

    return render


def _text(value: str, names: Names, path: Path, problems: Problems) -> Template:
    if value.startswith("$${"):
        return _constant(value[1:])
    if not value.startswith("${") and "${" not in value:
        return _constant(value)
    text = expression_in(value)
    if text is None:
        problems.add(
            path,
            f"{dotted(path)} mixes text and an expression; an expression is the whole value",
            remedy="join them inside it, as in ${'a-' + metadata.name}; $${ is a literal ${",
            value=shown(value),
        )
        return _constant(None)
    return _expression(text, names, path, problems)


def expression_in(value: str) -> str | None:
    """What is between `${` and `}`, where that is all there is."""
    if value.startswith("${") and value.endswith("}"):
        return value[2:-1]
    return None


def _expression(text: str, names: Names, path: Path, problems: Problems) -> Template:
    try:
        program = names.check(text)
    except BadExpression as error:
        tell(error, text, path, problems)
        return _constant(None)

    def render(bound: Bound) -> Any:
        try:
            found = program.value(bound)
        except Unevaluable as error:
            raise Unevaluable(f"{dotted(path)}: {error}") from None
        return _OMITTED if found is None else found

    return render


def _mapping(value: Mapping[str, Any], names: Names, path: Path, problems: Problems) -> Template:
    condition = _condition(value.get(_CONDITION), names, path, problems) if _CONDITION in value else None
    parts = [
        (key, _read(item, names, (*path, key), problems))
        for key, item in value.items()
        if key != _CONDITION and item is not None
    ]

    def render(bound: Bound) -> Any:
        if condition is not None and condition(bound) is not True:
            return _OMITTED
        rendered = ((key, part(bound)) for key, part in parts)
        return {key: item for key, item in rendered if item is not _OMITTED}

    return render


def _condition(value: Any, names: Names, path: Path, problems: Problems) -> Template:
    where = (*path, _CONDITION)
    text = expression_in(value) if isinstance(value, str) else None
    if text is None:
        problems.add(
            where,
            f"{dotted(where)} must be an expression",
            remedy='write $if: "${parameters.autoscale}"',
            value=shown(value),
        )
        return _constant(None)
    return _expression(text, names, where, problems)


def _list(value: list[Any] | tuple[Any, ...], names: Names, path: Path, problems: Problems) -> Template:
    parts = [_read(item, names, (*path, at), problems) for at, item in enumerate(value)]

    def render(bound: Bound) -> Any:
        return [item for part in parts if (item := part(bound)) is not _OMITTED]

    return render


def tell(error: BadExpression, text: str, path: Path, problems: Problems) -> None:
    problems.add(
        path,
        f"{dotted(path)}: {error.message} (line {error.line}, column {error.column} of the expression)",
        remedy="docs/reference/expressions.md lists what an expression can name",
        value=shown(text),
    )
