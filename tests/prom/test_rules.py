"""Prometheus's own judgement of the alerts: they are well formed, fire when they should, and only then."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.prom.conftest import Programs
from tests.prom.shipped import ALERTS, alerts

FILE = str(ALERTS[0])
UP = {"series": 'up{job="windlass", instance="a"}', "values": "1x90"}


def series(name: str, values: str) -> dict[str, str]:
    return {"series": name, "values": values}


CASES: dict[str, tuple[list[dict[str, str]], str, bool]] = {
    "WindlassDown when it does not answer": ([series('up{job="windlass"}', "1x10 0x20")], "15m", True),
    "WindlassDown when nobody scrapes it": ([], "15m", True),
    "WindlassDown not after one missed scrape": ([series('up{job="windlass"}', "1x10 0 1x20")], "15m", False),
    "WindlassDown not while one of two answers": (
        [series('up{job="windlass", instance="b"}', "1x10 0x20"), UP],
        "15m",
        False,
    ),
    "WindlassServerDown when one of two does not answer": (
        [series('up{job="windlass", instance="b"}', "1x10 0x20")],
        "18m",
        True,
    ),
    "WindlassNobodyLeads when all follow": (
        [
            series('windlass_leader{job="windlass", instance="a"}', "1x10 0x20"),
            series('windlass_leader{job="windlass", instance="b"}', "0x30"),
        ],
        "15m",
        True,
    ),
    "WindlassNobodyLeads not when another takes over": (
        [
            series('windlass_leader{job="windlass", instance="a"}', "1x10 0x20"),
            series('windlass_leader{job="windlass", instance="b"}', "0x10 1x20"),
        ],
        "15m",
        False,
    ),
    "WindlassApiErrors at 5 %": (
        [
            series('windlass_http_requests_total{status="2xx"}', "0+95x90"),
            series('windlass_http_requests_total{status="5xx"}', "0+5x90"),
        ],
        "80m",
        True,
    ),
    "WindlassApiErrors not for a burst that is over": (
        [
            series('windlass_http_requests_total{status="2xx"}', "0+95x90"),
            series('windlass_http_requests_total{status="5xx"}', "0+50x5 300x85"),
        ],
        "80m",
        False,
    ),
    "WindlassStoreFailing at the first failure": (
        [series('windlass_store_commits_total{result="failed"}', "0x10 1x20")],
        "12m",
        True,
    ),
    "WindlassStoreFailing not later": (
        [series('windlass_store_commits_total{result="failed"}', "0x10 1x50")],
        "40m",
        False,
    ),
    "WindlassSiteAway when it is silent": (
        [series('windlass_site_heartbeat_timestamp_seconds{site="fra1"}', "0+60x10 600x30")],
        "20m",
        True,
    ),
    "WindlassSiteAway not while it is heard": (
        [series('windlass_site_heartbeat_timestamp_seconds{site="fra1"}', "0+60x40")],
        "20m",
        False,
    ),
    "WindlassSiteAway not while another server hears it": (
        [
            series('windlass_site_heartbeat_timestamp_seconds{site="fra1", instance="a"}', "0+60x5 300x30"),
            series('windlass_site_heartbeat_timestamp_seconds{site="fra1", instance="b"}', "0+60x40"),
        ],
        "20m",
        False,
    ),
    "WindlassLedgerUnchecked not because an agent has none to check": (
        [
            series('windlass_ledger_check_timestamp_seconds{instance="a"}', "0+60x300"),
            series('windlass_ledger_check_timestamp_seconds{instance="agent"}', "0x300"),
        ],
        "280m",
        False,
    ),
    "WindlassLedgerUnbalanced by less than nothing": (
        [series('windlass_ledger_imbalance_micros{currency="USD"}', "0x5 -1x10")],
        "8m",
        True,
    ),
    "WindlassLedgerUnbalanced by one": (
        [series('windlass_ledger_imbalance_micros{currency="USD"}', "0x5 1x10")],
        "8m",
        True,
    ),
    "WindlassLedgerUnbalanced not at zero": (
        [series('windlass_ledger_imbalance_micros{currency="USD"}', "0x20")],
        "8m",
        False,
    ),
    "WindlassStartsSlow when a fifth takes longer than a minute": (
        [
            series('windlass_start_seconds_bucket{le="60.0"}', "0+8x120"),
            series("windlass_start_seconds_count", "0+10x120"),
        ],
        "110m",
        True,
    ),
    "WindlassLoginsInDanger when a provider's keys cannot be read": (
        [series('windlass_identity_key_fetches_total{result="failed"}', "0+1x90")],
        "80m",
        True,
    ),
    "WindlassLoginsInDanger not while some are": (
        [
            series('windlass_identity_key_fetches_total{result="failed"}', "0+1x90"),
            series('windlass_identity_key_fetches_total{result="read"}', "0+1x90"),
        ],
        "80m",
        False,
    ),
    "WindlassWorkWaitsForItsSite after a quarter of an hour": (
        [series('windlass_workloads_waiting{cause="site", gpu_class="h100-80g"}', "3x40")],
        "30m",
        True,
    ),
}


def test_the_rules_are_well_formed(programs: Programs) -> None:
    done = subprocess.run(
        [programs.promtool, "check", "rules", *map(str, ALERTS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(alerts())} rules found" in done.stdout


@pytest.mark.parametrize("case", CASES)
def test_it_fires(case: str, programs: Programs, tmp_path: Path) -> None:
    given, at, fires = CASES[case]
    alert = case.partition(" ")[0]
    inputs = given if alert == "WindlassDown" else [*given, UP]
    query = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'
    expected: list[dict[str, Any]] = [{"labels": "{}", "value": 1}] if fires else []
    test = {
        "rule_files": [FILE],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": inputs,
                "promql_expr_test": [{"expr": query, "eval_time": at, "exp_samples": expected}],
            }
        ],
    }
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump(test))
    done = subprocess.run(
        [programs.promtool, "test", "rules", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
