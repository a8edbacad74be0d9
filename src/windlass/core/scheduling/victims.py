"""Which of those who may be asked to leave really have to, so that a newcomer fits.

Sets of victims are compared by: others' borrowed work before the newcomer's own queue, lower priority,
fewer, less work lost since the last checkpoint (GPU time), newer. In one list: the victims of a set by
(own queue, priority), the dearest first, and a list that is a beginning of another is the better.

The first set is found by taking away in order until the newcomer fits and giving back what was not
needed, the last taken first. Is it more than one, fewer are looked for: among up to `EXACT` candidates
all sets are compared, among more the large ones and those of one node are tried first. Never useless:
what is returned has been tried, and none of it can stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from windlass.core.scheduling.fit import quota_allows
from windlass.core.scheduling.model import Placement, PreemptionReason, Shape
from windlass.core.scheduling.placement import has_room, place
from windlass.core.scheduling.quota import Pool
from windlass.core.scheduling.state import Held, State
from windlass.core.scheduling.trial import Trial
from windlass.core.units import MilliGpu, Ms

Way = Literal["borrowing", "inside", "fair-share"]

ASKED = 512
"""So many candidates are looked at, the first in order. Who needs more to leave waits for ends instead."""
EXACT = 6
"""Among so many candidates every set is compared (63 of them)."""
SINGLE = 24
"""Of more candidates, so many are tried alone, and so many nodes are tried for fewer victims."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the newcomer goes once all of `after` are gone; `victims` have still to be told."""

    placement: Placement
    borrowed: MilliGpu
    after: tuple[str, ...]
    victims: tuple[tuple[Held, PreemptionReason], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """`below` is the pool it shares with the newcomer (None: the newcomer's own home), `top` the child of
    that pool it is in. `side` is the newcomer's child of it and what it would add there, where fair share
    may decide."""

    held: Held
    home: Pool
    top: Pool
    below: Pool | None
    advantage: bool
    inside: bool
    side: tuple[Pool, int] | None = None

    @property
    def rank(self) -> tuple[bool, int]:
        return self.below is None, self.held.shape.priority

    def order(self, now: Ms) -> tuple[int, int, int, int, str]:
        group = 2 if self.below is None else 0 if self.advantage else 1
        return group, self.held.shape.priority, self.lost(now), -self.held.since, self.held.id

    def lost(self, now: Ms) -> int:
        return self.held.amount * max(0, now - self.held.saved)

    def reason(self, way: Way) -> PreemptionReason:
        if self.below is None:
            return "priority"
        return "fair-share" if way == "fair-share" and not self.advantage else "reclaim"


def choose(
    state: State, shape: Shape, trial: Trial, candidates: Sequence[Candidate], way: Way, now: Ms
) -> list[Candidate]:
    """The victims, taken away in `trial`, in order; empty, with everything back, if it never fits."""
    search = _Search(state, shape, trial, way, now)
    first = search.take_until_it_fits(candidates)
    best = search.without_needless(first) if first else search.in_another_order(candidates)
    if not best:
        return []
    if len(best) > 1 and first:
        dearest = max(candidate.rank for candidate in best)
        rivals = [candidate for candidate in candidates if candidate.rank <= dearest]
        for other in search.fewer(rivals):
            best = min(best, other, key=search.price)
    search.take(best)
    return sorted(best, key=lambda candidate: candidate.order(now))


def all_would_do(state: State, shape: Shape, trial: Trial, candidates: Iterable[Candidate]) -> bool:
    """It would fit without all of them, whether they may be asked together or not. If not, no set will do."""
    gone = {id(candidate.held): candidate.held for candidate in candidates}
    for held in gone.values():
        trial.remove(held)
    enough = bool(quota_allows(state.future_pool(shape), shape)) and has_room(
        state.fleet, shape, shape.fewest, avoid=state.avoided(shape, trial.gone)
    )
    for held in reversed(gone.values()):
        trial.put_back(held)
    return enough


def fits(state: State, shape: Shape, trial: Trial, way: Way) -> Placement | None:
    if not _quota_fits(state, shape, way):
        return None
    # An elastic gang asks nobody to leave for more than its fewest workers.
    return place(state.fleet, shape, shape.fewest, avoid=state.avoided(shape, trial.gone))


def _quota_fits(state: State, shape: Shape, way: Way) -> bool:
    pool = state.future_pool(shape)
    need = shape.needed
    if way == "inside" and shape.preemptible and pool.home.use + need > pool.home.pool:
        return False
    return bool(quota_allows(pool, shape))


def smaller_share(side: tuple[Pool, int] | None, top: Pool) -> bool:
    """Whether the newcomer's part of the tree, with its need, has a smaller share than another part."""
    if side is None:
        return False
    mine, more = side
    return mine.stands_at(more) < top.stands_at()


@dataclass(slots=True)
class _Search:
    state: State
    shape: Shape
    trial: Trial
    way: Way
    now: Ms

    def price(self, chosen: Sequence[Candidate]) -> tuple[object, ...]:
        ranks = sorted((candidate.rank for candidate in chosen), reverse=True)
        newest = sorted((-candidate.held.since, candidate.held.id) for candidate in chosen)
        return ranks, sum(candidate.lost(self.now) for candidate in chosen), newest

    def fits(self) -> bool:
        state, shape = self.state, self.shape
        if not _quota_fits(state, shape, self.way):
            return False
        return has_room(state.fleet, shape, shape.fewest, avoid=state.avoided(shape, self.trial.gone))

    def take(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Take away whoever may still be asked when it is its turn."""
        taken = []
        for candidate in candidates:
            if self._may_go(candidate):
                self.trial.remove(candidate.held)
                taken.append(candidate)
        return taken

    def give_back(self, taken: Sequence[Candidate]) -> None:
        for candidate in reversed(taken):
            self.trial.put_back(candidate.held)

    def take_until_it_fits(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The shortest beginning that is enough, still taken away; empty and all back if all are not."""
        taken: list[Candidate] = []
        step = 1
        at = 0
        while at < len(candidates):
            before, known = at, len(taken)
            at = min(len(candidates), at + step)
            taken += self.take(candidates[before:at])
            if self.fits():
                return self._shortest(taken, known)
            step *= 2
        self.give_back(taken)
        return []

    def without_needless(self, taken: list[Candidate]) -> list[Candidate]:
        """Give back what is not needed, the last taken first; in the end everything is back."""
        needed = taken[-1:]
        for candidate in reversed(taken[:-1]):
            self.trial.put_back(candidate.held)
            if not self.fits():
                self.trial.remove(candidate.held)
                needed.append(candidate)
        needed.reverse()  # in the order in which each of them could be asked
        self.give_back(needed)
        return needed

    def in_another_order(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Taking in order may have brought a queue inside its pool too early, by work that was no help."""
        if all(candidate.below is None for candidate in candidates):
            return []
        sets = self.fewer(candidates) if len(candidates) <= EXACT else self.singles(candidates)
        return min(sets, key=self.price, default=[])

    def fewer(self, rivals: Sequence[Candidate]) -> Iterable[list[Candidate]]:
        """Other sets that are enough, everything back after each."""
        if len(rivals) <= EXACT:
            for size in range(1, len(rivals) + 1):
                for together in combinations(rivals, size):
                    yield from self._enough(together)
            return
        largest = sorted(rivals, key=lambda one: (one.rank, -one.held.amount, one.order(self.now)))
        yield from self.singles(rivals)
        yield from self._enough_of(largest)
        for some in self._by_node(rivals)[:SINGLE]:
            yield from self._enough_of(some)

    def singles(self, rivals: Sequence[Candidate]) -> Iterable[list[Candidate]]:
        for candidate in sorted(rivals, key=lambda one: (-one.held.amount, one.order(self.now)))[:SINGLE]:
            yield from self._enough([candidate])

    def _by_node(self, rivals: Sequence[Candidate]) -> list[list[Candidate]]:
        """Rivals that stand on one node, the largest first; nodes with the fewest such victims for the
        GPUs of one worker come first."""
        on: dict[str, list[Candidate]] = {}
        for candidate in rivals:
            for node in {worker.node for worker in candidate.held.placement.workers}:
                on.setdefault(node, []).append(candidate)
        lists = []
        for node, some in on.items():
            some.sort(key=lambda one: (-one.held.amount, one.order(self.now)))
            room = self.state.fleet.rooms.get(node)
            free, count = sum(room.left) if room else 0, 0
            for candidate in some:
                if free >= self.shape.gpus:
                    break
                free, count = free + candidate.held.amount, count + 1
            if free >= self.shape.gpus and count:
                lists.append((count, node, some))
        return [some for _, _, some in sorted(lists, key=lambda entry: entry[:2])]

    def _enough(self, some: Sequence[Candidate]) -> Iterable[list[Candidate]]:
        # The small ones first: so a queue is outside its pool until the last of them has been asked.
        taken = self.take(sorted(some, key=lambda one: one.held.amount))
        enough = len(taken) == len(some) and self.fits()
        self.give_back(taken)
        if enough:
            yield taken

    def _enough_of(self, some: Sequence[Candidate]) -> Iterable[list[Candidate]]:
        taken = self.take_until_it_fits(some)
        if taken:
            yield self.without_needless(taken)

    def _shortest(self, taken: list[Candidate], short: int) -> list[Candidate]:
        """The first `short` of those taken away are not enough, all are."""
        enough = len(taken)
        gone = enough
        while enough - short > 1:
            middle = (short + enough) // 2
            for candidate in reversed(taken[middle:gone]):
                self.trial.put_back(candidate.held)
            for candidate in taken[gone:middle]:
                self.trial.remove(candidate.held)
            gone = middle
            if self.fits():
                enough = middle
            else:
                short = middle
        for candidate in taken[gone:enough]:
            self.trial.remove(candidate.held)
        return taken[:enough]

    def _may_go(self, candidate: Candidate) -> bool:
        """Taking others away may have brought its queue back inside its pool, or below the newcomer's
        share: then it is safe."""
        if candidate.below is None:
            return True
        for node in candidate.home.path:
            if node is candidate.below:
                break
            if node.within:
                return False
        if self.way == "fair-share" and not candidate.advantage:
            return smaller_share(candidate.side, candidate.top)
        return True
