"""The placement policies that are compared: the engine's own, and three to compare it with.

A policy sees the fleet's free space and one shape and answers with a placement or None; it takes
nothing. The fleet's books are the engine's, so no policy can place what does not fit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from benchmarks.fragmentation import Fgd
from windlass.core.scheduling.model import Placement, Shape, WorkerPlacement
from windlass.core.scheduling.nodes import Fleet, Room
from windlass.core.scheduling.placement import place
from windlass.core.units import GPU

Place = Callable[[Fleet, Shape, random.Random], Placement | None]

_LARGEST_CPU_MILLI, _LARGEST_GPU_MILLI = 128_000, 8 * GPU  # the largest OpenB node: the scores' unit
_PROBES = 64


def windlass(fleet: Fleet, shape: Shape, _: random.Random) -> Placement | None:
    return place(fleet, shape, 1)


def best_fit(fleet: Fleet, shape: Shape, _: random.Random) -> Placement | None:
    """Least left in CPU and GPU; every node is asked, so this is slow and simple."""

    def left(room: Room) -> tuple[float, int]:
        return (room.cpu / _LARGEST_CPU_MILLI + sum(room.left) / _LARGEST_GPU_MILLI, room.rank)

    best = min(_that_fit(fleet, shape), key=left, default=None)
    return None if best is None else _on(best, _tightest(best, shape))


def at_random(fleet: Fleet, shape: Shape, chance: random.Random) -> Placement | None:
    """Uniform among the nodes that fit, and among their GPUs. A few blind probes come first: the
    first that fits has the same distribution as a choice from all that do."""
    rooms = list(fleet.rooms.values())
    room = next((room for _ in range(_PROBES) if _fits(room := chance.choice(rooms), shape)), None)
    if room is None:
        those = list(_that_fit(fleet, shape))
        room = chance.choice(those) if those else None
    if room is None:
        return None
    gpus = _usable(room, shape)
    chance.shuffle(gpus)
    return _on(room, gpus[: _count(shape)])


POLICIES: dict[str, Callable[[Sequence[Shape]], Place]] = {
    "windlass": lambda _: windlass,
    "fgd": Fgd,
    "best-fit": lambda _: best_fit,
    "random": lambda _: at_random,
}
"""By name: a policy for one run with the tasks of a list."""


def _that_fit(fleet: Fleet, shape: Shape) -> Iterator[Room]:
    return (room for room in fleet.rooms.values() if _fits(room, shape))


def _fits(room: Room, shape: Shape) -> bool:
    if room.cpu < shape.cpu_milli or room.memory < shape.memory_mib:
        return False
    if shape.sites and room.node.site not in shape.sites:
        return False
    return max(room.left) >= shape.gpus if shape.unit < GPU else room.whole >= _count(shape)


def _usable(room: Room, shape: Shape) -> list[int]:
    """GPUs that can take a share of it, or a whole one."""
    least = shape.gpus if shape.unit < GPU else GPU
    return [gpu for gpu, left in enumerate(room.left) if left >= least]


def _tightest(room: Room, shape: Shape) -> list[int]:
    usable = sorted(_usable(room, shape), key=lambda gpu: (room.left[gpu], gpu))
    return usable[: _count(shape)]


def _count(shape: Shape) -> int:
    return 1 if shape.unit < GPU else shape.gpus // GPU


def _on(room: Room, gpus: list[int]) -> Placement:
    return Placement((WorkerPlacement(0, room.node.name, tuple(gpus)),))
