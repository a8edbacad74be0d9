"""Lifting work from its GPUs, making a hole there, and putting the work down elsewhere: tried out on the real
state, and all of it undone.

Everything goes where the engine's own placement would put it, one after the other, beside what is kept for
whoever is ahead. The largest come first. Where only GPUs count and sizes divide one another (1, 2, 4 and 8
of a node), that finds an arrangement whenever there is one; a puzzle of odd sizes, CPU or topology can
escape it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from windlass.core.scheduling.apart import Avoided
from windlass.core.scheduling.fit import quota_allows
from windlass.core.scheduling.model import Placement, Shape
from windlass.core.scheduling.placement import place
from windlass.core.scheduling.state import Held, State
from windlass.core.scheduling.trial import Trial

NOBODY = ""
"""Whom a hole is for that a person named: it is in no queue."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The hole: its shape, whom it is for, and the places that are kept meanwhile for whoever is ahead."""

    id: str
    shape: Shape
    kept: tuple[tuple[Shape, Placement], ...] = ()


@dataclass(frozen=True, slots=True)
class Arrangement:
    hole: Placement
    moved: tuple[tuple[Held, Placement], ...]


@dataclass(frozen=True, slots=True)
class Stuck:
    """`id` would have to move and finds no place; None: not even the hole is there."""

    id: str | None


def arrange(state: State, wanted: Wanted, lifted: Sequence[Held]) -> Arrangement | Stuck:
    """The hole and a new place for everything lifted, at the same time. What can stay where it was is not
    moved."""
    largest_first = sorted(lifted, key=lambda held: (-held.shape.gpus, -held.amount, held.id))
    hole_first = _put_down(state, wanted, [None, *largest_first])
    if isinstance(hole_first, Arrangement):
        return hole_first
    larger = sum(1 for held in largest_first if held.shape.gpus > wanted.shape.gpus)
    if not larger:
        return hole_first
    by_size = _put_down(state, wanted, [*largest_first[:larger], None, *largest_first[larger:]])
    return by_size if isinstance(by_size, Arrangement) else hole_first


def _put_down(state: State, wanted: Wanted, order: Sequence[Held | None]) -> Arrangement | Stuck:
    """In this order; None stands for the hole."""
    hole: Placement | None = None
    moved: list[tuple[Held, Placement]] = []
    board = Board(state)
    with board:
        for held in order:
            if held is not None:
                board.remove(held)
        board.keep(wanted.kept)
        for held in order:
            if held is None:
                hole = board.room(wanted.id, wanted.shape, wanted.shape.fewest)
                if hole is None:
                    return Stuck(None)
                board.put(wanted.id, wanted.shape, hole)
                continue
            target = board.again(held)
            if target is None:
                return Stuck(held.id)
            board.put(held.id, held.shape, target)
            moved.append((held, target))
    assert hole is not None, "it is one of those put down"
    return Arrangement(hole, tuple((held, to) for held, to in moved if not _same(held.placement, to)))


class Board(Trial):
    """The state while things on it are lifted (`remove`) and put down."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._down: dict[str, tuple[Shape, Placement]] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for shape, placement in self._down.values():
            self._state.neighbours.count(self._state.tree, shape, placement, -1)
        super().__exit__(kind, error, trace)

    def keep(self, places: Iterable[tuple[Shape, Placement]]) -> list[int]:
        """As far as they are free now, these are nobody's; `stop` with each handle frees them again."""
        return [self.start(shape, placement) for shape, placement in places]

    def put(self, id: str, shape: Shape, placement: Placement) -> None:
        self.start(shape, placement, charged=id != NOBODY)
        self._state.neighbours.count(self._state.tree, shape, placement, 1)
        self._down[id] = (shape, placement)

    def room(self, id: str, shape: Shape, workers: int) -> Placement | None:
        if id != NOBODY and not quota_allows(self._state.pool(shape), shape):
            return None
        return place(self._state.fleet, shape, workers, avoid=self._avoid(id, shape))

    def again(self, held: Held) -> Placement | None:
        """Room for a gang as it is: all workers it has, and no more."""
        workers = len(held.placement.workers)
        return self.room(held.id, replace(held.shape, workers=workers, min_workers=None), workers)

    def _avoid(self, id: str, shape: Shape) -> Collection[str]:
        """What the state says of those who stay, and the same of those put down: keeping away from named
        work is mutual between two that both have to be put somewhere."""
        avoid = self._state.avoided(shape, self.gone)
        named = {
            worker.node: None
            for other, (its_shape, placement) in self._down.items()
            if other in shape.avoid or id in its_shape.avoid
            for worker in placement.workers
        }
        if not named:
            return avoid
        if isinstance(avoid, Avoided):
            avoid.named = {**avoid.named, **named}
            return avoid
        return named


def _same(one: Placement, other: Placement) -> bool:
    """Which worker is where makes no difference: they are alike."""
    return sorted((at.node, at.gpus) for at in one.workers) == sorted(
        (at.node, at.gpus) for at in other.workers
    )
