"""What kind of work comes: how often each need was asked for, and typical sequences drawn from that.

Learned from arrivals. What is drawn changes only at set numbers of arrivals (each half as many again as the
last), so that asking a question between two arrivals changes nothing. Old arrivals fade: counts are halved
now and then. Draws need chance; theirs comes from a fixed seed and a count, so they are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log

from windlass.core.scheduling.gpus import Need, need_of
from windlass.core.scheduling.model import Shape
from windlass.core.units import GPU

GROWTH = 1.5
FADES_AT = 32_768
MAX_OFFERS = 2048
"""Ways in which needs may differ; beyond, counts are halved and what came once is forgotten."""

HOST_WEIGHT, SHARE_WEIGHT, WHOLE_WEIGHT = 0.3, 2.0, 1.0
"""Work without GPUs matters only by the CPU it takes away; shares fill the gaps that whole GPUs leave, so
their order among each other needs more samples. From the experiment the policy is taken from."""

SEQUENCES = 32
FEWEST_SEQUENCES = 8
ARRIVALS_PER_SEQUENCE = 8
"""Little that is known needs few sequences to say."""
ASKED_OF_NODE = 4.5
"""How many times the largest node a sequence asks for: enough to fill any node after what does not fit."""
SHORTEST, LONGEST = 24, 96

_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class Offer:
    """One worker that might come. `sites` empty: anywhere."""

    need: Need
    cpu_milli: int
    memory_mib: int
    sites: tuple[str, ...] = ()

    @property
    def weight(self) -> float:
        parts = self.need.parts
        if not parts:
            return HOST_WEIGHT
        return WHOLE_WEIGHT if parts[0] >= GPU else SHARE_WEIGHT


@lru_cache(maxsize=65_536)
def offer_of(shape: Shape) -> Offer:
    return Offer(need_of(shape), shape.cpu_milli, shape.memory_mib, shape.sites)


class Mix:
    """What is known of one class. `version` grows when the sequences drawn from it change."""

    def __init__(self, counts: Mapping[Offer, int] | None = None) -> None:
        self.counts: dict[Offer, int] = dict(counts or {})
        self.seen = sum(self.counts.values())
        self.version = 0
        self._next = 0.0
        self._settle()

    def note(self, shape: Shape) -> None:
        """Something of this shape has arrived."""
        offer = offer_of(shape)
        self.counts[offer] = self.counts.get(offer, 0) + shape.workers
        self.seen += 1
        if self.seen >= self._next:
            self._settle()
        if self.seen > FADES_AT or len(self.counts) > MAX_OFFERS:
            self.counts = {offer: count // 2 for offer, count in self.counts.items() if count > 1}
            self.seen //= 2
            self._next = self.seen * GROWTH

    def _settle(self) -> None:
        self.drawn_from = dict(self.counts)
        self.drawn_at = self.seen
        self._next = max(self.seen + 1, self.seen * GROWTH)
        self.version += 1

    def draw(self, largest: int) -> list[list[Offer]]:
        """Sequences of offers for nodes of at most so many GPUs. Each is a systematic sample, and all of
        them together are one; larger needs tend to come first, as they must while there is room."""
        offers = list(self.drawn_from)
        weights = [self.drawn_from[offer] * offer.weight for offer in offers]
        total = sum(weights)
        if not total:
            return []
        asked = sum(weight * offer.need.amount for weight, offer in zip(weights, offers, strict=True)) / total
        length = min(LONGEST, max(SHORTEST, round(ASKED_OF_NODE * largest * GPU / max(1.0, asked))))
        count = min(SEQUENCES, max(FEWEST_SEQUENCES, self.drawn_at // ARRIVALS_PER_SEQUENCE))
        chance = _chance(self.version)
        first = next(chance)
        turns = [next(chance) for _ in offers]
        drawn = []
        for number in range(count):
            sequence: list[tuple[float, int, int]] = []
            reached, picked = 0.0, (first + number / count) % 1.0
            for at, weight in enumerate(weights):
                reached += weight / total * length
                while picked < reached:
                    picked += 1
                    turns[at] = (turns[at] + _GOLDEN) % 1.0
                    largeness = max(1, len(offers[at].need.parts)) ** 2
                    sequence.append((-log(max(turns[at], 1e-9)) / largeness, len(sequence), at))
            drawn.append([offers[at] for _, _, at in sorted(sequence)])
        return drawn


def _chance(seed: int) -> Iterator[float]:
    """Numbers in [0, 1) that look like chance (SplitMix64) and are the same for the same seed."""
    state = seed * 0x9E3779B97F4A7C15
    while True:
        state = (state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        yield (mixed ^ (mixed >> 31)) / 2**64
