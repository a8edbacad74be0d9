"""What is shipped for Prometheus and Grafana: the expressions of alerts and dashboards, and their metrics."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from windlass.runtime import metrics

ROOT = Path(__file__).parents[2]
ALERTS = sorted((ROOT / "deploy" / "alerts").glob("*.yaml"))
DASHBOARDS = sorted((ROOT / "deploy" / "dashboards").glob("*.json"))

_NAME = re.compile(r"\b(?:windlass|process)_[a-z0-9_]+\b|\bup\b")


@dataclass(frozen=True)
class Expression:
    where: str
    text: str

    @property
    def metrics(self) -> set[str]:
        return set(_NAME.findall(self.text))


def rules() -> list[dict[str, Any]]:
    found = [yaml.safe_load(path.read_text()) for path in ALERTS]
    return [rule for one in found for group in one["groups"] for rule in group["rules"]]


def alerts() -> list[Expression]:
    return [Expression(rule["alert"], rule["expr"]) for rule in rules()]


def panels() -> list[Expression]:
    found = []
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            where = f"{path.stem}: {panel['title']}"
            found += [Expression(where, target["expr"]) for target in panel["targets"]]
    return found


def served() -> dict[str, set[str]]:
    """Every series that can be scraped, with the labels it has. `up` is Prometheus's own."""
    found: dict[str, set[str]] = {"up": set()}
    for metric in metrics.REGISTRY.collect():
        labels = {label for sample in metric.samples for label in sample.labels}
        names = {
            "counter": [f"{metric.name}_total"],
            "histogram": [f"{metric.name}{ending}" for ending in ("_bucket", "_sum", "_count")],
        }.get(metric.type, [metric.name])
        found |= dict.fromkeys(names, labels)
    return found
