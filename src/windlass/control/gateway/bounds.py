"""How much the process holds for its askers at once, and what a request costs them.

A request is charged in units: a read one, a write two, and one more for every 4 KiB of the body and of the
answer.
"""

from __future__ import annotations

from typing import Literal

from windlass.core.bounds import Bounds
from windlass.core.errors import TooMany, Unavailable
from windlass.runtime.metrics import LIMITED

Limit = Literal["principal", "tenant", "address"]

READ, WRITE = 1, 2
BYTES_PER_UNIT = 4096


def size_cost(size: int) -> int:
    return size // BYTES_PER_UNIT


class Places:
    """How much of something is held at once, by each and in all. `what` and `remedy` are for people."""

    def __init__(self, name: str, what: str, remedy: str, most_each: int, most: int) -> None:
        self._name, self._what, self._remedy = name, what, remedy
        self._most_each, self._most = most_each, most
        self._held: dict[str, int] = {}
        self.total = 0

    def take(self, who: str, amount: int = 1) -> None:
        held = self._held.get(who, 0) + amount
        if held > self._most_each:
            LIMITED.labels(self._name).inc()
            raise TooMany(
                f"you hold {self._most_each:,} {self._what} at once, the most that one may",
                remedy=self._remedy,
            )
        if self.total + amount > self._most:
            LIMITED.labels(self._name).inc()
            raise Unavailable(
                f"the platform holds {self._most:,} {self._what}, the most it can",
                remedy="try again in a few seconds",
                retry_s=5,
            )
        self._held[who] = held
        self.total += amount

    def leave(self, who: str, amount: int = 1) -> None:
        self.total -= amount
        left = self._held[who] - amount
        if left:
            self._held[who] = left
        else:
            del self._held[who]


def streams(bounds: Bounds) -> Places:
    remedy = "close some; one stream of events tells of everything you may see"
    return Places("streams", "streams of events or logs", remedy, bounds.streams_each, bounds.streams)


def bodies(bounds: Bounds) -> Places:
    remedy = "send fewer large requests at a time"
    return Places("bodies", "bytes of unfinished requests", remedy, bounds.body_bytes_each, bounds.body_bytes)
