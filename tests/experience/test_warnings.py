"""A warning reaches the person, wherever the component is looked at or applied."""

from __future__ import annotations

from pathlib import Path

from tests.experience.test_apply import COMPONENT, write
from tests.experience.test_commands import Run, run
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer

from windlass.contracts import api

__all__ = ["run"]  # a fixture

WARNING = api.Reason(
    rule="type.deprecated",
    field="spec.type",
    message="the component type old@1.0.0 is deprecated",
    remedy="use new before then",
)
TOLD = "the component type old@1.0.0 is deprecated [type.deprecated]; use new before then"


def test_get_says_a_warning_once_for_all_components_it_is_about(server: CannedServer, run: Run) -> None:
    found = [samples.component(path=f"nlp/prod/c{at}", warnings=[WARNING]) for at in range(7)]
    server.answer("GET", "/v1/components", samples.components(*found))
    code, _, err = run("get", "components")
    assert (code, err.count("warning:")) == (0, 1)
    assert "nlp/prod/c4 and 2 more: spec.type: " + TOLD in err
    server.answer("GET", samples.ROUTE, samples.component(warnings=[WARNING]))
    assert TOLD in run("get", "component", samples.PATH)[2]


def test_describe_and_why_show_warnings(server: CannedServer, run: Run) -> None:
    server.answer("GET", samples.ROUTE, samples.component(warnings=[WARNING]))
    server.answer("GET", f"{samples.ROUTE}/explanation", samples.explanation(warnings=[WARNING]))
    server.answer("GET", f"{samples.ROUTE}/events", api.EventList(items=[]))
    assert run("describe", "component", samples.PATH)[1].count(TOLD) == 1
    assert f"warning: spec.type: {TOLD}" in run("why", samples.PATH)[1]


def test_apply_and_plan_show_warnings_with_their_line(server: CannedServer, run: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "job.yaml", COMPONENT)
    warned = samples.result(decision=samples.decision(warnings=[WARNING]))
    server.answer("POST", "/v1/apply", samples.applied(warned))
    assert f"warning: {file}:5: spec.type: {TOLD}" in run("apply", "-f", file)[2]
    assert f"warning: {file}:5: spec.type: {TOLD}" in run("plan", "-f", file)[1]
