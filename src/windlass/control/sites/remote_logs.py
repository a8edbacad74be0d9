"""Logs of a site whose agent is elsewhere: questions that wait for the agent to fetch them, and its answers.

The agent dials out, so the centre cannot ask; it leaves a question for the agent's next look, which is
a request that already waits here. A question is kept in memory for as long as somebody waits for it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from windlass.contracts.agent import LogAnswer, LogQuestion
from windlass.core.errors import Unavailable

_PATIENCE_S = 15.0
_FOLLOW_S = 0.5
_MOST = 256  # questions at once, per site


@dataclass(frozen=True, slots=True)
class RemoteChunk:
    data: bytes
    offset: int
    dropped: int

    @property
    def next_offset(self) -> int:
        return self.offset + len(self.data)


@dataclass(slots=True)
class _Site:
    open: deque[LogQuestion] = field(default_factory=deque)
    asked: dict[int, asyncio.Future[LogAnswer]] = field(default_factory=dict)
    more: asyncio.Event = field(default_factory=asyncio.Event)


class RemoteLogs:
    """`over` says whether an attempt has ended, so that nothing more will come."""

    def __init__(self, over: Callable[[str, int], Awaitable[bool]]) -> None:
        self._over = over
        self._sites: dict[str, _Site] = {}
        self._numbers = itertools.count(1)

    def at(self, site: str) -> RemoteLog:
        return RemoteLog(self, site, self._over)

    async def ask(self, site: str, question: LogQuestion) -> LogAnswer:
        there = self._sites.setdefault(site, _Site())
        if len(there.asked) >= _MOST:
            raise Unavailable(f"too many logs are read at {site}", remedy="try again in a few seconds")
        number = next(self._numbers)
        answer: asyncio.Future[LogAnswer] = asyncio.get_running_loop().create_future()
        there.asked[number] = answer
        there.open.append(LogQuestion(id=number, **question.place()))
        there.more.set()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await answer
        except TimeoutError:
            raise Unavailable(
                f"the agent of {site} does not answer",
                remedy="see whether `windlass agent` runs there and reaches this server; the log is kept",
            ) from None
        finally:
            there.asked.pop(number, None)

    async def questions(self, site: str, wait_s: float) -> list[LogQuestion]:
        """For the site's agent: what is asked, or nothing after a while."""
        there = self._sites.setdefault(site, _Site())
        try:
            async with asyncio.timeout(wait_s):
                while not there.open:
                    there.more.clear()
                    await there.more.wait()
        except TimeoutError:
            return []
        found = [question for question in there.open if question.id in there.asked]
        there.open.clear()
        return found

    def answered(self, site: str, answer: LogAnswer) -> None:
        """From the site's agent. Nobody waits any more: then it is not needed."""
        waiting = self._sites.setdefault(site, _Site()).asked.get(answer.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """The logs of one site, as the gateway reads them."""

    logs: RemoteLogs
    site: str
    over: Callable[[str, int], Awaitable[bool]]

    async def read_log(
        self, workload: str, attempt: int, worker: int, *, offset: int = 0, limit: int = 1 << 20
    ) -> RemoteChunk:
        question = LogQuestion(workload=workload, attempt=attempt, worker=worker, offset=offset, limit=limit)
        answer = await self.logs.ask(self.site, question)
        return RemoteChunk(answer.data, answer.offset, answer.dropped)

    async def follow_log(
        self, workload: str, attempt: int, worker: int, *, offset: int = 0
    ) -> AsyncIterator[RemoteChunk]:
        while True:
            last = await self.over(workload, attempt)  # asked first: what was written before is read after
            chunk = await self.read_log(workload, attempt, worker, offset=offset, limit=1 << 18)
            if chunk.data or chunk.dropped:
                offset = chunk.next_offset
                yield chunk
            elif last:
                return
            else:
                await asyncio.sleep(_FOLLOW_S)
