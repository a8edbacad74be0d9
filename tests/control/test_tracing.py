"""One submit is one trace, told to a collector by whoever takes a hop, also after a restart."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from tests.control.collector import Collector, collecting
from tests.control.documents import intent
from tests.control.worlds import World, play, url

from windlass.core.errors import Invalid
from windlass.runtime.logging import JsonLines
from windlass.runtime.metrics import SPANS
from windlass.runtime.otlp import OtlpTracer, traces_endpoint
from windlass.runtime.tracing import OFF, Span, Trace, read_traceparent

JOB = "nlp/prod/job"
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(autouse=True)
def _quiet_sdk() -> None:
    """The SDK's logger is told to be quiet by the tracer itself; pytest would raise its level again."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)


def traced(folder: Path, collector: Collector, *, restarts: bool) -> None:
    """Submit, run and end one job; optionally the process is another one at every hop."""

    async def story(world: World) -> None:
        async def pause() -> None:
            if not restarts:
                return
            world.tracer.close()
            world.tracer = OtlpTracer(collector.address, goodbye_s=60)
            await world.restart()

        world.tracer.close()
        world.tracer = OtlpTracer(collector.address, goodbye_s=60)
        await world.restart()
        await world.settle()
        reply = await world.apply(intent(JOB), traceparent=CALLER)
        assert reply.status == 200, reply.body
        assert reply.json["results"][0]["decision"]["traceId"] == TRACE
        await pause()
        await world.plane.scheduler.turn()
        await pause()
        world.advance(60)
        await world.settle()
        await pause()
        await world.agent.converge()
        world.advance(600)
        world.finish(JOB)
        await pause()
        await world.settle()
        shown = (await world.call("GET", url(JOB))).json
        assert shown["status"]["phase"] == "Succeeded"
        assert shown["status"]["traceId"] == TRACE
        world.tracer.close()

    play(folder, story)


@pytest.mark.parametrize("restarts", [False, True], ids=["one life", "a restart at every hop"])
def test_one_submit_is_one_trace_from_the_caller_to_the_ledger(tmp_path: Path, restarts: bool) -> None:
    with collecting() as collector:
        traced(tmp_path, collector, restarts=restarts)
    spans = [span for span in collector.spans if span.trace == TRACE]
    request = collector.named("POST /v1/apply")
    cycle = collector.named("scheduler cycle")
    assert {(span.name, span.parent) for span in spans} == {
        ("POST /v1/apply", "00f067aa0ba902b7"),
        ("admission", request.id),
        ("store commit", request.id),
        ("scheduler cycle", request.id),
        ("site start", cycle.id),
        ("site running", cycle.id),
        ("site run", cycle.id),
        ("ledger posting", cycle.id),
    }
    assert len(spans) == 8
    assert len({span.id for span in spans}) == 8
    assert all(span.began_ns <= span.ended_ns and not span.failed for span in spans)
    assert {span.service for span in spans} == {"windlass"}
    assert set(collector.paths) == {"/v1/traces"}
    assert request.facts["http.route"] == "/v1/apply"
    assert collector.named("admission").facts["windlass.verdict"] == "admitted"
    assert collector.named("site run").facts["windlass.exit_code"] == 0


def test_errors_name_their_trace_and_logs_do_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="windlass")

    async def story(world: World) -> None:
        with collecting() as collector:
            world.tracer = OtlpTracer(collector.address, goodbye_s=60)
            await world.restart()
            missing = await world.call("GET", "/v1/tiers/none", headers={"traceparent": CALLER})
            assert missing.status == 404
            assert missing.json["traceId"] == TRACE
            refused = await world.apply(intent(JOB, 64), traceparent=CALLER)
            assert refused.status == 422
            assert refused.json["traceId"] == refused.json["decision"]["traceId"] == TRACE
            own = await world.apply(intent("nlp/prod/own"))
            trace = own.json["results"][0]["decision"]["traceId"]
            assert trace not in (None, TRACE)
            await world.settle()
            world.tracer.close()
        lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
        told = {line["message"] for line in lines if line.get("traceId") == trace}
        assert {"component.submitted", "workload.admitted", "workload.running"} <= told

    play(tmp_path, story)


def test_without_tracing_nothing_of_it_is_seen(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        reply = await world.apply(intent(JOB), traceparent=CALLER)
        assert reply.json["results"][0]["decision"]["traceId"] is None
        missing = await world.call("GET", "/v1/tiers/none", headers={"traceparent": CALLER})
        assert "traceId" not in missing.json
        assert world.workload(JOB)["traceparent"] == ""

    play(tmp_path, story)


def test_what_its_caller_does_not_sample_is_carried_and_not_recorded(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        with collecting() as collector:
            world.tracer = OtlpTracer(collector.address, goodbye_s=60)
            await world.restart()
            reply = await world.apply(intent(JOB), traceparent=CALLER[:-2] + "00")
            assert reply.json["results"][0]["decision"]["traceId"] == TRACE
            await world.settle()
            world.tracer.close()
            assert [span for span in collector.spans if span.trace == TRACE] == []

    play(tmp_path, story)


class Stuck(SpanExporter):
    """A collector that never answers in time."""

    def export(self, spans: object) -> SpanExportResult:
        raise TimeoutError("no answer")


def test_a_failing_collector_costs_spans_and_nothing_else(tmp_path: Path) -> None:
    def counted(result: str) -> float:
        return float(SPANS.labels(result)._value.get())

    before = {result: counted(result) for result in ("dropped", "failed", "exported")}

    async def story(world: World) -> None:
        world.tracer = OtlpTracer("http://127.0.0.1:9", exporter=Stuck(), queue=3)
        await world.restart()
        for number in range(8):
            assert (await world.apply(intent(f"nlp/prod/job-{number}"))).status == 200
        await world.settle()
        world.tracer.close()

    play(tmp_path, story)
    after = {result: counted(result) - before[result] for result in before}
    assert after["exported"] == 0
    assert after["dropped"] > 0 and after["failed"] > 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        CALLER + "-more",
    ],
)
def test_what_is_no_traceparent_begins_a_trace_of_its_own(text: str) -> None:
    assert read_traceparent(text) is None
    fresh = OFF.enter(text)
    assert fresh.parent == "" and fresh.sampled and read_traceparent(fresh.header) is not None


def test_a_newer_version_of_the_header_is_read_as_far_as_it_is_known() -> None:
    assert read_traceparent("01" + CALLER[2:] + "-more") == Trace(TRACE, "00f067aa0ba902b7")


def test_the_same_hop_has_the_same_place_in_every_process() -> None:
    above = Trace(TRACE, "00f067aa0ba902b7")
    assert above.child("placed", "wl_1", 1) == above.child("placed", "wl_1", 1)
    assert (
        len({above.child(*hop).span for hop in (("placed", "wl_1", 1), ("placed", "wl_1", 2), ("x",))}) == 3
    )


@pytest.mark.parametrize("bad", ["", "localhost:4318", "ftp://x", "http://user:secret@host:4318"])
def test_an_address_that_cannot_be_used_is_refused_without_being_repeated(bad: str) -> None:
    with pytest.raises(Invalid) as refused:
        traces_endpoint(bad)
    assert "secret" not in str(refused.value)


def test_the_signal_s_path_is_added_once() -> None:
    assert traces_endpoint("http://c:4318/") == "http://c:4318/v1/traces"
    assert traces_endpoint("https://c/otlp/v1/traces") == "https://c/otlp/v1/traces"


def test_a_platform_that_does_not_trace_never_loads_the_sdk() -> None:
    program = "import sys, windlass.platform; print(any(n.startswith('opentelemetry') for n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_off_records_nothing() -> None:
    OFF.record(Span("x", OFF.enter(""), 0, 0, {}))
    OFF.close()
    assert not OFF.on
