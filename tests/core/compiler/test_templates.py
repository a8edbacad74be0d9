"""Templates are data: what an author writes becomes a value in them, and never structure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.compiler.templates import MAX_RENDERED, read_template
from windlass.core.documents.problems import Problems
from windlass.core.expressions import Names, Unevaluable

NAMES = Names.of({"text": "string", "n": "int", "items": "list(string)"})


def render(template: Any, text: str = "x", n: int = 2, items: tuple[str, ...] = ("a", "b")) -> Any:
    problems = Problems()
    made = read_template(template, NAMES, ("spec",), problems)
    assert not problems, problems.reasons()
    return made(NAMES.bind({"text": text, "n": n, "items": list(items)}))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ({"a": "plain", "b": 1, "c": [True, 2.5]}, {"a": "plain", "b": 1, "c": [True, 2.5]}),
        ({"a": "${n + 1}"}, {"a": 3}),
        ("${items.map(i, {'name': i})}", [{"name": "a"}, {"name": "b"}]),
        ({"a": "${n > 5 ? dyn('many') : null}", "b": 1}, {"b": 1}),
        (["x", "${n > 5 ? dyn('many') : null}", "y"], ["x", "y"]),
        ({"a": {"$if": "${n > 1}", "b": 1}}, {"a": {"b": 1}}),
        ({"a": {"$if": "${n > 5}", "b": 1}, "c": 2}, {"c": 2}),
        ([{"$if": "${n > 5}", "b": 1}, 2], [2]),
        ({"$if": "${false}"}, None),
        ("$${n}", "${n}"),
        ({"a": None, "b": 1}, {"b": 1}),
    ],
)
def test_a_template_gives_its_values(template: Any, expected: Any) -> None:
    assert render(template) == expected


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters=["\x00"])))
def test_no_text_of_an_author_becomes_structure_or_is_evaluated(text: str) -> None:
    assert render({"command": ["run", "${text}"], "n": "${text + ''}"}, text) == {
        "command": ["run", text],
        "n": text,
    }


@pytest.mark.parametrize("text", ["a ${n}", "${n} b", "a${n}b", "x ${"])
def test_an_expression_is_the_whole_value_or_nothing(text: str) -> None:
    problems = Problems()
    read_template({"a": text}, NAMES, ("spec",), problems)
    (reason,) = problems.reasons()
    assert reason.field == "spec.a" and "mixes text" in reason.message


def test_what_has_no_value_names_its_place() -> None:
    with pytest.raises(Unevaluable, match=r"spec\.a\[1\]: divide by zero"):
        render({"a": ["x", "${n / 0}"]})


def test_a_template_that_grows_too_large_is_an_error() -> None:
    with pytest.raises(Unevaluable, match="at most"):
        render({"a": "${text}"}, "x" * MAX_RENDERED)
