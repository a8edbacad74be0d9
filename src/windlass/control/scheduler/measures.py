"""The engine's levels as metrics, looked up in its memory when somebody scrapes: a cycle does not pay for
them. Costs a look at every line and class, not at every workload.

Only the replica that leads tells them. The others follow the same rows: what each of them told would be
counted once more by whoever sums up, with causes that nobody decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from windlass.core.scheduling.engine import State
from windlass.core.scheduling.model import Node
from windlass.core.units import GPU
from windlass.runtime.metrics import GPUS, GPUS_FREE, HOLDING, LEADS, PROMISES, WAITING

_UNSEEN = "starting"
"""Before a cycle has looked at a line nothing is in its way but the start."""


def measure(state: State, nodes: Iterable[Node], *, leads: bool) -> None:
    for level in (WAITING, HOLDING, GPUS, GPUS_FREE):
        level.clear()
    PROMISES.set(len(state.promises) if leads else 0)
    LEADS.set(leads)
    if leads:
        _measure(state, nodes)


def _measure(state: State, nodes: Iterable[Node]) -> None:
    waiting: Counter[tuple[str, str]] = Counter()
    for line in state.lines.by_shape.values():
        cause = line.cause.cause if line.cause is not None else _UNSEEN
        waiting[line.shape.gpu_class, cause] += len(line.members)
    promised = Counter(promise.held.shape.gpu_class for promise in state.promises.values())
    for gpu_class, count in promised.items():
        waiting[gpu_class, _UNSEEN] += count
    for (gpu_class, cause), count in waiting.items():
        WAITING.labels(gpu_class, cause).set(count)
    for gpu_class, ends in state.ends.items():
        HOLDING.labels(gpu_class).set(len(ends) - promised[gpu_class])
    for gpu_class, rooms in state.fleet.classes.items():
        GPUS_FREE.labels(gpu_class).set(rooms.free / GPU)
    known: Counter[str] = Counter()
    for node in nodes:
        known[node.gpu_class] += node.gpus
    for gpu_class, gpus in known.items():
        GPUS.labels(gpu_class).set(gpus)
