"""Components and decisions in the words of the API (contracts/api.py)."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.contracts import api
from windlass.control.db.port import Row
from windlass.core.admission.decide import Decided
from windlass.core.documents.kinds import API_VERSION
from windlass.core.errors import Reason
from windlass.core.metering import gpu_hours
from windlass.core.scheduling.model import Placement
from windlass.core.units import GpuUs, Micros, format_money, format_timestamp
from windlass.runtime.tracing import read_traceparent

_decode_body = msgspec.json.Decoder(dict[str, Any]).decode
_decode_placement = msgspec.json.Decoder(Placement).decode


def decision_wire(
    id: str, path: str, decided: Decided, revision: int, actor: str, now: int, trace: str | None
) -> api.Decision:
    priced = decided.per_hour is not None
    return api.Decision(
        id=id,
        action=decided.action,
        verdict="admitted" if decided.admitted else "rejected",
        reasons=[reason_wire(reason) for reason in decided.reasons],
        catalog_revision=revision,
        component=path,
        actor=actor,
        at=format_timestamp(now),
        tenant=decided.tenant,
        estimate=api.Estimate(
            per_hour=format_money(decided.per_hour) if priced and decided.per_hour is not None else None,
            currency=decided.currency,
        ),
        trace_id=trace,
        warnings=[reason_wire(warning) for warning in decided.warnings],
    )


def spec_of(body: str) -> dict[str, Any]:
    """Of a stored component."""
    spec: dict[str, Any] = _decode_body(body)["spec"]
    return spec


def reason_wire(reason: Reason) -> api.Reason:
    return api.Reason(
        rule=reason.rule,
        message=reason.message,
        remedy=reason.remedy,
        field=reason.field,
        value=reason.value,
        limit=reason.limit,
        line=reason.line,
    )


def component_wire(
    row: Row,
    *,
    reason: api.StatusReason | None = None,
    position: api.Position | None = None,
    estimated_start: str | None = None,
    gpu_us: GpuUs = GpuUs(0),
    micros: Micros = Micros(0),
    conditions: list[api.Condition] | None = None,
    warnings: list[api.Reason] | None = None,
) -> api.Component:
    """From a row of `components` joined with its newest run (null columns: it was rejected)."""
    body = _decode_body(row["body"])
    ran = row["phase"] is not None
    outcome: dict[str, Any] = _decode_body(row["outcome"]) if ran else {}
    return api.Component(
        api_version=API_VERSION,
        kind="Component",
        metadata=api.ComponentMetadata(
            name=row["name"],
            project=row["project"],
            tenant=row["tenant"],
            env=row["env"],
            id=row["component_id"],
            version=row["version"],
            created_at=format_timestamp(row["created_ms"]),
            labels=body["labels"],
            annotations=body["annotations"],
        ),
        spec=body["spec"],
        status=api.ComponentStatus(
            phase=row["phase"] if ran else "Rejected",
            decision=row["decision"],
            reason=reason or _end_reason(outcome),
            position=position,
            estimated_start=estimated_start,
            placement=workers_wire(row["placement"] if ran else "", outcome),
            gpu_hours=gpu_hours(gpu_us),
            cost=format_money(micros),
            currency=(row["currency"] if ran else "") or "",
            run=(row["run"] if ran else 0) or 0,
            attempt=(row["attempt"] if ran else 0) or 0,
            preemptions=(row["preemptions"] if ran else 0) or 0,
            exit_code=outcome.get("exitCode"),
            submitted_at=_instant(row["submitted_ms"]),
            started_at=_instant(row["started_ms"]),
            finished_at=_instant(row["finished_ms"]),
            conditions=conditions or [],
            notes=outcome.get("notes", []),
            trace_id=_trace_id(row["traceparent"] or ""),
            warnings=warnings or [],
        ),
    )


def workers_wire(placement: str, outcome: dict[str, Any]) -> list[api.WorkerStatus]:
    if not placement:
        return []
    seen = {worker["index"]: worker for worker in outcome.get("workers", [])}
    over = "exitCode" in outcome
    return [
        api.WorkerStatus(
            worker=at.worker,
            node=at.node,
            gpus=list(at.gpus),
            state=seen.get(at.worker, {}).get("state", "not started" if over else "starting"),
            exit_code=seen.get(at.worker, {}).get("exit_code"),
            port=seen.get(at.worker, {}).get("port"),
            restarts=seen.get(at.worker, {}).get("restarts", 0),
        )
        for at in _decode_placement(placement).workers
    ]


def _end_reason(outcome: dict[str, Any]) -> api.StatusReason | None:
    """Why it ended as it did, once it ended."""
    if not outcome.get("message") or "exitCode" not in outcome:
        return None
    return api.StatusReason(cause="ended", message=outcome["message"], remedy=outcome.get("remedy", ""))


def _trace_id(traceparent: str) -> str | None:
    trace = read_traceparent(traceparent)
    return trace.id if trace is not None else None


def _instant(at: int | None) -> str | None:
    return format_timestamp(at) if at is not None else None
