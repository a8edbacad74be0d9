"""YAML text -> plain data, from parse events.

Built from events and not with PyYAML's constructors, because those recurse in C for every level,
resolve YAML 1.1 (`on` is true, `12:30` is 750), make floats, take the last of two equal keys, and
expand aliases without a bound. Events come lazily, so a limit stops the parser where it is: libyaml
itself is quadratic in the nesting depth (29 s were measured for 100,000 `[`), and never gets there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import yaml

from windlass.core.documents import numbers
from windlass.core.documents.positions import Mark
from windlass.core.documents.problems import malformed, repeated_key, shown
from windlass.core.errors import Invalid, Reason


@dataclass(frozen=True, slots=True)
class Limits:
    """What one text may cost. `nodes` counts what aliases stand for, not how often they are written."""

    size: int = 10 * 1024 * 1024
    depth: int = 64
    nodes: int = 200_000


_CORE = "tag:yaml.org,2002:"
_SCALAR_TAGS: Mapping[str, tuple[type, ...]] = {
    f"{_CORE}int": (int,),
    f"{_CORE}float": (int, Decimal),
    f"{_CORE}bool": (bool,),
    f"{_CORE}null": (type(None),),
}
_TEXT_TAGS = (f"{_CORE}str", "!")
_MAX_DIRECTIVES = 16  # libyaml compares each %TAG with all before it
_DIRECTIVE = re.compile("(?:^|[\r\n\x85\u2028\u2029])%")


class _Anchored(NamedTuple):
    value: Any
    inside: Any
    nodes: int
    height: int


class _Frame:
    """One open mapping or list."""

    __slots__ = ("anchor", "container", "height", "key", "key_line", "line", "marks", "nodes_before")

    def __init__(self, container: Any, line: int, anchor: str | None, nodes_before: int) -> None:
        self.container = container
        self.marks: Any = {} if isinstance(container, dict) else []
        self.line = line
        self.anchor = anchor
        self.nodes_before = nodes_before
        self.height = 1
        self.key: str | None = None
        self.key_line = 0


class _Builder:
    """Takes events, gives documents. A stack of its own: no nesting can exhaust Python's or C's."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Anchored] = {}
        self._nodes = 0
        self.documents: list[tuple[Any, Mark]] = []
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._open_mapping,
            yaml.SequenceStartEvent: self._open_list,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._start,
        }

    def take(self, event: Any) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def _start(self, _: Any) -> None:
        self._anchors.clear()

    def _scalar(self, event: Any) -> None:
        line = event.start_mark.line + 1
        frame = self._frames[-1] if self._frames else None
        value = _resolved(event, line)
        if frame is not None and frame.key is None and isinstance(frame.container, dict):
            self._key(frame, event, value, line)
            return
        if frame is None and value is None and not event.value:
            return  # an empty document: only comments, or nothing between two ---
        self._count(1)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, (), 1, 0)
        self._place(value, line, (), 0)

    def _key(self, frame: _Frame, event: Any, value: Any, line: int) -> None:
        if not isinstance(value, str):
            raise malformed(
                f"the key {event.value or 'null'} is not text", line, remedy="put the key in quotes"
            )
        if value == "<<" and not event.style:
            raise malformed(
                "merge keys (<<) are not part of YAML 1.2",
                line,
                remedy="write the fields out, or use an alias",
            )
        if value in frame.container:
            raise repeated_key(value, frame.marks[value][0], line)
        frame.key, frame.key_line = value, line

    def _open_mapping(self, event: Any) -> None:
        self._open(event, {}, f"{_CORE}map")

    def _open_list(self, event: Any) -> None:
        self._open(event, [], f"{_CORE}seq")

    def _open(self, event: Any, container: Any, tag: str) -> None:
        line = event.start_mark.line + 1
        if event.tag not in (None, "!", tag):
            raise _unknown_tag(event.tag, line)
        self._refuse_as_key(line)
        if len(self._frames) >= self._limits.depth:
            raise _too_deep(self._limits.depth, line)
        self._count(1)
        self._frames.append(_Frame(container, line, event.anchor, self._nodes))

    def _close(self, _: Any) -> None:
        frame = self._frames.pop()
        if frame.anchor:
            nodes = self._nodes - frame.nodes_before + 1
            # Known only from here on: an alias inside itself finds nothing.
            self._anchors[frame.anchor] = _Anchored(frame.container, frame.marks, nodes, frame.height)
        self._place(frame.container, frame.line, frame.marks, frame.height)

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        self._refuse_as_key(line)
        known = self._anchors.get(event.anchor)
        if known is None:
            raise malformed(
                f"the alias *{shown(event.anchor)} stands for nothing that was complete before it",
                line,
                remedy=f"write &{shown(event.anchor)} at what it should stand for, before it",
            )
        self._count(known.nodes)
        if len(self._frames) + known.height > self._limits.depth:
            raise _too_deep(self._limits.depth, line)
        self._place(known.value, line, known.inside, known.height)

    def _place(self, value: Any, line: int, inside: Any, height: int) -> None:
        if not self._frames:
            self.documents.append((value, (line, inside)))
            return
        frame = self._frames[-1]
        if height >= frame.height:
            frame.height = height + 1
        if frame.key is None:
            frame.container.append(value)
            frame.marks.append((line, inside))
            return
        frame.container[frame.key] = value
        frame.marks[frame.key] = (frame.key_line, inside)
        frame.key = None

    def _refuse_as_key(self, line: int) -> None:
        if self._frames and self._frames[-1].key is None and isinstance(self._frames[-1].container, dict):
            raise malformed("a key must be plain text", line, remedy="write the key out as text")

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > self._limits.nodes:
            raise too_many_nodes(self._limits.nodes)


def build(text: str, limits: Limits) -> list[tuple[Any, Mark]]:
    """Every document of the stream that is not empty, with its marks."""
    if text.count("%") > _MAX_DIRECTIVES and len(_DIRECTIVE.findall(text)) > _MAX_DIRECTIVES:
        raise malformed(f"more than {_MAX_DIRECTIVES} YAML directives", remedy="leave the %TAG lines out")
    builder = _Builder(limits)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, text) from None
    except yaml.reader.ReaderError as error:
        raise _not_readable(error, text) from None
    return builder.documents


def too_many_nodes(limit: int) -> Invalid:
    """Not "too large": a few lines with aliases are enough for it."""
    message = f"the text holds more than {limit} values, each alias counted as what it stands for"
    remedy = "send it in several parts"
    return Invalid(message, remedy=remedy, reasons=(Reason("document.invalid", message, remedy=remedy),))


def _resolved(event: Any, line: int) -> Any:
    if "\x00" in event.value:
        raise malformed("text may not hold a NUL character", line, remedy="leave \\0 out")
    tag = event.tag
    if tag in _TEXT_TAGS or (tag is None and event.style):
        return event.value
    try:
        value = numbers.plain(event.value)
    except ValueError as error:
        raise malformed(str(error), line) from None
    if tag is None:
        return value
    wanted = _SCALAR_TAGS.get(tag)
    if wanted is None:
        raise _unknown_tag(tag, line)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise malformed(f"{shown(event.value)} is not what its tag !!{tag.rpartition(':')[2]} says", line)
    return value


def _unknown_tag(tag: str, line: int) -> Invalid:
    name = tag.replace(_CORE, "!!")
    return malformed(f"the tag {shown(name)} is not known here", line, remedy="leave the tag out")


def _too_deep(depth: int, line: int) -> Invalid:
    return malformed(f"nested more than {depth} levels deep", line, remedy="flatten it")


def _not_yaml(error: yaml.MarkedYAMLError, text: str) -> Invalid:
    """libyaml's words, its place, and a hint for the two mistakes everybody makes."""
    mark = error.problem_mark or error.context_mark
    problem = (error.problem or "it cannot be read").strip()
    if mark is None:
        return malformed(f"this is not valid YAML: {problem}")
    line, column = mark.line + 1, mark.column + 1
    lines = text.split("\n", line)
    here = lines[line - 1] if line <= len(lines) else ""
    remedy = "check the indentation, brackets and quotes there"
    if "\t" in here[: column + 1]:
        remedy = "indent with spaces: YAML does not allow tabs there"
    elif "mapping values are not allowed" in problem:
        remedy = "put text that holds a colon and a space in quotes"
    message = f"this is not valid YAML: {problem} (line {line}, column {column})"
    begun = error.context_mark
    if error.context and begun is not None and begun.line + 1 != line:
        message = f"{message}, {error.context} that begins on line {begun.line + 1}"
    return malformed(message, line, remedy=remedy)


def _not_readable(error: yaml.reader.ReaderError, text: str) -> Invalid:
    before = text.encode()[: error.position]
    line = before.count(b"\n") + 1
    character = error.character if isinstance(error.character, int) else ord(str(error.character)[:1] or " ")
    message = f"the character U+{character:04X} is not allowed in YAML (line {line})"
    return malformed(message, line, remedy='write it as an escape in double quotes, such as "\\x07"')
