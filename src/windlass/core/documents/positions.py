"""On which line each part of a text is, for messages.

YAML is read by events that carry their lines, so its marks come for free. Reading JSON is on the
path of every submit and needs none: only when something is wrong is the text read again, here, by a
plain tokenizer that also finds the refused things (a repeated key, a number out of bounds) again in
order to say where they are. It trusts nothing: on a text it cannot follow it stops and keeps what
it has.
"""

from __future__ import annotations

import json
import re
from typing import Any

from windlass.core.documents import numbers
from windlass.core.documents.problems import Path, malformed, repeated_key

Mark = tuple[int, Any]
"""A line, and what is inside: a dict of marks, a list of marks, or `()` for a scalar."""

_TOKEN = re.compile(r'[ \t\r\n]*(?:("[^"\\]*(?:\\.[^"\\]*)*")|([\[{\]},:])|([^\s\[\]{},:"]+))', re.DOTALL)


def line_of(mark: Mark, path: Path) -> int:
    """The line of the path, or of the longest part of it that is there."""
    line, inside = mark
    for step in path:
        try:
            line, inside = inside[step]
        except (KeyError, IndexError, TypeError):
            break
    return line


def json_marks(text: str) -> Mark:
    """The marks of the root. Raises Invalid for a repeated key or a number that cannot be held."""
    root: list[Mark] = []
    stack: list[Any] = [root]
    key: tuple[str, int] | None = None
    line, counted = 1, 0
    for token in _TOKEN.finditer(text):
        start = token.start(token.lastindex or 0)
        line += text.count("\n", counted, start)
        counted = start
        inside = stack[-1]
        match token[2]:
            case "]" | "}":
                stack.pop()
                if not stack:
                    break
            case "[" | "{" as bracket:
                children: Any = {} if bracket == "{" else []
                _place(inside, key, line, children)
                stack.append(children)
                key = None
            case "," | ":":
                pass
            case _ if isinstance(inside, dict) and key is None:
                key = _key(token[1], inside, line)
            case _:
                _check_number(token[3], line)
                _place(inside, key, line, ())
                key = None
    return root[0] if root else (1, ())


def _key(literal: str | None, inside: dict[str, Mark], line: int) -> tuple[str, int] | None:
    if literal is None:
        return None
    try:
        name = json.loads(literal, strict=False)
    except ValueError:
        return None
    if name in inside:
        raise repeated_key(name, inside[name][0], line)
    return name, line


def _place(inside: Any, key: tuple[str, int] | None, line: int, children: Any) -> None:
    if isinstance(inside, list):
        inside.append((line, children))
    elif key is not None:
        inside[key[0]] = (key[1], children)


def _check_number(literal: str | None, line: int) -> None:
    if literal is None or literal in ("true", "false", "null"):
        return
    if literal in ("NaN", "Infinity", "-Infinity"):
        raise malformed(f"{literal} is not a number that JSON knows", line, remedy="leave it out")
    try:
        numbers.plain(literal)
    except ValueError as error:
        raise malformed(str(error), line) from None
