"""Goldens before the published schemas of their kinds. `make test-kube` fetches these; where they are not
there, the tests say so."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
from tests.core.compiler.kubernetes.worlds import GOLDENS
from tools.kube_schemas import folder

pytestmark = pytest.mark.skipif(
    not folder().exists(), reason="no schemas of Kubernetes here: python -m tools.kube_schemas"
)
LISTS = sorted(one.stem for one in GOLDENS.glob("*.json") if one.stem != "site-requirements")
DEFINED_ELSEWHERE = ("kueue.x-k8s.io", "jobset.x-k8s.io", "volcano.sh", "keda.sh", "opendatahub.io")
"""Groups that Kubernetes itself does not have: tests/kube asks their own definitions."""


@cache
def validator(api_version: str, kind: str) -> Any:
    group, _, version = api_version.rpartition("/")
    parts = [kind.lower(), *([group.partition(".")[0]] if group else []), version]
    schema = json.loads((folder() / f"{'-'.join(parts)}.json").read_text())
    return jsonschema_rs.validator_for(
        {**schema, "$id": "https://kubernetes/kind.json"}, retriever=_definitions
    )


@cache
def _definitions(uri: str) -> Any:
    assert uri.endswith("/_definitions.json"), uri
    return json.loads((folder() / "_definitions.json").read_text())


@pytest.mark.parametrize("name", LISTS)
def test_a_golden_is_what_the_schema_of_its_kind_says(name: str) -> None:
    looked = 0
    for thing in json.loads((GOLDENS / f"{name}.json").read_text()):
        if not thing["apiVersion"].partition("/")[0].endswith(DEFINED_ELSEWHERE):
            wrong = [
                f"{one.instance_path}: {one.message}"
                for one in validator(thing["apiVersion"], thing["kind"]).iter_errors(thing)
            ]
            assert wrong == []
            looked += 1
    assert looked


def test_a_schema_knows_its_fields() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {}, "paralelism": 2}}
    assert not validator("batch/v1", "Job").is_valid(job)
