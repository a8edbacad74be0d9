"""A real platform that is taught a component type, a trait and a policy by documents alone, and runs them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.control.documents import CATALOG, intent, policy, project
from tests.journeys.platforms import eventually, platform

PATH = "/v1/projects/lab/components/prod/sum"
ADDS = "import os, sys; print(sum(map(int, sys.argv[1:])), os.environ['UNIT'], flush=True)"


def defined(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "windlass.dev/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"version": "1.0.0", **spec},
    }


TYPE = defined(
    "ComponentType",
    "adder",
    workload="job",
    parameters={
        "type": "object",
        "required": ["numbers"],
        "properties": {"numbers": {"type": "array", "items": {"type": "integer"}}},
    },
    rules=[{"name": "few", "require": "size(parameters.numbers) <= 3", "message": "three numbers at most"}],
    templates={
        "local": {
            "command": f"${{[{sys.executable!r}, '-c', {ADDS!r}] + parameters.numbers.map(n, string(n))}}"
        }
    },
    tests=[{"name": "one", "spec": {"parameters": {"numbers": [1]}}}],
)
TRAIT = defined(
    "Trait",
    "unit",
    parameters={"type": "object", "required": ["of"], "properties": {"of": {"type": "string"}}},
    patches={"local": {"variables": {"UNIT": "${parameters.of}"}}},
)


def adder(numbers: list[int], **spec: Any) -> dict[str, Any]:
    traits = [{"name": "unit", "parameters": {"of": "$(apples); ${n}"}}]
    wanted = intent("lab/prod/sum", 1, type="adder", parameters={"numbers": numbers}, traits=traits, **spec)
    wanted["spec"].pop("command", None)
    return wanted


@pytest.mark.slow
def test_a_type_a_trait_and_a_policy_that_the_code_never_heard_of(tmp_path: Path) -> None:
    with platform(tmp_path) as subject:
        subject.key = subject.start()
        lab = project("lab")
        lab["spec"] = {"environments": ["prod"], "traits": ["unit"], "defaultProfile": "h100-80g"}
        for document in (*yaml.safe_load_all(CATALOG), TYPE, TRAIT, lab, policy("cheap", "spec.gpus <= 2")):
            status, answer = subject.call("POST", "/v1/apply", document)
            assert status == 200, answer
        for wanted, rules in ((adder([1, 2, 3, 4]), ["parameter.invalid"]), (adder([1]), [])):
            _, answer = subject.call("POST", "/v1/apply", wanted)
            assert [reason["rule"] for reason in answer.get("reasons", ())] == rules, answer
        eventually(lambda: subject.get(PATH)["status"]["phase"] == "Succeeded", "its end")
        assert subject.get(f"{PATH}/logs") == "1 $(apples); ${n}\n"
        status, answer = subject.call("POST", "/v1/apply", adder([1, 2], gpus=4))
        assert status == 422 and [one["rule"] for one in answer["reasons"]] == ["policy.cheap"]
        assert subject.stop() == 0
