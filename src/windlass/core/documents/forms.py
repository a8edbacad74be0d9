"""The scalars of documents: how each is read, written, and described.

One codec per form. Reading is strict: text where a number is meant is an error with a remedy, never
a conversion, because a document must mean the same to every program that reads it. Only amounts of
GPUs and money, and fractions, may be written either way; all are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from windlass.core.documents.problems import Path, Problems, dotted, kind_of, meant, shown
from windlass.core.documents.scalars import MAX_WORKERS, Form
from windlass.core.units import (
    format_duration,
    format_gpus,
    format_money,
    format_timestamp,
    parse_duration,
    parse_gpus,
    parse_money,
    parse_timestamp,
)

Reader = Callable[[Any, Path, Problems], Any]


class _Bad:
    """What a reader returns when it has reported a problem instead of a value."""


BAD = _Bad()

MAX_TEXT = 4096
MAX_LONG_TEXT = 64 * 1024
MAX_INT = 2**31 - 1
MAX_INSTANT_MS = 253_402_300_799_999  # the last millisecond of the year 9999
MAX_NAME = 53


@dataclass(frozen=True, slots=True)
class Codec:
    """`read` reports to the problems and gives BAD, or gives the value; `write` is its inverse."""

    read: Reader
    write: Callable[[Any], Any]
    schema: Mapping[str, Any]


def same(value: Any) -> Any:
    return value


# --- text -------------------------------------------------------------------------------------


def not_text(value: Any, path: Path, problems: Problems) -> Any:
    remedy = "write it as text"
    if isinstance(value, (int, Decimal)):
        remedy = f'put it in quotes: "{shown(value)}"'
    problems.add(
        path, f"{dotted(path)} must be text, not {kind_of(value)}", remedy=remedy, value=shown(value)
    )
    return BAD


def _text(limit: int) -> Codec:
    def read(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) is not str:
            return not_text(value, path, problems)
        if len(value) > limit:
            problems.add(
                path,
                f"{dotted(path)} is {len(value)} characters long; at most {limit} are allowed",
                remedy="shorten it, or put it into the image",
                limit=str(limit),
            )
            return BAD
        if "\x00" in value:
            problems.add(path, f"{dotted(path)} holds a NUL character", remedy="leave it out")
            return BAD
        return value

    return Codec(read, same, {"type": "string", "maxLength": limit})


def _matching(pattern: str, what: str, remedy: str, *, longest: int, rule: str = "document.invalid") -> Codec:
    """Text of one form. The pattern is matched as a whole; `longest` is checked first, being cheap."""
    matches = re.compile(pattern, re.ASCII).fullmatch

    def read(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) is not str:
            return not_text(value, path, problems)
        if len(value) <= longest and matches(value):
            return value
        hint = _suggested(value, matches, longest) if rule == "name.invalid" else ""
        problems.add(
            path,
            f"{dotted(path)} is {_quoted(value)}, which is not {what}",
            remedy=f"{remedy}{hint}",
            value=shown(value),
            limit=str(longest) if len(value) > longest else "",
            rule=rule,
        )
        return BAD

    return Codec(read, same, {"type": "string", "pattern": f"^{pattern}$", "maxLength": longest})


def _suggested(value: str, matches: Callable[[str], Any], longest: int) -> str:
    """The nearest valid name, when the text leaves something to make one of."""
    for filler in ("-", ""):
        guess = re.sub("[^a-z0-9]+", filler, value[:200].lower()).strip("-")[:longest].strip("-")
        if guess and matches(guess):
            return f"; for example {guess}"
    return ""


def _quoted(value: str) -> str:
    return f"“{shown(value)}”" if value else "empty"


_LABEL = "[a-z0-9](?:[-a-z0-9]{0,51}[a-z0-9])?"
_NUMBER = "(?:0|[1-9][0-9]{0,8})"
_VERSION = rf"{_NUMBER}(?:\.{_NUMBER}){{0,2}}"
_KEY_NAME = "[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN_LABEL = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME_REMEDY = (
    f"use lowercase letters, digits and hyphens, at most {MAX_NAME}, a letter or digit at both ends"
)


def _fraction(value: Any, path: Path, problems: Problems) -> Any:
    """Numbers are exact here, so one may be written either way; it is kept as text."""
    if isinstance(value, Decimal) or type(value) is int:
        value = format(value, "f") if isinstance(value, Decimal) else str(value)
    if type(value) is not str:
        return not_text(value, path, problems)
    if re.fullmatch(r"0(\.[0-9]{1,9})?|1(\.0{1,9})?", value, re.ASCII):
        return value
    problems.add(
        path,
        f"{dotted(path)} is {_quoted(value)}, which is not a decimal between 0 and 1",
        remedy='write it such as "0.999"',
        value=shown(value),
    )
    return BAD


# --- numbers and amounts ----------------------------------------------------------------------


def _whole(lowest: int, highest: int, what: str) -> Codec:
    def read(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) is int and lowest <= value <= highest:
            return value
        remedy = f"write a whole number from {lowest} to {highest}"
        if type(value) is str and re.fullmatch("-?[0-9]{1,18}", value, re.ASCII):
            remedy = f"write {value} without quotes"
        found = shown(value) if type(value) is int else f"{kind_of(value)} ({shown(value)})"
        problems.add(
            path,
            f"{dotted(path)} must be {what}, not {found}",
            remedy=remedy,
            value=shown(value),
            limit=f"{lowest}..{highest}",
        )
        return BAD

    return Codec(read, same, {"type": "integer", "minimum": lowest, "maximum": highest})


def _true_or_false(value: Any, path: Path, problems: Problems) -> Any:
    if value is True or value is False:
        return value
    problems.add(
        path,
        f"{dotted(path)} must be true or false, not {shown(value)}",
        remedy="write true or false, without quotes",
        value=shown(value),
    )
    return BAD


def _amount(parse: Callable[[str], int], write: Callable[[int], Any], example: str, decimals: int) -> Codec:
    """An exact decimal, as a number or as text."""
    scale = 10**decimals

    def read(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) is int and 0 <= value <= 1000:  # nearly all there are; the same, without parsing
            return value * scale
        if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
            message = f"must be a decimal number, not {kind_of(value)}"
        else:
            # As plain digits: Decimal arithmetic would round beyond 28 of them.
            text = format(value, "f") if isinstance(value, Decimal) else str(value)
            try:
                return parse(text)
            except ValueError as error:
                message = f"is {shown(value) or 'empty'}; {error}"
        problems.add(
            path,
            f"{dotted(path)} {message}",
            remedy=f"write it such as {example}",
            value=shown(value),
        )
        return BAD

    pattern = rf"^[0-9]{{1,15}}(\.[0-9]{{1,{decimals}}})?$"
    return Codec(
        read, write, {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": pattern}]}
    )


def _write_gpus(amount: int) -> int | str:
    return amount // 1000 if amount % 1000 == 0 else format_gpus(amount)


def _parsed(
    parse: Callable[[str], int],
    write: Callable[[int], str],
    example: str,
    schema: Mapping[str, Any],
    highest: int,
) -> Codec:
    """Text that stands for a length or a point in time."""

    def read(value: Any, path: Path, problems: Problems) -> Any:
        message = f"must be text such as {example}, not {kind_of(value)}"
        if type(value) is str:
            try:
                parsed = parse(value)
            except ValueError as error:
                message = f"is {_quoted(value)}; {error}"
            else:
                if 0 <= parsed <= highest:
                    return parsed
                message = f"is {_quoted(value)}, which is outside the years 1970 to 9999"
        problems.add(
            path, f"{dotted(path)} {message}", remedy=f"write it such as {example}", value=shown(value)
        )
        return BAD

    return Codec(read, write, schema)


def one_of(allowed: tuple[Any, ...]) -> Codec:
    """A Literal."""

    def read(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) is str and value in allowed:
            return value
        listed = ", ".join(allowed)
        close = f"; {meant(value, allowed)}" if type(value) is str else ""
        problems.add(
            path,
            f"{dotted(path)} is {shown(value) or 'empty'}, which is none of {listed}",
            remedy=f"write one of {listed}" + (close if "did you mean" in close else ""),
            value=shown(value),
            limit=listed,
        )
        return BAD

    return Codec(read, same, {"enum": list(allowed)})


TEXT = _text(MAX_TEXT)
INTEGER = _whole(-MAX_INT, MAX_INT, "a whole number")
BOOLEAN = Codec(_true_or_false, same, {"type": "boolean"})
GPUS = _amount(parse_gpus, _write_gpus, "4 or 0.25", 3)
MONEY = _amount(parse_money, format_money, '"2.49"', 6)

FORMS: Mapping[Form, Codec] = {
    Form.NAME: _matching(_LABEL, "a name", _NAME_REMEDY, longest=MAX_NAME, rule="name.invalid"),
    Form.ENVIRONMENT: _matching(
        f"[a-z0-9]{{1,{MAX_NAME}}}",
        "the name of an environment",
        f"use lowercase letters and digits, no hyphen, at most {MAX_NAME}",
        longest=MAX_NAME,
        rule="name.invalid",
    ),
    Form.VERSIONED_NAME: _matching(
        rf"{_LABEL}(?:@{_VERSION})?",
        "a name or name@version",
        f"{_NAME_REMEDY}; a version after @ is such as 1.0.0",
        longest=MAX_NAME + 33,
        rule="name.invalid",
    ),
    Form.DURATION: _parsed(
        parse_duration,
        format_duration,
        "90s, 10m, 4h or 30d",
        {"type": "string", "pattern": "^[0-9]{1,12}(s|m|h|d)$"},
        MAX_INSTANT_MS,
    ),
    Form.INSTANT: _parsed(
        parse_timestamp,
        format_timestamp,
        "2026-01-31T12:00:00Z",
        {"type": "string", "format": "date-time"},
        MAX_INSTANT_MS,
    ),
    Form.CURRENCY: _matching("[A-Z]{3}", "a currency", "use three capital letters, such as USD", longest=3),
    Form.FRACTION: Codec(
        _fraction,
        same,
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "string", "pattern": r"^(0(\.[0-9]{1,9})?|1(\.0{1,9})?)$"},
            ]
        },
    ),
    Form.LABEL_KEY: _matching(
        rf"(?:(?=[^/]{{1,253}}/){_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*/)?{_KEY_NAME}",
        "a label key",
        "use letters, digits, -, _ and ., at most 63, after an optional domain and a slash",
        longest=253 + 1 + 63,
    ),
    Form.LABEL_VALUE: _matching(
        f"(?:{_KEY_NAME})?",
        "a label value",
        "use letters, digits, -, _ and ., at most 63, a letter or digit at both ends",
        longest=63,
    ),
    Form.VARIABLE: _matching(
        "[A-Za-z_][A-Za-z0-9_]*",
        "the name of an environment variable",
        "use letters, digits and underscores, not beginning with a digit",
        longest=256,
    ),
    Form.VERSION: _matching(_VERSION, "a version", 'use up to three numbers, such as "1.0.0"', longest=32),
    Form.TEXT: _text(MAX_LONG_TEXT),
    Form.IMAGE: TEXT,  # what makes a reference valid is admission's rule image.invalid
    Form.POSITIVE: _whole(1, MAX_INT, "a whole number above zero"),
    Form.NATURAL: _whole(0, MAX_INT, "a whole number, zero or more"),
    Form.SHARE: _whole(1, 1000, "thousandths of a GPU, 1 to 1000"),
    Form.PERCENT: _whole(0, 100, "a whole number from 0 to 100"),
    Form.WORKERS: _whole(1, MAX_WORKERS, f"a whole number from 1 to {MAX_WORKERS}"),
}
