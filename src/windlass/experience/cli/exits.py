"""Which exit code stands for several: the one that most needs a person to look."""

from __future__ import annotations

from collections.abc import Iterable

# A bug before a wrong document, before a policy's no, before a race, before a missing right or
# name; "try again later" only when nothing else is wrong.
WORST_FIRST = (1, 2, 3, 5, 7, 4, 6, 0)


def worst(codes: Iterable[int]) -> int:
    return min(codes, key=WORST_FIRST.index, default=0)
