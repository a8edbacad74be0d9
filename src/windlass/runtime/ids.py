"""Identifiers made from the clock and chance, both handed in."""

from __future__ import annotations

import os
from collections.abc import Callable

from windlass.core.ids import make_id
from windlass.runtime.clock import Clock

Ids = Callable[[str], str]

_BYTES = 10  # the chance in one id: 80 bits
_AT_A_TIME = 256


def random_ids(clock: Clock, chance: Callable[[int], bytes] = os.urandom) -> Ids:
    """A maker of ids: `ids("dec")` -> `dec_…`. Chance is fetched for many ids at a time."""
    store, used = b"", 0

    def make(prefix: str) -> str:
        nonlocal store, used
        if used >= len(store):
            store, used = chance(_BYTES * _AT_A_TIME), 0
        piece = store[used : used + _BYTES]
        used += _BYTES
        return make_id(prefix, clock(), int.from_bytes(piece))

    return make
