"""Node fill value: how much GPU a node would still give to the work that is likely to come.

The value of a node is the mean, over sequences drawn from the mix, of the GPU it hands out when each sequence
is offered to it and it accepts whatever fits. Work belongs where that value falls least: then it uses what
nobody else could have used. Asking only whether one more task fits, as measures of fragmentation do, misses
that a node runs out of CPU and of whole GPUs together.

Everything here is remembered: values by what is left of a node, sequences by what its GPUs can take at all.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from windlass.core.scheduling.gpus import CUT_LANE, GpuState, GpuStates, Lanes, Need, lanes_of, take_parts
from windlass.core.scheduling.mix import Mix, Offer
from windlass.core.units import GPU

CPU_STEP, MEMORY_STEP = 1000, 4096
"""Values are worked out for CPU and memory rounded down to these: more nodes are alike."""
MAX_VALUES = 300_000

_Step = tuple[int, int, int, int, int, Need]
"""An offer: CPU, memory, thousandths of GPU, whole GPUs (or 0), the lane of its one share (or -1), its
need."""


@dataclass(frozen=True, slots=True)
class _AtSite:
    """What is offered at one site: each different offer once with the number of its need, and sequences of
    those. More CPU or memory than the `most` of any sequence makes no difference."""

    steps: list[_Step]
    needs: list[int]
    sequences: list[tuple[int, ...]]
    most_cpu: int
    most_memory: int


@dataclass(frozen=True, slots=True)
class _Fitting:
    """What GPUs left in one way can take at all: sequences, and how many of those drawn are the same after
    leaving out what cannot fit. With less GPU or CPU than the least, no offer fits any more. `lane` is the
    one way in which these GPUs are shared and will be; -1: several."""

    lanes: Lanes
    lane: int
    sequences: list[tuple[list[_Step], int]]
    least_gpu: int
    least_cpu: int


class FillValue:
    """For one class and one version of its mix."""

    def __init__(self, table: GpuStates, mix: Mix, largest: int) -> None:
        self.table = table
        self.mix_version = mix.version
        self.largest = largest
        self.drawn = mix.draw(largest)
        self._sites: dict[str, _AtSite] = {}
        self._fitting: dict[tuple[int, str], _Fitting] = {}
        self._values: dict[tuple[int, int, int, str], float] = {}

    def drop(self, gpus: GpuState, cpu: int, memory: int, site: str, ask: tuple[int, int, int]) -> float:
        """How much the value falls when a node gives what is asked for; it fits."""
        need, asked_cpu, asked_memory = ask
        rest = gpus[need]
        assert rest is not None, "what does not fit is not compared"
        before = self.value(gpus, cpu, memory, site)
        if not before:
            return 0.0
        # Taking CPU away can by luck make a sequence end better. That is no reason to do it.
        return max(0.0, before - self.value(rest, cpu - asked_cpu, memory - asked_memory, site))

    def value(self, gpus: GpuState, cpu: int, memory: int, site: str) -> float:
        if not gpus.free:
            return 0.0
        there = self._sites.get(site) or self._compile(site)
        cpu = min(cpu, there.most_cpu) // CPU_STEP * CPU_STEP
        memory = min(memory, there.most_memory) // MEMORY_STEP * MEMORY_STEP
        key = (gpus.number, cpu, memory, site)
        known = self._values.get(key)
        if known is None:
            if len(self._values) > MAX_VALUES:
                self._values.clear()
                self._fitting.clear()
            known = self._values[key] = self._filled(gpus, cpu, memory, site)
        return known

    def _filled(self, gpus: GpuState, cpu: int, memory: int, site: str) -> float:
        fitting = self._fitting.get((gpus.number, site))
        if fitting is None:
            fitting = self._fitting[gpus.number, site] = _that_fit(gpus, self._sites[site])
        total = 0
        give = _given if fitting.lane >= 0 else _given_in_lanes
        for sequence, times in fitting.sequences:
            total += times * give(fitting, cpu, memory, sequence)
        return total / len(self.drawn) if total else 0.0

    def _compile(self, site: str) -> _AtSite:
        steps: dict[Offer, int] = {}
        sequences = [
            tuple(
                steps.setdefault(offer, len(steps))
                for offer in sequence
                if not offer.sites or site in offer.sites
            )
            for sequence in self.drawn
        ]
        compiled = [_step(offer) for offer in steps]
        there = self._sites[site] = _AtSite(
            compiled,
            [self.table.number(offer.need) for offer in steps],
            sequences,
            _most(sequences, [step[0] for step in compiled], CPU_STEP),
            _most(sequences, [step[1] for step in compiled], MEMORY_STEP),
        )
        return there


def _that_fit(gpus: GpuState, there: _AtSite) -> _Fitting:
    """What does not fit now will not fit later, and work without GPUs counts for what comes after it."""
    steps = there.steps
    fits = [gpus[need] is not None for need in there.needs]
    alike: dict[tuple[int, ...], int] = {}
    for sequence in there.sequences:
        kept = tuple([at for at in sequence if fits[at]])
        while kept and not steps[kept[-1]][2]:
            kept = kept[:-1]
        if kept:
            alike[kept] = alike.get(kept, 0) + 1
    asking = [steps[at] for at in {at for kept in alike for at in kept} if steps[at][2]]
    lanes = lanes_of(gpus.codes)
    ways = {lane for lane, shared in enumerate(lanes.shared) if shared}
    ways |= {step[4] for step in asking if not step[3]}
    return _Fitting(
        lanes,
        -1 if len(ways) > 1 or CUT_LANE in ways else min(ways, default=0),
        [([steps[at] for at in kept], times) for kept, times in alike.items()],
        min((step[2] for step in asking), default=0),
        min((step[0] for step in asking), default=0),
    )


def _given(fitting: _Fitting, cpu: int, memory: int, sequence: Iterable[_Step]) -> int:
    """How much GPU a node gives when a sequence is offered to it: the innermost loop of placement, for GPUs
    that are shared in one way at most."""
    whole = fitting.lanes.whole
    shared = list(fitting.lanes.shared[fitting.lane])
    least_cpu = fitting.least_cpu
    given = 0
    rest_of_them = iter(sequence)
    if whole:
        for asked_cpu, asked_memory, amount, gpus, _, _ in rest_of_them:
            if asked_cpu > cpu or gpus > whole or asked_memory > memory:
                continue
            if gpus:
                whole -= gpus
            elif amount:
                at = bisect_left(shared, amount)
                if at < len(shared):
                    rest = shared.pop(at) - amount
                else:
                    whole -= 1
                    rest = GPU - amount
                if rest:
                    insort(shared, rest)
            given += amount
            cpu -= asked_cpu
            memory -= asked_memory
            if not whole or cpu < least_cpu:
                break
    if not shared or cpu < least_cpu:
        return given
    return given + _given_of_shared(shared, fitting, cpu, memory, rest_of_them)


def _given_of_shared(
    shared: list[int], fitting: _Fitting, cpu: int, memory: int, sequence: Iterable[_Step]
) -> int:
    """With what is left of GPUs in use, and no other."""
    least_cpu, least_gpu = fitting.least_cpu, fitting.least_gpu
    given, largest = 0, shared[-1]
    if largest < least_gpu:
        return 0
    for asked_cpu, asked_memory, amount, _, _, _ in sequence:
        if amount > largest or asked_cpu > cpu or asked_memory > memory:
            continue
        cpu -= asked_cpu
        memory -= asked_memory
        if amount:
            given += amount
            rest = shared.pop(bisect_left(shared, amount)) - amount
            if rest >= least_gpu:
                insort(shared, rest)
            largest = shared[-1] if shared else 0
            if largest < least_gpu or cpu < least_cpu:
                break
    return given


def _given_in_lanes(fitting: _Fitting, cpu: int, memory: int, sequence: Iterable[_Step]) -> int:
    """The same for GPUs shared in several ways, cut by MIG, or of which one worker takes several shares."""
    whole = fitting.lanes.whole
    lanes = [*map(list, fitting.lanes.shared)]
    given = 0
    for asked_cpu, asked_memory, amount, gpus, _, need in sequence:
        if asked_cpu > cpu or asked_memory > memory or gpus > whole:
            continue
        if gpus:
            whole -= gpus
        elif amount:
            after = take_parts(lanes, whole, need)
            if after is None:
                continue
            whole = after
        cpu -= asked_cpu
        memory -= asked_memory
        given += amount
    return given


def _step(offer: Offer) -> _Step:
    need = offer.need
    whole = len(need.parts) if need.parts and need.parts[-1] >= GPU else 0
    lane = need.lane if len(need.parts) == 1 and not whole and need.profile is None else -1
    return offer.cpu_milli, offer.memory_mib, need.amount, whole, lane, need


def _most(sequences: Sequence[Sequence[int]], asked: Sequence[int], step: int) -> int:
    """Rounded up, so that rounding down what a node has does not take away what the last offer asks for."""
    most = max((sum(asked[at] for at in sequence) for sequence in sequences), default=0)
    return -(-most // step) * step
