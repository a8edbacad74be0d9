"""What an evaluation could come to, in bytes that are made or looked at, told before it is begun.

The library bounds depth and iterations, and neither bounds memory: `s.replace('a', s)` makes four gigabytes
of 64 KiB, `[s].map(x, x + x).map(x, x + x)…` doubles with every step. Tenants write policies, so an
expression must not be able to end the platform. The estimate is an upper bound from the sizes of the values
at hand: a text's length, a list's length and its largest element; a regular expression counts as its steps
(`expression_patterns.py`). It reads the checked expression in the form the library serializes it in
(cel.expr.CheckedExpr).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from windlass.core.expression_patterns import MOST_REPEATED, MOST_STEPS, steps_of

MAX_COST = 32 * 1024 * 1024
"""Of everything that is evaluated for one decision or one upload. It takes the library at most a quarter of a
second, in which nothing else is answered."""
MAX_ITERATIONS = 10_000
"""Of one evaluation: the library's own bound."""


@dataclass(frozen=True, slots=True)
class Size:
    """At most so many bytes in all and so many elements, none larger than `inside`."""

    whole: int
    count: int = 0
    inside: Size | None = None

    @classmethod
    def of(cls, value: Any) -> Size:
        if isinstance(value, str):
            return cls(len(value))
        if isinstance(value, Mapping):
            return cls.around([cls.of(item) for pair in value.items() for item in pair], len(value))
        if isinstance(value, list | tuple):
            return cls.around([cls.of(item) for item in value], len(value))
        return SCALAR

    @classmethod
    def around(cls, parts: Sequence[Size], count: int) -> Size:
        whole = sum(part.whole for part in parts) + _ELEMENT * len(parts) + _WORD
        return cls(whole, count, reduce(_larger, parts) if parts else None)

    @property
    def element(self) -> Size:
        return self.inside or self


def _larger(one: Size, other: Size) -> Size:
    inside = _larger(one.inside, other.inside) if one.inside and other.inside else one.inside or other.inside
    return Size(max(one.whole, other.whole), max(one.count, other.count), inside)


_WORD = 8
_ELEMENT = 4 * _WORD
"""What an element costs beside what it holds."""
_ROUND = 256
"""What a round of a comprehension costs beside what it does: half a microsecond."""
SCALAR = Size(_WORD)
WORST = Size(10 * 1024 * 1024, 200_000)
"""Of anything that can come in with a document, and of what is inside it."""

Sizes = Mapping[str, Size]
Estimate = Callable[[Sizes], tuple[Size, int]]
"""From the sizes of what is named to the size of the value, and the cost of coming to it."""


def cost_of(serialized: bytes) -> Estimate:
    """Of a checked expression, as the library serializes it."""
    (wrapped,) = _message(serialized)[2]
    checked = _message(wrapped)
    overloads = {}
    for entry in checked.get(2, ()):
        parts = _message(entry)
        overloads[parts[1][0]] = [bytes(name).decode() for name in _message(parts[2][0]).get(3, ())]
    return _expression(checked[4][0], overloads)


# --- the expression -------------------------------------------------------------------------------

Overloads = Mapping[int, Sequence[str]]
_CONSTANT, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = range(3, 10)


def _expression(data: bytes, overloads: Overloads) -> Estimate:
    parts = _message(data)
    number = parts.get(2, [0])[0]
    if _CONSTANT in parts:
        return _constant(parts[_CONSTANT][0])
    if _IDENT in parts:
        return _named(_text(_message(parts[_IDENT][0])[1][0]))
    if _SELECT in parts:
        return _element(_expression(_message(parts[_SELECT][0])[1][0], overloads))
    if _CALL in parts:
        call = _message(parts[_CALL][0])
        inside = [*call.get(1, ()), *call.get(3, ())]
        given = [_expression(one, overloads) for one in inside]
        if _text(call[2][0]) == "matches":
            return _matched(given[0], given[1], _constant_text(inside[1]))
        return _called(_text(call[2][0]), given, overloads.get(number, ()))
    if _LIST in parts:
        return _collected([_expression(one, overloads) for one in _message(parts[_LIST][0]).get(1, ())])
    if _STRUCT in parts:
        entries = [_message(entry) for entry in _message(parts[_STRUCT][0]).get(2, ())]
        return _collected(
            [_expression(entry[key][0], overloads) for entry in entries for key in (3, 4) if key in entry]
        )
    if _COMPREHENSION in parts:
        return _repeated(_message(parts[_COMPREHENSION][0]), overloads)
    return _fixed(SCALAR)


def _constant(data: bytes) -> Estimate:
    told = _message(data)
    text = next((told[kind][0] for kind in (6, 7) if kind in told), None)
    return _fixed(SCALAR if text is None else Size(len(text)))


def _fixed(size: Size) -> Estimate:
    return lambda _: (size, 0)


def _named(name: str) -> Estimate:
    return lambda sizes: (sizes.get(name, SCALAR), 0)


def _element(within: Estimate) -> Estimate:
    def estimate(sizes: Sizes) -> tuple[Size, int]:
        size, cost = within(sizes)
        return size.element, cost

    return estimate


def _collected(parts: Sequence[Estimate]) -> Estimate:
    def estimate(sizes: Sizes) -> tuple[Size, int]:
        found = [part(sizes) for part in parts]
        return Size.around([size for size, _ in found], len(found)), sum(cost for _, cost in found) + _WORD

    return estimate


def _repeated(told: Mapping[int, Sequence[Any]], overloads: Overloads) -> Estimate:
    """One round is judged with nothing gathered yet: what a round adds does not depend on the rounds before
    it, which is so for every macro there is. To add to a list, the library copies it."""
    over, first, step = (_expression(told[part][0], overloads) for part in (2, 4, 6))
    one, gathered = _text(told[1][0]), _text(told[3][0])

    def estimate(sizes: Sizes) -> tuple[Size, int]:
        range_size, range_cost = over(sizes)
        rounds = min(range_size.count, MAX_ITERATIONS)
        start, start_cost = first(sizes)
        added, step_cost = step({**sizes, one: range_size.element, gathered: Size(0)})
        copied = 2 * _WORD * rounds * rounds if added.count else 0
        size = Size(start.whole + rounds * added.whole, start.count + rounds * added.count, added.inside)
        return size, range_cost + start_cost + rounds * (step_cost + _ROUND) + copied

    return estimate


# --- functions ------------------------------------------------------------------------------------

_FREE = frozenset(("_&&_", "_||_", "!_", "@not_strictly_false", "_[_]", "_?_:_"))
"""What looks at no text or list as a whole."""
_COMPARED = frozenset(("_==_", "_!=_"))
_COMPILED, _TRIED = 150, 6
"""What a step of a pattern costs when it is compiled, and for each character that is tried against it."""
_PRECISION = 1000
"""The most digits that `format` gives a number."""


def _called(function: str, given: Sequence[Estimate], chosen: Sequence[str]) -> Estimate:
    joins = any(name in ("add_string", "add_bytes", "add_list") for name in chosen)

    def estimate(sizes: Sizes) -> tuple[Size, int]:
        found = [one(sizes) for one in given]
        parts = [size for size, _ in found]
        size = _summed(parts) if joins else _RESULTS.get(function, _like_its_parts)(parts)
        spent = sum(cost for _, cost in found)
        if function in _FREE:
            return size, spent
        if tuple(chosen) == ("in_map",):  # a look at one key
            return size, spent + parts[0].whole
        if function in _COMPARED:  # as far as the smaller of the two goes
            return size, spent + min(part.whole for part in parts)
        return size, spent + size.whole + sum(part.whole for part in parts)

    return estimate


def _matched(text: Estimate, pattern: Estimate, written: str | None) -> Estimate:
    """A pattern that is not written out is taken for the worst of its length."""
    known = steps_of(written) if written is not None else None

    def estimate(sizes: Sizes) -> tuple[Size, int]:
        (subject, subject_cost), (other, pattern_cost) = text(sizes), pattern(sizes)
        steps = known if known is not None else min(other.whole * MOST_REPEATED, MOST_STEPS)
        return SCALAR, subject_cost + pattern_cost + steps * (_COMPILED + _TRIED * subject.whole)

    return estimate


def _constant_text(data: bytes) -> str | None:
    told = _message(data).get(_CONSTANT)
    texts = _message(told[0]).get(6) if told else None
    return _text(texts[0]) if texts else None


def _like_its_parts(parts: Sequence[Size]) -> Size:
    """Of a function that makes nothing larger than what it is given, or a number."""
    made = _summed(parts) if parts else SCALAR
    return Size(made.whole + _ELEMENT, made.count, made.inside)


def _summed(parts: Sequence[Size]) -> Size:
    inside = reduce(_larger, parts).inside
    return Size(sum(part.whole for part in parts), sum(part.count for part in parts), inside)


def _replaced(parts: Sequence[Size]) -> Size:
    return Size(parts[0].whole + (parts[0].whole + 1) * parts[2].whole)


def _joined(parts: Sequence[Size]) -> Size:
    return Size(parts[0].whole + parts[0].count * (parts[1].whole if len(parts) > 1 else 0))


def _formatted(parts: Sequence[Size]) -> Size:
    text, values = parts
    return Size(text.whole * _PRECISION + values.whole)


def _divided(parts: Sequence[Size]) -> Size:
    text = parts[0].whole
    return Size(text + (text + 1) * _ELEMENT, text + 1, Size(text))


_RESULTS: Mapping[str, Callable[[Sequence[Size]], Size]] = {
    "_?_:_": lambda parts: _larger(parts[1], parts[2]),
    "_[_]": lambda parts: parts[0].element,
    "replace": _replaced,
    "join": _joined,
    "format": _formatted,
    "split": _divided,
    "strings.quote": lambda parts: Size(4 * parts[0].whole + _WORD),
    **dict.fromkeys(("size", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in"), lambda _: SCALAR),
    **dict.fromkeys(("contains", "startsWith", "endsWith"), lambda _: SCALAR),
    **dict.fromkeys(("_&&_", "_||_", "!_", "@not_strictly_false"), lambda _: SCALAR),
}


# --- the wire -------------------------------------------------------------------------------------


def _text(data: Any) -> str:
    return bytes(data).decode()


def _message(data: bytes) -> dict[int, list[Any]]:
    """The fields of one protobuf message, by number: numbers, or the bytes of what is inside."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: Any
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
            case 2:
                length, at = _varint(data, at)
                value, at = data[at : at + length], at + length
            case kind:
                width = 8 if kind == 1 else 4
                value, at = data[at : at + width], at + width
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
