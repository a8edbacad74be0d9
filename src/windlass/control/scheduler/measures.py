"""The engine's levels as metrics, looked up in its memory when somebody scrapes: a cycle does not pay for
them. Costs a look at every line and class, not at every workload."""

from __future__ import annotations

from collections import Counter

from windlass.core.scheduling.engine import State
from windlass.core.units import GPU
from windlass.runtime.metrics import GPUS_FREE, HOLDING, PROMISES, WAITING

_UNSEEN = "starting"
"""Before a cycle has looked at a line nothing is in its way but the start."""


def measure(state: State) -> None:
    waiting: Counter[tuple[str, str]] = Counter()
    for line in state.lines.by_shape.values():
        cause = line.cause.cause if line.cause is not None else _UNSEEN
        waiting[line.shape.gpu_class, cause] += len(line.members)
    promised = Counter(promise.held.shape.gpu_class for promise in state.promises.values())
    for gpu_class, count in promised.items():
        waiting[gpu_class, _UNSEEN] += count
    WAITING.clear()
    for (gpu_class, cause), count in waiting.items():
        WAITING.labels(gpu_class, cause).set(count)
    for gpu_class, ends in state.ends.items():
        HOLDING.labels(gpu_class).set(len(ends) - promised[gpu_class])
    GPUS_FREE.clear()
    for gpu_class, rooms in state.fleet.classes.items():
        GPUS_FREE.labels(gpu_class).set(rooms.free / GPU)
    PROMISES.set(len(state.promises))
