"""Every benchmark in quick form, one table: `make bench`.

Each runs in a process of its own, one after the other. Quick means smaller worlds and fewer rounds,
not other code; the README says how to run each in full. The exit code is 1 only when a budget is
missed by more than three times (a regression), or a benchmark failed; less than that may be the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.postgres_binaries import on_this_machine

from benchmarks.measuring import machine
from benchmarks.platforms import ROOT
from benchmarks.reporting import Measure, exit_code, machine_line, table

DATA_VARIABLE = "WINDLASS_OPENB"
_PATIENCE_S = 300


@dataclass(slots=True)
class Findings:
    reports: list[dict[str, Any]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def measures(self) -> list[Measure]:
        return [_measure(one) for report in self.reports for one in report["measures"]]


def quick(data: Path | None) -> list[tuple[str, list[str]]]:
    """Name and arguments, the telling ones first."""
    plan = [
        ("cli", ["--runs", "3"]),
        ("api", ["--queued", "1000", "--submits", "1500", "--reads", "1200"]),
        ("authorization", ["--decisions", "2000"]),
        ("compiling", ["--intents", "400", "--documents", "400"]),
        ("fairness", ["--submits", "200", "--flood", "6000"]),
        ("idle", ["--queued", "10000", "--seconds", "4"]),
        ("cycle", ["--queued", "10000", "--nodes", "1000", "--events", "400"]),
        ("admissions", ["--workloads", "1500"]),
        ("watchers", ["--watchers", "1000", "--per-second", "100", "--seconds", "3"]),
    ]
    if on_this_machine() is not None:
        plan.append(("replicas", ["--submits", "1200", "--reads", "600"]))
        plan.append(("admissions", ["--workloads", "1500", "--store", "postgres"]))
    if data is not None:
        nodes, tasks = data / "openb_node_list_gpu_node.csv", data / "openb_pod_list_default.csv"
        plan.append(("placement", ["--nodes", str(nodes), "--tasks", str(tasks), "--seeds", "42"]))
    return plan


def run_all(data: Path | None) -> Findings:
    findings = Findings()
    if data is None:
        findings.skipped.append(f"placement: say where the OpenB data is, with --data or {DATA_VARIABLE}")
    if on_this_machine() is None:
        findings.skipped.append("replicas, admissions on postgres: there is no PostgreSQL on this machine")
    for name, arguments in quick(data):
        began = time.monotonic()
        print(f"{name} …", end="", file=sys.stderr, flush=True)
        report = _run(name, arguments, findings)
        print(f" {time.monotonic() - began:.0f} s", file=sys.stderr)
        if report is None:
            continue
        if "skipped" in report:
            findings.skipped.append(f"{name}: {report['skipped']}")
        else:
            findings.reports.append(report)
    return findings


def _run(name: str, arguments: list[str], findings: Findings) -> dict[str, Any] | None:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        findings.troubles.append(f"{name} was not done after {_PATIENCE_S} s")
        return None
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        findings.troubles.append(f"{name} failed (exit {done.returncode}):\n{done.stderr.strip()[-2000:]}")
        return None
    return found


def _measure(wire: dict[str, Any]) -> Measure:
    words = {"atLeast": "at_least", "byClock": "by_clock"}
    return Measure(**{words.get(key, key): value for key, value in wire.items() if key != "verdict"})


def arguments() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    made.add_argument(
        "--data",
        type=Path,
        default=os.environ.get(DATA_VARIABLE),
        metavar="DIR",
        help=f"where the OpenB data is; else from {DATA_VARIABLE}; else placement is skipped",
    )
    return made


def main() -> int:
    asked = arguments().parse_args()
    findings = run_all(asked.data)
    if asked.json:
        wire = {"machine": machine(), "benchmarks": findings.reports}
        print(json.dumps({**wire, "skipped": findings.skipped, "troubles": findings.troubles}, indent=2))
    else:
        print(f"{machine_line()}\n")
        print("\n".join(table(findings.measures)))
        for line in findings.skipped:
            print(f"skipped: {line}")
        for line in findings.troubles:
            print(f"FAILED: {line}")
    return 1 if findings.troubles else exit_code(findings.measures)


if __name__ == "__main__":
    raise SystemExit(main())
