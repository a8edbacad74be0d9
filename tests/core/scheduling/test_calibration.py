"""Estimates, scored against what happened on simulated traces: nine of ten starts inside the interval."""

from __future__ import annotations

import heapq
from random import Random

import pytest
from tests.core.scheduling.worlds import World, node, quota, shape

from windlass.core.scheduling.calibration import ENOUGH, FEW, FIRST_GUESS, KEPT, Calibration, Scores
from windlass.core.scheduling.engine import foretell
from windlass.core.scheduling.model import Estimate, Options
from windlass.core.units import Ms


class Trace:
    """Work of many sizes on 64 GPUs; it runs for a part of the time it states, if it states any."""

    def __init__(self, seed: int, *, shortest: float, stated: float, load: float) -> None:
        fleet = tuple(node(f"n{i}") for i in range(8))
        quotas = (quota("org"), *(quota(f"q{i}", "org", 16) for i in range(4)))
        self.world = World(fleet, quotas, Options(preemption=False))
        self.chance = Random(seed)
        self.shortest, self.stated = shortest, stated
        self.gap = 60 * 60 * 2.6 / 64 / load  # 2.6 GPUs for about an hour are the mean
        self.runs: dict[str, int] = {}
        self.ends: list[tuple[int, str]] = []
        self.told: dict[str, Estimate] = {}
        self.inside: list[bool] = []

    def play(self, arrivals: int) -> None:
        at = 0.0
        for number in range(arrivals):
            at += self.chance.expovariate(1 / self.gap)
            self.until(int(at))
            self.arrive(f"w{number}")
        self.until(10**9)

    def arrive(self, id: str) -> None:
        states = self.chance.choice([600, 1800, 3600, 7200])
        self.runs[id] = max(10, int(states * self.chance.uniform(self.shortest, 1)))
        expected = states if self.chance.random() < self.stated else None
        size = self.chance.choice([1, 1, 1, 2, 4, 8])
        self.world.submit(id, shape(f"q{self.chance.randrange(4)}", size, expected=expected))
        self.started()
        guess = foretell(self.world.state, id, Ms(self.world.now * 1000))
        if guess is not None:
            self.told[id] = guess

    def until(self, now: int) -> None:
        while self.ends and self.ends[0][0] <= now:
            self.world.now, id = heapq.heappop(self.ends)
            self.world.release(id)
            self.started()
        self.world.now = now

    def started(self) -> None:
        for id in self.world.admitted:
            heapq.heappush(self.ends, (self.world.now + self.runs[id], id))
            if id in self.told:
                guess = self.told.pop(id)
                self.inside.append(guess.low <= self.world.now * 1000 <= guess.high)


@pytest.mark.parametrize("shortest", [1.0, 0.3])
@pytest.mark.parametrize("stated", [1.0, 0.5, 0.0])
def test_nine_of_ten_starts_are_inside_the_interval(shortest: float, stated: float) -> None:
    inside: list[bool] = []
    for seed, load in ((1, 0.95), (2, 1.2)):
        trace = Trace(seed, shortest=shortest, stated=stated, load=load)
        trace.play(350)
        inside += trace.inside
    assert len(inside) > 60
    assert sum(inside) >= 0.9 * len(inside), f"{sum(inside)} of {len(inside)}"


def test_few_scores_are_no_measure_and_old_ones_are_forgotten() -> None:
    scores = Scores()
    for _ in range(ENOUGH - 1):
        scores.add(1)
    assert scores.bounds() == FIRST_GUESS
    scores.add(1)
    assert scores.bounds() == (1, 1)
    for _ in range(KEPT):
        scores.add(2000)
    assert scores.bounds() == (2000, 2000)
    assert len(scores.ordered) == KEPT


def test_where_waits_are_shorter_than_limits_say_the_next_is_told_a_shorter_one() -> None:
    learned = Calibration()
    hour = Ms(3_600_000)
    for number in range(FEW):
        assert learned.likely("h100", Ms(0), hour) == hour, "not from so few"
        learned.tell(f"w{number}", "h100", Ms(0), hour)
        learned.started(f"w{number}", "h100", Ms(450_000))
    assert learned.likely("h100", Ms(0), hour) == 450_000
    assert learned.likely("l40s", Ms(0), hour) == hour, "each class has its own past"


def test_what_was_told_shorter_is_not_learned_as_if_it_had_been_computed_so() -> None:
    """Else the correction would undo itself as soon as it is right."""
    learned = Calibration()
    hour = Ms(3_600_000)
    for number in range(5 * ENOUGH):
        learned.tell(f"w{number}", "h100", Ms(0), learned.likely("h100", Ms(0), hour))
        learned.started(f"w{number}", "h100", Ms(450_000))
    assert abs(learned.likely("h100", Ms(0), hour) - 450_000) < 10_000
    low, high = learned.interval("h100", Ms(0), hour)
    assert low <= learned.likely("h100", Ms(0), hour) <= high
