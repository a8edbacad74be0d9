"""An evaluation that could come to too much is not begun, and what is estimated is never too little."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from windlass.core.expression_cost import MAX_COST, Size, cost_of
from windlass.core.expression_patterns import MOST_STEPS, steps_of
from windlass.core.expressions import BadExpression, Budget, Names, Unevaluable

NAMES = Names.of({"s": "string", "l": "list(string)", "m": "map(string, dyn)", "n": "int"})
LARGE: dict[str, Any] = {
    "s": "a" * 65536,
    "l": ["a"] * 1000,
    "m": {"t": "a" * 65536, "l": ["b"] * 100},
    "n": 3,
}


@pytest.mark.parametrize(
    "text",
    [
        "s.replace('a', s)",
        "size(s.replace('', s)) > 0",
        "m.t.replace('a', m.t) == ''",
        "l.map(x, s + s + s + s)",
        "l.map(x, l + l + l)",
        "s.split('').map(x, s)",
        "l.all(x, (s + s + s).contains(s))",
        "[s, s, s].map(x, l.join(x).replace('a', x))",
        "s.matches(s)",
        "l.all(x, s.matches('^[a-z]{1,40}$'))",
        "l.all(x, m == m)",
    ],
)
def test_what_grows_with_the_values_is_not_evaluated_with_large_ones(text: str) -> None:
    with pytest.raises(Unevaluable, match="could come to more than"):
        NAMES.check(text).value(NAMES.bind(LARGE))
    NAMES.check(text).value(NAMES.bind({"s": "ab", "l": ["a"], "m": {"t": "a", "l": []}, "n": 1}))


@pytest.mark.parametrize(
    "text",
    [
        "'aaaaaaaaaa'" + ".replace('a', 'aaaaaaaaaa')" * 9,
        "['aaaa']" + ".map(x, x + x + x + x)" * 14,
        "[1, 2, 3, 4, 5, 6, 7, 8]" + ".map(x, [x, x, x, x, x, x, x, x])" * 10,
        "[1, 2, 3].all(x, 'a'.matches('\\\\pL{500}'))",
    ],
)
def test_what_grows_by_itself_cannot_be_applied(text: str) -> None:
    with pytest.raises(BadExpression, match="could come to more than"):
        NAMES.check(text)


@pytest.mark.parametrize(
    "text",
    [
        "l.map(x, '--' + x)",
        "m.l.exists(x, x.contains('c'))",
        "s.lowerAscii() + '-' + string(n)",
        "l.filter(x, x in m).size() > 0 ? s : 'none'",
        "l.all(x, s != x)",
        "{'name': s, 'args': l + l}",
        "s.matches('^a+$') && s.replace('a', 'b').size() > n",
    ],
)
def test_what_people_write_is_evaluated_with_large_values(text: str) -> None:
    NAMES.check(text).value(NAMES.bind(LARGE))


def test_what_is_judged_together_has_one_budget() -> None:
    budget = Budget()
    heavy = NAMES.check("l.all(x, s.contains(x))")
    heavy.value(NAMES.bind({**LARGE, "l": ["a"] * 300}, budget))
    with pytest.raises(Unevaluable, match="could come to more than"):
        heavy.value(NAMES.bind({**LARGE, "l": ["a"] * 300}, budget))
    heavy.value(NAMES.bind({**LARGE, "l": ["a"] * 300}))


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        ("abc", 3),
        ("a{1000}", 1000),
        ("(a|b){1000}", 2000),
        ("((ab){20}){20}", 800),
        ("(?P<name>a{30}){30}", 900),
        ("(?i)abc", 6),
        ("[a-z]{40}", 40),
        ("[]^]{40}", 40),
        ("[^a]{1000}", 2000),
        (r"\pL{500}", MOST_STEPS),
        (r"[\p{Greek}x]{500}", MOST_STEPS),
        ("[äö]{500}", MOST_STEPS),
        ("(((", 3),
        (")){9}", 1),
        ("", 1),
    ],
)
def test_the_steps_of_a_pattern_are_never_told_too_few(pattern: str, least: int) -> None:
    assert least <= steps_of(pattern) <= MOST_STEPS


_VALUES = st.fixed_dictionaries(
    {
        "s": st.text("ab", max_size=12),
        "l": st.lists(st.text("ab", max_size=6), max_size=5),
        "m": st.dictionaries(st.sampled_from("tuv"), st.text("ab", max_size=6), min_size=1),
        "n": st.integers(0, 5),
    }
)
_TEXTS = st.recursive(
    st.sampled_from(
        ["s", "'ab'", "string(n)", "l.join(s)", "l.map(x, x + s).join('-')", "m.map(k, k).join(s)"]
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]} + {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"{two[0]}.replace('a', {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"(n > 2 ? {two[0]} : {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"{two[0]}.split('').map(c, c + {two[1]}).join()"),
        inner.map(lambda one: f"[{one}, 'b'].filter(y, y != 'b').map(y, y + y).join(',')"),
        inner.map(lambda one: f"'%s!'.format([{one}])"),
        inner.map(lambda one: f"strings.quote({one}).upperAscii()"),
    ),
    max_leaves=4,
)


@given(text=_TEXTS, values=_VALUES)
def test_the_estimate_is_never_below_what_is_made(text: str, values: dict[str, Any]) -> None:
    try:
        program = NAMES.check(text)
    except BadExpression:  # too much whatever the values are
        reject()
    size, cost = cost_of(program._expression.serialize())(
        {name: Size.of(one) for name, one in values.items()}
    )
    if cost <= MAX_COST:
        made = len(program.value(NAMES.bind(values)))
        assert made <= size.whole
        assert made <= cost or text in ("s", "'ab'")
