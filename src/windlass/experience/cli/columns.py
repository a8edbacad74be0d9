"""Which columns each kind shows. A column marked wide appears with `-o wide` only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from windlass.experience.cli import phrases
from windlass.experience.cli.names import path_of
from windlass.experience.cli.tables import Row
from windlass.sdk import api

T = TypeVar("T")


class Column(NamedTuple, Generic[T]):
    """`cell` takes the item and the present time in milliseconds. `reserve` is the width it is given
    where rows come one by one and the longest is not known."""

    header: str
    cell: Callable[[T, int], str]
    wide: bool = False
    reserve: int = 0


def lay_out(
    columns: Sequence[Column[T]], items: Sequence[T], *, wide: bool, now_ms: int
) -> tuple[list[str], list[Row]]:
    shown = [column for column in columns if wide or not column.wide]
    rows: list[Row] = [[column.cell(item, now_ms) for column in shown] for item in items]
    return [column.header for column in shown], rows


def _cause(component: api.Component, _: int) -> str:
    """Of waiting; that work has ended is in its phase."""
    status = component.status
    if status.phase == "Rejected":
        return "rejected"
    return status.reason.cause if status.reason and status.phase not in api.FINAL_PHASES else ""


def _starts(component: api.Component, now_ms: int) -> str:
    status = component.status
    if status.started_at or status.phase not in api.LIVE_PHASES:
        return phrases.when(status.started_at, now_ms)
    return phrases.when(status.estimated_start, now_ms)


def _key_state(key: api.Key | api.Token, now_ms: int) -> str:
    if key.revoked_at:
        return "revoked"
    if not key.expires_at:
        return "valid"
    when = phrases.when(key.expires_at, now_ms)
    if when == "now" or when.endswith("ago"):
        return f"expired {when}"
    return f"{'rotated, ' if isinstance(key, api.Key) and key.replaced_by else ''}expires {when}"


def _narrowed(key: api.Key | api.Token) -> str:
    """The project and the actions it is narrowed to."""
    parts = [key.project] if key.project else []
    return ", ".join([*parts, *(key.actions or ())])


COMPONENTS: list[Column[api.Component]] = [
    Column("COMPONENT", lambda one, _: path_of(one)),
    Column("TYPE", lambda one, _: str(one.spec.get("type", ""))),
    Column("GPUS", lambda one, _: _gpus(one)),
    Column("PHASE", lambda one, _: one.status.phase, reserve=9),
    Column("CAUSE", _cause, reserve=14),
    Column("START", _starts, reserve=17),
    Column("AGE", lambda one, now: phrases.age(one.metadata.created_at, now), reserve=8),
    Column("COST", lambda one, _: f"{one.status.cost} {one.status.currency}".strip(), reserve=12),
    Column("TENANT", lambda one, _: one.metadata.tenant, wide=True),
    Column("PROFILE", lambda one, _: str(one.spec.get("profile") or ""), wide=True),
    Column(
        "NODES",
        lambda one, _: ",".join(dict.fromkeys(w.node for w in one.status.placement)),
        wide=True,
        reserve=24,
    ),
    Column("ADDRESS", lambda one, _: ",".join(addresses_of(one)), wide=True, reserve=15),
    Column("GPU-HOURS", lambda one, _: one.status.gpu_hours, wide=True),
    Column("RUN", lambda one, _: f"{one.status.run}.{one.status.attempt}", wide=True),
    Column("RESTARTS", lambda one, _: str(sum(w.restarts for w in one.status.placement)), wide=True),
    Column(
        "EXIT", lambda one, _: "" if one.status.exit_code is None else str(one.status.exit_code), wide=True
    ),
    Column("IMAGE", lambda one, _: str(one.spec.get("image", "")), wide=True),
]

DECISIONS: list[Column[api.Decision]] = [
    Column("DECISION", lambda one, _: one.id),
    Column("COMPONENT", lambda one, _: one.component),
    Column("ACTION", lambda one, _: one.action),
    Column("VERDICT", lambda one, _: one.verdict),
    Column("REASONS", lambda one, _: ",".join(reason.rule for reason in one.reasons)),
    Column("AGE", lambda one, now: phrases.age(one.at, now)),
    Column("PRICE", lambda one, _: price_of(one), wide=True),
    Column("REVISION", lambda one, _: str(one.catalog_revision), wide=True),
    Column("ACTOR", lambda one, _: one.actor, wide=True),
]

EVENTS: list[Column[api.Event]] = [
    Column("ID", lambda one, _: str(one.id)),
    Column("AT (UTC)", lambda one, _: phrases.clock(one.at)),
    Column("EVENT", lambda one, _: one.type),
    Column("SUBJECT", lambda one, _: one.subject),
    Column("ACTOR", lambda one, _: one.actor),
    Column("TENANT", lambda one, _: one.tenant or "", wide=True),
    Column("DATA", lambda one, _: _data(one.data), wide=True),
]

AUDIT: list[Column[api.AuditEntry]] = [
    Column("ID", lambda one, _: str(one.id)),
    Column("AT (UTC)", lambda one, _: phrases.clock(one.at)),
    Column("ACTOR", lambda one, _: one.actor),
    Column("ACTION", lambda one, _: one.action),
    Column("SUBJECT", lambda one, _: one.subject),
    Column("TENANT", lambda one, _: one.tenant or "", wide=True),
    Column("REQUEST", lambda one, _: one.request_id, wide=True),
    Column("DETAIL", lambda one, _: _data(one.detail), wide=True),
]

NODES: list[Column[api.NodeInfo]] = [
    Column("NODE", lambda one, _: one.name),
    Column("SITE", lambda one, _: one.site),
    Column("CLASS", lambda one, _: one.gpu_class),
    Column("GPUS", lambda one, _: str(one.gpus)),
    Column("FREE", lambda one, _: one.free),
    Column("STATE", lambda one, _: one.state),
    Column("SIMULATED", lambda one, _: "yes" if one.simulated else "no", wide=True),
    Column("LABELS", lambda one, _: ",".join(f"{k}={v}" for k, v in sorted(one.labels.items())), wide=True),
]

KEYS: list[Column[api.Key]] = [
    Column("ID", lambda one, _: one.id),
    Column("NAME", lambda one, _: one.name),
    Column("ROLE", lambda one, _: one.role),
    Column("TENANT", lambda one, _: one.tenant or ""),
    Column("STATE", _key_state),
    Column("LAST USED", lambda one, now: phrases.when(one.last_used_at, now) or "never"),
    Column("CREATED", lambda one, now: phrases.when(one.created_at, now), wide=True),
    Column("ACCOUNT", lambda one, _: one.service_account or "", wide=True),
    Column("ONLY", lambda one, _: _narrowed(one), wide=True),
    Column("SUCCESSOR", lambda one, _: one.replaced_by or "", wide=True),
]

TOKENS: list[Column[api.Token]] = [
    Column("ID", lambda one, _: one.id),
    Column("NAME", lambda one, _: one.name),
    Column("ROLE", lambda one, _: one.role),
    Column("TENANT", lambda one, _: one.tenant or ""),
    Column("STATE", _key_state),
    Column("ONLY", lambda one, _: _narrowed(one)),
    Column("EXCHANGED FOR", lambda one, _: one.parent, wide=True),
]

ACCOUNTS: list[Column[api.ServiceAccount]] = [
    Column("NAME", lambda one, _: one.name),
    Column("ROLE", lambda one, _: one.role),
    Column("TENANT", lambda one, _: one.tenant or ""),
    Column("CREATED", lambda one, now: phrases.when(one.created_at, now)),
    Column("BY", lambda one, _: one.created_by, wide=True),
    Column("NOTE", lambda one, _: one.note),
]

_DOCUMENTS: dict[str, list[Column[api.Document]]] = {
    "Tier": [
        Column("PRIORITY", lambda one, _: _field(one, "priority")),
        Column("PREEMPTS", lambda one, _: _field(one, "preempts")),
        Column("PREEMPTIBLE", lambda one, _: _field(one, "preemptible")),
    ],
    "Tenant": [
        Column("TIER", lambda one, _: _field(one, "tier")),
        Column("DISPLAY NAME", lambda one, _: _field(one, "displayName")),
        Column("CURRENCY", lambda one, _: _field(one, "currency"), wide=True),
    ],
    "Project": [
        Column("ENVIRONMENTS", lambda one, _: _field(one, "environments")),
        Column("TRAITS", lambda one, _: _field(one, "traits")),
        Column("PROFILE", lambda one, _: _field(one, "defaultProfile")),
    ],
    "Envelope": [
        Column("SCOPE", lambda one, _: "/".join(map(str, (one.spec.get("scope") or {}).values()))),
        Column("GPUS", lambda one, _: _envelope_gpus(one)),
    ],
    "HardwareProfile": [
        Column("CLASS", lambda one, _: _field(one, "class")),
        Column("SHARING", lambda one, _: _field(one, "sharing")),
        Column("SHARE", lambda one, _: _field(one, "share")),
        Column("MEMORY GIB", lambda one, _: _field(one, "memoryGib")),
        Column("MODEL", lambda one, _: _field(one, "gpuModel"), wide=True),
    ],
    "ComponentType": [
        Column("TYPE VERSION", lambda one, _: _field(one, "version")),
        Column("WORKLOAD", lambda one, _: _field(one, "workload")),
        Column("RETIRED", lambda one, _: _retired(one)),
    ],
    "Trait": [
        Column("TRAIT VERSION", lambda one, _: _field(one, "version")),
        Column("APPLIES TO", lambda one, _: _field(one, "appliesTo")),
    ],
    "Policy": [
        Column("TENANT", lambda one, _: one.metadata.get("tenant") or "platform"),
        Column("RULES", lambda one, _: ", ".join(rule["name"] for rule in one.spec.get("rules") or [])),
    ],
    "PriceBook": [
        Column("CURRENCY", lambda one, _: _field(one, "currency")),
        Column("FROM (UTC)", lambda one, _: phrases.clock(_field(one, "effectiveFrom"))),
        Column("PRICES", lambda one, _: str(len(one.spec.get("prices") or []))),
    ],
    "Site": [
        Column("ORCHESTRATOR", lambda one, _: _field(one, "orchestrator")),
        Column("REGION", lambda one, _: _field(one, "region")),
        Column("QUEUEING", lambda one, _: _field(one, "queueing"), wide=True),
    ],
    "IdentityProvider": [
        Column("ISSUER", lambda one, _: _field(one, "issuer")),
        Column("AUDIENCE", lambda one, _: _field(one, "audience"), wide=True),
        Column("MAPPINGS", lambda one, _: str(len(one.spec.get("mappings") or []))),
    ],
}


def documents(kind: str) -> list[Column[api.Document]]:
    """Name first, tenant where documents have one, what matters of the kind, version last."""
    name: Column[api.Document] = Column("NAME", lambda one, _: str(one.metadata.get("name", "")))
    tenant: Column[api.Document] = Column("TENANT", lambda one, _: str(one.metadata.get("tenant") or ""))
    version: Column[api.Document] = Column("VERSION", lambda one, _: str(one.metadata.get("version", "")))
    scoped = [tenant] if kind in {"Project", "Envelope"} else []
    return [name, *scoped, *_DOCUMENTS.get(kind, []), version]


def price_of(decision: api.Decision) -> str:
    estimate = decision.estimate
    return phrases.price(estimate.per_hour, estimate.currency) if estimate else ""


def address_of(worker: api.WorkerStatus) -> str:
    """Where a service's replica listens; empty where it does not."""
    return "" if worker.port is None else f"127.0.0.1:{worker.port}"


def addresses_of(component: api.Component) -> list[str]:
    return [address for one in component.status.placement if (address := address_of(one))]


def _gpus(component: api.Component) -> str:
    """Per worker or replica, and how many of them: those that were placed, else those asked for."""
    each = str(component.spec.get("gpus", ""))
    parameters = component.spec.get("parameters") or {}
    asked = component.spec.get("workers", 1) * int(parameters.get("minReplicas") or 1)
    count = max(len(component.status.placement), asked)
    return f"{count}x{each}" if count != 1 else each


def _field(document: api.Document, name: str) -> str:
    value = document.spec.get(name)
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list():
            return ",".join(map(str, value))
        case _:
            return str(value)


def _retired(document: api.Document) -> str:
    """When, and what takes its place; nothing of a type that stays."""
    window = document.spec.get("deprecated")
    if not isinstance(window, dict):
        return ""
    then = window.get("replacedBy")
    return str(window.get("until", ""))[:10] + (f", use {then}" if then else "")


def _envelope_gpus(document: api.Document) -> str:
    lines = []
    for quota in document.spec.get("gpus") or []:
        ceiling = quota.get("max")
        most = f"..{ceiling}" if ceiling is not None else ".."
        lines.append(f"{quota.get('profileClass')}={quota.get('guaranteed', 0)}{most}")
    return " ".join(lines)


def _data(data: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in data.items())
