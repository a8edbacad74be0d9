"""slo: what an operator reads."""

from __future__ import annotations

from tests.experience.test_commands import Run, run
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer

from windlass.contracts import api

__all__ = ["run"]  # a fixture


def level(name: str, of: str = "", **more: object) -> api.ServiceLevel:
    usual = {
        "promise": "it is kept",
        "target": "95",
        "within": None,
        "measured": "100",
        "budget_left": "100",
        "met": True,
        "good": 4,
        "total": 4,
        "median_s": None,
        "p95_s": None,
    }
    return api.ServiceLevel(name=name, of=of, **{**usual, **more})  # type: ignore[arg-type]


FOUND = api.ServiceLevels(
    window="1d",
    since=samples.AT,
    at=samples.AT,
    levels=[
        level("admission", "gold", within="10m", median_s="0.172", p95_s="601.314"),
        level("explained", total=48_777_383, good=48_777_383),
        level("estimate", measured="0", budget_left="-400", met=False, median_s="35389.182"),
    ],
)


def test_times_are_read_as_times_and_counts_as_counts(server: CannedServer, run: Run) -> None:
    server.answer("GET", "/v1/slo", FOUND)
    code, out, err = run("slo")
    assert code == 0, err
    gold, explained, estimate = (" ".join(line.split()) for line in out.splitlines()[1:])
    assert gold == "admission/gold 95 % 10m 100 % 100 % 4 0.172 s 10 m"
    assert explained.endswith("100 % 100 % 13 h - -")
    assert estimate.endswith("0 % -400 % 4 9 h 50 m -")
    assert err == "not kept over 1d: slo/estimate\n"
