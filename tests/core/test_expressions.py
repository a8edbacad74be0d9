"""Expressions are typed, bounded, and never give half an answer."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.expressions import MAX_TEXT, BadExpression, Names, Unevaluable

NAMES = Names.of({"n": "int", "d": "double", "s": "string", "m": "map(string, dyn)", "l": "list(string)"})
VALUES: dict[str, Any] = {"n": 3, "d": 0.5, "s": "x", "m": {"a": {"b": 1}}, "l": ["p", "q"]}
TEN = "[0,1,2,3,4,5,6,7,8,9]"


def value(text: str) -> Any:
    return NAMES.check(text).value(NAMES.bind(VALUES))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n + 1", 4),
        ("d * 2.0", 1.0),
        ("s + '-' + string(n)", "x-3"),
        ("m.a.b", 1),
        ("l.map(i, {'name': i})", [{"name": "p"}, {"name": "q"}]),
        ("null", None),
        ("has(m.c) ? m.c : 'none'", "none"),
        ("s.upperAscii() + l.join(',')", "Xp,q"),
        ("math.greatest(n, 7)", 7),
    ],
)
def test_an_expression_gives_plain_data(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("n + unknown", 1, 5, "undeclared reference to 'unknown'"),
        ("n +\n  s", 1, 3, "no matching overload"),
        ("n\n+ nope", 2, 3, "undeclared"),
        ("n +", 1, 4, "Syntax error"),
        ("[[" * 40 + "1" + "]]" * 40, 1, 1, "recursion"),
        ("1" + " + 1" * 900, 1, 1, "recursion"),
        ("n" * (MAX_TEXT + 1), 1, 1, "at most 4096"),
        ("s.nothing()", 1, 10, "undeclared"),
        ("", 1, 1, ""),
    ],
)
def test_what_can_never_be_evaluated_is_refused_with_its_place(
    text: str, line: int, column: int, words: str
) -> None:
    with pytest.raises(BadExpression) as refused:
        NAMES.check(text)
    assert (refused.value.line, refused.value.column) == (line, column), refused.value.message
    assert words in refused.value.message


@pytest.mark.parametrize(
    "text",
    [
        "1 / 0",
        "n + 9223372036854775807",
        "m.c",
        "l[7]",
        f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, true)))))",
        f"{TEN}.map(a, {TEN}.map(b, {TEN}.map(c, {TEN}.map(d, 1))))",
        "{1: 2}",
        "b'bytes'",
        "timestamp('2026-01-01T00:00:00Z')",
        "1.0 / 0.0",
        "type(1)",
    ],
)
def test_what_has_no_value_is_an_error_and_never_a_value(text: str) -> None:
    program = NAMES.check(text)
    for ask in (program.value, program.holds):
        with pytest.raises(Unevaluable):
            ask(NAMES.bind(VALUES))


def test_a_value_of_another_type_than_declared_is_an_error() -> None:
    with pytest.raises(Unevaluable):
        NAMES.check("n").value(NAMES.bind({"n": "three"}))
    with pytest.raises(Unevaluable):
        NAMES.check("n").value(NAMES.bind({}))


@pytest.mark.parametrize("text", ["n", "s", "'true'", "m", "null"])
def test_only_true_is_true(text: str) -> None:
    assert not NAMES.check(text).holds(NAMES.bind(VALUES))
    assert NAMES.check("n == 3").holds(NAMES.bind(VALUES))


_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=["\x00"]))
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(-1e9, 1e9) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)


@given(data=_json)
def test_plain_data_goes_in_and_comes_out_unchanged(data: Any) -> None:
    names = Names.of({"given": "dyn"})
    assert names.check("given").value(names.bind({"given": data})) == data


@pytest.mark.parametrize("given", ["a\x00b", {"k": ["\x00"]}, {"\x00": 1}])
def test_a_nul_is_refused_instead_of_ending_the_text(given: Any) -> None:
    names = Names.of({"given": "dyn"})
    with pytest.raises(Unevaluable, match="NUL"):
        names.bind({"given": given})


_MANY_NULLS = """
import sys
from windlass.core.expressions import Names
names = Names.of({"given": "dyn"})
program, bound = names.check("given"), names.bind({"given": [None, {"a": None}]})
before = sys.getrefcount(None)
for _ in range(before):
    program.value(bound)
"""


def test_nulls_without_end_do_not_end_the_process() -> None:
    """In a process of its own: what would go wrong ends it."""
    asked = [sys.executable, "-c", _MANY_NULLS]
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
