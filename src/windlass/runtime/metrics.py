"""The platform's metrics: names, units, bounded labels. `GET /metrics` shows them.

What can be counted where it happens is counted there. What is a level (who waits, who watches) is set
when it changes or, where that would cost more than a scrape, by `measure` functions that look at memory
when somebody asks; nothing here reads a table. A label's values are bounded: route patterns, rule codes,
and names of platform documents (tiers, classes, sites), never a tenant, a component or a path.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from windlass import __version__

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per counter that nobody asks for
REGISTRY = CollectorRegistry()

_QUICK_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
_WAIT_S = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)

# --- the gateway ------------------------------------------------------------------------------

REQUESTS = Counter(
    "windlass_http_requests_total",
    "Requests answered, by method, route pattern and class of status.",
    ("method", "route", "status"),
    registry=REGISTRY,
)
REQUEST_SECONDS = Histogram(
    "windlass_http_request_seconds",
    "Time from request to answer, by route pattern.",
    ("route",),
    buckets=_QUICK_S,
    registry=REGISTRY,
)
REQUESTS_IN_FLIGHT = Gauge(
    "windlass_http_requests_in_flight", "Requests that are not answered yet.", registry=REGISTRY
)
EVENT_WATCHERS = Gauge("windlass_event_watchers", "Open event streams.", registry=REGISTRY)

KEY_FETCHES = Counter(
    "windlass_identity_key_fetches_total",
    "Times the keys of identity providers were asked for, by result (read, failed).",
    ("result",),
    registry=REGISTRY,
)

LIMITED = Counter(
    "windlass_limited_total",
    "What was refused or closed because of a limit: by principal, tenant or address (too many requests),"
    " streams, bodies, connections, reads, store-queue (too much at once), head, reader (too slow), evicted"
    " (idle connections that made room).",
    ("limit",),
    registry=REGISTRY,
)

# --- decisions --------------------------------------------------------------------------------

DECISIONS = Counter(
    "windlass_decisions_total", "Admission decisions, by verdict.", ("verdict",), registry=REGISTRY
)
REFUSALS = Counter(
    "windlass_decision_reasons_total",
    "Reasons of rejections, by rule; one rejection may have several.",
    ("rule",),
    registry=REGISTRY,
)
RUNS = Counter(
    "windlass_component_runs_total", "Runs admitted, by component type.", ("type",), registry=REGISTRY
)
CATALOG_REVISION = Gauge("windlass_catalog_revision", "The catalog's revision.", registry=REGISTRY)

# --- the store --------------------------------------------------------------------------------

COMMITS = Counter(
    "windlass_store_commits_total", "Commits, by result (done, failed).", ("result",), registry=REGISTRY
)
COMMIT_SECONDS = Histogram(
    "windlass_store_commit_seconds",
    "Time one commit took to be durable.",
    buckets=_QUICK_S,
    registry=REGISTRY,
)
BATCH_UNITS = Histogram(
    "windlass_store_batch_units",
    "Units of work that shared one commit.",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
    registry=REGISTRY,
)
STORE_QUEUE = Gauge(
    "windlass_store_queue_units", "Units of work that wait for the next commit.", registry=REGISTRY
)

# --- the scheduler ----------------------------------------------------------------------------

CYCLE_SECONDS = Histogram(
    "windlass_scheduler_cycle_seconds",
    "Time one scheduling cycle took.",
    buckets=(0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1),
    registry=REGISTRY,
)
WAITING = Gauge(
    "windlass_workloads_waiting",
    "Workloads that wait for GPUs, by class and cause.",
    ("gpu_class", "cause"),
    registry=REGISTRY,
)
HOLDING = Gauge(
    "windlass_workloads_holding", "Workloads that hold GPUs, by class.", ("gpu_class",), registry=REGISTRY
)
LEADS = Gauge(
    "windlass_leader",
    "1 in the replica that leads: it decides for the queue, and tells of who waits and which GPUs there are.",
    registry=REGISTRY,
)
PROMISES = Gauge(
    "windlass_scheduler_promises",
    "Workloads whose GPUs are earmarked while others leave them.",
    registry=REGISTRY,
)
PREEMPTIONS = Counter(
    "windlass_preemptions_total",
    "Workloads told to give way, by reason (reclaim, priority, fair-share, defragmentation).",
    ("reason",),
    registry=REGISTRY,
)
ADMISSION_WAIT_SECONDS = Histogram(
    "windlass_admission_wait_seconds",
    "Time from submission to the first placement, by tier.",
    ("tier",),
    buckets=_WAIT_S,
    registry=REGISTRY,
)
GPUS = Gauge("windlass_gpus", "GPUs known, by class.", ("gpu_class",), registry=REGISTRY)
GPUS_FREE = Gauge(
    "windlass_gpus_free",
    "GPUs of ready nodes that nobody holds, by class.",
    ("gpu_class",),
    registry=REGISTRY,
)

# --- sites ------------------------------------------------------------------------------------

SITE_HEARD = Gauge(
    "windlass_site_heartbeat_timestamp_seconds",
    "When a site's agent was last heard of; its age is `time()` minus this.",
    ("site",),
    registry=REGISTRY,
)
RECONCILE_SECONDS = Histogram(
    "windlass_agent_reconcile_seconds",
    "Time one pass of a site's agent took, by result (done, failed).",
    ("result",),
    buckets=_QUICK_S,
    registry=REGISTRY,
)
WORKERS = Gauge("windlass_agent_workers_running", "Workers that run at a site.", ("site",), registry=REGISTRY)
START_SECONDS = Histogram(
    "windlass_start_seconds",
    "Time from placement until every worker ran at the site.",
    buckets=_WAIT_S,
    registry=REGISTRY,
)

# --- money ------------------------------------------------------------------------------------

TRANSFERS = Counter("windlass_ledger_transfers_total", "Transfers written to the ledger.", registry=REGISTRY)
GPU_SECONDS = Counter(
    "windlass_gpu_seconds_total",
    "GPU time posted, by component type; `raw` is the escape hatch.",
    ("type",),
    registry=REGISTRY,
)
IMBALANCE = Gauge(
    "windlass_ledger_imbalance_micros",
    "What the ledger's entries sum to, in micro-units. Anything but 0 is a bug.",
    ("currency",),
    registry=REGISTRY,
)
LEDGER_CHECKED = Gauge(
    "windlass_ledger_check_timestamp_seconds", "When the ledger was last summed up.", registry=REGISTRY
)

# --- the process ------------------------------------------------------------------------------

SPANS = Counter(
    "windlass_trace_spans_total",
    "Spans of traces, by result (exported, failed, dropped); none while tracing is off.",
    ("result",),
    registry=REGISTRY,
)
BUILD = Gauge("windlass_build_info", "1, with the version of this process.", ("version",), registry=REGISTRY)
BUILD.labels(__version__).set(1)
PROCESS = ProcessCollector(registry=REGISTRY)
"""CPU, memory, file descriptors and start of this process, under the names every exporter gives them."""


# From zero on, where the values of a label are known: the first increase is seen only by who saw the zero.
for _counter, _values in (
    (DECISIONS, ("admitted", "rejected", "held")),
    (
        LIMITED,
        (
            *("principal", "tenant", "address"),
            *("streams", "bodies", "connections", "reads", "store-queue", "head", "reader", "evicted"),
        ),
    ),
    (COMMITS, ("done", "failed")),
    (RUNS, ("raw",)),
    (GPU_SECONDS, ("raw",)),
    (PREEMPTIONS, ("reclaim", "priority", "fair-share", "defragmentation")),
    (SPANS, ("exported", "failed", "dropped")),
    (KEY_FETCHES, ("read", "failed")),
    (RECONCILE_SECONDS, ("done", "failed")),
):
    for _value in _values:
        _counter.labels(_value)


def render() -> bytes:
    return generate_latest(REGISTRY)
