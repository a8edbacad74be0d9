"""What expressions can name, with their types, and the values of one case.

The words are those of the documents: `spec.gpus` is what the author wrote there, `parameters.port` the
parameter of that name with its default filled in. An optional parameter without a default is null where it
was not given. `spec.timeLimit` is in seconds, 0 for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from windlass.core.admission.case import Case, trait_spec
from windlass.core.admission.parameters import plain
from windlass.core.documents.definitions import ComponentType, Trait
from windlass.core.documents.kinds import Document, Site
from windlass.core.documents.scalars import Target
from windlass.core.expressions import Names
from windlass.core.units import GPU, Ms

INTENT: Mapping[str, str] = {
    "metadata.name": "string",
    "metadata.project": "string",
    "metadata.labels": "map(string, string)",
    "spec.type": "string",
    "spec.env": "string",
    "spec.image": "string",
    "spec.gpus": "int",
    "spec.workers": "int",
    "spec.profile": "string",
    "spec.command": "list(string)",
    "spec.variables": "map(string, string)",
    "spec.traits": "list(string)",
    "spec.priority": "int",
    "spec.preemptible": "bool",
    "spec.timeLimit": "int",
    "spec.retries": "int",
    "spec.sites": "list(string)",
    "tenant.name": "string",
    "tenant.tier": "string",
    "profile.class": "string",
    "profile.gpuModel": "string",
    "profile.memoryGib": "int",
    "profile.sharing": "string",
    "profile.share": "int",
    "profile.migProfile": "string",
    "worker.gpus": "int",
    "worker.cpu": "int",
    "worker.memoryGib": "int",
    "work.workers": "int",
    "work.mostWorkers": "int",
    "work.gpus": "double",
    "cell.namespace": "string",
}
SITE: Mapping[str, str] = {
    "site.name": "string",
    "site.region": "string",
    "site.orchestrator": "string",
    "site.isolation": "string",
}
TYPE: Mapping[str, str] = {"type.name": "string", "type.workload": "string"}
POLICY = Names.of(
    {
        **INTENT,
        **TYPE,
        "action": "string",
        "parameters": "map(string, dyn)",
        "now": "timestamp",
    }
)
"""Of policies, which are about every type: parameters are looked up as they are."""

_NESTED = 32
_JSON_TYPES = {"integer": "int", "number": "double", "string": "string", "boolean": "bool"}


def names_of(spec: ComponentType | Trait, target: Target | None = None) -> Names:
    """Of the rules of a type or trait, and of what it has for one orchestrator. Where work is local the site
    is not known yet when it is compiled."""
    known = {**INTENT, **parameter_types(spec.parameters)}
    if isinstance(spec, Trait):
        known |= TYPE
    if target in ("kubernetes", "slurm"):
        known |= SITE
    return Names.of(known)


def parameter_types(schema: Mapping[str, Any]) -> dict[str, str]:
    """`parameters.NAME` for each that the schema declares."""
    declared, required = schema.get("properties"), schema.get("required")
    if not isinstance(declared, Mapping):
        return {}
    always = set(required) if isinstance(required, list | tuple) else set()
    return {f"parameters.{name}": _value_type(body, always=name in always) for name, body in declared.items()}


def _value_type(body: Any, *, always: bool) -> str:
    """`dyn` where the schema leaves it open, or the value may be missing."""
    if not isinstance(body, Mapping) or not (always or body.get("default") is not None):
        return "dyn"
    match body.get("type"):
        case str(scalar) if scalar in _JSON_TYPES:
            return _JSON_TYPES[scalar]
        case "array":
            return f"list({_value_type(body.get('items'), always=True)})"
        case "object":
            return "map(string, dyn)"
    allowed = body.get("enum")
    if isinstance(allowed, list | tuple) and all(isinstance(one, str) for one in allowed):
        return "string"
    return "dyn"


def filled(schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as they are in force: what was given, then defaults, then nothing (None)."""
    declared = schema.get("properties")
    known = declared if isinstance(declared, Mapping) else {}
    defaults = {
        name: body.get("default") if isinstance(body, Mapping) else None for name, body in known.items()
    }
    values = {**defaults, **given}
    return {
        name: _as_declared(known.get(name), _completed(schema, known.get(name), plain(value)))
        for name, value in values.items()
    }


def _completed(schema: Mapping[str, Any], body: Any, value: Any, depth: int = 0) -> Any:
    """With the defaults of what is inside it: of the parts of a mapping, and of each element of a list."""
    for _ in range(_NESTED):
        if not (isinstance(body, Mapping) and isinstance(body.get("$ref"), str)):
            break
        body = _pointed(schema, body["$ref"])
    if not isinstance(body, Mapping) or depth > _NESTED:
        return value
    parts, items = body.get("properties"), body.get("items")
    if isinstance(value, dict) and isinstance(parts, Mapping):
        for name, part in parts.items():
            if name not in value and isinstance(part, Mapping) and part.get("default") is not None:
                value = {**value, name: plain(part["default"])}
            if name in value:
                value = {**value, name: _completed(schema, part, value[name], depth + 1)}
    elif isinstance(value, list) and isinstance(items, Mapping):
        value = [_completed(schema, items, item, depth + 1) for item in value]
    return value


def _pointed(schema: Any, ref: str) -> Any:
    """What a reference within the document points to; nothing where it is of another kind."""
    if not ref.startswith("#/"):
        return schema if ref == "#" else None
    for step in ref[2:].split("/"):
        schema = (
            schema.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(schema, Mapping) else None
        )
    return schema


def _as_declared(body: Any, value: Any) -> Any:
    """A whole number is a number too, but an expression's types tell them apart."""
    wanted = body.get("type") if isinstance(body, Mapping) else None
    if wanted == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def intent_values(case: Case) -> dict[str, Any]:
    """For `INTENT`, of a case whose project and profile are known."""
    assert case.project is not None and case.tenant is not None and case.profile is not None
    intent, spec, profile = case.intent, case.intent.spec, case.profile
    units = spec.gpus // GPU
    return {
        "metadata.name": intent.name,
        "metadata.project": intent.project,
        "metadata.labels": dict(intent.labels),
        "spec.type": _bare(spec.type),
        "spec.env": spec.env,
        "spec.image": spec.image,
        "spec.gpus": units,
        "spec.workers": spec.workers,
        "spec.profile": case.profile_name or "",
        "spec.command": list(spec.command),
        "spec.variables": dict(spec.variables),
        "spec.traits": [_bare(use.name) for use in spec.traits],
        "spec.priority": spec.priority,
        "spec.preemptible": spec.preemptible is True,
        "spec.timeLimit": (spec.time_limit or 0) // 1000,
        "spec.retries": spec.retries,
        "spec.sites": list(spec.placement.sites),
        "tenant.name": case.project.tenant,
        "tenant.tier": case.tenant.tier,
        "profile.class": profile.gpu_class,
        "profile.gpuModel": profile.gpu_model,
        "profile.memoryGib": profile.memory_gib,
        "profile.sharing": profile.sharing,
        "profile.share": profile.share,
        "profile.migProfile": profile.mig_profile or "",
        "worker.gpus": units,
        "worker.cpu": units * profile.per_gpu.cpu,
        "worker.memoryGib": units * profile.per_gpu.memory_gib,
        "work.workers": case.replicas,
        "work.mostWorkers": case.most_replicas,
        "work.gpus": case.worker_gpus * case.replicas / GPU,
        "cell.namespace": f"{intent.project}-{spec.env}",
    }


def type_values(case: Case) -> dict[str, Any]:
    """What the rules of the case's type can name."""
    return {**intent_values(case), **_parameters(case.type_spec.parameters, case.parameters)}


def trait_values(case: Case, document: Document, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the rules of one of its traits can name: `parameters` are the trait's own."""
    assert case.type is not None
    return {
        **intent_values(case),
        **_parameters(trait_spec(document).parameters, given),
        "type.name": case.type.metadata.name,
        "type.workload": case.type_spec.workload,
    }


def policy_values(case: Case, action: str) -> dict[str, Any]:
    assert case.type is not None
    return {
        **intent_values(case),
        "type.name": case.type.metadata.name,
        "type.workload": case.type_spec.workload,
        "action": action,
        "parameters": _given(filled(case.type_spec.parameters, case.parameters)),
        "now": instant(case.facts.now),
    }


def site_values(name: str, site: Site) -> dict[str, Any]:
    return {
        "site.name": name,
        "site.region": site.region,
        "site.orchestrator": site.orchestrator,
        "site.isolation": site.isolation,
    }


def instant(at: Ms) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)


def _parameters(schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {f"parameters.{name}": value for name, value in filled(schema, given).items()}


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is null: `has(parameters.port)` then says whether there is one."""
    return {name: value for name, value in values.items() if value is not None}


def _bare(ref: str) -> str:
    return ref.partition("@")[0]
