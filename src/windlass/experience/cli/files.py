"""From -f to documents: files, folders and stdin, with the line of every field.

A folder means its *.yaml, *.yml and *.json, sorted by name. Everything that cannot be read is
reported at once, as file:line, before the server hears of anything.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from windlass.core.errors import Invalid, Reason

if TYPE_CHECKING:
    from windlass.core.documents.tree import Tree

_ENDINGS = (".yaml", ".yml", ".json")
_STEP = re.compile(r'\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.\[]+)')


class Source(NamedTuple):
    """One document, the file it stands in, and the tree that knows its lines."""

    document: dict[str, Any]
    file: str
    tree: Tree

    @property
    def kind(self) -> str:
        return str(self.document["kind"])

    @property
    def is_component(self) -> bool:
        return self.kind in ("Component", "ModelSpec")

    @property
    def is_front(self) -> bool:
        """A ModelSpec: its component's fields stand elsewhere in it."""
        return self.kind == "ModelSpec"

    @property
    def label(self) -> str:
        """`tier/gold`, `component/nlp/prod/sft-run`: how the document is called in messages."""
        metadata = self.document["metadata"]
        parts = [metadata["name"]]
        if self.is_front:
            said = metadata.get("annotations") or {}
            own = (said.get("windlass.dev/project"), said.get("windlass.dev/env"))
            return "/".join(["component", *(str(part) for part in own if part), *parts])
        if self.is_component:
            spec = self.document.get("spec")
            env = spec.get("env") if isinstance(spec, dict) else None
            parts = [str(part) for part in (metadata.get("project"), env) if part] + parts
        return "/".join([self.kind.lower(), *parts])

    def where(self, field: str) -> str:
        """`train.yaml:7`: the line of the field, or of the nearest thing around it."""
        steps = steps_of(field)
        if self.is_front:
            from windlass.core.documents.modelspec import place_of

            steps = place_of(steps)
        return _place(self.file, self.tree.line(steps))


class Fault(NamedTuple):
    """Something that cannot be read, and where."""

    where: str
    reason: Reason


def read_sources(names: Sequence[str]) -> list[Source]:
    """Every document of every file, in order. Raises Invalid with all faults of all files."""
    sources: list[Source] = []
    faults: list[Fault] = []
    for name in names:
        for file, text in _texts(name, faults):
            _read(file, text, sources, faults)
    if not faults and not sources:
        faults.append(_fault(", ".join(names), "there is no document in it"))
    if faults:
        raise Invalid(
            f"{_counted(len(faults))}; nothing was sent to the server",
            reasons=[fault.reason for fault in faults],
            extra={"where": [fault.where for fault in faults]},
        )
    return sources


def steps_of(field: str) -> tuple[str | int, ...]:
    """`spec.gpus[0].max` -> its steps; the inverse of `core.documents.problems.dotted`."""
    steps: list[str | int] = []
    for number, quoted, plain in _STEP.findall(field):
        if number:
            steps.append(int(number))
        elif quoted:
            steps.append(msgspec.json.decode(quoted, type=str))
        else:
            steps.append(plain)
    return tuple(steps)


def _texts(name: str, faults: list[Fault]) -> list[tuple[str, bytes]]:
    """The texts behind one -f."""
    if name == "-":
        return [("<stdin>", sys.stdin.buffer.read())]
    path = Path(name)
    paths = [path]
    if path.is_dir():
        paths = sorted(one for one in path.iterdir() if one.name.endswith(_ENDINGS) and one.is_file())
        if not paths:
            faults.append(_fault(name, "the folder holds no .yaml, .yml or .json file"))
    texts = []
    for one in paths:
        try:
            texts.append((str(one), one.read_bytes()))
        except OSError as error:
            faults.append(_fault(str(one), (error.strerror or "cannot be read").lower()))
    return texts


def _read(file: str, text: bytes, sources: list[Source], faults: list[Fault]) -> None:
    # Loaded here: PyYAML is for commands that read files.
    from windlass.core.documents.tree import read_either, read_json

    try:
        trees = read_json(text) if file.endswith(".json") else read_either(text)
    except Invalid as error:
        faults += [Fault(_place(file, reason.line), reason) for reason in error.reasons]
        return
    for tree in trees:
        wrong = _faults(file, tree)
        faults += wrong
        if not wrong:
            sources.append(Source(tree.data, file, tree))


def _faults(file: str, tree: Tree) -> list[Fault]:
    """All that the document's author can correct without the server: what the server's own reader,
    which is the same, would say of it. What depends on other documents and on policy is the server's."""
    from windlass.core.documents.parse import parse
    from windlass.core.documents.problems import Problems

    problems = Problems()
    parse(tree, problems)
    return [Fault(_place(file, reason.line), reason) for reason in problems.reasons(tree)]


def _counted(count: int) -> str:
    return "there is 1 problem" if count == 1 else f"there are {count} problems"


def _fault(where: str, message: str, field: str = "") -> Fault:
    return Fault(where, Reason("document.invalid", message, field=field))


def _place(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"
