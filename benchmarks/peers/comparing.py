"""The same work for Windlass and a peer, in turns (ours, theirs, ours, theirs), in the same minutes.

CPU is that of all of a server's processes, memory too; of several rounds the best is shown, for either
side. While one side works the other is at rest, and at rest both are watched during the same seconds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from benchmarks.cli import child_cpu_s
from benchmarks.clients import Found
from benchmarks.measuring import machine
from benchmarks.peers import dstack, skypilot
from benchmarks.peers.sides import Side, Work, ours
from benchmarks.reporting import machine_line, number

PEERS: dict[str, Callable[[], AbstractContextManager[Side]]] = {
    "dstack": dstack.running,
    "skypilot": skypilot.running,
}
_WARM = 5


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each; `burst` has one number for us and one for the peer, so that each takes seconds."""

    queued: int = 200
    rounds: int = 3
    submits: int = 25
    reads: int = 60
    lists: int = 8
    bursts: int = 2
    burst: int = 640
    peer_burst: int = 32
    clients: int = 16
    seconds: float = 6.0
    runs: int = 3


@dataclass(frozen=True, slots=True)
class Line:
    """One thing measured on both sides; None where a side has no equivalent."""

    key: str
    what: str
    unit: str
    windlass: float
    peer: float | None
    more_is_better: bool = False

    @property
    def times(self) -> float | None:
        """How many times better Windlass is; below 1 the peer is."""
        if self.peer is None:
            return None
        better, worse = (self.windlass, self.peer) if self.more_is_better else (self.peer, self.windlass)
        return better / max(worse, 1e-9)

    def wire(self) -> dict[str, object]:
        return {
            "key": self.key,
            "what": self.what,
            "unit": self.unit,
            "windlass": _rounded(self.windlass),
            "peer": None if self.peer is None else _rounded(self.peer),
            "moreIsBetter": self.more_is_better,
        }


@dataclass(slots=True)
class Comparison:
    peer: str
    version: str
    windlass_version: str
    sizes: Sizes
    calls: dict[str, dict[str, str]]
    gaps: dict[str, str]
    remarks: list[str]
    load: float
    lines: list[Line] = field(default_factory=list)

    def add(self, key: str, what: str, unit: str, found: list[float | None], *, more: bool = False) -> None:
        mine, theirs = found
        assert mine is not None
        self.lines.append(Line(key, what, unit, mine, theirs, more))

    def wire(self) -> dict[str, object]:
        return {
            "benchmark": "api",
            "peer": self.peer,
            "versions": {"windlass": self.windlass_version, self.peer: self.version},
            "machine": machine(),
            "loadBefore": self.load,
            "settings": {name: getattr(self.sizes, name) for name in Sizes.__slots__},
            "lines": [line.wire() for line in self.lines],
            "calls": self.calls,
            "gaps": self.gaps,
            "remarks": self.remarks,
        }

    def tell(self, *, as_json: bool) -> int:
        if as_json:
            print(json.dumps(self.wire(), indent=2))
            return 0
        print(f"windlass {self.windlass_version} and {self.peer} {self.version}\n{machine_line()}\n")
        rows = [("what", "windlass", self.peer, "times")]
        for line in self.lines:
            theirs = "-" if line.peer is None else f"{number(line.peer)} {line.unit}"
            times = "" if line.times is None else f"{number(line.times)}"
            rows.append((line.what, f"{number(line.windlass)} {line.unit}", theirs, times))
        width = [max(len(row[column]) for row in rows) for column in range(4)]
        for what, mine, theirs, times in rows:
            print(f"{what:<{width[0]}}  {mine:>{width[1]}}  {theirs:>{width[2]}}  {times:>{width[3]}}")
        for side, calls in self.calls.items():
            print(f"\n{side}: " + "; ".join(f"{key} is {call}" for key, call in calls.items()))
        for key, why in self.gaps.items():
            print(f"-: {self.peer} has no {key}: {why}")
        for remark in self.remarks:
            print(f"note: {remark}")
        return 0


def compare(peer: str, sizes: Sizes) -> Comparison:
    """At rest while empty; then one request after the other, as lean as a side can be; then, as a whole
    again, at rest with work that waits, and many clients at once; at last the command lines."""
    with PEERS[peer]() as theirs, ours() as mine:
        sides: list[Side] = [mine, theirs]
        calls = {side.name: side.calls for side in sides}
        versions = (theirs.version, mine.version)
        found = Comparison(peer, *versions, sizes, calls, theirs.gaps, theirs.remarks, load=_load())
        _rest(found, sides, sizes, "empty", "empty")
        for side in sides:
            side.lean()
        _submits(found, sides, sizes)
        _fill(sides, sizes)
        _reads(found, sides, sizes)
        for side in sides:
            side.whole()
        queueing = [side if side.can_queue else None for side in sides]
        _rest(found, queueing, sizes, "queued", f"{sizes.queued} queued")
        _burst(found, queueing, sizes)
        _commands(found, sides, sizes)
    return found


def _rest(found: Comparison, sides: Sequence[Side | None], sizes: Sizes, key: str, what: str) -> None:
    """All sides during the same seconds."""
    before = [None if side is None else side.cpu_s() for side in sides]
    began = time.perf_counter()
    time.sleep(sizes.seconds)
    after = [None if side is None else side.cpu_s() for side in sides]
    wall = time.perf_counter() - began
    shares = [
        None if first is None or last is None else (last - first) / wall * 100
        for first, last in zip(before, after, strict=True)
    ]
    found.add(f"{key}CpuPercent", f"at rest, {what}: CPU, of one core", "%", shares)
    memory = [None if side is None else side.memory_mb() for side in sides]
    found.add(f"{key}MemoryMb", f"at rest, {what}: memory", "MB", memory)


def _submits(found: Comparison, sides: Sequence[Side], sizes: Sizes) -> None:
    costs: list[float | None] = [None, None]
    answers: list[float | None] = [None, None]
    for side in sides:
        if side.can_queue:
            _send(side, "submit", "warm", _WARM)
    for round_ in range(sizes.rounds):
        for index, side in enumerate(sides):
            if side.can_queue:
                cost_ms, seen = _send(side, "submit", f"one{round_}", sizes.submits)
                costs[index] = _least(costs[index], cost_ms)
                answers[index] = _least(answers[index], seen.median_s * 1e3)
    found.add("submitCpuMs", "submit: server CPU", "ms", costs)
    found.add("submitMedianMs", "submit: median answer", "ms", answers)


def _fill(sides: Sequence[Side], sizes: Sizes) -> None:
    missing = sizes.queued - _WARM - sizes.rounds * sizes.submits
    for side in sides:
        if side.can_queue and missing > 0:
            _send(side, "submit", "fill", missing)


def _reads(found: Comparison, sides: Sequence[Side], sizes: Sizes) -> None:
    works: tuple[tuple[Work, str, int], ...] = (
        ("read", "read one", sizes.reads),
        ("list", "list of 100", sizes.lists),
    )
    for work, what, count in works:
        costs: list[float | None] = [None, None]
        answers: list[float | None] = [None, None]
        for side in sides:
            _send(side, work, "warm", _WARM)
        for _ in range(sizes.rounds):
            for index, side in enumerate(sides):
                cost_ms, seen = _send(side, work, "warm", count)
                costs[index] = _least(costs[index], cost_ms)
                answers[index] = _least(answers[index], seen.median_s * 1e3)
        found.add(f"{work}CpuMs", f"{what}: server CPU", "ms", costs)
        found.add(f"{work}MedianMs", f"{what}: median answer", "ms", answers)


def _burst(found: Comparison, sides: Sequence[Side | None], sizes: Sizes) -> None:
    rates: list[float | None] = [None, None]
    costs: list[float | None] = [None, None]
    for round_ in range(sizes.bursts):
        for index, side in enumerate(sides):
            if side is not None:
                count = sizes.burst if index == 0 else sizes.peer_burst
                cost_ms, seen = _send(side, "submit", f"many{round_}", count, sizes.clients)
                rates[index] = max(rates[index] or 0.0, count / seen.seconds)
                costs[index] = _least(costs[index], cost_ms)
    who = f"submit, {sizes.clients} clients, {sizes.queued} queued"
    found.add("burstPerSecond", f"{who}: rate", "/s", rates, more=True)
    found.add("burstCpuMs", f"{who}: server CPU, background included", "ms", costs)


def _commands(found: Comparison, sides: Sequence[Side], sizes: Sizes) -> None:
    """The first run of each warms the file cache and leaves bytecode behind."""
    for which, what in (("help", "command line, help"), ("show", "command line, list")):
        best: list[float | None] = [None, None]
        for _ in range(sizes.runs + 1):
            for index, side in enumerate(sides):
                command, environ = side.command(which)
                best[index] = _least(best[index], child_cpu_s(command, environ))
        found.add(f"{which}CpuS", f"{what}: client CPU", "s", best)


def _send(side: Side, work: Work, prefix: str, count: int, clients: int = 1) -> tuple[float, Found]:
    """Server CPU milliseconds per request, and what the clients saw."""
    order = side.order(work, prefix, count, clients)
    before = side.cpu_s()
    seen = side.drive(order)
    side.settle()
    spent_s = side.cpu_s() - before
    assert seen.statuses == {"200": count}, f"{side.name}, {work}: {seen.statuses} {seen.kept[-1:]}"
    return spent_s * 1e3 / count, seen


def _least(best: float | None, found: float) -> float:
    return found if best is None else min(best, found)


def _load() -> float:
    return round(os.getloadavg()[0], 2)


def _rounded(value: float) -> float:
    """Four digits that matter: more would be noise in a file that is kept."""
    return float(f"{value:.4g}")
