"""When a waiting workload will probably start.

A replay on the present fleet: running work ends when it should, and everybody ahead starts in order
as soon as it fits. Where too many are ahead for that, the work ahead is divided by the size of the
fleet. Neither knows of arrivals, failures or preemptions to come; `low` and `high` say how far the
guess may be off, judged by how far others were (`calibration.py`), and `basis` says what it rests on.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import islice

from windlass.core.scheduling.fit import fit, quota_allows
from windlass.core.scheduling.lines import Line, OrderKey
from windlass.core.scheduling.model import Estimate, Placement, Shape, Waiting
from windlass.core.scheduling.owed import owed_first
from windlass.core.scheduling.state import ASSUMED_DURATION, State, expected_end
from windlass.core.scheduling.trial import Trial
from windlass.core.units import GPU, Ms

REPLAYED = 300
"""How many workloads ahead are started one by one; beyond, the coarse sum is as good."""
TRIES = 800
"""Steps of one replay (a start tried, an end): keeps an answer under 50 ms on a large fleet."""
SAMPLED = 500
"""Of how many running workloads the remaining time is summed up; the rest is extrapolated."""


def estimate(state: State, id: str, now: Ms) -> Estimate | None:
    """None: it does not wait, can never run, or nothing that is known of would make room for it."""
    promise = state.promises.get(id)
    if promise is not None:
        leaving = len(promise.victims)
        high = Ms(now + 60_000)
        return Estimate(now, now, high, f"its GPUs are earmarked; {leaving} workload(s) are still leaving")
    workload = state.lines.waiting.get(id)
    if workload is None or state.lines.by_shape[workload.shape].never is not None:
        return None
    ahead = [(line, count) for line, count in state.lines.ahead_of(workload, state.tree) if count]
    count = sum(count for _, count in ahead)
    if count <= REPLAYED:
        replay = _Replay(state, now, TRIES, last_only=True)
        starts = replay.run([*_in_order(state, ahead), workload.shape])[-1]
        if starts is not None:
            who = f"the {count} ahead and what runs now take their" if count else "what runs now takes its"
            return _spread(
                state, workload.shape.gpu_class, now, starts, f"if {who} stated time", assumed=replay.assumed
            )
        if not replay.cut_short:
            return None
    return _coarse(state, workload, ahead, count, now)


def foretell(state: State, id: str, now: Ms) -> Estimate | None:
    """An estimate that is compared with what happens: so the next ones know how far they may be off."""
    guess = estimate(state, id, now)
    if guess is not None:
        was_told(state, id, now, guess.starts)
    return guess


def was_told(state: State, id: str, now: Ms, starts: Ms) -> None:
    """Somebody was told that it starts then."""
    workload = state.lines.waiting.get(id)
    if workload is not None:
        state.calibration.tell(id, workload.shape.gpu_class, now, starts)


def estimates(state: State, gpu_class: str, now: Ms) -> dict[str, Ms | None]:
    """When each of the first in a class will probably start: one replay for all of them. None: nothing
    makes room for it. Whom the replay did not reach is left out."""
    workloads = [
        workload
        for workload in islice(state.lines.listed(state.tree, gpu_class=gpu_class), REPLAYED)
        if state.lines.by_shape[workload.shape].never is None
    ]
    replay = _Replay(state, now, 10 * TRIES, last_only=False)
    starts = replay.run([workload.shape for workload in workloads])
    return {
        workload.id: at if at is None else state.calibration.likely(gpu_class, now, at)
        for workload, at in zip(workloads, starts, strict=True)
        if at is not None or not replay.cut_short
    }


def _in_order(state: State, ahead: list[tuple[Line, int]]) -> list[Shape]:
    keyed: list[tuple[OrderKey, Shape]] = []
    for line, count in ahead:
        rank = state.lines.rank(line, state.tree)
        keyed.extend(((*rank, *member), line.shape) for member in line.members[:count])
    return [shape for _, shape in sorted(keyed, key=lambda entry: entry[0])]


@dataclass(slots=True)
class _Replay:
    """Time moves from end to end; the first in order that lacks room holds up those behind it,
    while one that only lacks quota is passed over. What it waits for as its own nobody else borrows.
    It is over when everybody has started, or with `last_only` when the last has."""

    state: State
    now: Ms
    budget: int
    last_only: bool
    assumed: bool = False
    cut_short: bool = False

    def run(self, shapes: list[Shape]) -> list[Ms | None]:
        """When each would start. Who lacks room even when everything has ended will not have it on this
        fleet, holds nobody up, and is left out of another try."""
        hopeless: set[Shape] = set()
        while True:
            starts, stuck = self._replay(shapes, hopeless)
            if not stuck or self.cut_short:
                return starts
            hopeless |= stuck

    def _replay(self, shapes: list[Shape], hopeless: set[Shape]) -> tuple[list[Ms | None], set[Shape]]:
        """The starts, and who still lacks room when everything has ended, if that holds somebody up."""
        starts: list[Ms | None] = [None] * len(shapes)
        pending = [
            (index, shape) for index, shape in enumerate(shapes) if not hopeless or shape not in hopeless
        ]
        if not pending:
            return starts, set()
        gpu_class = shapes[0].gpu_class
        running = self.state.ends.get(gpu_class, [])
        leaving = self.state.stopping.get(gpu_class, {})
        started: list[tuple[Ms, int]] = []
        time, next_end = self.now, 0
        with Trial(self.state) as trial:
            for held in list(leaving.values()):
                trial.remove(held)
            while True:
                stuck = self._start_what_fits(trial, pending, starts, started, time)
                if not pending or (self.last_only and starts[-1] is not None):
                    return starts, set()
                upcoming = [at for at, _ in (*running[next_end : next_end + 1], *started[:1])]
                if not upcoming or self.budget <= 0:
                    self.cut_short = bool(upcoming)
                    if upcoming or stuck is None:
                        return starts, set()
                    return starts, self._without_room(trial, pending)
                time = Ms(max(time, min(upcoming)))
                while next_end < len(running) and running[next_end][0] <= time:
                    self._end(trial, running[next_end][1])
                    next_end += 1
                while started and started[0][0] <= time:
                    trial.stop(heapq.heappop(started)[1])

    def _without_room(self, trial: Trial, pending: list[tuple[int, Shape]]) -> set[Shape]:
        return {
            shape
            for shape in {shape for _, shape in pending}
            if quota_allows(self.state.pool(shape), shape) and fit(self.state, shape, trial.gone) is None
        }

    def _end(self, trial: Trial, id: str) -> None:
        if id not in trial.gone:
            held = self.state.held[id]
            self.assumed = self.assumed or held.shape.expected is None
            self.budget -= 1
            trial.remove(held)

    def _start_what_fits(
        self,
        trial: Trial,
        pending: list[tuple[int, Shape]],
        starts: list[Ms | None],
        started: list[tuple[Ms, int]],
        time: Ms,
    ) -> Shape | None:
        """Everybody in order, up to the first who has quota but no room: that one is returned."""
        at = 0
        while at < len(pending):
            index, shape = pending[at]
            self.budget -= 1
            placement = fit(self.state, shape, trial.gone)
            if placement is None and quota_allows(self.state.pool(shape), shape):
                return shape
            if placement is None or self._owed_to_another(shape, placement, pending):
                at += 1
                continue
            starts[index] = time
            if index < len(starts) - 1 or not self.last_only:
                self.assumed = self.assumed or shape.expected is None
                heapq.heappush(started, (expected_end(shape, time), trial.start(shape, placement)))
            del pending[at]
        return None

    def _owed_to_another(self, shape: Shape, placement: Placement, pending: list[tuple[int, Shape]]) -> bool:
        if not self.state.owed.get(shape.gpu_class):
            return False
        lender = owed_first(self.state, shape, shape.gpus * len(placement.workers))
        return lender is not None and any(other == lender.shape for _, other in pending)


def _coarse(
    state: State, workload: Waiting, ahead: list[tuple[Line, int]], count: int, now: Ms
) -> Estimate | None:
    """All GPU time that comes first, divided by all GPUs of the class."""
    gpu_class = workload.shape.gpu_class
    size = state.ready_gpus(gpu_class)
    if not size:
        return None
    work = 0
    for line, members in ahead:
        work += members * line.shape.total * (line.shape.expected or ASSUMED_DURATION)
    ends = state.ends.get(gpu_class, [])
    sample = [state.held[id] for _, id in ends[:: max(1, len(ends) // SAMPLED)]]
    rest = sum(held.amount * max(0, held.end - now) for held in sample)
    work += rest * len(ends) // max(1, len(sample))
    starts = Ms(now + work // (size * GPU))
    return _spread(
        state, gpu_class, now, starts, f"the work of the {count} ahead, spread over {size} GPUs", assumed=True
    )


def _spread(state: State, gpu_class: str, now: Ms, starts: Ms, basis: str, *, assumed: bool) -> Estimate:
    low, high = state.calibration.interval(gpu_class, now, starts)
    likely = state.calibration.likely(gpu_class, now, starts)
    note = "; work without a stated duration is taken to run 1 h" if assumed else ""
    return Estimate(likely, low, high, f"{basis}{note}; {state.calibration.rests_on(gpu_class)}")
