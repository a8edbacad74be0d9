"""FGD, the policy of "Beware of Fragmentation" (ATC 2023), to compare with: repeated from the paper's method.

The fragment of a node for a task is the GPU left on it that the task cannot use: all of it if CPU, memory
or model do not suit or the task wants no GPU, else what is left of GPUs too small for it. It is expected
over all shapes of the list, and a task goes where that grows least: the change, squashed by a logistic
of change/1000 to a whole number of 0 to 100, to the first node of those that are equal (which reproduces the
published figures).
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from math import exp

from windlass.core.scheduling.model import Placement, Shape, WorkerPlacement
from windlass.core.scheduling.nodes import Fleet, Room
from windlass.core.units import GPU

_Key = tuple[int, int, str, tuple[int, ...]]


class _Group:
    """Shapes with one need of GPU and one choice of models: how likely they are, by their CPU."""

    def __init__(self, shapes: Sequence[tuple[Shape, float]]) -> None:
        ordered = sorted(shapes, key=lambda one: one[0].cpu_milli)
        self.whole = ordered[0][0].unit >= GPU
        self.gpus = ordered[0][0].gpus
        self.sites = ordered[0][0].sites
        self.all = [(shape.cpu_milli, shape.memory_mib, chance) for shape, chance in ordered]
        self.cpus = [cpu for cpu, _, _ in self.all]
        self.sums = [0.0, *accumulate(chance for _, _, chance in self.all)]
        self.most_memory = max(memory for _, memory, _ in self.all)

    def fits(self, cpu: int, memory: int) -> float:
        """How likely a shape of it is one for which there is the CPU and memory."""
        if memory >= self.most_memory:
            return self.sums[bisect_right(self.cpus, cpu)]
        return sum(chance for asked, of_memory, chance in self.all if asked <= cpu and of_memory <= memory)

    def unusable(self, left: Sequence[int], total: int) -> int:
        """Of what is left of a node's GPUs, what none of its shapes can use."""
        if self.whole:
            whole = left.count(GPU)
            return total - whole * GPU if whole * GPU >= self.gpus > 0 else total
        usable = sum(one for one in left if one >= self.gpus)
        return total - usable


class Fgd:
    """One run: what is known of nodes is kept until something is placed on them."""

    def __init__(self, tasks: Sequence[Shape]) -> None:
        groups: dict[tuple[object, ...], list[tuple[Shape, float]]] = {}
        for shape, count in Counter(tasks).items():
            chance = count / len(tasks)
            groups.setdefault((shape.gpus, shape.unit, shape.sites), []).append((shape, chance))
        self._groups = [_Group(shapes) for shapes in groups.values()]
        self._fragments: dict[_Key, float] = {}
        self._scores: dict[Shape, dict[str, tuple[int, tuple[int, ...]] | None]] = {}
        self._changed: dict[Shape, dict[str, None]] = {}

    def __call__(self, fleet: Fleet, shape: Shape, _: random.Random) -> Placement | None:
        known = self._scores.get(shape)
        if known is None:
            order = sorted(fleet.rooms)
            known = self._scores[shape] = {name: self._score(fleet.rooms[name], shape) for name in order}
            self._changed[shape] = {}
        for name in self._changed[shape]:
            known[name] = self._score(fleet.rooms[name], shape)
        self._changed[shape].clear()
        best, at = -1, ""
        for name, scored in known.items():
            if scored is not None and scored[0] > best:
                best, at = scored[0], name
        found = known[at] if at else None
        if found is None:
            return None
        for changed in self._changed.values():
            changed[at] = None
        return Placement((WorkerPlacement(0, at, found[1]),))

    def _score(self, room: Room, shape: Shape) -> tuple[int, tuple[int, ...]] | None:
        """The best of the ways to put it there, and the GPUs."""
        if room.cpu < shape.cpu_milli or room.memory < shape.memory_mib:
            return None
        if shape.sites and room.node.site not in shape.sites:
            return None
        before = self._fragment(room.cpu, room.memory, room.node.site, room.left)
        best: tuple[int, tuple[int, ...]] | None = None
        for gpus in _choices(room, shape):
            left = list(room.left)
            for gpu in gpus:
                left[gpu] -= shape.gpus // len(gpus)
            cpu, memory = room.cpu - shape.cpu_milli, room.memory - shape.memory_mib
            less = before - self._fragment(cpu, memory, room.node.site, left)
            score = int(100 / (1 + exp(-less / GPU)))
            if best is None or score > best[0]:
                best = (score, gpus)
        return best

    def _fragment(self, cpu: int, memory: int, site: str, left: Sequence[int]) -> float:
        key = (cpu, memory, site, tuple(sorted(left)))
        known = self._fragments.get(key)
        if known is None:
            total = sum(left)
            known = float(total)
            for group in self._groups:
                if group.gpus and (not group.sites or site in group.sites):
                    fits = group.fits(cpu, memory)
                    if fits:
                        known -= fits * (total - group.unusable(left, total))
            self._fragments[key] = known
        return known


def _choices(room: Room, shape: Shape) -> list[tuple[int, ...]]:
    if not shape.gpus:
        return [()]
    if shape.unit < GPU:
        different = {left: gpu for gpu, left in reversed(list(enumerate(room.left))) if left >= shape.gpus}
        return [(different[left],) for left in sorted(different)]
    whole = [gpu for gpu, left in enumerate(room.left) if left == GPU]
    count = shape.gpus // GPU
    return [tuple(whole[:count])] if len(whole) >= count else []
