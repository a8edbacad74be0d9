"""How far estimates may be off, learned from how far they were.

An estimate knows nothing of arrivals, early ends and preemptions to come. So what was told of a start is
kept and compared with it, as the ratio of the real wait to the told one, and the interval around the next
estimate reaches from a low to a high ratio of the last ones of its class: nine of ten were inside. What is
told is the middle one: where work ends long before its time limit, waits are shorter than limits say. Both
waits are taken `SLACK` longer, because a wait of a second that was told as none is no thousandfold error.

Until `ENOUGH` are known, ratios count that held on simulated traces of many kinds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field

from windlass.core.units import Ms

SLACK = Ms(600_000)
ENOUGH = 40
KEPT = 400
OUTSIDE = 40
"""One in so many may lie below the interval, and one in so many above: together one in twenty,
because the past is no sample of the future."""
FIRST_GUESS = (60, 6000)
"""Ratios in thousandths."""
AS_COMPUTED = 1000
FEW = 10
"""The middle of so many is better than none."""


@dataclass(slots=True)
class Scores:
    """Ratios of real to told waits, in thousandths: the last ones, and the same in order of size."""

    recent: deque[int] = field(default_factory=deque)
    ordered: list[int] = field(default_factory=list)

    def add(self, ratio: int) -> None:
        self.recent.append(ratio)
        insort(self.ordered, ratio)
        if len(self.recent) > KEPT:
            del self.ordered[bisect_left(self.ordered, self.recent.popleft())]

    def bounds(self) -> tuple[int, int]:
        count = len(self.ordered)
        if count < ENOUGH:
            return FIRST_GUESS
        outside = count // OUTSIDE
        return self.ordered[max(0, outside - 1)], self.ordered[min(count - 1, count - outside)]

    def middle(self) -> int:
        return self.ordered[len(self.ordered) // 2] if len(self.ordered) >= FEW else AS_COMPUTED


@dataclass(slots=True)
class Calibration:
    told: dict[str, tuple[Ms, Ms, int]] = field(default_factory=dict)
    """When it was told, of when, and by which ratio that was not what was computed."""
    scores: dict[str, Scores] = field(default_factory=dict)  # by class

    def tell(self, id: str, gpu_class: str, now: Ms, starts: Ms) -> None:
        self.told[id] = (now, starts, self._middle(gpu_class))

    def started(self, id: str, gpu_class: str, now: Ms) -> None:
        known = self.told.pop(id, None)
        if known is not None:
            at, starts, middle = known
            ratio = (now - at + SLACK) * middle // (max(0, starts - at) + SLACK)
            self.scores.setdefault(gpu_class, Scores()).add(ratio)

    def rests_on(self, gpu_class: str) -> str:
        known = self.scores.get(gpu_class)
        if known is None or len(known.ordered) < ENOUGH:
            held = "the interval is one that held on simulated traces"
        else:
            held = f"the interval held nine of ten of the last {len(known.ordered)} starts"
        middle = self._middle(gpu_class)
        return held if middle == AS_COMPUTED else f"lately waits were {middle / 10:.0f} % of that; {held}"

    def likely(self, gpu_class: str, now: Ms, computed: Ms) -> Ms:
        """When it starts if it goes as with the middle one of the last."""
        return max(now, _scaled(now, computed, self._middle(gpu_class)))

    def interval(self, gpu_class: str, now: Ms, computed: Ms) -> tuple[Ms, Ms]:
        known = self.scores.get(gpu_class)
        low, high = known.bounds() if known is not None else FIRST_GUESS
        likely = self.likely(gpu_class, now, computed)
        return (
            min(likely, max(now, _scaled(now, computed, low))),
            max(likely, _scaled(now, computed, high)),
        )

    def _middle(self, gpu_class: str) -> int:
        known = self.scores.get(gpu_class)
        return known.middle() if known is not None else AS_COMPUTED


def _scaled(now: Ms, computed: Ms, ratio: int) -> Ms:
    return Ms(now + (computed - now + SLACK) * ratio // 1000 - SLACK)
