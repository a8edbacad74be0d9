"""Defaults of parameters may hold each other as far as they come to an end, and to little."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.catalog.worlds import component_type

from windlass.core.catalog.rules import check_document
from windlass.core.compiler.names import filled
from windlass.core.documents.problems import Problems

EMPTY: dict[str, Any] = {}


def node(*names: str, then: str) -> dict[str, Any]:
    """A mapping whose parts are, unless they are given, empty mappings of the next kind."""
    parts = {name: {"$ref": f"#/$defs/{then}", "default": EMPTY} for name in names}
    return {"type": "object", "properties": parts}


def schema(**definitions: Any) -> dict[str, Any]:
    return {"type": "object", "$defs": definitions, "properties": {"t": {"$ref": "#/$defs/first"}}}


def told(parameters: dict[str, Any]) -> list[str]:
    problems = Problems()
    check_document(component_type(parameters=parameters), problems)
    return [reason.message for reason in problems.reasons()]


@pytest.mark.parametrize(
    "definitions",
    [
        {"first": node("again", then="first")},
        {"first": node("left", "right", then="second"), "second": node("back", then="first")},
        {f"{'first' if at == 0 else f'd{at}'}": node("l", "r", then=f"d{at + 1}") for at in range(30)}
        | {"d30": {"type": "object"}},
        {
            "first": {
                "type": "object",
                "properties": {
                    "many": {"type": "array", "items": {"$ref": "#/$defs/first"}, "default": [EMPTY]}
                },
            }
        },
    ],
)
def test_defaults_without_an_end_are_refused_at_once(definitions: dict[str, Any]) -> None:
    (message,) = told(schema(**definitions))
    assert message.startswith('the defaults inside spec.parameters["$defs"]') and "1000 values" in message


def test_parts_of_their_own_kind_are_good_where_an_author_writes_each() -> None:
    tree = {
        "type": "object",
        "properties": {"size": {"type": "integer", "default": 1}, "next": {"$ref": "#/$defs/first"}},
    }
    assert told(schema(first=tree)) == []
    assert filled(schema(first=tree), {"t": {"next": {}}}) == {"t": {"size": 1, "next": {"size": 1}}}


def test_a_reference_to_a_reference_brings_its_defaults() -> None:
    chain = schema(
        first={"$ref": "#/$defs/last"}, last={"type": "object", "properties": {"n": {"default": 2}}}
    )
    assert told(chain) == []
    assert filled(chain, {"t": {}}) == {"t": {"n": 2}}
