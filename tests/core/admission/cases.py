"""Builders: the test catalog with changes, facts, and one call that judges an intent."""

from __future__ import annotations

import json
from typing import Any

from tests.control.documents import CATALOG

from windlass.core.admission.case import BudgetState, Facts, NodeSize
from windlass.core.admission.decide import Decided, decide
from windlass.core.catalog.changes import apply_documents
from windlass.core.catalog.snapshot import EMPTY, Catalog
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_json, read_yaml
from windlass.core.intent import Intent
from windlass.core.units import Micros, Ms, parse_timestamp

NOW = parse_timestamp("2026-03-02T09:00:00Z")
NLP_PROD = {"tenant": "acme", "project": "nlp", "env": "prod"}


def document(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "windlass.dev/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def catalog(*changes: dict[str, Any]) -> Catalog:
    """The test catalog with documents added or replaced."""
    trees = [*read_yaml(CATALOG)]
    first = parse_all(trees)
    assert not first.problems, first.problems
    base = apply_documents(EMPTY, [item.value for item in first.documents]).catalog
    if not changes:
        return base
    more = parse_all(read_json(json.dumps(list(changes)).encode()))
    assert not more.problems, more.problems
    return apply_documents(base, [item.value for item in more.documents]).catalog


def parsed(wanted: dict[str, Any]) -> Intent:
    found = parse_all(read_json(json.dumps(wanted).encode()))
    assert not found.problems, found.problems
    (item,) = found.intents
    return item.value


def facts(**more: Any) -> Facts:
    return Facts(
        **{"now": NOW, "node_sizes": {"h100-80g": (NodeSize(8),), "l40s-48g": (NodeSize(4),)}, **more}
    )


def judged(
    wanted: dict[str, Any], *changes: dict[str, Any], tenant: str | None = "acme", **known: Any
) -> Decided:
    return decide(parsed(wanted), catalog(*changes), facts(**known), tenant)


def codes(
    wanted: dict[str, Any], *changes: dict[str, Any], tenant: str | None = "acme", **known: Any
) -> list[str]:
    """The rules against it, in order; none: admitted."""
    decided = judged(wanted, *changes, tenant=tenant, **known)
    assert decided.admitted == (not decided.reasons)
    return [reason.rule for reason in decided.reasons]


def budget(scope: str, spent: int, held: int = 0) -> dict[str, BudgetState]:
    return {scope: BudgetState(scope, Micros(spent), Micros(held))}


def retired(until: str) -> dict[str, Any]:
    """A component type of the platform's own, in service until then."""
    gone = {"since": "2026-01-01T00:00:00Z", "until": until, "replacedBy": "training-job"}
    return document("ComponentType", "old-job", {"version": "1.0.0", "workload": "job", "deprecated": gone})


def trait(name: str, **spec: Any) -> dict[str, Any]:
    return document("Trait", name, {"version": "1.0.0", **spec})


def granting(*traits: str, types: tuple[str, ...] = ()) -> dict[str, Any]:
    spec = {"environments": ["dev", "prod"], "traits": list(traits), "types": list(types)}
    return document("Project", "nlp", {**spec, "defaultProfile": "h100-80g"}, tenant="acme")


def at(milliseconds: int) -> Ms:
    return Ms(NOW + milliseconds)
