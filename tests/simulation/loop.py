"""An event loop on a virtual clock that runs what is ready in a seeded order.

Nothing waits: when nobody can go on, time jumps to the next timer. Every callback belongs to a party (a
process of the simulated world) by its context, so a party can be frozen (its callbacks wait) or dead
(they never run), between any two steps. Same seed, same order, same story.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class Party:
    """One life of a simulated process: a restarted one is another party."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.frozen = False
        self.context = contextvars.copy_context()
        self.context.run(_PARTY.set, self)

    def task(self, work: Coroutine[Any, Any, T], name: str = "") -> asyncio.Task[T]:
        """Run as this party, from now on, whoever asks."""
        return asyncio.get_running_loop().create_task(work, name=name or None, context=self.context.copy())


_PARTY: contextvars.ContextVar[Party | None] = contextvars.ContextVar("party", default=None)


class Stuck(AssertionError):
    """Nobody can go on, and no timer would change that."""


class VirtualLoop(asyncio.SelectorEventLoop):
    _ready: deque[Any]
    _scheduled: list[Any]

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._chance = chance
        self._virtual_s = 0.0
        self.steps = 0
        self.tasks: list[asyncio.Task[Any]] = []  # also of the dead: nothing of them may end by itself
        self.set_task_factory(self._new_task)

    def time(self) -> float:
        return self._virtual_s

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Any:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> NoReturn:
        raise RuntimeError("no threads in the simulation: their order would be chance without a seed")

    def _new_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        self.tasks.append(task)
        return task

    def _run_once(self) -> None:
        while True:
            runnable = self._runnable()
            if runnable:
                break
            self._jump()
        chosen = runnable[self._chance.randrange(len(runnable))] if len(runnable) > 1 else runnable[0]
        self._ready.remove(chosen)
        self.steps += 1
        chosen._run()

    def _runnable(self) -> list[Any]:
        runnable, kept = [], deque[Any]()
        for handle in self._ready:
            party = handle._context.get(_PARTY)
            if handle._cancelled or (party is not None and party.dead):
                continue
            kept.append(handle)
            if party is None or not party.frozen:
                runnable.append(handle)
        self._ready = kept
        return runnable

    def _jump(self) -> None:
        """To the next timer; all that are due then are ready."""
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        if not self._scheduled:
            raise Stuck("nobody can go on, and nothing is due")
        self._virtual_s = max(self._virtual_s, self._scheduled[0]._when)
        while self._scheduled and self._scheduled[0]._when <= self._virtual_s:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False
            self._ready.append(timer)


def play(chance: Random, story: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """The whole story on a loop of its own; whatever is left of it ends with it, the dead too."""
    loop = VirtualLoop(chance)
    try:
        return loop.run_until_complete(story(loop))
    finally:
        for task in loop.tasks:
            _sweep(task)
        loop._ready.clear()
        loop._scheduled.clear()
        loop.close()


def _sweep(task: asyncio.Task[Any]) -> None:
    """What a dead process would still do or say is nobody's news."""
    if task.done():
        if not task.cancelled():
            task.exception()
        return
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    with suppress(BaseException):
        task.get_coro().close()
