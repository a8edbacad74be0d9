"""An OpenTelemetry collector for tests: takes OTLP over HTTP on a port of its own, and keeps the spans."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Got:
    name: str
    trace: str
    id: str
    parent: str
    began_ns: int
    ended_ns: int
    facts: dict[str, Any]
    failed: bool
    service: str


@dataclass
class Collector:
    address: str = ""
    status: int = 200
    paths: list[str] = field(default_factory=list)
    spans: list[Got] = field(default_factory=list)

    def named(self, name: str) -> Got:
        [found] = [span for span in self.spans if span.name == name]
        return found

    def take(self, path: str, body: bytes) -> None:
        self.paths.append(path)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            about = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_got(span, about["service.name"]) for span in scope.spans]


def _got(span: Any, service: str) -> Got:
    facts = {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
    return Got(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        facts,
        span.status.code == 2,
        service,
    )


@contextmanager
def collecting(status: int = 200) -> Iterator[Collector]:
    collector = Collector(status=status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if collector.status == 200:
                collector.take(self.path, body)
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quietly."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            collector.address = f"http://127.0.0.1:{server.server_address[1]}"
            yield collector
        finally:
            server.shutdown()
            thread.join()
