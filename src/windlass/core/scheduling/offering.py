"""One sequence of work offered to one node: how much GPU the node gives when it accepts whatever fits.

This is the innermost loop of placement, so nothing is offered twice that must end alike:

- A gap in a shared GPU counts for what the sequence can put into it. Gaps of 150 and 190 are the same to work
  in shares of 100, and one of 90 is none.
- Offering a sequence tells between which amounts of CPU and memory it would have gone the same way.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from windlass.core.scheduling.gpus import Lanes, Need, take_parts
from windlass.core.units import GPU

Step = tuple[int, int, int, int]
"""An offer: CPU, memory, thousandths of GPU, whole GPUs (or 0)."""
Outcome = tuple[int, int, int, int, int]
"""How much GPU was given, and for which nodes that holds: from so much CPU up to less than so much, and
memory likewise."""
_End = tuple[int, int, int, int, int]
"""How much GPU was given, the CPU left then, how much more would have let in something that was left out,
and memory likewise."""
_NEVER = 1 << 60
_UP_TO = [(2 << left) - 1 for left in range(GPU + 1)]


class Offering:
    """A sequence, the outcomes met so far by what is left of the GPUs, and where it ends early: with less GPU
    or CPU than the least, nothing of it fits any more."""

    __slots__ = ("least_cpu", "least_gpu", "needs", "outcomes", "steps", "sums")

    def __init__(self, steps: Sequence[Step], needs: Sequence[Need]) -> None:
        self.steps = steps
        self.needs = needs
        self.outcomes: dict[tuple[int, tuple[int, ...]], list[Outcome]] = {}
        self.least_gpu = min((step[2] for step in steps if step[2]), default=0)
        self.least_cpu = min((step[0] for step in steps if step[2]), default=0)
        self.sums = _sums(step[2] for step in steps if not step[3])

    def offered(self, whole: int, gaps: Sequence[int], cpu: int, memory: int) -> Outcome:
        """To a node with so many free GPUs and those gaps, rising, shared in one way."""
        shared, steps = list(gaps), iter(self.steps)
        end = (0, cpu, _NEVER, memory, _NEVER)
        if whole:
            end = _given_of_free(whole, shared, end, steps, self.least_cpu)
        if shared and shared[-1] >= self.least_gpu and end[1] >= self.least_cpu:
            end = _given_of_shared(shared, end, steps, self.least_cpu, self.least_gpu)
        return self._outcome(cpu, memory, end)

    def offered_in_lanes(self, lanes: Lanes, cpu: int, memory: int) -> Outcome:
        """To GPUs shared in several ways, cut by MIG, or of which one worker takes several shares."""
        nothing = (0, cpu, _NEVER, memory, _NEVER)
        end = _given_in_lanes(lanes, nothing, zip(self.steps, self.needs, strict=True))
        return self._outcome(cpu, memory, end)

    def _outcome(self, cpu: int, memory: int, end: _End) -> Outcome:
        given, cpu_left, cpu_short, memory_left, memory_short = end
        if cpu_left < self.least_cpu:
            cpu_short = min(cpu_short, self.least_cpu - cpu_left)  # what came then was not looked at
        return given, cpu - cpu_left, cpu + cpu_short, memory - memory_left, memory + memory_short


def gaps_of(shared: Iterable[int], sums: int) -> tuple[int, ...]:
    """What is left of shared GPUs, as far as work in shares can use it: each as the largest of those sums of
    shares that fits. Whatever is taken from a gap, the same is true of the rest, so no outcome changes."""
    return tuple([gap for left in shared if (gap := (sums & _UP_TO[left]).bit_length() - 1)])


def _sums(amounts: Iterable[int]) -> int:
    """Which sums up to one GPU the amounts can make: bit n is set for n thousandths."""
    reached = 1
    for amount in amounts:
        reached |= (reached << amount) & _UP_TO[GPU]
    return reached


def _given_of_free(
    whole: int, shared: list[int], so_far: _End, steps: Iterable[Step], least_cpu: int
) -> _End:
    """As long as a GPU is free. Changes what is left of those in use."""
    given, cpu, cpu_short, memory, memory_short = so_far
    for asked_cpu, asked_memory, amount, gpus in steps:
        if gpus > whole:
            continue
        if asked_cpu > cpu:
            if asked_cpu - cpu < cpu_short:
                cpu_short = asked_cpu - cpu
            continue
        if asked_memory > memory:
            memory_short = min(memory_short, asked_memory - memory)
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
    return given, cpu, cpu_short, memory, memory_short


def _given_of_shared(
    shared: list[int], so_far: _End, steps: Iterable[Step], least_cpu: int, least_gpu: int
) -> _End:
    """With what is left of GPUs in use, and no other."""
    given, cpu, cpu_short, memory, memory_short = so_far
    largest = shared[-1]
    for asked_cpu, asked_memory, amount, _ in steps:
        if amount > largest:
            continue
        if asked_cpu > cpu:
            if asked_cpu - cpu < cpu_short:
                cpu_short = asked_cpu - cpu
            continue
        if asked_memory > memory:
            memory_short = min(memory_short, asked_memory - memory)
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
    return given, cpu, cpu_short, memory, memory_short


def _given_in_lanes(lanes: Lanes, so_far: _End, steps: Iterable[tuple[Step, Need]]) -> _End:
    whole, shared = lanes.whole, [*map(list, lanes.shared)]
    given, cpu, cpu_short, memory, memory_short = so_far
    for (asked_cpu, asked_memory, amount, gpus), need in steps:
        if gpus > whole:
            continue
        if asked_cpu > cpu:
            cpu_short = min(cpu_short, asked_cpu - cpu)
            continue
        if asked_memory > memory:
            memory_short = min(memory_short, asked_memory - memory)
            continue
        if gpus:
            whole -= gpus
        elif amount:
            after = take_parts(shared, whole, need)
            if after is None:
                continue
            whole = after
        cpu -= asked_cpu
        memory -= asked_memory
        given += amount
    return given, cpu, cpu_short, memory, memory_short
