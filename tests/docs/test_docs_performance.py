"""The performance page says what the stored result says, and nothing else. Nothing is measured here."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks.peers.comparing import PEERS
from benchmarks.performance_page import page, picture
from benchmarks.plotting import Bar, Group, plot
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "performance.json").read_text(encoding="utf-8"))
    return found


def test_the_page_is_what_the_stored_result_makes_of_it(result: dict[str, Any]) -> None:
    assert (DOCS / "performance.md").read_text(encoding="utf-8") == page(result)


def test_the_picture_is_what_the_stored_result_makes_of_it(result: dict[str, Any]) -> None:
    assert (DOCS / "performance.svg").read_text(encoding="utf-8") == picture(result)


def test_every_peer_is_on_the_page_with_the_version_that_was_measured(result: dict[str, Any]) -> None:
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert [one["peer"] for one in result["peers"]] == sorted(PEERS)
    for one in result["peers"]:
        assert one["versions"][one["peer"]] in text


def test_a_measure_without_an_equivalent_says_why(result: dict[str, Any]) -> None:
    for one in result["peers"]:
        missing = [line["key"] for line in one["lines"] if line["peer"] is None]
        assert bool(missing) == bool(one["gaps"]), one["peer"]


def test_where_a_peer_is_better_its_bar_points_the_other_way() -> None:
    group = Group("cost", "4 ms", [Bar("fast", 0.5, "2 ms"), Bar("slow", 5.0, "20 ms")])
    drawn = ElementTree.fromstring(plot("both ways", [group]))  # noqa: S314 (our own text)
    space = "{http://www.w3.org/2000/svg}"
    one = next(line for line in drawn.iter(f"{space}line") if line.get("class") == "one").get("x1")
    fast, slow = [bar for bar in drawn.iter(f"{space}rect") if bar.get("height") == "13"]
    assert one is not None
    assert float(fast.get("x", "nan")) < float(one)
    assert float(slow.get("x", "nan")) == float(one)


def test_the_page_names_no_place_on_the_machine_it_was_measured_on(result: dict[str, Any]) -> None:
    assert not re.search(r'"/(home|root|tmp|work)\b', json.dumps(result))
