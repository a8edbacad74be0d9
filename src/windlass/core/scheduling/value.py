"""Node fill value: how much GPU a node would still give to the work that is likely to come.

The value of a node is the mean, over sequences drawn from the mix, of the GPU it hands out when each sequence
is offered to it and it accepts whatever fits. Work belongs where that value falls least: then it uses what
nobody else could have used. Asking only whether one more task fits, as measures of fragmentation do, misses
that a node runs out of CPU and of whole GPUs together.

Everything here is remembered: values by what is left of a node, sequences by what its GPUs can take at all,
and what came of each sequence by what makes a difference to it (see `offering.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from windlass.core.scheduling.gpus import CUT_LANE, GpuState, GpuStates, Lanes, Need, lanes_of
from windlass.core.scheduling.mix import Mix, Offer
from windlass.core.scheduling.offering import Offering, Outcome, Step, gaps_of
from windlass.core.units import GPU

CPU_STEP, MEMORY_STEP = 1000, 4096
"""Values are worked out for CPU and memory rounded down to these: more nodes are alike."""
MAX_REMEMBERED = 400_000
"""Values and outcomes; beyond, all are forgotten."""


@dataclass(frozen=True, slots=True)
class _AtSite:
    """What is offered at one site: the numbers of its needs, and sequences of offers by number. More CPU or
    memory than the `most` of any sequence makes no difference. Sites with the same offers share one."""

    number: int
    needs: list[int]
    sequences: list[tuple[int, ...]]
    most_cpu: int
    most_memory: int


_Offered = tuple[Offering, tuple[int, ...], list[Outcome], int]
"""A sequence, the gaps as far as they matter to it, its outcomes with those, and how often it was drawn."""


@dataclass(frozen=True, slots=True)
class _Fitting:
    """GPUs left in one way, as far as that matters, and the values of nodes with those, by CPU and memory.
    `lanes` where the GPUs are not, or will not be, shared in one way."""

    lanes: Lanes | None
    whole: int
    offerings: list[_Offered]
    values: dict[tuple[int, int], float]


@dataclass(frozen=True, slots=True)
class _Possible:
    """What some GPUs can take at all: sequences, and how many of those drawn are the same after leaving out
    what cannot fit. `ways` are the lanes of shares among them (-1: several shares, or MIG), and `sums` what
    shares of one sequence can add up to."""

    offerings: list[tuple[Offering, int]]
    ways: frozenset[int]
    sums: int
    fitting: dict[tuple[int, tuple[int, ...]], _Fitting]


class FillValue:
    """For one class and one version of its mix."""

    def __init__(self, table: GpuStates, mix: Mix, largest: int) -> None:
        self.mix_version = mix.version
        self.largest = largest
        offers: dict[Offer, int] = {}
        self._drawn = [
            tuple([offers.setdefault(offer, len(offers)) for offer in sequence])
            for sequence in mix.draw(largest)
        ]
        self._offers = list(offers)
        self._needs = [table.number(offer.need) for offer in offers]
        self._steps = [_step(offer) for offer in offers]
        self._sites: dict[str, _AtSite] = {}
        self._alike: dict[tuple[bool, ...], _AtSite] = {}
        self._forget()

    def _forget(self) -> None:
        self._fitting: dict[tuple[int, int], _Fitting] = {}
        self._possible: dict[tuple[int, tuple[int, ...]], _Possible] = {}
        self._offerings: dict[tuple[int, ...], Offering] = {}
        self._remembered = 0

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
        fitting = self._fitting.get((gpus.number, there.number)) or self._fit(gpus, there)
        known = fitting.values.get((cpu, memory))
        if known is None:
            known = fitting.values[cpu, memory] = self._filled(fitting, cpu, memory)
            self._remembered += 1
            if self._remembered > MAX_REMEMBERED:
                self._forget()
        return known

    def _filled(self, fitting: _Fitting, cpu: int, memory: int) -> float:
        total = 0
        for offering, gaps, outcomes, times in fitting.offerings:
            for known in outcomes:
                if known[1] <= cpu < known[2] and known[3] <= memory < known[4]:
                    break
            else:
                if fitting.lanes is None:
                    known = offering.offered(fitting.whole, gaps, cpu, memory)
                else:
                    known = offering.offered_in_lanes(fitting.lanes, cpu, memory)
                outcomes.append(known)
                self._remembered += 1
            total += times * known[0]
        return total / len(self._drawn) if total else 0.0

    def _fit(self, gpus: GpuState, there: _AtSite) -> _Fitting:
        lanes = lanes_of(gpus.codes)
        fits = tuple([need for need in there.needs if _takes(lanes, gpus, need)])
        possible = self._possible.get((there.number, fits))
        if possible is None:
            possible = self._possible[there.number, fits] = self._that_fit(frozenset(fits), there)
        ways = possible.ways | {lane for lane, shared in enumerate(lanes.shared) if shared}
        if len(ways) > 1 or CUT_LANE in ways or -1 in ways:
            own: list[_Offered] = [(offering, (), [], times) for offering, times in possible.offerings]
            fitting = _Fitting(lanes, lanes.whole, own, {})
        else:
            fitting = _in_one_way(possible, lanes.whole, lanes.shared[min(ways, default=0)])
        self._fitting[gpus.number, there.number] = fitting
        return fitting

    def _that_fit(self, fits: frozenset[int], there: _AtSite) -> _Possible:
        """What does not fit now will not fit later, and work without GPUs counts for what comes after it."""
        steps = self._steps
        fit = [need in fits for need in self._needs]
        alike: dict[tuple[int, ...], int] = {}
        for sequence in there.sequences:
            kept = tuple([at for at in sequence if fit[at]])
            while kept and not steps[kept[-1]][2]:
                kept = kept[:-1]
            if kept:
                alike[kept] = alike.get(kept, 0) + 1
        asked = {at for kept in alike for at in kept}
        ways = {_way(self._offers[at].need) for at in asked if steps[at][2] and not steps[at][3]}
        offerings = [(self._offering(kept), times) for kept, times in alike.items()]
        sums = reduce(or_, [offering.sums for offering, _ in offerings], 1)
        return _Possible(offerings, frozenset(ways), sums, {})

    def _offering(self, kept: tuple[int, ...]) -> Offering:
        known = self._offerings.get(kept)
        if known is None:
            steps = [self._steps[at] for at in kept]
            known = self._offerings[kept] = Offering(steps, [self._offers[at].need for at in kept])
        return known

    def _compile(self, site: str) -> _AtSite:
        allowed = tuple([not offer.sites or site in offer.sites for offer in self._offers])
        there = self._alike.get(allowed)
        if there is None:
            sequences = [tuple([at for at in sequence if allowed[at]]) for sequence in self._drawn]
            there = self._alike[allowed] = _AtSite(
                len(self._alike),
                list(dict.fromkeys(need for need, may in zip(self._needs, allowed, strict=True) if may)),
                sequences,
                _most(sequences, [step[0] for step in self._steps], CPU_STEP),
                _most(sequences, [step[1] for step in self._steps], MEMORY_STEP),
            )
        self._sites[site] = there
        return there


def _in_one_way(possible: _Possible, whole: int, shared: Sequence[int]) -> _Fitting:
    key = whole, gaps_of(shared, possible.sums)
    known = possible.fitting.get(key)
    if known is None:
        offerings = []
        for offering, times in possible.offerings:
            gaps = gaps_of(key[1], offering.sums)
            offerings.append((offering, gaps, offering.outcomes.setdefault((whole, gaps), []), times))
        known = possible.fitting[key] = _Fitting(None, whole, offerings, {})
    return known


def _takes(lanes: Lanes, gpus: GpuState, number: int) -> bool:
    """Whether a need fits; for most, without working out what would be left."""
    need = gpus.table.needs[number]
    if need.profile is not None or (len(need.parts) > 1 and need.parts[-1] < GPU):
        return gpus[number] is not None
    if not need.parts or lanes.whole >= len(need.parts):
        return True
    shared = lanes.shared[need.lane]
    return bool(shared) and len(need.parts) == 1 and shared[-1] >= need.parts[0]


def _step(offer: Offer) -> Step:
    need = offer.need
    whole = len(need.parts) if need.parts and need.parts[-1] >= GPU else 0
    return offer.cpu_milli, offer.memory_mib, need.amount, whole


def _way(need: Need) -> int:
    """The lane of one share."""
    return need.lane if len(need.parts) == 1 and need.profile is None else -1


def _most(sequences: Sequence[Sequence[int]], asked: Sequence[int], step: int) -> int:
    """Rounded up, so that rounding down what a node has does not take away what the last offer asks for."""
    most = max((sum(asked[at] for at in sequence) for sequence in sequences), default=0)
    return -(-most // step) * step
