"""A ModelSpec file is a front for model-service: the same component, read strictly, refused by name where it
cannot be honoured."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import API
from tests.control.worlds import World, play, url

from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_yaml

SPEC = """\
apiVersion: piqc.ai/v1alpha1
kind: ModelSpec
metadata:
  name: chat-8b
  version: "3"
  labels: {team: search}
  annotations:
    windlass.dev/project: nlp
    windlass.dev/env: prod
    windlass.dev/image: ghcr.io/acme/vllm:v9
    windlass.dev/profile: h100-80g
    windlass.dev/parameters: '{"weightsGib": 15}'
spec:
  identity:
    model:
      id: acme/chat-8b
      family: llama
      task: text-generation
      framework: pytorch
      artifacts: {modelUri: "hf://acme/chat-8b-instruct"}
  runtime:
    accelerator: {vendor: nvidia, type: H100, count: 2}
    batch: {maxBatchSize: 16, maxSequenceLengthTokens: 4096}
    environment: {variables: {LOG: debug}}
  operations:
    serving: {protocol: http, port: 9000}
    scaling: {minReplicas: 1, maxReplicas: 2, strategy: reactive}
"""


SIZES = (
    "tensorParallel",
    "batchSize",
    "maxModelLen",
    "port",
    "minReplicas",
    "maxReplicas",
    "weightsGib",
)
MODEL = {
    "apiVersion": API,
    "kind": "ComponentType",
    "metadata": {"name": "model-service"},
    "spec": {
        "version": "9.0.0",
        "workload": "service",
        "parameters": {
            "type": "object",
            "additionalProperties": False,
            "required": ["model"],
            "properties": {
                "model": {"type": "string"},
                **{name: {"type": "integer", "maximum": 10_000} for name in SIZES},
            },
        },
        "templates": {"local": {"command": ["serve", "${parameters.model}"]}},
    },
}
"""One that runs on the local site too; the newest version is what a name alone means."""


def spec() -> dict[str, Any]:
    (tree,) = read_yaml(SPEC)
    data: dict[str, Any] = copy.deepcopy(tree.data)
    return data


def changed(path: str, value: Any) -> dict[str, Any]:
    data = spec()
    at = data
    *steps, last = path.split(".")
    for step in steps:
        at = at.setdefault(step, {})
    at[last] = value
    return data


def test_a_modelspec_becomes_a_component_of_model_service_and_runs(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.apply(MODEL)).status == 200
        reply = await world.apply(SPEC, by="acme")
        assert reply.status == 200, reply.body
        (result,) = reply.json["results"]
        assert (result["kind"], result["outcome"]) == ("Component", "created")
        assert result["decision"]["action"] == "deploy-model"
        stored = await world.get(url("nlp/prod/chat-8b"), by="acme")
        assert stored["spec"]["type"] == "model-service" and stored["spec"]["gpus"] == 2
        assert stored["spec"]["parameters"] == {
            "model": "acme/chat-8b-instruct",
            "tensorParallel": 2,
            "batchSize": 16,
            "maxModelLen": 4096,
            "port": 9000,
            "minReplicas": 1,
            "maxReplicas": 2,
            "weightsGib": 15,
        }
        assert stored["spec"]["variables"] == {"LOG": "debug"}
        assert stored["metadata"]["labels"] == {"team": "search"}
        assert stored["metadata"]["annotations"]["piqc.ai/family"] == "llama"
        await world.settle()
        assert world.phase("nlp/prod/chat-8b") == "Running"
        again = await world.apply(SPEC, by="acme")
        assert again.json["results"][0]["outcome"] == "unchanged"

    play(tmp_path, story)


def test_it_is_judged_like_any_component(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(MODEL)
        big = changed("spec.runtime.batch.maxBatchSize", 10_001)
        assert (await world.apply(big, by="acme")).codes == ["parameter.invalid"]
        shipped = spec()
        shipped["metadata"]["annotations"]["windlass.dev/type"] = "model-service@1.0.0"
        assert (await world.apply(shipped, by="acme")).codes == ["target.unsupported"]
        many = changed("spec.runtime.accelerator.count", 64)
        assert "entitlement.max" in (await world.apply(many, by="acme")).codes
        foreign = spec()
        foreign["metadata"]["annotations"]["windlass.dev/project"] = "chat"
        assert (await world.apply(foreign, by="acme")).codes == ["project.unknown"]
        forged = changed("metadata.labels", {"windlass.dev/tenant": "globex"})
        assert (await world.apply(forged, by="acme")).codes == ["label.reserved"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.identity.model.artifacts.modelUri", "s3://bucket/model"),
        ("spec.identity.model.artifacts.tokenizerUri", "hf://acme/other"),
        ("spec.runtime.accelerator.vendor", "amd"),
        ("spec.operations.serving.protocol", "grpc"),
        ("spec.operations.scaling.strategy", "manual"),
        ("spec.pipeline", {"preprocess": {}}),
        ("spec.governance.compliance", {"pii": "none"}),
    ],
)
def test_what_it_asks_for_and_cannot_have_is_refused_by_name(path: str, value: Any) -> None:
    from windlass.core.documents.tree import Tree

    (problem,) = parse_all([Tree(changed(path, value))]).problems
    assert problem.reason.field == path
    assert f"{path} cannot be honoured" in problem.reason.message


def test_everything_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        text = SPEC.replace("count: 2", "count: 0").replace("maxBatchSize", "maxBatchsize")
        text = text.replace("    windlass.dev/env: prod\n", "").replace("name: chat-8b", "name: Chat_8b")
        before = world.dump()
        reply = await world.apply(text, by="acme")
        assert reply.status == 400 and world.dump() == before
        told = {reason["field"]: reason["line"] for reason in reply.json["reasons"]}
        assert told == {
            "metadata.name": 4,
            "spec.runtime.accelerator.count": 21,
            "spec.runtime.batch.maxBatchsize": 22,
            "metadata.annotations": 7,
        }

    play(tmp_path, story)


def test_a_field_of_the_component_is_told_where_it_stands_in_the_file() -> None:
    text = SPEC.replace("windlass.dev/env: prod", "windlass.dev/env: two-words")
    (problem,) = parse_all(read_yaml(text)).problems
    assert problem.reason.field == 'metadata.annotations["windlass.dev/env"]'
    assert problem.reason.line == 9


@pytest.mark.parametrize("given", ["[]", "{", '{"model": "other"}', '{"a": 1, "a": 2}'])
def test_further_parameters_are_an_object_and_repeat_nothing(given: str) -> None:
    from windlass.core.documents.tree import Tree

    data = spec()
    data["metadata"]["annotations"]["windlass.dev/parameters"] = given
    (problem,) = parse_all([Tree(data)]).problems
    assert problem.reason.field == 'metadata.annotations["windlass.dev/parameters"]'


def test_what_only_describes_or_hopes_is_kept_and_warned_of(tmp_path: Path) -> None:
    told: dict[str, Any] = {
        "spec.identity.model.precision": "bf16",
        "spec.runtime.resources": {"cpuCores": 4, "memoryGb": 32},
        "spec.operations.serving.readinessProbe": {"path": "/ready", "timeoutSeconds": 3},
        "spec.operations.serving.livenessProbe": {"path": "/live"},
        "spec.operations.serving.maxConcurrency": 9,
        "spec.operations.serving.timeoutSeconds": 9,
        "spec.operations.scaling.strategy": "predictive",
        "spec.operations.scaling.targetLatencyMsP95": 200,
        "spec.operations.scaling.targetRps": 20,
        "spec.operations.scaling.warmPool": {"size": 1},
        "spec.operations.observability": {"metrics": True},
        "spec.governance": {"cost": {"targetCostPer1kTokensUsd": "0.1"}},
    }
    whole = spec()
    for path, value in told.items():
        *way, last = path.split(".")
        at = whole
        for step in way:
            at = at.setdefault(step, {})
        at[last] = value

    async def story(world: World) -> None:
        await world.apply(MODEL)
        reply = await world.apply(whole, by="acme")
        assert reply.json["results"][0]["decision"]["verdict"] == "admitted"
        warned = reply.json["results"][0]["decision"]["warnings"]
        assert {one["field"] for one in warned if one["rule"] == "modelspec.unheard"} == set(told)

    play(tmp_path, story)
