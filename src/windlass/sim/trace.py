"""Worlds from files: a scenario for the fleet, the quotas and what runs, and a CSV of arrivals.

Columns of a trace: `name, queue, class, submitted, duration`, and where they differ from a scenario's
defaults `workers, minWorkers, gpus, migProfile, units, cpuMilli, memoryMib, priority, expectedDuration,
preemptible, preempts, minRuntime, sites`. Times are seconds. Each line is read as a workload of a
scenario, so what is wrong is told in the same words.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from typing import Any

from windlass.core.errors import Invalid, Reason
from windlass.core.scheduling.model import Running, Waiting
from windlass.core.scheduling.scenario import Scenario, parse_scenario
from windlass.core.scheduling.state import ASSUMED_DURATION
from windlass.core.units import Ms
from windlass.sim.world import Arrival, World

_REQUIRED = ("name", "queue", "class", "submitted", "duration")
_WHOLE = ("workers", "minWorkers", "units", "cpuMilli", "memoryMib", "priority")
_TEXT = ("name", "queue", "class", "gpus", "migProfile")
_SECONDS = ("submitted", "expectedDuration", "minRuntime")
_FLAGS = ("preemptible", "preempts")
_KNOWN = {*_REQUIRED, *_WHOLE, *_TEXT, *_SECONDS, *_FLAGS, "sites"}


def described(scenario: Scenario, *, hours: float) -> World:
    """The scenario's own work: what runs ends when it said, what waits comes when it was submitted."""
    until = Ms(scenario.now + round(hours * 3_600_000))
    arrivals = [_arrival(workload, _duration(workload)) for workload in scenario.waiting]
    return _world(scenario, arrivals, until)


def traced(scenario: Scenario, arrivals: list[Arrival], *, hours: float | None) -> World:
    """The scenario's fleet, and the work of a trace beside its own."""
    last = max((arrival.at for arrival in arrivals), default=scenario.now)
    until = Ms(last + 1) if hours is None else Ms(scenario.now + round(hours * 3_600_000))
    own = [_arrival(workload, _duration(workload)) for workload in scenario.waiting]
    return _world(scenario, own + arrivals, until)


def read_trace(text: str, scenario: Scenario) -> list[Arrival]:
    """Raises Invalid with a reason for everything that is wrong."""
    rows = list(csv.DictReader(text.splitlines()))
    reasons: list[Reason] = []
    columns = set(rows[0]) if rows else set()
    for name in sorted(set(_REQUIRED) - columns if rows else set(_REQUIRED)):
        reasons.append(Reason("document.invalid", f"the trace has no column {name}", line=1))
    for name in sorted(str(column) for column in columns - _KNOWN):
        reasons.append(Reason("document.invalid", f"the trace has an unknown column {name}", line=1))
    if reasons:
        raise Invalid("the trace is not valid", reasons=reasons)
    works, durations = [], []
    for line, row in enumerate(rows, start=2):
        try:
            works.append(_workload(row))
            durations.append(_milliseconds(row["duration"]))
        except (ValueError, TypeError) as error:
            reasons.append(Reason("document.invalid", f"line {line}: {error}", line=line))
    if reasons:
        raise Invalid("the trace is not valid", reasons=reasons)
    waiting = _parsed(works, scenario)
    return [_arrival(one, duration) for one, duration in zip(waiting, durations, strict=True)]


def _parsed(works: list[dict[str, Any]], scenario: Scenario) -> tuple[Waiting, ...]:
    parents = {quota.name: {"parent": quota.parent} if quota.parent else {} for quota in scenario.quotas}
    classes = {node.gpu_class for node in scenario.nodes}
    classes |= {gpu_class for quota in scenario.quotas for gpu_class in quota.limits}
    beside = {
        "now": 0,
        "nodes": [{"name": f"any {name}", "class": name, "gpus": 1} for name in sorted(classes)],
        "quotas": [{"name": name, **parent} for name, parent in parents.items()],
    }
    try:
        return parse_scenario(json.dumps({**beside, "workloads": works})).waiting
    except Invalid as error:
        raise Invalid(
            "the trace is not valid", reasons=[_at_its_line(one) for one in error.reasons]
        ) from None


def _at_its_line(reason: Reason) -> Reason:
    found = re.match(r"workloads\[([0-9]+)\]\.?", reason.message)
    if found is None:
        return reason
    line = int(found[1]) + 2
    return replace(reason, line=line, message=f"line {line}: {reason.message[found.end() :]}", field="")


def _workload(row: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {name: row[name] for name in _TEXT if row.get(name)}
    found |= {name: int(row[name]) for name in _WHOLE if row.get(name)}
    found |= {name: float(row[name]) for name in _SECONDS if row.get(name)}
    for name in _FLAGS:
        if row.get(name):
            if row[name] not in ("true", "false"):
                raise ValueError(f"{name} is true or false, not {row[name]}")
            found[name] = row[name] == "true"
    if row.get("sites"):
        found["sites"] = row["sites"].split("|")
    return found


def _milliseconds(text: str) -> Ms:
    seconds = float(text)
    if not 0 <= seconds < 10**9:
        raise ValueError(f"a duration is a number of seconds, not {text}")
    return Ms(round(seconds * 1000))


def _arrival(workload: Waiting, duration: Ms) -> Arrival:
    return Arrival(workload.id, workload.submitted, workload.shape, duration)


def _duration(workload: Waiting | Running) -> Ms:
    return ASSUMED_DURATION if workload.shape.expected is None else workload.shape.expected


def _world(scenario: Scenario, arrivals: list[Arrival], until: Ms) -> World:
    running = tuple((work, max(scenario.now, Ms(work.since + _duration(work)))) for work in scenario.running)
    return World(
        scenario.nodes,
        scenario.quotas,
        tuple(
            sorted((replace(one, at=max(one.at, scenario.now)) for one in arrivals), key=lambda one: one.at)
        ),
        until,
        scenario.options,
        running,
        scenario.now,
    )
