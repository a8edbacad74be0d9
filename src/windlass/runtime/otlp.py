"""Traces to an OpenTelemetry collector, as OTLP over HTTP (protobuf).

The SDK's exporter does the sending: it also heeds the standard OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE,
_COMPRESSION and OTEL_SERVICE_NAME. The queue before it is ours, because it has to be bounded and to count
what it drops. Spans are turned into the SDK's on the sending thread, not on the event loop.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from windlass import __version__
from windlass.core.errors import Invalid
from windlass.runtime.logging import say, warn
from windlass.runtime.metrics import SPANS
from windlass.runtime.tracing import Span, Trace, entered

QUEUE = 4096
_BATCH = 512
_GATHER_S = 0.5  # spans of a moment travel together
_TIMEOUT_S = 5.0
GOODBYE_S = 2.0  # how long a process that stops waits for its last spans to be sent
_SCOPE = InstrumentationScope("windlass", __version__)


class OtlpTracer:
    on = True

    def __init__(
        self,
        endpoint: str,
        *,
        exporter: SpanExporter | None = None,
        queue: int = QUEUE,
        goodbye_s: float = GOODBYE_S,
    ) -> None:
        # It tells of every failed attempt with a traceback; `_send` tells once, until it works again.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = exporter or OTLPSpanExporter(traces_endpoint(endpoint), timeout=_TIMEOUT_S)
        named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "windlass"}
        self._resource = Resource.create({"service.version": __version__, **named})
        self._limit = queue
        self._goodbye_s = goodbye_s
        self._waiting: deque[Span] = deque()
        self._closing = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def enter(self, traceparent: str) -> Trace:
        return entered(traceparent)

    def record(self, span: Span) -> None:
        if not span.trace.sampled:
            return
        if len(self._waiting) >= self._limit or self._closing.is_set():
            SPANS.labels("dropped").inc()
            return
        self._waiting.append(span)

    def close(self) -> None:
        self._closing.set()
        self._thread.join(self._goodbye_s)
        self._exporter.shutdown()  # also ends a retry that is under way
        SPANS.labels("dropped").inc(len(self._waiting))

    def _run(self) -> None:
        while not self._closing.wait(_GATHER_S):
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            self._send(batch)

    def _send(self, batch: list[Span]) -> None:
        try:
            done = self._exporter.export([self._readable(span) for span in batch])
        except Exception as error:  # whatever the network or the SDK does, it is not the platform's trouble
            self._told(len(batch), type(error).__name__)
        else:
            self._told(
                len(batch), "" if done is SpanExportResult.SUCCESS else "the collector did not take it"
            )

    def _told(self, count: int, trouble: str) -> None:
        SPANS.labels("failed" if trouble else "exported").inc(count)
        if trouble and not self._failing:
            warn("traces cannot be exported; spans are lost until they can", why=trouble)
        elif self._failing and not trouble:
            say("traces are exported again")
        self._failing = bool(trouble)

    def _readable(self, span: Span) -> ReadableSpan:
        trace = span.trace
        return ReadableSpan(
            name=span.name,
            context=_context(trace.id, trace.span),
            parent=_context(trace.id, trace.parent) if trace.parent else None,
            resource=self._resource,
            attributes=span.facts,
            kind=SpanKind.SERVER if span.serves else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.failure) if span.failure else Status(StatusCode.UNSET),
            start_time=span.began_ns,
            end_time=max(span.began_ns, span.ended_ns),
            instrumentation_scope=_SCOPE,
        )


def _context(trace: str, span: str) -> SpanContext:
    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=sampled)


def traces_endpoint(endpoint: str) -> str:
    """The collector's address, as OTEL_EXPORTER_OTLP_ENDPOINT states it: without the signal's path."""
    url = urlsplit(endpoint)
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password:
        raise Invalid(
            "the address for traces is not an http or https URL without a password",
            remedy="such as http://127.0.0.1:4318; credentials go into OTEL_EXPORTER_OTLP_HEADERS",
        )
    path = url.path.rstrip("/")
    return endpoint if path.endswith("/v1/traces") else f"{url.scheme}://{url.netloc}{path}/v1/traces"
