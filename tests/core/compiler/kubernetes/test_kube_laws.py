"""What holds of every manifest, whatever an author writes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.compiler.kubernetes.worlds import JOB, SERVICE, canonical, catalog, work
from tests.core.compiler.kubernetes.worlds import variables as told_variables

from windlass.core.compiler.kubernetes.cell import cell_objects
from windlass.core.compiler.kubernetes.refusals import refusals
from windlass.core.compiler.kubernetes.site import site_objects
from windlass.core.compiler.kubernetes.words import reserved, service_name
from windlass.core.compiler.kubernetes.workload import Refused, finish

ROOT = Path(__file__).parents[4]
TEXT = st.text(max_size=30)
NAMES = st.one_of(
    st.sampled_from(["RANK", "WORLD_SIZE", "MASTER_ADDR", "WINDLASS_NODE", "WINDLASS_X", "HOME"]), TEXT
)
KEYS = st.one_of(
    st.sampled_from(["windlass.dev/tenant", "kueue.x-k8s.io/queue-name", "cost/x", "a.kubernetes.io/b"]), TEXT
)
LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def without_author(manifests: Any, told: set[str]) -> Any:
    """The manifests with what is the author's taken out: the rest must not depend on an author. `told` are
    the variables that the platform sets."""
    tree = [dict(thing) for thing in manifests]
    for thing in tree:
        thing["metadata"] = {**thing["metadata"], "labels": _platform(thing["metadata"]["labels"])}
    template = tree[0]["spec"]["template"]
    template["metadata"]["labels"] = _platform(template["metadata"]["labels"])
    (main,) = template["spec"]["containers"]
    main["env"] = [one for one in main["env"] if one["name"] in told or one["name"].startswith("WINDLASS_")]
    del main["image"]
    main.pop("command", None)
    return tree


def _platform(labels: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if reserved(key)}


@given(TEXT, st.lists(TEXT, max_size=4), st.dictionaries(NAMES, TEXT), st.dictionaries(KEYS, TEXT))
def test_nothing_an_author_writes_changes_what_is_the_platform_s(
    image: str, command: list[str], variables: dict[str, str], labels: dict[str, str]
) -> None:
    for template in (JOB, SERVICE):
        told = set(told_variables(finish(work(), template))) - {"HOME"}
        plain = without_author(finish(work(), template), told)
        written = work(image=image, command=tuple(command), variables=variables, labels=labels)
        assert without_author(finish(written, template), told) == plain


@given(st.dictionaries(NAMES, TEXT), st.dictionaries(KEYS, TEXT), st.permutations(["a", "b", "c"]))
def test_the_same_work_gives_the_same_bytes(
    variables: dict[str, str], labels: dict[str, str], order: list[str]
) -> None:
    patches = {
        name: {"podLabels": {name: name}, "pod": {"volumes": [{"name": name, "emptyDir": {}}]}}
        for name in order
    }
    first = finish(work(variables=variables, labels=labels), JOB, list(patches.items()))
    turned = work(variables=dict(reversed(variables.items())), labels=dict(reversed(labels.items())))
    assert canonical(first) == canonical(finish(turned, JOB, sorted(patches.items())))


@given(JSON)
def test_no_tree_whatever_makes_the_judge_stumble(tree: Any) -> None:
    """What an expression brings in may be anything; it is refused or finished, never an error of ours."""
    for objects in ([tree], tree, [{"apiVersion": "batch/v1", "kind": "Job", "spec": tree}]):
        list(refusals({"objects": objects}, author=True))
    pods = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"containers": [tree]}}}}
    with suppress(Refused):
        finish(work(), {"objects": [pods]}, author=True)


@given(LABELS | st.from_regex(r"(d-){0,3}[0-9][a-z0-9]{0,3}", fullmatch=True), LABELS)
def test_two_components_never_share_a_service(first: str, second: str) -> None:
    assert not service_name(first)[0].isdigit()
    assert (service_name(first) == service_name(second)) == (first == second)


@pytest.mark.parametrize("seed", ["0", "1", "12345"])
def test_bytes_do_not_depend_on_the_process(seed: str) -> None:
    known = catalog()
    here = canonical(
        [finish(work(), JOB), site_objects(known, "fra1").objects, cell_objects(known, "fra1", "nlp", "prod")]
    )
    there = subprocess.run(
        [sys.executable, "-c", _AGAIN],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    assert there.stdout == here


_AGAIN = """
import sys
from tests.core.compiler.kubernetes.worlds import *
from windlass.core.compiler.kubernetes.cell import cell_objects
from windlass.core.compiler.kubernetes.site import site_objects
from windlass.core.compiler.kubernetes.workload import finish
known = catalog()
made = [finish(work(), JOB), site_objects(known, "fra1").objects, cell_objects(known, "fra1", "nlp", "prod")]
sys.stdout.buffer.write(canonical(made))
"""
