"""coverage: what people read."""

from __future__ import annotations

from tests.experience.test_commands import Run, run
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer

from windlass.contracts import api

__all__ = ["run"]  # a fixture

FOUND = api.Coverage(
    window="7d",
    since=samples.AT,
    at=samples.AT,
    percent="75.00",
    types_gpu_hours="3",
    raw_gpu_hours="1",
    unknown_gpu_hours="2",
    lines=[
        api.CoverageLine(tenant="acme", type="raw", gpu_hours="1"),
        api.CoverageLine(tenant="acme", type=None, gpu_hours="2"),
    ],
)


def test_coverage_prints_a_table_and_the_share(server: CannedServer, run: Run) -> None:
    server.answer("GET", "/v1/coverage", FOUND)
    code, out, err = run("coverage", "--window", "7d", "-t", "acme")
    assert code == 0 and [line.split()[:2] for line in out.splitlines()[1:]] == [
        ["acme", "raw"],
        ["acme", "(not"],
    ]
    assert err == "75.00 % over 7d: 3 GPU-hours through types, 1 through raw\n"
    assert server.asked[0].query == {"window": "7d", "tenant": "acme"}
