"""A small catalog to begin from, and short ways to write one more document."""

from __future__ import annotations

from typing import Any

from windlass.core.catalog.changes import apply_documents
from windlass.core.catalog.snapshot import EMPTY, Catalog
from windlass.core.documents.kinds import Document, DocumentKey
from windlass.core.documents.parse import parse
from windlass.core.documents.problems import Problems
from windlass.core.documents.tree import Tree


def document(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> Document:
    """Read as a person would have written it, so that only what can be said is tested."""
    wire = {
        "apiVersion": "windlass.dev/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }
    problems = Problems()
    value = parse(Tree(wire), problems)
    assert isinstance(value, Document), problems.reasons()
    return value


def tier(name: str = "gold", **spec: Any) -> Document:
    return document("Tier", name, {"priority": 1, "preempts": True, "preemptible": True, **spec})


def tenant(name: str = "acme", **spec: Any) -> Document:
    return document("Tenant", name, {"tier": "gold", **spec})


def project(name: str = "nlp", of: str = "acme", **spec: Any) -> Document:
    return document("Project", name, {"environments": ["dev", "prod"], **spec}, tenant=of)


def profile(name: str = "h100", **spec: Any) -> Document:
    return document("HardwareProfile", name, {"class": "h100", "gpuModel": "H100", "memoryGib": 80, **spec})


def envelope(scope: str, *gpus: dict[str, Any], name: str = "", **spec: Any) -> Document:
    """`envelope("acme/nlp/prod", quota(8))`."""
    parts = scope.split("/")
    where = dict(zip(("tenant", "project", "env"), parts, strict=False))
    called = name or "-".join(parts)
    return document("Envelope", called, {"scope": where, "gpus": list(gpus), **spec}, tenant=parts[0])


def quota(guaranteed: int, gpu_class: str = "h100", **more: Any) -> dict[str, Any]:
    return {"profileClass": gpu_class, "guaranteed": guaranteed, **more}


def prices(name: str = "list", *entries: dict[str, Any], **spec: Any) -> Document:
    book = {
        "currency": "USD",
        "effectiveFrom": "2026-01-01T00:00:00Z",
        "prices": list(entries) or [{"profileClass": "h100", "perGpuHour": "2.49"}],
    }
    return document("PriceBook", name, {**book, **spec})


def component_type(name: str = "etl", version: str = "1.0.0", **spec: Any) -> Document:
    return document("ComponentType", name, {"version": version, "workload": "job", **spec})


def trait(name: str = "pinned", version: str = "1.0.0", **spec: Any) -> Document:
    return document("Trait", name, {"version": version, **spec})


def policy(*rules: dict[str, str], name: str = "narrow", **spec: Any) -> Document:
    return document("Policy", name, {"rules": list(rules), **spec})


def site(name: str = "fra1", **spec: Any) -> Document:
    return document("Site", name, {"orchestrator": "local", **spec})


BASE = (tier(), tenant(), profile(), project(), project("vision"), envelope("acme", quota(16, max=24)))


def world(*more: Document) -> Catalog:
    return apply_documents(EMPTY, (*BASE, *more)).catalog


def key(kind: str, name: str, tenant: str = "") -> DocumentKey:
    return DocumentKey(kind, tenant, name)
