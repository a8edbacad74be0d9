"""Numbers and plain words as documents spell them: YAML 1.2 core, exact, bounded.

A number with a point becomes a Decimal, never a float, so that 0.1 of a GPU is 0.1 of a GPU. A
number that no field of ours could hold is refused here: big integers and exponents are the classic
way to make a server spend minutes on ten bytes (`1e999999999`).

`yes`, `no`, `on`, `off`, dates and `12:30` are text, as YAML 1.2 says; only YAML 1.1 thought otherwise.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

_INT = re.compile(r"[-+]?[0-9]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_OCTAL = re.compile(r"0o[0-7]+")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_NUMBER_STARTS = frozenset("+-.0123456789")

MAX_LITERAL = 40
"""Characters of one number."""

MAX_EXPONENT = 300
"""Either way: what still fits a double, which is how other programs will read it."""


def plain(text: str) -> Any:
    """A scalar without quotes: null, true or false, a number, else the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INT.fullmatch(text):
        return whole(text)
    if _DECIMAL.fullmatch(text):
        return decimal(text)
    if _HEX.fullmatch(text):
        return whole(text, 16)
    if _OCTAL.fullmatch(text):
        return whole(text, 8)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a number that can be held; leave it out or put it in quotes")
    return text


def whole(text: str, base: int = 10) -> int:
    """Raises ValueError beyond 64 bits: nothing we store or send is larger."""
    if len(text) <= MAX_LITERAL:
        value = int(text, base)
        if -(2**63) <= value < 2**63:
            return value
    raise ValueError(f"the number {text[:20]}… is too large; put it in quotes if it is meant as text")


def decimal(text: str) -> Decimal:
    """Exact. Raises ValueError for one with absurdly many digits or an absurd exponent."""
    if len(text) <= MAX_LITERAL:
        value = Decimal(text)
        if -MAX_EXPONENT <= value.adjusted() <= MAX_EXPONENT:
            return value
    raise ValueError(f"the number {text[:20]}… has too many digits; put it in quotes if it is meant as text")
