"""MIG geometry by brute force: every way in which instances can lie on one GPU. Nothing of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

STARTS = {"1g.10gb": (1, range(7)), "1g.20gb": (2, (0, 2, 4, 6)), "2g.20gb": (2, (0, 2, 4)),
          "3g.40gb": (4, (0, 4)), "4g.40gb": (4, (0,)), "7g.80gb": (8, (0,))}  # fmt: skip
"""Memory slices and where they may begin, of an 80 GB GPU."""


@cache
def ways(instances: tuple[str, ...]) -> frozenset[int]:
    """The sets of memory slices (as bits) that these instances may use together."""
    if sum(int(name[0]) for name in instances) > 7:
        return frozenset()
    used = {0}
    for name in instances:
        used = {before | bits for before in used for bits in _bits(name) if not before & bits}
    return frozenset(used)


def more(instances: tuple[str, ...], name: str) -> tuple[int, int]:
    """How many of one more profile fit beside what is there: where it lies worst, and where it lies best."""
    compute = (7 - sum(int(one[0]) for one in instances)) // int(name[0])
    free = [
        min(compute, sum(1 for bits in _bits(name) if not used & bits))
        for used in ways(tuple(sorted(instances)))
    ]
    return min(free, default=0), max(free, default=0)


def _bits(name: str) -> Iterator[int]:
    size, starts = STARTS[name]
    return (((1 << size) - 1) << start for start in starts)
