"""Types and traits of the platform's own making, from their documents to what leaves: whatever their
expressions give, it is compiled or refused in words, and never an accident."""

from __future__ import annotations

from typing import Any

import pytest
from tests.control.documents import intent
from tests.core.admission.cases import catalog, document, facts, granting, parsed

from windlass.core.admission.case import Case, open_case
from windlass.core.compiler.compile import Uncompilable, compile_component
from windlass.core.errors import Invalid

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
}
ANY = {"type": "object", "properties": {"x": {}}}


def case_of(
    templates: dict[str, Any] | None = None,
    patches: dict[str, Any] | None = None,
    schema: dict[str, Any] = ANY,
    workload: str = "job",
    **parameters: Any,
) -> Case:
    """A component of the type `odd`, with the trait `extra`, on a site of each orchestrator."""
    given = templates or {"kubernetes": {"objects": [JOB]}, "slurm": {"command": ["a"]}}
    odd = {"version": "1.0.0", "workload": workload, "parameters": schema, "templates": given}
    extra = {"version": "1.0.0", "patches": patches or {}}
    sites = [document("Site", kind, {"orchestrator": kind}) for kind in ("kubernetes", "slurm")]
    known = catalog(
        *sites,
        document("ComponentType", "odd", odd),
        document("Trait", "extra", extra),
        granting("extra"),
    )
    wanted = intent("nlp/prod/w", type="odd", parameters=parameters, traits=["extra"])
    return open_case(parsed(wanted), known, facts(), "acme")


@pytest.mark.parametrize(
    ("target", "part", "gives"),
    [
        ("kubernetes", "pod", "'x'"),
        ("kubernetes", "container", "[1]"),
        ("kubernetes", "labels", "['a']"),
        ("kubernetes", "workload", "1"),
        ("kubernetes", "objects", "[1]"),
        ("kubernetes", "objects", "{'a': 'b'}"),
        ("slurm", "options", "[1]"),
        ("slurm", "variables", "[1]"),
        ("slurm", "variables", "{'A': {'b': 'c'}}"),
    ],
)
def test_a_patch_whose_expression_gives_another_form_is_refused(target: str, part: str, gives: str) -> None:
    case = case_of(patches={target: {part: f"${{{gives}}}"}})
    with pytest.raises(Uncompilable, match=f"{target}.{part}"):
        compile_component(case, target)


@pytest.mark.parametrize("runs", ["many", [1], {"a": 1}, 1.5, True, None])
def test_a_parameter_that_is_called_like_one_of_a_sweep_may_be_anything(runs: Any) -> None:
    schema = {"type": "object", "properties": {"runs": {}}}
    assert compile_component(case_of(schema=schema, runs=runs), "kubernetes").manifests


def beside(image: str) -> dict[str, Any]:
    pod = {"containers": [{"name": "main"}, {"name": "beside", "image": image}]}
    return {"kubernetes": {"objects": [{**JOB, "spec": {"template": {"spec": pod}}}]}}


def test_a_type_and_a_trait_bring_containers_with_images_of_their_own() -> None:
    patch = {"pod": {"initContainers": [{"name": "first", "image": "ghcr.io/platform/fetch:v1"}]}}
    case = case_of(beside("ghcr.io/platform/ship-logs:v2"), {"kubernetes": patch})
    (job, *_) = compile_component(case, "kubernetes").manifests
    pod = job["spec"]["template"]["spec"]
    assert [one["image"] for one in (*pod["initContainers"], *pod["containers"])] == [
        "ghcr.io/platform/fetch:v1",
        "ghcr.io/acme/sft:v3",
        "ghcr.io/platform/ship-logs:v2",
    ]
    assert all(one["securityContext"]["capabilities"] == {"drop": ["ALL"]} for one in pod["containers"])


def test_no_parameter_brings_an_image() -> None:
    with pytest.raises(Invalid, match="written out"):
        case_of(beside("${string(parameters.x)}"), x="ghcr.io/rival/miner:v1")
    brought = "${[{'name': 'main'}, {'name': 'beside', 'image': string(parameters.x)}]}"
    pods = {"template": {"spec": {"containers": brought}}}
    case = case_of({"kubernetes": {"objects": [{**JOB, "spec": pods}]}}, x="ghcr.io/rival/miner:v1")
    with pytest.raises(Uncompilable, match="not among those"):
        compile_component(case, "kubernetes")


def test_the_defaults_inside_a_parameter_are_filled_in() -> None:
    level = {"type": "integer", "default": 3}
    schema = {
        "type": "object",
        "$defs": {"stage": {"type": "object", "properties": {"level": level, "name": {"default": "x"}}}},
        "properties": {
            "first": {"$ref": "#/$defs/stage"},
            "rest": {"type": "array", "items": {"$ref": "#/$defs/stage"}},
            "always": {"type": "object", "properties": {"level": level}, "default": {}},
        },
    }
    said = {
        "FIRST": "${string(parameters.first.level) + parameters.first.name}",
        "REST": "${parameters.rest.map(one, string(one.level)).join('-')}",
        "ALWAYS": "${string(parameters.always.level)}",
    }
    given: dict[str, Any] = {"first": {"name": "y"}, "rest": [{}, {"level": 5}]}
    case = case_of({"slurm": {"command": ["a"], "variables": said}}, {"slurm": {}}, schema, **given)
    script = compile_component(case, "slurm").manifests["script"]
    assert all(line in script for line in ("export FIRST='3y'", "export REST='3-5'", "export ALWAYS='3'"))


def test_the_default_replicas_of_a_type_are_those_it_has_and_is_judged_by() -> None:
    replicas = {"minReplicas": {"type": "integer", "default": 2}, "maxReplicas": {"default": 6}}
    case = case_of(schema={"type": "object", "properties": replicas}, workload="service")
    assert (case.replicas, case.most_replicas) == (2, 6)


def test_a_patch_may_hold_a_container_beside_and_one_for_the_author() -> None:
    container = {"env": [{"name": "A", "value": "b"}]}
    patch = {"pod": {"containers": [{"name": "beside"}]}, "container": container}
    (job, *_) = compile_component(case_of(patches={"kubernetes": patch}), "kubernetes").manifests
    main, beside = job["spec"]["template"]["spec"]["containers"]
    assert (main["name"], beside["name"]) == ("main", "beside")
    assert {"name": "A", "value": "b"} in main["env"]
