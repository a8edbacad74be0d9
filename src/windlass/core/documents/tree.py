"""Text -> plain data, and the line of every part of it.

Owns what may come in at all: UTF-8 of a bounded size, YAML or JSON, no repeated keys, numbers that
can be held exactly. What the data *means* is `shape.py` and `parse.py`. Every failure is an
`Invalid` with a line and a sentence; nothing else can be raised, whatever the text.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from windlass.core.documents import numbers, yaml_tree
from windlass.core.documents.positions import Mark, json_marks, line_of
from windlass.core.documents.problems import Path, malformed
from windlass.core.documents.yaml_tree import Limits
from windlass.core.errors import Invalid, Reason, TooLarge

DEFAULT_LIMITS = Limits()


class Positions:
    """The marks of one text: given (YAML), or read from the text when first asked for (JSON)."""

    __slots__ = ("_root", "_text")

    def __init__(self, *, root: Mark | None = None, text: str = "") -> None:
        self._root = root
        self._text = text

    def line(self, path: Path) -> int | None:
        if self._root is None:
            if not self._text:
                return None
            try:
                self._root = json_marks(self._text)
            except Invalid:  # cannot be: the text was read before
                self._root = (1, ())
            self._text = ""
        return line_of(self._root, path)


@dataclass(frozen=True, slots=True)
class Tree:
    """One document as plain data. `index` is its position among the documents of the text."""

    data: Any
    index: int = 0
    positions: Positions | None = None
    base: Path = ()

    def line(self, path: Path) -> int | None:
        """Of the path, or of the nearest thing around it that is there. None: not known."""
        return self.positions.line(self.base + path) if self.positions else None


def read_yaml(text: str | bytes, limits: Limits = DEFAULT_LIMITS) -> list[Tree]:
    """The documents of a YAML stream; a document that is a list, or has one as `items`, stands for those."""
    documents = yaml_tree.build(_decoded(text, limits.size), limits)
    trees: list[Tree] = []
    for data, mark in documents:
        trees += _trees(data, Positions(root=mark), first=len(trees))
    return trees


def read_json(text: str | bytes, limits: Limits = DEFAULT_LIMITS) -> list[Tree]:
    """One document, or a list of them."""
    text = _decoded(text, limits.size)
    data = _json(text)
    _check_bounds(data, text, limits)
    return _trees(data, Positions(text=text), first=0)


def read_either(text: bytes, limits: Limits = DEFAULT_LIMITS) -> list[Tree]:
    """Of a form nobody has told. JSON is nearly YAML, but for half of its escapes (`\\ud83d\\ude00`)."""
    if text.lstrip()[:1] in (b"{", b"["):
        with suppress(Invalid):
            return read_json(text, limits)
    return read_yaml(text, limits)


def _trees(data: Any, positions: Positions, *, first: int) -> list[Tree]:
    if isinstance(data, list):
        return [Tree(item, first + at, positions, (at,)) for at, item in enumerate(data)]
    if isinstance(data, dict) and "kind" not in data and isinstance(data.get("items"), list):
        # A list as `get` prints it: what was got can be applied.
        return [Tree(item, first + at, positions, ("items", at)) for at, item in enumerate(data["items"])]
    return [Tree(data, first, positions)]


# --- what may come in -------------------------------------------------------------------------


def _decoded(source: str | bytes, limit: int) -> str:
    if len(source) > limit:
        raise _too_large(limit)
    text = source if isinstance(source, str) else _from_utf8(source)
    if not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise malformed(f"half a surrogate pair on line {line} is not a character", line) from None
        if size > limit:
            raise _too_large(limit)
    nul = text.find("\x00")
    if nul >= 0:
        line = text.count("\n", 0, nul) + 1
        raise malformed(
            f"a NUL character on line {line}",
            line,
            remedy="send text: this looks like a binary file or UTF-16",
        )
    return text.removeprefix("\ufeff")


def _from_utf8(source: bytes) -> str:
    try:
        return source.decode()
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        message = f"the byte {source[error.start]:#04x} on line {line} is not UTF-8"
        raise malformed(message, line, remedy="save the file as UTF-8") from None


def _too_large(limit: int) -> TooLarge:
    size = f"{limit // 1024 // 1024} MB" if limit >= 1024 * 1024 else f"{limit} bytes"
    message = f"the text is larger than {size}"
    remedy = "send it in several parts"
    return TooLarge(message, remedy=remedy, reasons=(Reason("document.invalid", message, remedy=remedy),))


# --- JSON -------------------------------------------------------------------------------------


class _Refused(Exception):
    """Something JSON allows and we do not; where it is, `json_marks` finds out."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused("a key is given twice")
    return found


def _number(text: str) -> Any:
    try:
        return numbers.plain(text)
    except ValueError as error:
        raise _Refused(str(error)) from None


def _constant(text: str) -> Any:
    raise _Refused(f"{text} is not a number that JSON knows")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_number, parse_constant=_constant
)


def _json(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except _Refused as refused:
        json_marks(text)  # raises the same, with the line
        raise malformed(str(refused)) from None
    except RecursionError:
        raise _too_deep(DEFAULT_LIMITS.depth) from None
    except json.JSONDecodeError as error:
        if not text.strip():
            raise malformed("the text is empty", remedy="send a document") from None
        where = f"line {error.lineno}, column {error.colno}"
        raise malformed(
            f"this is not valid JSON: {error.msg[:1].lower()}{error.msg[1:]} ({where})",
            error.lineno,
            remedy="check the commas, brackets and quotes there",
        ) from None


_SUSPECT_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")


def _check_bounds(data: Any, text: str, limits: Limits) -> None:
    """Depth, number of values, and text that is not text; looked at only where the text hints at it."""
    opened = text.count("[") + text.count("{")
    suspect = _SUSPECT_ESCAPE.search(text) is not None
    if opened <= limits.depth and opened + text.count(",") < limits.nodes and not suspect:
        return
    level, depth, nodes = [data], 0, 0
    while level:
        depth += 1
        nodes += len(level)
        # A scalar may sit one below the deepest container, as in YAML.
        if depth > limits.depth and any(isinstance(value, (dict, list)) for value in level):
            raise _too_deep(limits.depth)
        if nodes > limits.nodes:
            raise yaml_tree.too_many_nodes(limits.nodes)
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
                if suspect:
                    _check_text(*value)
            elif isinstance(value, list):
                below.extend(value)
            elif suspect and isinstance(value, str):
                _check_text(value)
        level = below


def _check_text(*texts: str) -> None:
    for text in texts:
        bad = _NOT_TEXT.search(text)
        if bad is not None:
            what = "a NUL character" if bad[0] == "\x00" else "half a surrogate pair"
            raise malformed(f"text may not hold {what}", remedy="leave the escape out")


def _too_deep(depth: int) -> Invalid:
    return malformed(f"nested more than {depth} levels deep", remedy="flatten it")
