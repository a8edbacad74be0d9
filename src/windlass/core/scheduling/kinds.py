"""Kinds of rooms: nodes of one class with the same left of everything, and how well a need suits each.

Ten thousand nodes are of few kinds: the untouched, the full, and some between. A kind never changes; a node
that gives or gets something back joins another. So how far a kind's value falls under a need is worked out
once for each mix, and placing something costs a walk over the kinds that have room for it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from windlass.core.scheduling.gpus import GpuState, GpuStates, Need
from windlass.core.scheduling.mix import Mix
from windlass.core.scheduling.value import FillValue

COMPARED = 64
"""How many kinds are compared for one need, the tightest first: bounds the cost of one placement where
hardly two nodes are alike."""
STEP = 10
"""Falls of value are compared in hundredths of a GPU: less is not worth a higher price."""
MAX_KINDS, MAX_ASKS = 50_000, 1024

MOST_WORKERS = 1000
"""On one node, of work that asks for nothing that is counted."""

Ask = tuple[int, int, int]
"""The number of a need, CPU, memory."""
_Order = tuple[int, int, int, tuple[int, ...], str, int]


class Kind:
    """What is left on each of the nodes `ranks` names, in order. Tight ones sort first."""

    __slots__ = ("cpu", "gpus", "memory", "order", "price", "ranks", "site")

    def __init__(self, gpus: GpuState, cpu: int, memory: int, site: str, price: int) -> None:
        self.gpus = gpus
        self.cpu = cpu
        self.memory = memory
        self.site = site
        self.price = price
        self.ranks: list[int] = []
        self.order: _Order = (gpus.free, cpu, memory, gpus.codes, site, price)

    def __lt__(self, other: Kind) -> bool:
        return self.order < other.order

    def holds(self, ask: Ask) -> bool:
        """One worker fits."""
        need, cpu, memory = ask
        return self.cpu >= cpu and self.memory >= memory and self.gpus[need] is not None

    def workers(self, ask: Ask) -> int:
        """How many fit beside each other."""
        need, cpu, memory = ask
        most = MOST_WORKERS
        if cpu:
            most = min(most, self.cpu // cpu)
        if memory:
            most = min(most, self.memory // memory)
        count, gpus = 0, self.gpus[need]
        if gpus is self.gpus:
            return most
        while gpus is not None and count < most:
            count, gpus = count + 1, gpus[need]
        return count


class Kinds:
    """The kinds of one class that have nodes, and what is known of them."""

    def __init__(self, table: GpuStates, mix: Mix) -> None:
        self.table = table
        self.mix = mix
        self.live: list[Kind] = []
        self._known: dict[tuple[int, int, int, str, int], Kind] = {}
        self._falls: dict[Ask, dict[Kind, int]] = {}
        self._value: FillValue | None = None
        self._largest = 1

    def ask(self, need: Need, cpu: int, memory: int) -> Ask:
        return self.table.number(need), cpu, memory

    def kind(self, gpus: GpuState, cpu: int, memory: int, site: str, price: int) -> Kind:
        key = (gpus.number, cpu, memory, site, price)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_KINDS:
                self._known = {key: kind for key, kind in self._known.items() if kind.ranks}
                self._falls.clear()
            known = self._known[key] = Kind(gpus, cpu, memory, site, price)
        return known

    def join(self, kind: Kind, rank: int) -> None:
        if not kind.ranks:
            insort(self.live, kind)
            self._largest = max(self._largest, len(kind.gpus.codes))
        insort(kind.ranks, rank)

    def leave(self, kind: Kind, rank: int) -> None:
        del kind.ranks[bisect_left(kind.ranks, rank)]
        if not kind.ranks:
            del self.live[bisect_left(self.live, kind)]

    def with_room(self, ask: Ask, amount: int, sites: tuple[str, ...], most: int | None = None) -> list[Kind]:
        """Those on which one worker fits, the tightest first, at most so many of them."""
        found: list[Kind] = []
        need, cpu, memory = ask
        live = self.live
        for at in range(bisect_left(live, amount, key=_free), len(live)):
            kind = live[at]
            if kind.cpu < cpu or kind.memory < memory or (sites and kind.site not in sites):
                continue
            if kind.gpus[need] is not None:
                found.append(kind)
                if len(found) == most:
                    break
        return found

    def falls(self, kinds: Iterable[Kind], ask: Ask) -> list[int]:
        """How much less a node of each would be worth, in steps."""
        self._renew()
        known = self._falls.get(ask)
        if known is None:
            if len(self._falls) >= MAX_ASKS:
                self._falls.clear()
            known = self._falls[ask] = {}
        falls = []
        for kind in kinds:
            fall = known.get(kind)
            if fall is None:
                fall = known[kind] = self.fall_of(kind.gpus, kind.cpu, kind.memory, kind.site, ask)
            falls.append(fall)
        return falls

    def least(self, kinds: Sequence[Kind], ask: Ask) -> list[Kind]:
        """Those whose value falls least."""
        falls = self.falls(kinds, ask)
        least = min(falls)
        return [kind for kind, fall in zip(kinds, falls, strict=True) if fall == least]

    def fall_of(self, gpus: GpuState, cpu: int, memory: int, site: str, ask: Ask) -> int:
        """The same for a node as it would be."""
        self._renew()
        assert self._value is not None
        return int(self._value.drop(gpus, cpu, memory, site, ask) / STEP + 0.5)

    def _renew(self) -> None:
        """Forget what was worked out for an earlier mix."""
        value = self._value
        if value is None or value.mix_version != self.mix.version or value.largest < self._largest:
            self._value = FillValue(self.table, self.mix, self._largest)
            self._falls.clear()


def _free(kind: Kind) -> int:
    return kind.gpus.free
