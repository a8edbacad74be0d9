"""Measures against their budgets, as a table for people or JSON for programs.

A budget missed is news, not yet a failure: machines differ and are busy. Missing one by more than
`REGRESSION` times is a failure, and the exit code says so.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field
from typing import Literal

from benchmarks.measuring import machine

REGRESSION = 3.0

Verdict = Literal["ok", "over", "regression", "-"]


@dataclass(frozen=True, slots=True)
class Measure:
    """One number. `budget` is the most it may be, or the least where `at_least` is set. What is taken
    `by_clock` (latencies, rates) says as much of whatever else runs as of us: it is never a failure."""

    key: str
    what: str
    value: float
    unit: str
    budget: float | None = None
    at_least: bool = False
    by_clock: bool = False

    @property
    def verdict(self) -> Verdict:
        if self.budget is None:
            return "-"
        times = self.budget / max(self.value, 1e-9) if self.at_least else self.value / self.budget
        return "ok" if times <= 1 else "over" if self.by_clock or times <= REGRESSION else "regression"

    def wire(self) -> dict[str, object]:
        words = {"at_least": "atLeast", "by_clock": "byClock"}
        named = {words.get(key, key): value for key, value in asdict(self).items()}
        return {**named, "value": round(self.value, 4), "verdict": self.verdict}


@dataclass(slots=True)
class Report:
    """What one benchmark found. `extra` goes beside the rest at the top of the JSON."""

    benchmark: str
    settings: dict[str, object]
    measures: list[Measure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    extra: dict[str, object] = field(default_factory=dict)

    def add(
        self,
        key: str,
        what: str,
        value: float,
        unit: str,
        budget: float | None = None,
        *,
        at_least: bool = False,
        by_clock: bool = False,
    ) -> None:
        self.measures.append(Measure(key, what, value, unit, budget, at_least, by_clock))

    def wire(self) -> dict[str, object]:
        return {
            "benchmark": self.benchmark,
            "machine": machine(),
            "settings": self.settings,
            "results": {measure.key: round(measure.value, 4) for measure in self.measures},
            "measures": [measure.wire() for measure in self.measures],
            "notes": self.notes,
            **self.extra,
        }

    def tell(self, *, as_json: bool) -> int:
        """Print it, and give the exit code."""
        if as_json:
            print(json.dumps(self.wire(), indent=2))
        else:
            settings = ", ".join(f"{key} {value}" for key, value in self.settings.items())
            print(f"{self.benchmark}: {settings}\n{machine_line()}\n")
            print("\n".join(table(self.measures)))
            for note in self.notes:
                print(f"note: {note}")
        return exit_code(self.measures)


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    return made


def exit_code(measures: list[Measure]) -> int:
    return 1 if any(measure.verdict == "regression" for measure in measures) else 0


def machine_line() -> str:
    facts = machine()
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def table(measures: list[Measure]) -> list[str]:
    rows = [("what", "measured", "budget", "")]
    for measure in measures:
        budget = "-"
        if measure.budget is not None:
            budget = f"{'>= ' if measure.at_least else ''}{number(measure.budget)} {measure.unit}"
        rows.append((measure.what, f"{number(measure.value)} {measure.unit}", budget, measure.verdict))
    width = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        f"{what:<{width[0]}}  {measured:>{width[1]}}  {budget:>{width[2]}}  {verdict}".rstrip()
        for what, measured, budget, verdict in rows
    ]


def number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
