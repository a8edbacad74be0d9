"""Reads take turns: tenants one after the other, whoever asks for how much.

A read is answered on the event loop, and a long list holds it for milliseconds. Somebody with a hundred
connections would else have a hundred lists in front of everybody else's next answer, whatever their rate. So
one read begins at a time, of each lane in turn, with a few rounds of the loop in between for whoever comes;
and of one lane only a few are under way, for those that wait for a database. Changes take turns at the store
(control/db/turns.py), and whoever waits on purpose (an agent for news, a watcher for events) does not stand
here.
"""

from __future__ import annotations

import asyncio
from collections import deque

from windlass.control.identity.scopes import Principal
from windlass.core.errors import Unavailable
from windlass.runtime.metrics import LIMITED

AT_ONCE = 4
"""Enough for the database to be busy with one tenant's, few enough to leave connections for the others."""
MOST_WAITING = 1000
_ROUNDS = 3
"""Of the loop, that a request takes from its first byte until it stands here: so another's next request is
here before the second read of a lane begins. They are empty, and cost some microseconds each."""


class ReadingTurns:
    def __init__(self, at_once: int = AT_ONCE, most_waiting: int = MOST_WAITING) -> None:
        self._at_once, self._most_waiting = at_once, most_waiting
        self._under_way: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # lanes in the order of their turns
        self._last = ""  # lane that had its turn
        self._begun = False  # one did just now, and the next one will
        self._rounds = 0  # since then

    @property
    def lanes(self) -> int:
        return len(self._under_way) + len(self._waiting)

    async def enter(self, lane: str) -> None:
        if not self._begun and not self._waiting and self._under_way.get(lane, 0) < self._at_once:
            self._start(lane)
            return
        line = self._waiting.setdefault(lane, deque())
        if len(line) >= self._most_waiting:
            LIMITED.labels("reads").inc()
            raise Unavailable(
                f"{self._most_waiting:,} requests of yours wait to be answered, the most that may",
                remedy="try again in a few seconds, and ask fewer at a time",
                retry_s=2,
            )
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        self._look()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(lane)  # its turn had come: the next one's now
            raise

    def leave(self, lane: str) -> None:
        left = self._under_way[lane] - 1
        if left:
            self._under_way[lane] = left
        else:
            del self._under_way[lane]
        self._look()

    def _start(self, lane: str) -> None:
        self._under_way[lane] = self._under_way.get(lane, 0) + 1
        self._last, self._begun, self._rounds = lane, True, 0
        asyncio.get_running_loop().call_soon(self._next)

    def _look(self) -> None:
        if self._waiting and not self._begun:
            self._begun, self._rounds = True, _ROUNDS
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        if self._waiting and self._rounds < _ROUNDS:
            self._rounds += 1
            asyncio.get_running_loop().call_soon(self._next)
            return
        self._begun = False
        while (lane := self._whose_turn()) is not None:
            line = self._waiting.pop(lane)
            turn = line.popleft()
            if line:
                self._waiting[lane] = line  # behind the others
            if not turn.done():  # else its asker is gone
                self._start(lane)
                turn.set_result(None)
                return

    def _whose_turn(self) -> str | None:
        """The lane that waits longest; the last one only if there is no other."""
        may = [lane for lane in self._waiting if self._under_way.get(lane, 0) < self._at_once]
        others = (lane for lane in may if lane != self._last)
        return next(others, may[0] if may else None)


def lane(principal: Principal, asker: str) -> str:
    return principal.tenant if principal.tenant is not None else f"/{asker}"  # no tenant begins with a slash
