"""A real Prometheus scrapes a real platform: what is shipped evaluates, and shows something."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from tests.control.documents import CATALOG, intent
from tests.journeys.platforms import Platform, eventually, platform
from tests.prom.conftest import Programs
from tests.prom.shipped import ALERTS, Expression, alerts, panels

_WINDOW = {"$__rate_interval": "30s", "${datasource}": ""}
_SCRAPES = 5


@dataclass
class Prometheus:
    address: str

    def get(self, path: str, **query: str) -> Any:
        with urlopen(f"{self.address}/api/v1/{path}?{urlencode(query)}", timeout=30) as answer:  # noqa: S310
            return json.load(answer)["data"]

    def ask(self, expression: str) -> list[Any]:
        found: list[Any] = self.get("query", query=expression)["result"]
        return found


@contextmanager
def scraping(programs: Programs, folder: Path, target: str) -> Iterator[Prometheus]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in ALERTS],
        "scrape_configs": [{"job_name": "windlass", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                programs.prometheus,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=log,
        )
    subject = Prometheus(f"http://127.0.0.1:{port}")

    def scraped() -> bool:
        assert process.poll() is None, (folder / "prometheus.log").read_text()
        try:
            found = subject.ask('count_over_time(up{job="windlass"}[1m])')
        except OSError:
            return False
        return bool(found) and float(found[0]["value"][1]) >= _SCRAPES

    try:
        eventually(scraped, "a few scrapes")
        yield subject
    finally:
        process.terminate()
        process.wait(30)


def busy(subject: Platform) -> None:
    """Work that runs, waits, ends and is refused."""
    subject.key = subject.start()
    for document in yaml.safe_load_all(CATALOG):
        status, answer = subject.call("POST", "/v1/apply", document)
        assert status == 200, answer
    submit(subject, "first", 1)


def submit(subject: Platform, name: str, gpus: int) -> None:
    job = intent(f"vision/prod/{name}", gpus, command=["sleep", "60"], timeLimit="10m")
    subject.call("POST", "/v1/apply", job)


@pytest.fixture(scope="module")
def prometheus(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prom")
    with platform(folder) as subject:
        busy(subject)
        with scraping(programs, folder, subject.address) as found:
            for number in range(6):  # so that rates have something to rise by
                submit(subject, f"more-{number}", 1)
                submit(subject, f"refused-{number}", 64)
                subject.call("POST", "/v1/apply", intent(f"vision/prod/quick-{number}", 1, command=["true"]))
            path = "/v1/projects/vision/components/prod/first/actions/cancel"
            assert subject.call("POST", path)[0] == 200
            scrapes = float(found.ask('count_over_time(up{job="windlass"}[5m])')[0]["value"][1])
            posted = "sum(windlass_ledger_transfers_total) > 0 and sum(windlass_agent_workers_running) > 0"
            eventually(lambda: found.ask(posted), "a job that ended and was posted, and one that runs")
            more = f'count_over_time(up{{job="windlass"}}[5m]) >= {scrapes + _SCRAPES}'
            eventually(lambda: found.ask(more), "a few scrapes more")
            yield found


def expression(one: Expression) -> str:
    text = one.text
    for variable, value in _WINDOW.items():
        text = text.replace(variable, value)
    assert "$" not in text, "a variable that the test does not know"
    return text


@pytest.mark.parametrize("one", panels(), ids=lambda one: f"{one.where}: {one.text[:60]}")
def test_a_panel_shows_something(one: Expression, prometheus: Prometheus) -> None:
    assert prometheus.ask(expression(one))


@pytest.mark.parametrize("one", alerts(), ids=lambda one: one.where)
def test_an_alert_evaluates_and_is_silent_on_a_platform_that_is_well(
    one: Expression, prometheus: Prometheus
) -> None:
    assert prometheus.ask(one.text) == []


def test_prometheus_takes_every_rule_and_reaches_the_platform(prometheus: Prometheus) -> None:
    loaded = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in loaded} == {one.where for one in alerts()}
    assert [rule for rule in loaded if rule["health"] == "err"] == []
    [target] = prometheus.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
