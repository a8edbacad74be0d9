"""What queues had lately, so that yesterday's hog waits today.

Of every queue and class an average of GPUs in use is kept in which the past fades: use of `HALF_LIFE`
ago counts half. What counts in the order is the part beyond the guarantee: who used what is its own
owes nobody anything. Nothing here is exact or has to be; the order among borrowers hangs on it, and no
right does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log

from windlass.core.scheduling.model import Quota
from windlass.core.scheduling.state import State
from windlass.core.units import HOUR_MS, MilliGpu, Ms

HALF_LIFE = Ms(24 * HOUR_MS)
"""A day: long enough that a night's run is not forgiven by noon, short enough for a clean Monday."""
REMEMBERED = Ms(5 * HALF_LIFE)
"""Use from longer ago counts less than a thirtieth of its worth and is left out."""
SAMPLED = Ms(60_000)
"""How often use is looked at: it changes the order by thousandths in that time."""

QueueClass = tuple[str, str]


@dataclass(slots=True)
class PastUse:
    """Averages in thousandths of a GPU, as of `at`."""

    at: Ms
    averages: dict[QueueClass, float] = field(default_factory=dict)

    def remember(self, queue: str, gpu_class: str, gpu_us: int, when: Ms) -> None:
        """Work that was done around `when`: GPU-microseconds (thousandths of a GPU times milliseconds)."""
        key = (queue, gpu_class)
        worth = gpu_us * log(2) / HALF_LIFE * _kept(Ms(self.at - when))
        self.averages[key] = self.averages.get(key, 0.0) + worth

    def remember_running(self, state: State) -> None:
        """What runs now has run since it began."""
        for held in state.held.values():
            key = (held.shape.queue, held.shape.gpu_class)
            worth = held.amount * (1 - _kept(Ms(self.at - held.since)))
            self.averages[key] = self.averages.get(key, 0.0) + worth

    def advance(self, state: State, now: Ms) -> None:
        """Time has passed in which everybody used what they hold."""
        kept = _kept(Ms(now - self.at))
        in_use: dict[QueueClass, int] = {}
        for held in state.held.values():
            if not held.promised:
                key = (held.shape.queue, held.shape.gpu_class)
                in_use[key] = in_use.get(key, 0) + held.amount
        self.averages = {
            key: average
            for key in [*self.averages, *(key for key in in_use if key not in self.averages)]
            if (average := self.averages.get(key, 0.0) * kept + in_use.get(key, 0) * (1 - kept)) >= 1
        }
        self.at = now


def beyond_guarantees(quotas: Sequence[Quota], averages: Mapping[QueueClass, float]) -> dict[str, MilliGpu]:
    """Per quota node what it and all below it had beyond what it is guaranteed, over all classes."""
    parents = {quota.name: quota.parent for quota in quotas}
    had: dict[QueueClass, float] = {}
    for (queue, gpu_class), average in averages.items():
        name: str | None = queue
        while name is not None and name in parents:
            had[name, gpu_class] = had.get((name, gpu_class), 0.0) + average
            name = parents[name]
    guaranteed = {
        (quota.name, gpu_class): limit.guaranteed
        for quota in quotas
        for gpu_class, limit in quota.limits.items()
    }
    beyond: dict[str, MilliGpu] = {}
    for (name, gpu_class), average in sorted(had.items()):
        over = int(average) - guaranteed.get((name, gpu_class), 0)
        if over > 0:
            beyond[name] = MilliGpu(beyond.get(name, 0) + over)
    return beyond


def _kept(age: Ms) -> float:
    """How much of its worth use of that age still has."""
    return float(0.5 ** (max(0, age) / HALF_LIFE))
