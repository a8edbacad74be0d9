"""A slow, obviously right answer for one workload that waits among work that runs: every set of victims
is tried. For quota trees of one level, where who may take what from whom can be said in two sentences.

Nothing of the engine is used. Quotas and room are the judge's.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

from tests.core.scheduling.judge import Judge
from tests.core.scheduling.judged_quota import need, per_worker

Doc = dict[str, Any]
NOTHING: Doc = {"admitted": [], "preempted": [], "waiting": [], "usage": {}}
Price = tuple[Any, ...]


class Reference:
    """`lucky`: MIG instances that run lie on their GPU as well as they can; else as badly. It is not told."""

    def __init__(self, world: Doc, name: str, *, lucky: bool = True) -> None:
        self.lucky = lucky
        self.judge = Judge(world, NOTHING)
        self.name, self.work = name, self.judge.works[name]
        self.options = {"fairShare": True, "preemption": True, **world.get("options", {})}
        self.held = self.judge.before

    def fits(self, gone: tuple[str, ...]) -> bool:
        held = {name: on for name, on in self.held.items() if name not in gone}
        enough, workers = self.judge.capacity(self.name, held, lucky=self.lucky)
        return (
            self.judge.tree(self.work["class"], held).entitled(self.work["queue"])
            and self.judge.quota_allows(self.work, held)
            and enough
            and self.judge.arrangement(self.name, workers)
        )

    def prices(self) -> list[Price]:
        """The cheapest set of victims of each way to make room; none: it waits."""
        if self.fits(()):
            return [()]
        if not (self.options["preemption"] and self.work.get("preempts", True)) or self.wants_too_much():
            return []
        sets = [
            some
            for size in range(1, len(self.candidates()) + 1)
            for some in combinations(self.candidates(), size)
            if self.fits(some)
        ]
        ways = [
            [some for some in sets if self.taken_back(some)],
            [some for some in sets if self.options["fairShare"] and self.fairly_taken(some)],
        ]
        return [min(map(self.price, some)) for some in ways if some]

    def wants_too_much(self) -> bool:
        """As in Kueue: without fair share nobody gives way for quota to what is larger than its pool."""
        tree, queue = self.judge.tree(self.work["class"], self.held), self.work["queue"]
        larger = need(self.work) > max(tree.pool(queue), tree.free(queue))
        return larger and not self.options["fairShare"] and self.work.get("preemptible", True)

    def candidates(self) -> list[str]:
        works = self.judge.works
        return [
            name
            for name in self.held
            if works[name]["class"] == self.work["class"]
            and works[name].get("preemptible", True)
            and works[name]["running"]["since"] + works[name].get("minRuntime", 0) <= self.judge.now
            and (not self.own(name) or works[name].get("priority", 0) < self.work.get("priority", 0))
        ]

    def own(self, name: str) -> bool:
        return bool(self.judge.works[name]["queue"] == self.work["queue"])

    def taken_back(self, some: tuple[str, ...]) -> bool:
        """Others' work goes only if the newcomer's queue ends inside its pool, and only while the queue it
        belongs to is outside of its own."""
        others = [name for name in some if not self.own(name)]
        if not others:
            return True
        left = self.without(tuple(name for name in some if self.own(name)))
        tree, queue = self.judge.tree(self.work["class"], left), self.work["queue"]
        if self.work.get("preemptible", True) and tree.use(queue) + need(self.work) > tree.pool(queue):
            return False
        return any(all(over for over, _ in self.turns(order)) for order in permutations(others))

    def fairly_taken(self, some: tuple[str, ...]) -> bool:
        """Others' work goes while its queue is outside its pool and has the larger share."""
        if not self.work.get("preemptible", True):
            return False
        return any(
            all(over and larger for over, larger in self.turns(order))
            for order in permutations(name for name in some if not self.own(name))
        )

    def turns(self, order: tuple[str, ...]) -> Iterator[tuple[bool, bool]]:
        """For each in turn: whether its queue is still outside its pool, and has the larger share."""
        for at, name in enumerate(order):
            held = self.without(order[:at])
            queue = self.judge.works[name]["queue"]
            tree = self.judge.tree(self.work["class"], held)
            mine: dict[str, list[Doc]] = {
                **held,
                self.name: [{}] * (need(self.work) // max(1, per_worker(self.work))),
            }
            asks: Fraction = self.judge.share(self.work["queue"], mine)
            yield tree.use(queue) > tree.pool(queue), asks < self.judge.share(queue, held)

    def without(self, gone: tuple[str, ...]) -> dict[str, list[Doc]]:
        return {name: on for name, on in self.held.items() if name not in gone}

    def price(self, some: tuple[str, ...]) -> Price:
        """Others' before its own queue's, lower priority, fewer, less work lost."""
        works = self.judge.works
        ranks = sorted(((self.own(name), works[name].get("priority", 0)) for name in some), reverse=True)
        lost = sum(
            per_worker(works[name])
            * len(self.held[name])
            * (self.judge.now - works[name]["running"]["since"])
            for name in some
        )
        return ranks, lost
