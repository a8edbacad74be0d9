"""Trying things out on the real state and putting everything back.

Copying a fleet of ten thousand nodes to ask one question costs more than the answer. A `Trial`
takes work away or starts it on the state itself, remembers each step, and undoes all of them when
it ends, also when it ends with an exception.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from windlass.core.scheduling.model import Placement, Shape
from windlass.core.scheduling.nodes import Take
from windlass.core.scheduling.state import Held, State


class Untouched:
    """Nothing has changed at the end after all, so what was known of these versions before is still true.
    What is found out inside must not be kept: it is not true of any state there will be."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._before = (state.fleet.version, state.tree.version, state.future.version, state.fleet.trying)

    def __enter__(self) -> Self:
        self._state.fleet.trying = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state = self._state
        state.fleet.version, state.tree.version, state.future.version, state.fleet.trying = self._before


class Trial:
    def __init__(self, state: State) -> None:
        self._state = state
        self._untouched = Untouched(state)
        self._started: list[tuple[Shape, int, list[Take]]] = []
        self._counted: list[Held] = []
        self.gone: dict[str, Held] = {}

    def __enter__(self) -> Self:
        self._untouched.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._started:
            self._stop(*self._started.pop())
        for held in reversed(list(self.gone.values())):
            self.put_back(held)
        for held in self._counted:
            self._state.future_pool(held.shape).discharge(held.amount)
        self._untouched.__exit__(kind, error, trace)

    def remove(self, held: Held) -> None:
        self._state.fleet.give_back(held.takes)
        self._state.pool(held.shape).discharge(held.amount)
        if not held.stopping:
            self._state.future_pool(held.shape).discharge(held.amount)
        self.gone[held.id] = held

    def put_back(self, held: Held) -> None:
        self._state.fleet.retake(held.takes)
        self._state.pool(held.shape).charge(held.amount)
        if not held.stopping:
            self._state.future_pool(held.shape).charge(held.amount)
        del self.gone[held.id]

    def count(self, held: Held) -> None:
        """Let work that is stopping count in the future too, as if it stayed."""
        self._state.future_pool(held.shape).charge(held.amount)
        self._counted.append(held)

    def discount(self, held: Held) -> None:
        self._state.future_pool(held.shape).discharge(held.amount)
        self._counted.remove(held)

    def start(self, shape: Shape, placement: Placement, *, charged: bool = True) -> int:
        """Start new work; the handle stops it again. What is in no queue is not charged to one."""
        amount = shape.gpus * len(placement.workers) if charged else 0
        if amount:
            self._state.pool(shape).charge(amount)
        self._started.append((shape, amount, self._state.fleet.take(shape, placement)))
        return len(self._started) - 1

    def stop(self, handle: int) -> None:
        shape, amount, takes = self._started[handle]
        self._stop(shape, amount, takes)
        self._started[handle] = (shape, 0, [])

    def _stop(self, shape: Shape, amount: int, takes: list[Take]) -> None:
        self._state.fleet.give_back(takes)
        if amount:
            self._state.pool(shape).discharge(amount)
