"""One trace through a real platform that is killed while its job runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.control.collector import collecting
from tests.control.documents import CATALOG, intent
from tests.journeys.platforms import eventually, platform

JOB = "vision/prod/job"
PATH = "/v1/projects/vision/components/prod/job"


@pytest.mark.slow
def test_a_job_that_outlives_its_platform_is_one_trace(tmp_path: Path) -> None:
    done = tmp_path / "done"
    waits = ["sh", "-c", f"while [ ! -e {done} ]; do sleep 0.05; done"]
    with collecting() as collector, platform(tmp_path) as subject:
        subject.otlp = collector.address
        subject.key = subject.start()
        for document in yaml.safe_load_all(CATALOG):
            assert subject.call("POST", "/v1/apply", document)[0] == 200
        status, answer = subject.call("POST", "/v1/apply", intent(JOB, 1, command=waits, timeLimit="10m"))
        assert status == 200, answer
        trace = answer["results"][0]["decision"]["traceId"]

        def told() -> set[str]:
            return {span.name for span in collector.spans if span.trace == trace}

        eventually(lambda: "site running" in told(), "the site's word that it runs")
        subject.kill()
        subject.key = subject.start()
        done.touch()
        eventually(lambda: "ledger posting" in told(), "its bill")
        assert subject.get(PATH)["status"]["traceId"] == trace
        assert subject.stop() == 0
    spans = {span.name: span for span in collector.spans if span.trace == trace}
    request, cycle = spans["POST /v1/apply"], spans["scheduler cycle"]
    assert {name: span.parent for name, span in spans.items()} == {
        "POST /v1/apply": "",
        "admission": request.id,
        "store commit": request.id,
        "scheduler cycle": request.id,
        "site start": cycle.id,
        "site running": cycle.id,
        "site run": cycle.id,
        "ledger posting": cycle.id,
    }
    assert spans["site run"].facts["windlass.exit_code"] == 0
    assert spans["site run"].ended_ns > spans["site running"].ended_ns
