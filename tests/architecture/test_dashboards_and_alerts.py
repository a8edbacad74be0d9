"""Dashboards and alerts name only what the platform measures, and every alert says what to do.
`make test-prom` evaluates them in a real Prometheus."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.prom.shipped import ALERTS, DASHBOARDS, Expression, alerts, panels, rules, served

from windlass.experience.cli.main import COMMANDS
from windlass.runtime import metrics

SEVERITIES = {"page", "ticket", "info"}
SAID_BY_ALL = {
    "windlass_site_heartbeat_timestamp_seconds",
    "windlass_ledger_check_timestamp_seconds",
    "windlass_ledger_imbalance_micros",
    "windlass_catalog_revision",
}


@pytest.mark.parametrize("one", [*alerts(), *panels()], ids=lambda one: one.where)
def test_every_metric_that_is_named_is_measured(one: Expression) -> None:
    assert one.metrics, "an expression without a metric of ours"
    assert one.metrics <= set(served())


def test_every_metric_of_ours_is_on_a_dashboard_or_in_an_alert() -> None:
    used = {name for one in (*alerts(), *panels()) for name in one.metrics}
    bases = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    ours = {re.sub(r"_(bucket|sum|count)$", "", name) for name in served() if name.startswith("windlass_")}
    assert ours - bases == set()


@pytest.mark.parametrize("one", [*alerts(), *panels()], ids=lambda one: one.where)
def test_what_every_server_tells_is_not_counted_once_for_each(one: Expression) -> None:
    """The newest, or the worst, of what several processes say of the same thing."""
    for name in one.metrics & SAID_BY_ALL:
        assert re.search(rf"max(?: by \(\w+\))? \(?\(?(?:abs\()?{name}|max\((?:abs\()?{name}", one.text), (
            one.text
        )


def test_a_single_number_says_whether_it_is_good() -> None:
    """By its colour, or it is one of which no number is bad."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            if panel["type"] == "stat" and panel["options"]["colorMode"] != "none":
                assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"], panel["title"]
            assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]


def test_every_alert_has_a_severity_a_summary_and_a_runbook() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in SEVERITIES, rule["alert"]
        assert rule["annotations"]["summary"]
        assert len(rule["annotations"]["runbook"]) > 80, f"{rule['alert']}: say what to do"
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) and ALERTS


def test_a_runbook_types_only_commands_that_exist() -> None:
    typed = {
        word for rule in rules() for word in re.findall(r"`windlass ([a-z]+)", rule["annotations"]["runbook"])
    }
    assert typed and typed <= set(COMMANDS)


def test_dashboards_are_found_by_their_ids_and_their_panels_too() -> None:
    boards = [json.loads(path.read_text()) for path in DASHBOARDS]
    assert len({board["uid"] for board in boards}) == len(boards) >= 2
    for board in boards:
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids)


def test_names_carry_their_units_and_labels_are_bounded() -> None:
    """A label is a route pattern, a code, or the name of a platform document; nobody's own names."""
    bounded = {
        "method",
        "route",
        "status",
        "verdict",
        "rule",
        "result",
        "gpu_class",
        "cause",
        "reason",
        "tier",
    }
    bounded |= {"site", "currency", "version", "limit", "type"}
    units = ("_total", "_seconds", "_micros", "_units", "_info")
    counted = (
        "_in_flight",
        "_watchers",
        "_revision",
        "_waiting",
        "_holding",
        "_promises",
        "_gpus",
        "_free",
        "_leader",
    )
    for metric in metrics.REGISTRY.collect():
        if not metric.name.startswith("windlass_"):
            continue
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        assert name.endswith((*units, *counted, "_running")), name
    labels = {label for found in vars(metrics).values() for label in getattr(found, "_labelnames", ())}
    assert labels <= bounded
