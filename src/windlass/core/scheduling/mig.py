"""MIG inside one GPU: instances take memory slices at fixed starts, so a GPU can be free in sum and full.

A GPU has seven compute slices and eight memory slices. Each profile occupies so many memory slices from
one of a few starts (the geometry of the A100, which the later seven-slice GPUs keep). Two of `3g` fill the
memory; a single `1g` at slice 4 keeps the second `3g` out. What is used of a GPU is one number: eight bits
of memory slices, one of the media engines that `+me` takes, and above them the compute slices in use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

COMPUTE_SLICES = 7
_MEDIA = 1 << 8
_COMPUTE = 9  # bits below the number of compute slices
UNUSABLE = (COMPUTE_SLICES << _COMPUTE) | _MEDIA | 0xFF
"""Nothing more fits beside it."""

_PROFILE = re.compile(r"([1-7])g\.([0-9]+)gb(\+[a-z.]+)?")
_CLASS_MEMORY = re.compile(r"-([0-9]+)g(?:b|ib)?$")
_DOUBLES_GB = frozenset((20, 24, 45, 47, 67, 70))
"""Memory of `1g` profiles with two memory slices, where the class does not tell the size of its GPU."""


@dataclass(frozen=True, slots=True)
class Profile:
    """`size` memory slices from one of `starts`, and `compute` slices."""

    compute: int
    size: int
    starts: tuple[int, ...]
    media: bool = False


_BY_COMPUTE = {
    1: Profile(1, 1, (0, 1, 2, 3, 4, 5, 6)),
    2: Profile(2, 2, (0, 2, 4)),
    3: Profile(3, 4, (0, 4)),
    4: Profile(4, 4, (0,)),
    7: Profile(7, 8, (0,)),
}
_DOUBLE = Profile(1, 2, (0, 2, 4, 6))


def profile_of(name: str, gpu_class: str = "") -> Profile | None:
    """The geometry of a profile such as `1g.10gb`; None where it is not known. On a GPU of 40 GB that
    name means two memory slices, on one of 80 GB one: the class tells (`a100-40g`)."""
    parts = _PROFILE.fullmatch(name)
    if parts is None or int(parts[1]) not in _BY_COMPUTE:
        return None
    compute, memory = int(parts[1]), int(parts[2])
    found = _BY_COMPUTE[compute]
    if compute == 1:
        size = _CLASS_MEMORY.search(gpu_class)
        double = 16 * memory > 3 * int(size[1]) if size else memory in _DOUBLES_GB
        found = _DOUBLE if double else found
    media = (parts[3] or "").startswith("+me")
    return Profile(found.compute, found.size, found.starts, media) if media else found


@lru_cache(maxsize=65_536)
def put(used: int, profile: Profile) -> int | None:
    """What one more instance would occupy, as bits to add to `used`; None: it does not fit. Of several
    starts the one that leaves most for others, and of those the last: the first slices suit the most."""
    if (used >> _COMPUTE) + profile.compute > COMPUTE_SLICES or (profile.media and used & _MEDIA):
        return None
    best: tuple[int, int] | None = None
    for start in profile.starts:
        bits = ((1 << profile.size) - 1) << start
        if not used & bits:
            best = max(best or (-1, -1), (_room_left(used | bits), start))
    if best is None:
        return None
    bits = ((1 << profile.size) - 1) << best[1]
    return bits | (profile.compute << _COMPUTE) | (_MEDIA if profile.media else 0)


def can_lie_together(profiles: Sequence[Profile]) -> bool:
    """Whether one GPU could hold all of these at once, wherever each lies."""
    if sum(profile.compute for profile in profiles) > COMPUTE_SLICES:
        return False
    if sum(profile.media for profile in profiles) > 1:
        return False
    ways = {0}
    for profile in sorted(profiles, key=lambda profile: -profile.size):
        spans = [((1 << profile.size) - 1) << start for start in profile.starts]
        ways = {used | bits for used in ways for bits in spans if not used & bits}
    return bool(ways)


def _room_left(used: int) -> int:
    """In how many ways another instance could still be put in, larger ones counting for more."""
    return sum(
        other.size
        for other in (*_BY_COMPUTE.values(), _DOUBLE)
        for start in other.starts
        if not used & (((1 << other.size) - 1) << start)
    )
