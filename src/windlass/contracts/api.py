"""The answers of the HTTP API, as values: the gateway writes them, the SDK reads them, OpenAPI
describes them. Field names are camelCase on the wire. Times are RFC 3339 UTC with milliseconds,
money and GPU amounts decimal strings.

Readers ignore fields they do not know, so that a newer server serves an older client.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from windlass.contracts.defrag import *  # noqa: F403 (part of this API, in a file of its own)
from windlass.contracts.identity import *  # noqa: F403 (part of this API, in a file of its own)
from windlass.contracts.sites import *  # noqa: F403 (part of this API, in a file of its own)
from windlass.contracts.types import *  # noqa: F403 (part of this API, in a file of its own)
from windlass.contracts.types import Affected, Reason
from windlass.contracts.wire import Wire

Verdict = Literal["admitted", "rejected", "held"]
Phase = Literal[
    "Rejected",
    "Pending",
    "Admitted",
    "Starting",
    "Running",
    "Succeeded",
    "Failed",
    "Preempted",
    "Suspended",
    "Cancelled",
]
LIVE_PHASES = frozenset({"Pending", "Admitted", "Starting", "Running", "Preempted", "Suspended"})
FINAL_PHASES = frozenset({"Rejected", "Succeeded", "Failed", "Cancelled"})
KEY_ROLES = ("platform-admin", "platform-viewer", "tenant-admin", "developer", "viewer", "agent")
MAX_KEY_LIFE_S = 10 * 366 * 86_400


class Problem(Wire, frozen=True, kw_only=True):
    """application/problem+json. `decision` and `results` are there when they help, `traceId` when the
    platform traces."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    reasons: list[Reason] = []
    remedy: str = ""
    decision: Decision | None = None
    results: list[Result] | None = None
    trace_id: str | None = None


class Estimate(Wire, frozen=True, kw_only=True):
    """What it would cost and when it would start. `perHour` is None where no price is in force."""

    per_hour: str | None
    currency: str
    starts_at: str | None = None


class Decision(Wire, frozen=True, kw_only=True):
    id: str
    action: str
    verdict: Verdict
    reasons: list[Reason]
    catalog_revision: int
    component: str
    actor: str
    at: str
    estimate: Estimate | None = None
    tenant: str | None = None
    trace_id: str | None = None
    warnings: list[Reason] = []


class PlannedWorker(Wire, frozen=True, kw_only=True):
    worker: int
    node: str
    gpus: list[int]


class Plan(Wire, frozen=True, kw_only=True):
    """What a decision does not say of a plan: where it would go, after whom, or why it would wait."""

    placement: list[PlannedWorker]
    after: list[str]
    cause: str | None = None
    message: str = ""
    ahead: int | None = None


class Result(Wire, frozen=True, kw_only=True):
    """What became of one document of an apply."""

    kind: str
    name: str
    outcome: Literal[
        "created", "changed", "unchanged", "rejected", "invalid", "conflict", "not-permitted", "skipped"
    ]
    project: str | None = None
    tenant: str | None = None
    env: str | None = None
    version: int | None = None
    decision: Decision | None = None
    plan: Plan | None = None
    reasons: list[Reason] = []
    message: str = ""


class ApplyAnswer(Wire, frozen=True, kw_only=True):
    results: list[Result]
    revision: int
    dry_run: bool = False
    affected: Affected | None = None


class Position(Wire, frozen=True, kw_only=True):
    ahead: int
    of: int


class StatusReason(Wire, frozen=True, kw_only=True):
    cause: str
    message: str
    remedy: str = ""


class WorkerStatus(Wire, frozen=True, kw_only=True):
    worker: int
    node: str
    gpus: list[int]
    state: str = "starting"
    exit_code: int | None = None
    port: int | None = None
    restarts: int = 0


class Condition(Wire, frozen=True, kw_only=True):
    type: str
    status: Literal["True", "False"]
    at: str
    message: str = ""


class ComponentStatus(Wire, frozen=True, kw_only=True):
    phase: Phase
    decision: str
    reason: StatusReason | None = None
    position: Position | None = None
    estimated_start: str | None = None
    placement: list[WorkerStatus] = []
    gpu_hours: str = "0"
    cost: str = "0.00"
    currency: str = ""
    run: int = 1
    attempt: int = 0
    preemptions: int = 0
    exit_code: int | None = None
    submitted_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    conditions: list[Condition] = []
    notes: list[str] = []
    trace_id: str | None = None
    warnings: list[Reason] = []


class ComponentMetadata(Wire, frozen=True, kw_only=True):
    name: str
    project: str
    tenant: str
    env: str
    id: str
    version: int
    created_at: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Component(Wire, frozen=True, kw_only=True):
    api_version: str
    kind: str
    metadata: ComponentMetadata
    spec: dict[str, Any]
    status: ComponentStatus


class Document(Wire, frozen=True, kw_only=True):
    """A catalog document as stored; `metadata.version` is what If-Match takes."""

    api_version: str
    kind: str
    metadata: dict[str, Any]
    spec: dict[str, Any]


class DocumentList(Wire, frozen=True, kw_only=True):
    items: list[Document]
    revision: int
    cursor: str | None = None


class ComponentList(Wire, frozen=True, kw_only=True):
    """In a list `status.conditions` is empty, and of work that waits only those near the front of their
    class (the first 300) have `position` and `estimatedStart`, up to two seconds old. One component, read
    alone, has all of it."""

    items: list[Component]
    cursor: str | None = None


class DecisionList(Wire, frozen=True, kw_only=True):
    items: list[Decision]
    cursor: str | None = None


class ExplanationEstimate(Wire, frozen=True, kw_only=True):
    starts_at: str | None
    low: str | None
    high: str | None
    basis: str


class CauseSpan(Wire, frozen=True, kw_only=True):
    cause: str
    since: str = msgspec.field(name="from")
    to: str | None


class Explanation(Wire, frozen=True, kw_only=True):
    component: str
    phase: Phase
    cause: str | None
    also: list[str]
    message: str
    remedy: str
    position: Position | None
    estimate: ExplanationEstimate | None
    history: list[CauseSpan]
    reasons: list[Reason] = []
    warnings: list[Reason] = []
    preempted_by: str | None = None


class QueueEntry(Wire, frozen=True, kw_only=True):
    component: str
    tenant: str
    phase: Phase
    gpus: str
    gpu_class: str = msgspec.field(name="class")
    workers: int
    priority: int
    submitted_at: str
    ahead: int | None = None
    cause: str | None = None
    message: str = ""
    estimated_start: str | None = None
    nodes: list[str] = []
    since: str | None = None


class Queue(Wire, frozen=True, kw_only=True):
    """`waiting` in the order they would start; `running` by age. A tenant sees its own entries;
    `ahead` counts everybody's."""

    waiting: list[QueueEntry]
    running: list[QueueEntry]
    waiting_total: int
    running_total: int


class QuotaLine(Wire, frozen=True, kw_only=True):
    """One class in one scope: what is mine, what is used, what I could still get now."""

    scope: str
    gpu_class: str = msgspec.field(name="class")
    guaranteed: str
    max: str | None
    used: str
    borrowed: str
    available: str


class ProfilePrice(Wire, frozen=True, kw_only=True):
    tenant: str
    profile: str
    gpu_class: str = msgspec.field(name="class")
    sharing: str
    share: str
    per_unit_hour: str | None
    currency: str
    entitled: bool


class BudgetLine(Wire, frozen=True, kw_only=True):
    scope: str
    amount: str
    currency: str
    period: str
    spent: str
    held: str
    on_exhausted: str


class QuotaAnswer(Wire, frozen=True, kw_only=True):
    quotas: list[QuotaLine]
    profiles: list[ProfilePrice]
    budgets: list[BudgetLine]


class CostLine(Wire, frozen=True, kw_only=True):
    """`cost` is what is posted, `running` what running work has added since; both exact."""

    tenant: str
    project: str | None
    env: str | None
    component: str | None
    gpu_hours: str
    cost: str
    running: str
    total: str
    currency: str


class CostAnswer(Wire, frozen=True, kw_only=True):
    lines: list[CostLine]
    totals: list[CostLine]
    ledger_sum: dict[str, str]
    at: str


class UsageLine(Wire, frozen=True, kw_only=True):
    id: str
    tenant: str
    project: str
    env: str
    component: str
    gpu_class: str = msgspec.field(name="class")
    gpus: str
    since: str = msgspec.field(name="from")
    until: str | None
    gpu_hours: str


class UsageList(Wire, frozen=True, kw_only=True):
    items: list[UsageLine]
    cursor: str | None = None


class Event(Wire, frozen=True, kw_only=True):
    id: int
    at: str
    type: str
    subject: str
    actor: str
    tenant: str | None = None
    data: dict[str, Any] = {}


class EventList(Wire, frozen=True, kw_only=True):
    items: list[Event]
    cursor: str | None = None


class AuditEntry(Wire, frozen=True, kw_only=True):
    id: int
    at: str
    actor: str
    action: str
    subject: str
    request_id: str
    tenant: str | None = None
    detail: dict[str, Any] = {}


class AuditList(Wire, frozen=True, kw_only=True):
    items: list[AuditEntry]
    cursor: str | None = None


class NodeInfo(Wire, frozen=True, kw_only=True):
    name: str
    site: str
    gpu_class: str = msgspec.field(name="class")
    gpus: int
    free: str
    state: str
    simulated: bool
    labels: dict[str, str]


class NodeList(Wire, frozen=True, kw_only=True):
    items: list[NodeInfo]
    cursor: str | None = None


class Version(Wire, frozen=True, kw_only=True):
    version: str
    api: str


class Revision(Wire, frozen=True, kw_only=True):
    revision: int
    at: str
    actor: str


class ServiceLevel(Wire, frozen=True, kw_only=True):
    """One of the platform's own objectives over a window. Shares are percentages: `measured` of `total`
    were good, `target` is promised, `budgetLeft` is what is left of the errors that promise allows. `of` is
    the tier of an admission level. Without `target` it is measured only."""

    name: str
    of: str
    promise: str
    target: str | None
    within: str | None
    measured: str | None
    budget_left: str | None
    met: bool | None
    good: int
    total: int
    median_s: str | None = None
    p95_s: str | None = None


class ServiceLevels(Wire, frozen=True, kw_only=True):
    """`good` and `total` count workloads, requests, or milliseconds of waiting (`explained`)."""

    window: str
    since: str
    at: str
    levels: list[ServiceLevel]


class LogLine(Wire, frozen=True, kw_only=True):
    """One piece of a log stream."""

    worker: int
    text: str
    offset: int
