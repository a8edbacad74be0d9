"""When waiting work will probably start, cheap enough for every read.

One replay of the engine gives the start of everybody near the front of a class; those further back
are taken to move at the pace of the first of them that was asked about. Both are kept for a moment,
because a forecast does not get worse in two seconds. `windlass why` asks the engine itself, for that
one workload, at that instant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from windlass.core.scheduling.engine import State, estimate, estimates, position
from windlass.core.scheduling.model import Position
from windlass.core.units import Ms
from windlass.runtime.clock import Clock

_KEPT_MS = 2_000


@dataclass(slots=True)
class _Outlook:
    """Of one class: who starts when near the front, and how many milliseconds a place costs behind it, once
    somebody there was asked about; None where nothing is known that would make room."""

    made: Ms
    front: Mapping[str, Ms | None]
    places: Mapping[str, Position]
    asked: bool = False
    pace: int | None = None


class Forecast:
    def __init__(self, state: Callable[[], State], clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._classes: dict[str, _Outlook] = {}

    def starts(self, id: str, ahead: int) -> Ms | None:
        """None: it does not wait, or nothing that is known of would make room for it."""
        state, now = self._state(), self._clock()
        workload = state.lines.waiting.get(id)
        if workload is None:  # promised: its victims are leaving
            guess = estimate(state, id, now)
            return guess.starts if guess is not None else None
        outlook = self._outlook(state, workload.shape.gpu_class, now)
        if id in outlook.front:
            return outlook.front[id]
        if not outlook.asked:
            guess = estimate(state, id, now)
            outlook.asked = True
            outlook.pace = (guess.starts - now) // max(1, ahead) if guess is not None else None
        return Ms(now + outlook.pace * ahead) if outlook.pace is not None else None

    def listed(self, id: str) -> tuple[Position | None, Ms | None]:
        """Its place and start as a list shows them: at the price of a look-up, so only of those near the
        front, and as of the last forecast."""
        state, now = self._state(), self._clock()
        workload = state.lines.waiting.get(id)
        if workload is None:
            place = position(state, id)
            return place, self.starts(id, place.ahead) if place is not None else None
        outlook = self._outlook(state, workload.shape.gpu_class, now)
        return outlook.places.get(id), outlook.front.get(id)

    def _outlook(self, state: State, gpu_class: str, now: Ms) -> _Outlook:
        known = self._classes.get(gpu_class)
        if known is None or not 0 <= now - known.made < _KEPT_MS:
            front = estimates(state, gpu_class, now)
            known = self._classes[gpu_class] = _Outlook(now, front, _places(state, front))
        return known


def _places(state: State, front: Mapping[str, Ms | None]) -> dict[str, Position]:
    """They are in order: the first has the place the engine says, each further one the next."""
    first = next((place for id in front if (place := position(state, id)) is not None), None)
    if first is None:
        return {}
    return {id: Position(first.ahead + behind, first.of) for behind, id in enumerate(front)}
