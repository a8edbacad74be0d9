"""metrics.md: every metric of the registry."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from tools.reference.markdown import code, codes, lines_of, table
from windlass.runtime import metrics


def page() -> str:
    rows = [
        [
            code(name_of(metric)),
            metric._type or "",
            codes(metric._labelnames),
            metric._documentation,
            _buckets(metric),
        ]
        for metric in registered()
    ]
    rows += [[code(name), kind, "", told, ""] for name, kind, told in of_the_process()]
    return lines_of(
        "Metrics",
        "the platform's registry",
        "`GET /metrics`, without a key, in the text form of Prometheus. Labels are bounded: a route is its"
        " pattern, never a path.",
        "",
        *table(["Metric", "Type", "Labels", "Means", "Buckets"], rows),
    )


def registered() -> list[MetricWrapperBase]:
    """In the order of the file. What is registered elsewhere would be missing: a test compares."""
    named = (found for name, found in vars(metrics).items() if not name.startswith("_"))
    return [found for found in named if isinstance(found, (Counter, Gauge, Histogram))]


def of_the_process() -> list[tuple[str, str, str]]:
    """What the client library measures of a process: name, type and meaning."""
    return [
        (f"{one.name}_total" if one.type == "counter" else one.name, one.type, one.documentation)
        for one in metrics.PROCESS.collect()
    ]


def name_of(metric: MetricWrapperBase) -> str:
    """As it is scraped: the client library keeps a counter's name without its ending."""
    return f"{metric._name}_total" if isinstance(metric, Counter) else metric._name


def _buckets(metric: MetricWrapperBase) -> str:
    if not isinstance(metric, Histogram):
        return ""
    bounds: list[float] = metric._kwargs["buckets"]
    return ", ".join(f"{bound:g}" for bound in bounds)
