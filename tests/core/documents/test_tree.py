"""Text becomes plain data with lines, or an error a person can act on; nothing else can happen."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from windlass.core.documents.tree import read_either, read_json, read_yaml
from windlass.core.documents.yaml_tree import Limits
from windlass.core.errors import Invalid, TooLarge

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def yaml_data(text: str | bytes) -> Any:
    (tree,) = read_yaml(text)
    return tree.data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("2026-01-31", "2026-01-31"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("12", 12),
        ("+3", 3),
        ("-3", -3),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("0.1", Decimal("0.1")),
        ("-.5", Decimal("-0.5")),
        ("1e3", Decimal("1e3")),
        ('"12"', "12"),
        ("'true'", "true"),
        ("|\n  12\n", "12\n"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int 12", 12),
        ("!!float 12", 12),
        ("1.2.3", "1.2.3"),
        ("-", None),
    ],
)
def test_a_plain_scalar_is_what_yaml_1_2_says(text: str, value: Any) -> None:
    if text == "-":
        assert yaml_data("a:\n-") == {"a": [None]}
        return
    found = yaml_data(f"a: {text}\n")["a"]
    assert found == value and type(found) is type(value)


def test_a_stream_is_several_documents_and_empty_ones_are_skipped() -> None:
    trees = read_yaml("# nothing\n---\n---\na: 1\n---\n# nothing again\n---\nb: 2\n...\n")
    assert [tree.data for tree in trees] == [{"a": 1}, {"b": 2}]
    assert [tree.index for tree in trees] == [0, 1]
    assert read_yaml("") == [] == read_yaml("# only a comment")


@pytest.mark.parametrize("read", [read_json, read_yaml])
def test_a_list_is_several_documents(read: Any) -> None:
    trees = read('[{"a": 1},\n {"b": {"c": 2}}]')
    assert [(tree.data, tree.index) for tree in trees] == [({"a": 1}, 0), ({"b": {"c": 2}}, 1)]
    assert trees[1].line(("b", "c")) == 2


@pytest.mark.parametrize("read", [read_yaml, read_json])
def test_a_list_as_get_prints_it_is_several_documents(read: Any) -> None:
    trees = read('{"items": [{"a": 1},\n {"b": 2}],\n "revision": 3}')
    assert [(tree.data, tree.index) for tree in trees] == [({"a": 1}, 0), ({"b": 2}, 1)]
    assert trees[1].line(("b",)) == 2
    assert [tree.data for tree in read('{"kind": "Tier", "items": []}')] == [{"kind": "Tier", "items": []}]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        ("{a: b}", {"a": "b"}),
        ("\n[{a: b}]", {"a": "b"}),
        ("a: b", {"a": "b"}),
    ],
)
def test_a_text_of_unknown_form_is_json_where_it_is_that_and_else_yaml(text: str, data: Any) -> None:
    assert [tree.data for tree in read_either(text.encode())] == [data]


def test_every_path_has_its_line() -> None:
    text = "a: 1\nb:\n  - x\n  - c: 2\n    d: &here\n      e: 3\nf: *here\n"
    (tree,) = read_yaml(text)
    lines = {
        path: tree.line(path) for path in [("a",), ("b",), ("b", 1), ("b", 1, "d", "e"), ("f",), ("f", "e")]
    }
    assert lines == {("a",): 1, ("b",): 2, ("b", 1): 4, ("b", 1, "d", "e"): 6, ("f",): 7, ("f", "e"): 6}


def test_what_is_missing_has_the_line_of_what_is_around_it() -> None:
    (tree,) = read_yaml("a: 1\nb:\n  c: 2\n")
    assert tree.line(("b", "nothing", 3, "here")) == 2


# What JSON and YAML both can say: no NUL, and no escape for half of a surrogate pair.
texts = st.text(st.characters(min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=8)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


@given(documents)
@RELAXED
def test_json_and_yaml_agree_about_json_and_its_lines(value: Any) -> None:
    """Law: the tokenizer that finds lines in JSON sees what the YAML reader sees."""
    text = json.dumps({"root": value}, indent=1)
    (ours,) = read_json(text)
    (theirs,) = read_yaml(text)
    assert ours.data == theirs.data
    for path in paths(ours.data):
        assert ours.line(path) == theirs.line(path)


def paths(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [above]
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*above, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            found += paths(item, (*above, at))
    return found


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", "on line 1 and again on line 3", 3),
        ("1: 2", "the key 1 is not text", 1),
        ("true: 2", "the key true is not text", 1),
        ("? [a]\n: b", "a key must be plain text", 1),
        ("a: &x b\n? *x\n: c", "a key must be plain text", 2),
        ("<<: {a: 1}", "merge keys", 1),
        ("a: !secret x", "the tag !secret", 1),
        ("a: !!python/object:os.system x", "the tag !!python/object:os.system", 1),
        ("a: !!binary eA==", "the tag !!binary", 1),
        ("a: !!set {x}", "the tag !!set", 1),
        ("a: !!int x", "!!int", 1),
        ("a: !!int true", "!!int", 1),
        ("a: *nothing", "*nothing stands for nothing", 1),
        ("a: &a [*a]", "*a stands for nothing", 1),
        ("a: .inf", ".inf is not a number", 1),
        ("a: .NaN", ".NaN is not a number", 1),
        ("a: 1e999999999", "too many digits", 1),
        ("a: 0e-999999999", "too many digits", 1),
        (f"a: {'9' * 5000}", "too large", 1),
        (f"a: 0x{'f' * 5000}", "too large", 1),
        (f"a: 0.{'9' * 5000}", "too many digits", 1),
        ('a: "\\0"', "NUL", 1),
        ('a: "\\ud800"', "line 1, column", 1),
        ("a: [1, 2", "not valid YAML", 2),
        ("a:\n\t- b", "line 2, column 1", 2),
        ("a: b: c", "mapping values are not allowed", 1),
        ("a: 'x", "not valid YAML", 1),
        ("a: \x01", "U+0001", 1),
        ("a: 1\nb: \x00", "NUL character on line 2", 2),
        ("a: \ud800", "surrogate", 1),
        (b"a: 1\nb: \xff", "0xff on line 2 is not UTF-8", 2),
        ("{a: 1}\n}", "not valid YAML", 2),
    ],
)
def test_bad_yaml_is_refused_with_a_line_and_a_sentence(text: str | bytes, words: str, line: int) -> None:
    with pytest.raises(Invalid) as caught:
        read_yaml(text)
    assert words in caught.value.detail
    (reason,) = caught.value.reasons
    assert (reason.rule, reason.line) == ("document.invalid", line)


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ('{"a": 1,\n "b": 2,\n "a": 3}', "on line 1 and again on line 3", 3),
        ('{"a": {"b": 1, "b": 2}}', "twice on line 1", 1),
        ('{"a":\n NaN}', "NaN is not a number", 2),
        ('{"a": -Infinity}', "-Infinity is not a number", 1),
        ('{"a": 1e999999999}', "too many digits", 1),
        (f'{{"a":\n {"9" * 5000}}}', "too large", 2),
        ('{"a": "\\ud800"}', "surrogate", None),
        ('{"\\udfff": 1}', "surrogate", None),
        ('{"a": "\\u0000"}', "NUL", None),
        ('{"a": 1 "b"}', "line 1, column 9", 1),
        ('{"a": 1} x', "extra data", 1),
        ("", "the text is empty", None),
        ('{"a": "\t"}', "not valid JSON", 1),
        (b'{"a": "\xff"}', "not UTF-8", 1),
    ],
)
def test_bad_json_is_refused_with_a_sentence(text: str | bytes, words: str, line: int | None) -> None:
    with pytest.raises(Invalid) as caught:
        read_json(text)
    assert words in caught.value.detail
    assert caught.value.reasons[0].line == line


def test_json_may_hold_what_is_only_almost_refused() -> None:
    (tree,) = read_json('{"a": "\\ud83d\\ude00", "b": "\\\\u0000", "c": -0, "d": 1.50}')
    assert tree.data == {"a": "😀", "b": "\\u0000", "c": 0, "d": Decimal("1.50")}
    assert str(tree.data["d"]) == "1.50"


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    assert yaml_data("\ufeffa: 1".encode()) == {"a": 1}
    assert read_json("\ufeff{}")[0].data == {}


@pytest.mark.parametrize("unit", ["[", "{a: ", "- ", "[{a: "])
def test_deep_yaml_stops_at_the_limit_however_deep_it_is(unit: str) -> None:
    with pytest.raises(Invalid, match="64 levels"):
        read_yaml(unit * 250_000)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 65 + "]" * 65])
def test_deep_json_stops_at_the_limit(text: str) -> None:
    with pytest.raises(Invalid, match="64 levels"):
        read_json(text)


@pytest.mark.parametrize("read", [read_json, read_yaml])
def test_the_limit_itself_is_allowed(read: Any) -> None:
    assert read("[" * 64 + "1" + "]" * 64)


def test_aliases_are_counted_by_what_they_stand_for() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(Invalid, match="200000 values"):
        read_yaml("\n".join(lines))


def test_aliases_are_as_deep_as_what_they_stand_for() -> None:
    deep = "a: &a " + "[" * 40 + "]" * 40
    with pytest.raises(Invalid, match="64 levels"):
        read_yaml(f"{deep}\nb: {'[' * 40}*a{']' * 40}")


def test_an_anchor_is_known_within_its_document_only() -> None:
    with pytest.raises(Invalid, match="stands for nothing"):
        read_yaml("a: &x 1\n---\nb: *x")


def test_size_and_number_of_values_are_bounded() -> None:
    with pytest.raises(TooLarge, match="10 MB"):
        read_yaml("x" * (10 * 1024 * 1024 + 1))
    with pytest.raises(TooLarge, match="100 bytes"):
        read_json('"' + "ä" * 60 + '"', Limits(size=100))
    with pytest.raises(Invalid, match="50 values"):
        read_json(json.dumps([0] * 60), Limits(nodes=50))
    with pytest.raises(Invalid, match="50 values"):
        read_yaml(json.dumps([0] * 60), Limits(nodes=50))


def test_directives_are_few() -> None:
    with pytest.raises(Invalid, match="directives"):
        read_yaml("".join(f"%TAG !t{n}! tag:x,2000:\n" for n in range(100_000)) + "---\na: 1\n")


@given(st.text() | st.binary() | st.text("[]{}:,-?&*!|>'\"%@`# \n\tab01.~<"))
@RELAXED
@example("\x85: 1")
@example("a: |\n  \u2028%x")
def test_any_text_is_read_or_refused_by_our_own_errors(text: str | bytes) -> None:
    for read in (read_yaml, read_json):
        with suppress(Invalid):
            for tree in read(text):
                tree.line(("a", 0))
