"""Answers of the API, built from its own types: what a server would say."""

from __future__ import annotations

from typing import Any

from windlass.contracts import api

AT = "2026-01-31T12:00:00.000Z"
PATH = "nlp/prod/sft-run"
ROUTE = "/v1/projects/nlp/components/prod/sft-run"


def component(phase: api.Phase = "Running", path: str = PATH, **status: Any) -> api.Component:
    project, env, name = path.split("/")
    return api.Component(
        api_version="windlass.dev/v1",
        kind="Component",
        metadata=api.ComponentMetadata(
            name=name, project=project, tenant="acme", env=env, id="cmp_1", version=3, created_at=AT
        ),
        spec={"type": "training-job", "env": env, "image": "ghcr.io/acme/sft:v3", "gpus": 4, "workers": 2},
        status=api.ComponentStatus(
            **{"phase": phase, "decision": "dec_1", "cost": "1.25", "currency": "USD", **status}
        ),
    )


def components(*items: api.Component, cursor: str | None = None) -> api.ComponentList:
    return api.ComponentList(items=list(items), cursor=cursor)


def decision(verdict: api.Verdict = "admitted", **more: Any) -> api.Decision:
    return api.Decision(
        **{
            "id": "dec_1",
            "action": "submit-job",
            "verdict": verdict,
            "reasons": [],
            "catalog_revision": 42,
            "component": PATH,
            "actor": "ada",
            "at": AT,
            "estimate": api.Estimate(per_hour="19.92", currency="USD"),
            **more,
        }
    )


OVER = api.Reason(
    rule="entitlement.max",
    field="spec.gpus",
    value="16",
    limit="8",
    message="16 GPUs are more than 8",
    remedy="ask for 8 or fewer",
)


def result(outcome: str = "created", **more: Any) -> api.Result:
    fields = {"kind": "Component", "name": "sft-run", "project": "nlp", "env": "prod", "outcome": outcome}
    return api.Result(**{**fields, **more})


def applied(*results: api.Result, dry_run: bool = False) -> api.ApplyAnswer:
    return api.ApplyAnswer(results=list(results), revision=43, dry_run=dry_run)


def document(kind: str, name: str, spec: dict[str, Any] | None = None, **metadata: Any) -> api.Document:
    return api.Document(
        api_version="windlass.dev/v1",
        kind=kind,
        metadata={"name": name, "version": 7, **metadata},
        spec=spec or {},
    )


def documents(*items: api.Document) -> api.DocumentList:
    return api.DocumentList(items=list(items), revision=43)


def event(id: int, type: str = "component.started") -> api.Event:
    return api.Event(id=id, at=AT, type=type, subject=PATH, actor="scheduler", tenant="acme")


def explanation(**more: Any) -> api.Explanation:
    return api.Explanation(
        **{
            "component": PATH,
            "phase": "Pending",
            "cause": "quota",
            "also": ["capacity"],
            "message": "The project may hold 8 GPUs and holds 8.",
            "remedy": "wait, or ask for more with `windlass quota request`",
            "position": api.Position(ahead=3, of=17),
            "estimate": api.ExplanationEstimate(starts_at=AT, low=None, high=None, basis="time limits"),
            "history": [api.CauseSpan(cause="quota", since=AT, to=None)],
            **more,
        }
    )
