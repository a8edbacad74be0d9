"""Who is next: units of work wait in lanes, one for each tenant, and the lanes take turns.

A tenant that floods the store fills its own lane. Whoever else comes is next but for one unit of each
other lane, however long that one is. The platform's own loops and people have a lane by name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from windlass.control.identity.scopes import Scope
from windlass.core.errors import Unavailable
from windlass.runtime.metrics import LIMITED

MOST = 10_000
MOST_EACH = 2000


class Waits(Protocol):
    @property
    def scope(self) -> Scope: ...


W = TypeVar("W", bound=Waits)


class Turns(Generic[W]):
    def __init__(self, most_each: int = MOST_EACH, most: int = MOST) -> None:
        self._lanes: dict[str, deque[W]] = {}
        self._order: deque[str] = deque()  # of lanes in which somebody waits
        self._most_each, self._most = most_each, most
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[W]:
        return (one for name in self._order for one in self._lanes[name])

    def append(self, one: W) -> None:
        name = _lane(one.scope)
        lane = self._lanes.get(name)
        if self._size >= self._most or (lane is not None and len(lane) >= self._most_each):
            LIMITED.labels("store-queue").inc()
            raise Unavailable(
                "too many changes wait for the database; this one was not taken",
                remedy="try again in a few seconds, and send fewer at a time",
                retry_s=2,
            )
        if lane is None:
            lane = self._lanes[name] = deque()
            self._order.append(name)
        lane.append(one)
        self._size += 1

    def popleft(self) -> W:
        name = self._order.popleft()
        lane = self._lanes[name]
        one = lane.popleft()
        if lane:
            self._order.append(name)
        else:
            del self._lanes[name]
        self._size -= 1
        return one

    def clear(self) -> None:
        self._lanes.clear()
        self._order.clear()
        self._size = 0


def _lane(scope: Scope) -> str:
    return scope.tenant if scope.tenant is not None else f"/{scope.actor}"  # no tenant begins with a slash
