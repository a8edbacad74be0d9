"""What is wrong with a document: collected, placed, and worded for the person who wrote it.

Reading never stops at the first mistake, because an author who corrects one field per attempt gives
up. Everything here is bounded: a hostile document may hold a million mistakes, and naming the
nearest known field for each of them would cost more than the document is worth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import SequenceMatcher
from typing import Any, Protocol

from windlass.core.errors import Invalid, Reason

Path = tuple[str | int, ...]
"""Where in a document: `("spec", "gpus", 0, "max")`."""

MAX_PROBLEMS = 100
"""Per document. Nobody reads the hundred-and-first."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHOWN = 120


class Located(Protocol):
    """Something that knows on which line a path is: a `Tree`."""

    def line(self, path: Path) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with one document of an invocation."""

    reason: Reason
    path: Path = ()
    index: int = 0
    kind: str = ""
    name: str = ""

    @property
    def document(self) -> str:
        """How to call the document in a sentence: by its kind and name, else by its position."""
        named = f"{self.kind} {self.name}".strip()
        return named or f"document {self.index + 1}"


class Problems:
    """Collects what is wrong with one document, up to a bound."""

    __slots__ = ("_found", "_skipped")

    def __init__(self) -> None:
        self._found: list[tuple[Path, Reason]] = []
        self._skipped = 0

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found) + self._skipped

    @property
    def full(self) -> bool:
        return len(self._found) >= MAX_PROBLEMS

    def add(
        self,
        path: Path,
        message: str,
        *,
        remedy: str = "",
        value: str = "",
        limit: str = "",
        rule: str = "document.invalid",
    ) -> None:
        if self.full:
            self._skipped += 1
            return
        reason = Reason(rule, message, remedy=remedy, field=dotted(path), value=value, limit=limit)
        self._found.append((path, reason))

    def located(
        self, source: Located | None = None, *, index: int = 0, kind: str = "", name: str = ""
    ) -> tuple[Problem, ...]:
        """Everything found, each with the line it is on when the source can tell."""
        placed = [
            Problem(replace(reason, line=source.line(path)) if source else reason, path, index, kind, name)
            for path, reason in self._found
        ]
        if self._skipped:
            more = Reason(
                "document.invalid",
                f"{self._skipped} more problems are not shown",
                remedy="correct the ones above first",
            )
            placed.append(Problem(more, (), index, kind, name))
        return tuple(placed)

    def reasons(self, source: Located | None = None) -> tuple[Reason, ...]:
        return tuple(problem.reason for problem in self.located(source))


def invalid(problems: Sequence[Problem], error: type[Invalid] = Invalid) -> Invalid:
    """The error to raise for these problems: every one of them a reason that names its document."""
    documents = {problem.index for problem in problems}
    reasons = told(problems)
    what = problems[0].document if len(documents) == 1 else f"{len(documents)} documents"
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    detail = f"{what}: {count}"
    if len(problems) == 1:
        detail = f"{problems[0].document}: {problems[0].reason.message}"
    return error(detail, remedy=reasons[0].remedy if len(reasons) == 1 else "", reasons=reasons)


def told(problems: Sequence[Problem], *, always: bool = False) -> tuple[Reason, ...]:
    """Their reasons; where several documents are meant (or always), each begins with its document."""
    if not always and len({problem.index for problem in problems}) < 2:
        return tuple(problem.reason for problem in problems)
    return tuple(
        replace(problem.reason, message=f"{problem.document}: {problem.reason.message}")
        for problem in problems
    )


def malformed(message: str, line: int | None = None, *, remedy: str = "") -> Invalid:
    """The text itself cannot be read; there is no document to speak of yet."""
    reason = Reason("document.invalid", message, remedy=remedy, line=line)
    detail = f"line {line}: {message}" if line is not None and "line" not in message else message
    return Invalid(detail, remedy=remedy, reasons=(reason,))


def repeated_key(name: str, first: int, second: int) -> Invalid:
    where = f"on line {first} and again on line {second}" if first != second else f"twice on line {first}"
    return malformed(f"the key {shown(name)} is given {where}", second, remedy="keep one of the two")


def dotted(path: Path) -> str:
    """`("spec", "gpus", 0, "max")` -> `spec.gpus[0].max`; odd keys are quoted: `labels["cost/x"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(_clipped(step), ensure_ascii=not step.isprintable())}]"
    return text


def shown(value: Any) -> str:
    """A value as a person should see it in a message: short, and with control characters escaped."""
    if isinstance(value, str):
        return _clipped(value) if value.isprintable() else json.dumps(_clipped(value))
    if isinstance(value, Decimal):
        return str(value)
    # Encoded piece by piece, and only as far as it is shown: the value may be very large.
    text = ""
    for piece in json.JSONEncoder(default=str, ensure_ascii=False).iterencode(value):
        text += piece
        if len(text) > _SHOWN:
            break
    return _clipped(text)


def kind_of(value: Any) -> str:
    """What a person would call this value."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true or false"
        case str():
            return "text"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return "a number"


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word a person most likely meant."""
    option, likeness = _likest(word, known)
    return option if likeness >= cutoff else None


def meant(word: str, known: Iterable[str]) -> str:
    """The remedy for an unknown word: the nearest known one, and all of them when none is near."""
    options = list(known)
    option, likeness = _likest(word, options)
    if option is None:
        return ""
    if likeness >= 0.6:  # as difflib has it
        return f"did you mean {option}?"
    return f"the nearest is {option}; known are {', '.join(options[:30])}"


def _likest(word: str, known: Iterable[str]) -> tuple[str | None, float]:
    """difflib's closest match, looking at each option only as far as it can still win."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(word[:100].casefold())
    best: tuple[str | None, float] = (None, -1.0)
    for option in known:
        matcher.set_seq1(option.casefold())
        if matcher.real_quick_ratio() > best[1] and matcher.quick_ratio() > best[1]:
            likeness = matcher.ratio()
            if likeness > best[1]:
                best = (option, likeness)
    return best


def _clipped(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
