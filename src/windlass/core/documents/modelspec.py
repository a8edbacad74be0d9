"""A ModelSpec file (piqc.ai) as a front for the type `model-service`: what it says of a model and its server
becomes a component.

Read as strictly as any document. What it asks for and would not get (a pipeline, rules of compliance,
another protocol) is refused by name. What it says beside that (a precision, a latency it hopes for, the cost
of a token) describes more than it asks: that is kept, and the decision warns of each that has no effect. What
a ModelSpec has no word for stands in its annotations: project, env and image, and where they are needed
profile, type and further parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from windlass.core.documents import component
from windlass.core.documents.problems import Path, Problems, dotted, shown
from windlass.core.documents.scalars import (
    JsonObject,
    LabelKey,
    LabelValue,
    Name,
    Positive,
    Text,
    VariableName,
)
from windlass.core.documents.shape import read
from windlass.core.documents.tree import Tree, read_json
from windlass.core.errors import Invalid
from windlass.core.intent import Intent

API_VERSION = "piqc.ai/v1alpha1"
KIND = "ModelSpec"
TYPE = "model-service"

_OURS = "windlass.dev/"
_NEEDED = ("project", "env", "image")
_KNOWN = (*_NEEDED, "profile", "type", "parameters")
_FACTS = "piqc.ai/"


@dataclass(frozen=True, slots=True)
class _Metadata:
    name: Name
    version: Text = ""
    description: Text = ""
    labels: Mapping[LabelKey, LabelValue] = field(default_factory=dict)
    annotations: Mapping[LabelKey, Text] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Artifacts:
    model_uri: Text = ""
    tokenizer_uri: Text = ""


@dataclass(frozen=True, slots=True)
class _Model:
    id: Text
    family: Text
    task: Text
    framework: Text
    precision: Text = ""
    artifacts: _Artifacts = _Artifacts()


@dataclass(frozen=True, slots=True)
class _Identity:
    model: _Model


@dataclass(frozen=True, slots=True)
class _Accelerator:
    vendor: Text
    type: Text
    count: Positive


@dataclass(frozen=True, slots=True)
class _Batch:
    max_batch_size: Positive | None = None
    max_sequence_length_tokens: Positive | None = None


@dataclass(frozen=True, slots=True)
class _Environment:
    variables: Mapping[VariableName, Text] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Runtime:
    accelerator: _Accelerator
    batch: _Batch = _Batch()
    resources: JsonObject | None = None
    environment: _Environment = field(default_factory=_Environment)


@dataclass(frozen=True, slots=True)
class _Serving:
    protocol: Literal["http", "grpc"] = "http"
    port: Positive | None = None
    readiness_probe: JsonObject | None = None
    liveness_probe: JsonObject | None = None
    max_concurrency: Positive | None = None
    timeout_seconds: Positive | None = None


@dataclass(frozen=True, slots=True)
class _Scaling:
    min_replicas: Positive | None = None
    max_replicas: Positive | None = None
    strategy: Literal["reactive", "predictive", "manual"] | None = None
    target_latency_ms_p95: Positive | None = field(default=None, metadata={"wire": "targetLatencyMsP95"})
    target_rps: Positive | None = None
    warm_pool: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class _Operations:
    serving: _Serving = _Serving()
    scaling: _Scaling = _Scaling()
    observability: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class _Spec:
    identity: _Identity
    runtime: _Runtime
    operations: _Operations = _Operations()
    pipeline: JsonObject | None = None
    governance: JsonObject | None = None


_ACCELERATOR: Path = ("spec", "runtime", "accelerator")
_SERVING: Path = ("spec", "operations", "serving")
_SCALING: Path = ("spec", "operations", "scaling")
_MODEL: Path = ("spec", "identity", "model")
PLACES: Mapping[Path, Path] = {
    ("metadata", "project"): ("metadata", "annotations", f"{_OURS}project"),
    ("spec", "env"): ("metadata", "annotations", f"{_OURS}env"),
    ("spec", "image"): ("metadata", "annotations", f"{_OURS}image"),
    ("spec", "type"): ("metadata", "annotations", f"{_OURS}type"),
    ("spec", "profile"): (*_ACCELERATOR, "type"),
    ("spec", "gpus"): (*_ACCELERATOR, "count"),
    ("spec", "variables"): ("spec", "runtime", "environment", "variables"),
    ("spec", "parameters", "model"): _MODEL,
    ("spec", "parameters", "tensorParallel"): (*_ACCELERATOR, "count"),
    ("spec", "parameters", "batchSize"): ("spec", "runtime", "batch", "maxBatchSize"),
    ("spec", "parameters", "maxModelLen"): ("spec", "runtime", "batch", "maxSequenceLengthTokens"),
    ("spec", "parameters", "port"): (*_SERVING, "port"),
    ("spec", "parameters", "minReplicas"): (*_SCALING, "minReplicas"),
    ("spec", "parameters", "maxReplicas"): (*_SCALING, "maxReplicas"),
    ("spec", "parameters"): ("metadata", "annotations", f"{_OURS}parameters"),
}
"""Where a field of the component stands in the file its author wrote."""


def _elsewhere(spec: _Spec) -> bool:
    uri = spec.identity.model.artifacts.model_uri
    return "://" in uri and not uri.startswith("hf://")


def _own_tokenizer(spec: _Spec) -> str:
    artifacts = spec.identity.model.artifacts
    return artifacts.tokenizer_uri if artifacts.tokenizer_uri != artifacts.model_uri else ""


def _two_numbers(spec: _Spec) -> bool:
    scaling = spec.operations.scaling
    return scaling.strategy == "manual" and scaling.max_replicas not in (None, scaling.min_replicas or 1)


_UTILIZATION = "replicas follow utilization"
_HEALTH = "model-service asks /health"
Unheard = tuple[Path, str, Callable[[_Spec], object]]
_REFUSED: tuple[Unheard, ...] = (
    ((*_MODEL, "artifacts", "tokenizerUri"), "a tokenizer is loaded with its model", _own_tokenizer),
    (
        (*_MODEL, "artifacts", "modelUri"),
        "weights come from a repository (hf://…) or a path of the image",
        _elsewhere,
    ),
    (
        (*_ACCELERATOR, "vendor"),
        "hardware profiles are of NVIDIA GPUs",
        lambda spec: spec.runtime.accelerator.vendor.lower() != "nvidia",
    ),
    (
        (*_SERVING, "protocol"),
        "model-service speaks HTTP",
        lambda spec: spec.operations.serving.protocol == "grpc",
    ),
    ((*_SCALING, "strategy"), "replicas that are set by hand have one number", _two_numbers),
    (("spec", "pipeline"), "a component is one server", lambda spec: spec.pipeline),
    (
        ("spec", "governance", "compliance"),
        "policies of the platform govern, and know nothing of it",
        lambda spec: (spec.governance or {}).get("compliance"),
    ),
)
"""What would be something else without it, and why it cannot be had."""
_WITHOUT_EFFECT: tuple[Unheard, ...] = (
    (
        (*_MODEL, "precision"),
        "the server reads the precision from the weights",
        lambda spec: spec.identity.model.precision,
    ),
    (
        ("spec", "runtime", "resources"),
        "CPU and memory come with the hardware profile",
        lambda spec: spec.runtime.resources,
    ),
    ((*_SERVING, "readinessProbe"), _HEALTH, lambda spec: spec.operations.serving.readiness_probe),
    ((*_SERVING, "livenessProbe"), _HEALTH, lambda spec: spec.operations.serving.liveness_probe),
    (
        (*_SERVING, "maxConcurrency"),
        "batch.maxBatchSize bounds what runs at once",
        lambda spec: spec.operations.serving.max_concurrency,
    ),
    (
        (*_SERVING, "timeoutSeconds"),
        "requests are the server's own to end",
        lambda spec: spec.operations.serving.timeout_seconds,
    ),
    (
        (*_SCALING, "strategy"),
        _UTILIZATION,
        lambda spec: spec.operations.scaling.strategy == "predictive",
    ),
    (
        (*_SCALING, "targetLatencyMsP95"),
        _UTILIZATION,
        lambda spec: spec.operations.scaling.target_latency_ms_p95,
    ),
    ((*_SCALING, "targetRps"), _UTILIZATION, lambda spec: spec.operations.scaling.target_rps),
    (
        (*_SCALING, "warmPool"),
        "there is no pool of warm replicas",
        lambda spec: spec.operations.scaling.warm_pool,
    ),
    (
        ("spec", "operations", "observability"),
        "the platform observes by itself",
        lambda spec: spec.operations.observability,
    ),
    (
        ("spec", "governance"),
        "prices and budgets of the platform govern",
        lambda spec: spec.governance,
    ),
)
"""What describes the model or hopes for something, and why nothing comes of it."""
UNHEARD = f"{_FACTS}without-effect"
"""The annotation that keeps which of these a file had, for the warning."""


def unheard(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What a component's ModelSpec said that has no effect, and why."""
    if said := annotations.get(UNHEARD, "").split():
        for path, why, _ in _WITHOUT_EFFECT:
            if dotted(path) in said:
                yield dotted(path), why


def is_modelspec(data: Any) -> bool:
    return type(data) is dict and data.get("kind") == KIND and data.get("apiVersion") == API_VERSION


def place_of(path: Path) -> Path:
    for known in sorted(PLACES, key=len, reverse=True):
        if path[: len(known)] == known:
            return (*PLACES[known], *path[len(known) :])
    return path


def read_modelspec(
    data: Mapping[str, Any], tree: Tree, overreach: component.Reached, problems: Problems
) -> Intent | None:
    """The component it stands for, or None when `problems` has grown."""
    before = len(problems)
    metadata = read(_Metadata, data.get("metadata") or {}, ("metadata",), problems)
    spec = read(_Spec, data.get("spec") or {}, ("spec",), problems)
    _check_annotations(data.get("metadata"), problems)
    if spec is not None:
        _refuse_unheard(spec, problems)
    if metadata is None or spec is None or len(problems) > before:
        return None
    given = _given(metadata, spec, problems)
    inner = Problems()
    if len(problems) > before:
        return None
    intent = component.read_component(*_component(metadata, spec, given), tree, overreach, inner)
    for problem in inner.located():
        reason, where = problem.reason, place_of(problem.path)
        said = reason.message.replace(dotted(problem.path), dotted(where))
        problems.add(
            where, said, remedy=reason.remedy, value=reason.value, limit=reason.limit, rule=reason.rule
        )
    return intent


def _check_annotations(metadata: Any, problems: Problems) -> None:
    """As they are written: what is missing is told beside what else is wrong."""
    said = metadata.get("annotations") if type(metadata) is dict else None
    given = said if type(said) is dict else {}
    ours = {name.removeprefix(_OURS): value for name, value in given.items() if name.startswith(_OURS)}
    for name in ours:
        if name not in _KNOWN:
            problems.add(
                ("metadata", "annotations", f"{_OURS}{name}"),
                f"{_OURS}{name} says nothing about a ModelSpec",
                remedy=f"known are {', '.join(_OURS + one for one in _KNOWN)}",
                value=name,
            )
    for name in _NEEDED:
        if not ours.get(name):
            problems.add(
                ("metadata", "annotations"),
                f"the annotation {_OURS}{name} is missing: a ModelSpec has no other word for it",
                remedy=f"add {_OURS}{name} to metadata.annotations",
            )


def _refuse_unheard(spec: _Spec, problems: Problems) -> None:
    for path, why, found in _REFUSED:
        value = found(spec)
        if value:
            problems.add(
                path, f"{dotted(path)} cannot be honoured: {why}", remedy="leave it out", value=shown(value)
            )


def _given(metadata: _Metadata, spec: _Spec, problems: Problems) -> dict[str, Any]:
    """The parameters: of the spec, and those for which it has no word."""
    model, scaling = spec.identity.model, spec.operations.scaling
    told = {
        "model": model.artifacts.model_uri.removeprefix("hf://") or model.id,
        "tensorParallel": spec.runtime.accelerator.count,
        "batchSize": spec.runtime.batch.max_batch_size,
        "maxModelLen": spec.runtime.batch.max_sequence_length_tokens,
        "port": spec.operations.serving.port,
        "minReplicas": scaling.min_replicas,
        "maxReplicas": scaling.max_replicas,
    }
    told = {name: value for name, value in told.items() if value is not None}
    where: Path = ("metadata", "annotations", f"{_OURS}parameters")
    more = _object_in(metadata.annotations.get(f"{_OURS}parameters") or "{}")
    if more is None:
        remedy = 'write it like {"weightsGib": 15}'
        problems.add(where, f"{dotted(where)} is not a JSON object", remedy=remedy)
        return told
    for name in sorted(set(more) & set(told)):
        problems.add(
            where,
            f"{name} is given here and in the spec",
            remedy="leave it out here",
            value=shown(more[name]),
        )
    return {**more, **told}


def _object_in(text: str) -> dict[str, Any] | None:
    try:
        trees = read_json(text)
    except Invalid:
        return None
    return trees[0].data if len(trees) == 1 and type(trees[0].data) is dict else None


def _component(metadata: _Metadata, spec: _Spec, parameters: Mapping[str, Any]) -> tuple[Any, Any]:
    """Metadata and spec of the component, as an author would have written them."""
    ours = metadata.annotations
    model = spec.identity.model
    facts = {
        "family": model.family,
        "task": model.task,
        "framework": model.framework,
        "version": metadata.version,
        "description": metadata.description,
    }
    annotations = {name: value for name, value in ours.items() if not name.startswith(_OURS)}
    annotations |= {f"{_FACTS}{name}": value for name, value in facts.items() if value}
    if idle := sorted({dotted(path) for path, _, found in _WITHOUT_EFFECT if found(spec)}):
        annotations[UNHEARD] = " ".join(idle)
    own_metadata = {
        "name": metadata.name,
        "project": ours[f"{_OURS}project"],
        "labels": dict(metadata.labels),
        "annotations": annotations,
    }
    own_spec = {
        "type": ours.get(f"{_OURS}type", TYPE),
        "env": ours[f"{_OURS}env"],
        "image": ours[f"{_OURS}image"],
        "gpus": spec.runtime.accelerator.count,
        "profile": ours.get(f"{_OURS}profile") or spec.runtime.accelerator.type.lower(),
        "variables": dict(spec.runtime.environment.variables),
        "parameters": dict(parameters),
    }
    return own_metadata, own_spec
