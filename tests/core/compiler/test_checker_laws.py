"""Whatever is changed where the platform decides, the checker sees it; whatever it is given, it answers."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.core.compiler.manifests import on_kubernetes, serving, training
from tests.core.compiler.mutations import ALLOWED, BASES

from windlass.core.compiler import checker
from windlass.core.compiler.checker.check import check
from windlass.core.compiler.work import Checkpoint
from windlass.core.units import Ms

AUTHORS_OR_TYPES = (
    *("ports", "readinessProbe", "restartPolicy", "enableServiceLinks", "subdomain", "network", "ingress"),
    *("volumes", "volumeMounts", "maxUnavailable", "fsGroup", "runAsUser", "runAsGroup", "runAsNonRoot"),
    *("readOnlyRootFilesystem", "completions", "key", "strategy"),
)
"""Parts that a type or a trait may fill as it likes (within laws that the table of mutations is about)."""
NAMED_AT_WILL = {("initContainers", 0, "name"), ("replicatedJobs", 0, "name"), ("tasks", 0, "name")}

Place = tuple[str | int, ...]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def leaves(tree: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if inside is None:
        yield path, tree
        return
    for key, value in inside:
        yield from leaves(value, (*path, key))


def owned(path: Place, value: Any) -> bool:
    named = path[-3:] in NAMED_AT_WILL or value == "TOKEN"
    return not named and not any(part in AUTHORS_OR_TYPES for part in path)


def places(base: str, *, all_of_them: bool = False) -> list[Place]:
    return [path for path, value in leaves(BASES[base]()[1]) if all_of_them or owned(path, value)]


def put(found: Any, path: Place, value: Any) -> Any:
    """With the value at that place; what was there."""
    for part in path[:-1]:
        found = found[part]
    before, found[path[-1]] = found[path[-1]], value
    return before


def same(one: Any, other: Any) -> bool:
    """JSON's own equality: true is not 1. A number of GPUs may be written as text."""
    return type(one) is type(other) and one == other


bases = st.sampled_from(sorted(BASES))


@settings(max_examples=400)
@given(st.data(), bases, JSON)
def test_another_value_at_a_platforms_place_is_a_breach(data: st.DataObject, base: str, value: Any) -> None:
    one, found = BASES[base]()
    path = data.draw(st.sampled_from(places(base)))
    changed = copy.deepcopy(found)
    before = put(changed, path, value)
    assume(not same(before, value) and str(before) != str(value))
    assert check(one, "kubernetes", changed, ALLOWED), (path, before, value)


def test_false_is_no_number_of_restarts() -> None:
    one, found = BASES["jobset"]()
    (jobset,) = [thing for thing in found if thing["kind"] == "JobSet"]
    for before, wrong in ((0, False), (1, True)):
        decided = replace(one, retries=before)
        jobset["spec"]["failurePolicy"]["maxRestarts"] = wrong
        assert "retries" in [breach.law for breach in check(decided, "kubernetes", found, ALLOWED)]


@settings(max_examples=300)
@given(st.data(), bases, JSON, st.integers(1, 9))
def test_the_checker_answers_whatever_it_is_given(
    data: st.DataObject, base: str, value: Any, depth: int
) -> None:
    one, found = BASES[base]()
    path = data.draw(st.sampled_from(places(base, all_of_them=True)))[:depth]
    changed = copy.deepcopy(found)
    put(changed, path, value)
    check(one, "kubernetes", changed, ALLOWED)
    check(one, "slurm", value)
    check(one, "local", value)


def test_most_places_are_the_platforms() -> None:
    assert all(len(places(base)) > 35 for base in BASES)


MAY_BE_SHARED = (
    "windlass.core.compiler.work",
    "windlass.core.compiler.checker.",
    "windlass.core.documents.kinds",
    "windlass.core.secret_forms",  # a table that the compiler itself may not read: pyproject.toml forbids it
)


def test_the_checker_shares_what_was_decided_and_no_code() -> None:
    imported = {
        node.module
        for path in Path(next(iter(checker.__path__))).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("windlass")
    }
    assert len(imported) > 5
    assert {name for name in imported if not name.startswith(MAY_BE_SHARED)} == set()


def test_a_signal_that_is_not_sent_before_the_end_is_a_breach() -> None:
    one = on_kubernetes(checkpoint=Checkpoint("USR1", Ms(90_000)))
    found = training(one)
    pod = found[0]["spec"]["template"]["spec"]
    pod["terminationGracePeriodSeconds"] = 90
    assert {breach.law for breach in check(one, "kubernetes", found, ALLOWED)} == {"time"}
    told = "kill -s USR1 1; while kill -0 1; do sleep 1; done"
    pod["containers"][0]["lifecycle"] = {"preStop": {"exec": {"command": ["/bin/sh", "-c", told]}}}
    assert not check(one, "kubernetes", found, ALLOWED)


def test_replicas_are_left_out_only_where_something_scales_them() -> None:
    one = on_kubernetes(workload="service", most_workers=2)
    (deployment, *_) = serving(one)
    laws = [(breach.law, breach.path) for breach in check(one, "kubernetes", [deployment], ALLOWED)]
    assert laws == [("gang", "objects[0].spec.replicas")]
