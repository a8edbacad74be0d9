"""What a run was like: how full the fleet was, how long who waited, who had what, who had to leave.

Everything is integers of milliseconds and thousandths until it is told; the same run tells the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windlass.core.scheduling.model import Estimate, Placement, Preempt, Running, Shape
from windlass.core.scheduling.state import State
from windlass.core.units import GPU, HOUR_MS, Ms
from windlass.sim.world import Arrival, World, tier_of

POINTS = 288
"""Of the curves: every five minutes of a day."""


@dataclass(frozen=True, slots=True)
class _Told:
    at: Ms
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class _Error:
    """How far an estimate was off, and whether the start was inside what it said."""

    off: int
    inside: bool


@dataclass(frozen=True, slots=True)
class _Hold:
    queue: str
    amount: int
    since: Ms


class Measures:
    """Amounts are thousandths of a GPU; what was used is those times milliseconds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.capacity = sum(node.gpus for node in world.nodes if node.state == "ready") * GPU
        self.waits = 0  # how often something had to wait
        self.finished = 0
        self.waited: dict[str, list[int]] = {}  # until the first start, by tier
        self.preemptions: dict[str, int] = {}  # by reason
        self.lost = 0  # used, and then thrown away
        self.used_by_queue: dict[str, int] = {}
        self.started_at_site: dict[str, int] = {}
        self.errors: list[_Error] = []
        self.curve: list[tuple[Ms, int, int, int]] = []  # when, busy, how many wait and run
        self._sites = {node.name: node.site for node in world.nodes}
        self._held: dict[str, _Hold] = {}
        self._busy = 0
        self._not_started: dict[str, Arrival] = {}
        self._told: dict[str, _Told] = {}

    # --- what happens ---

    def was_running(self, work: Running) -> None:
        self._hold(work.id, work.shape, work.placement, self.world.since)

    def arrived(self, arrival: Arrival) -> None:
        self._not_started[arrival.id] = arrival

    def started(self, arrival: Arrival, placement: Placement, now: Ms) -> None:
        first = self._not_started.pop(arrival.id, None)
        if first is not None:
            self.waited.setdefault(tier_of(arrival.shape), []).append(now - first.at)
        told = self._told.pop(arrival.id, None)
        if told is not None:
            inside = told.estimate.low <= now <= told.estimate.high
            self.errors.append(_Error(abs(now - told.estimate.starts), inside))
        for worker in placement.workers:
            site = self._sites[worker.node]
            self.started_at_site[site] = self.started_at_site.get(site, 0) + arrival.shape.gpus
        self._hold(arrival.id, arrival.shape, placement, now)

    def grew(self, arrival: Arrival, placement: Placement, now: Ms) -> None:
        self._let_go(arrival.id, now)
        self._hold(arrival.id, arrival.shape, placement, now)

    def ended(self, id: str, now: Ms) -> None:
        self.finished += 1
        self._let_go(id, now)

    def left(self, id: str, now: Ms) -> None:
        self._let_go(id, now)

    def preempted(self, preempt: Preempt, victim: Arrival, lost: int) -> None:
        """`lost` is milliseconds of one worker."""
        self.preemptions[preempt.reason] = self.preemptions.get(preempt.reason, 0) + 1
        self.lost += lost * victim.shape.gpus

    def told(self, id: str, estimate: Estimate, now: Ms) -> None:
        self._told[id] = _Told(now, estimate)

    def look(self, state: State, now: Ms) -> None:
        """After each cycle: a point of the curves, if it is time for one."""
        every = max(1, (self.world.until - self.world.since) // POINTS)
        if not self.curve or now - self.curve[-1][0] >= every:
            self._point(state, now)

    def close(self, state: State, until: Ms) -> None:
        """The end of the time that is simulated, with whatever still runs and waits."""
        self._point(state, until)
        for id in list(self._held):
            self._let_go(id, until)

    def _point(self, state: State, now: Ms) -> None:
        self.curve.append((now, self._busy, len(state.lines.waiting), len(self._held)))

    def _hold(self, id: str, shape: Shape, placement: Placement, now: Ms) -> None:
        held = self._held[id] = _Hold(shape.queue, shape.gpus * len(placement.workers), now)
        self._busy += held.amount

    def _let_go(self, id: str, now: Ms) -> None:
        held = self._held.pop(id)
        self._busy -= held.amount
        used = held.amount * (now - held.since)
        self.used_by_queue[held.queue] = self.used_by_queue.get(held.queue, 0) + used

    # --- what is told ---

    def report(self) -> dict[str, Any]:
        world = self.world
        length = max(1, world.until - world.since)
        return {
            "world": {
                "origin": world.origin,
                "nodes": len(world.nodes),
                "gpus": self.capacity / GPU,
                "hours": round(length / HOUR_MS, 3),
                "arrivals": len(world.arrivals),
                **world.facts,
            },
            "utilisation": _part(sum(self.used_by_queue.values()), self.capacity * length),
            "started": sum(len(waits) for waits in self.waited.values()),
            "finished": self.finished,
            "neverStarted": len(self._not_started),
            "waitSeconds": {tier: _waits(self.waited[tier]) for tier in sorted(self.waited)},
            "fairness": self._fairness(),
            "preemptions": {
                "byReason": dict(sorted(self.preemptions.items())),
                "lostGpuHours": round(self.lost / GPU / HOUR_MS, 3),
            },
            "estimates": self._scored(),
            "startedGpusBySite": {
                site: amount / GPU for site, amount in sorted(self.started_at_site.items())
            },
            "curve": [
                {
                    "seconds": (when - world.since) / 1000,
                    "utilisation": _part(busy, self.capacity),
                    "waiting": waiting,
                    "running": running,
                }
                for when, busy, waiting, running in self.curve
            ],
        }

    def _fairness(self) -> dict[str, Any]:
        """Jain's index over what each queue had for what it is guaranteed: 1 is the same for all."""
        guaranteed = {
            quota.name: sum(limit.guaranteed for limit in quota.limits.values())
            for quota in self.world.quotas
        }
        queues = {}
        ratios = []
        total = max(1, sum(self.used_by_queue.values()))
        for queue, used in sorted(self.used_by_queue.items()):
            mine = guaranteed.get(queue, 0)
            queues[queue] = {"gpuHours": round(used / GPU / HOUR_MS, 3), "share": _part(used, total)}
            if mine:
                ratios.append(used / mine)
        squares = sum(ratio * ratio for ratio in ratios)
        index = sum(ratios) ** 2 / (len(ratios) * squares) if squares else None
        return {"index": None if index is None else round(index, 4), "queues": queues}

    def _scored(self) -> dict[str, Any]:
        if not self.errors:
            return {"scored": 0, "inside": None, "medianErrorSeconds": None, "open": len(self._told)}
        off = sorted(error.off for error in self.errors)
        return {
            "scored": len(self.errors),
            "inside": _part(sum(error.inside for error in self.errors), len(self.errors)),
            "medianErrorSeconds": off[len(off) // 2] / 1000,
            "open": len(self._told),
        }


def _waits(waits: Sequence[int]) -> dict[str, float]:
    ordered = sorted(waits)

    def at(part: float) -> float:
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] / 1000

    mean = round(sum(ordered) / len(ordered) / 1000, 3)
    return {"count": len(ordered), "mean": mean, "p50": at(0.5), "p90": at(0.9), "p99": at(0.99)}


def _part(amount: int, of: int) -> float:
    return round(amount / of, 4) if of else 0.0
