"""Who waits: workloads of equal shape stand in one line, and only the head of a line is tried.

A line is why a hundred thousand waiting workloads cost no more than the few hundred ways in which
they differ. Members are ordered by (submitted, id); lines of a class by priority, then fair share,
then the age of their heads.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import blake2b

from windlass.core.scheduling.model import Cause, LineCause, Position, Shape, Waiting
from windlass.core.scheduling.nodes import Fleet
from windlass.core.scheduling.quota import QuotaTree, Share
from windlass.core.units import Ms

Member = tuple[Ms, str]
Rank = tuple[int, Share]
"""Priority (negated) and fair share: lines of equal rank are one queue ordered by age."""
OrderKey = tuple[int, tuple[int, ...], Ms, str]


_FIELDS = [(field.name, field.default) for field in fields(Shape)]


@lru_cache(maxsize=4096)
def line_of(shape: Shape) -> str:
    """The name of the line a shape stands in: the same in every process and for ever, also when
    shapes learn a new field, because a field at its default does not count."""
    told = [(name, value) for name, default in _FIELDS if (value := getattr(shape, name)) != default]
    return "line-" + blake2b(repr(told).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Never:
    """It cannot run under the present quotas or on the present nodes, whoever else runs or not."""

    cause: Cause
    message: str


class Line:
    """`never` is set when its members cannot run, whoever else does: they hold no position.
    `behind` is whom the head would delay, where that is why it waits; `lender`: because it is owed that.
    `lacks` is whether it lacked quota, and which room, when its cause was found; None: look again."""

    __slots__ = (
        "asking",
        "asks",
        "behind",
        "cause",
        "id",
        "judged_by",
        "lacks",
        "lender",
        "members",
        "needed",
        "needs",
        "never",
        "shape",
    )

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.id = line_of(shape)
        # How long it runs, or whether it could be moved, makes no difference to who has to leave: lines that
        # differ in that ask the same.
        self.asks = line_of(replace(shape, expected=None, min_runtime=Ms(0), movable=False))
        self.asking = (shape.queue, shape.gpu_class, shape.priority, shape.preemptible)
        self.needs = line_of(_needs(shape))
        self.needed = shape.needed
        self.members: list[Member] = []
        self.cause: LineCause | None = None
        self.behind: str | None = None
        self.lender = False
        self.lacks: tuple[bool, Cause | None] | None = None
        self.never: Never | None = None
        self.judged_by: tuple[QuotaTree, Fleet, int] | None = None

    @property
    def head(self) -> Member:
        return self.members[0]


def _needs(shape: Shape) -> Shape:
    """All that says whether nodes have room for it, as far as nobody minds its neighbours."""
    return Shape(
        queue="",
        gpu_class=shape.gpu_class,
        gpus=shape.gpus,
        workers=shape.fewest,
        unit=shape.unit,
        sharing=shape.sharing,
        cpu_milli=shape.cpu_milli,
        memory_mib=shape.memory_mib,
        topology=shape.topology,
        sites=shape.sites,
        mig_profile=shape.mig_profile,
    )


class Lines:
    """All that waits, by shape. Empty lines are forgotten."""

    def __init__(self, *, fair_share: bool) -> None:
        self.fair_share = fair_share
        self.waiting: dict[str, Waiting] = {}
        self.by_shape: dict[Shape, Line] = {}
        self.by_class: dict[str, dict[str, Line]] = {}
        # By class, then priority and queue, which is all a rank depends on: the lines, and everybody's place.
        self.groups: dict[str, dict[tuple[int, str], dict[str, Line]]] = {}
        self.places: dict[str, dict[tuple[int, str], list[Member]]] = {}

    def add(self, workload: Waiting) -> Line:
        line = self.by_shape.get(workload.shape)
        if line is None:
            line = self.by_shape[workload.shape] = Line(workload.shape)
            shape = workload.shape
            self.by_class.setdefault(shape.gpu_class, {})[line.id] = line
            groups = self.groups.setdefault(shape.gpu_class, {})
            groups.setdefault((shape.priority, shape.queue), {})[line.id] = line
        member = (workload.submitted, workload.id)
        insort(line.members, member)
        insort(self._places_of(workload.shape), member)
        self.waiting[workload.id] = workload
        return line

    def _places_of(self, shape: Shape) -> list[Member]:
        of_class = self.places.setdefault(shape.gpu_class, {})
        return of_class.setdefault((shape.priority, shape.queue), [])

    def remove(self, id: str) -> Line | None:
        """Take a workload out. The line it stood in, or None if it was in none."""
        workload = self.waiting.pop(id, None)
        if workload is None:
            return None
        line = self.by_shape[workload.shape]
        member = (workload.submitted, id)
        del line.members[bisect_left(line.members, member)]
        places = self._places_of(workload.shape)
        del places[bisect_left(places, member)]
        shape = workload.shape
        group = (shape.priority, shape.queue)
        if not line.members:
            del self.by_shape[shape]
            del self.by_class[shape.gpu_class][line.id]
            del self.groups[shape.gpu_class][group][line.id]
        if not places:
            del self.places[shape.gpu_class][group]
            del self.groups[shape.gpu_class][group]
        return line

    def look_again(self) -> None:
        """Quotas or nodes are others: what a line lacked does not say any more why it waits."""
        for line in self.by_shape.values():
            line.lacks = None

    def of_class(self, gpu_class: str) -> Iterable[Line]:
        return self.by_class.get(gpu_class, {}).values()

    def rank(self, line: Line, tree: QuotaTree) -> Rank:
        shape = line.shape
        share = tree.share(shape.queue, shape.gpu_class) if self.fair_share else ()
        return (-shape.priority, share)

    def key(self, line: Line, tree: QuotaTree) -> OrderKey:
        return (*self.rank(line, tree), *line.head)

    def in_order(self, gpu_class: str, tree: QuotaTree) -> Iterator[Line]:
        """Lines of a class, the next to start first. After each one the caller may have admitted
        its head: a line that still has members comes again as soon as its new head is next.

        Lines of one queue and priority have one rank, so they wait in a heap of their own, of which only
        the first stands in the outer one. Shares only grow while work is admitted, so a group whose share
        grew since it was ranked is put back, and nothing ever comes too late.
        """
        lines = {name: tuple(group.values()) for name, group in self.groups.get(gpu_class, {}).items()}
        groups: dict[tuple[int, str], list[tuple[Member, str, Line]]] = {}
        heap = [
            (
                (-priority, tree.share(queue, gpu_class) if self.fair_share else (), *members[0]),
                (priority, queue),
            )
            for (priority, queue), members in self.places.get(gpu_class, {}).items()
        ]
        heapq.heapify(heap)
        while heap:
            key, name = heapq.heappop(heap)
            if name not in groups:
                groups[name] = [(line.head, line.id, line) for line in lines[name] if line.members]
                heapq.heapify(groups[name])
            group = groups[name]
            _refresh(group)
            if not group:
                continue
            line = group[0][2]
            current = self.key(line, tree)
            if current != key:
                heapq.heappush(heap, (current, name))
                continue
            heapq.heappop(group)
            before = line.head
            yield line
            if line.members and line.head != before:
                heapq.heappush(group, (line.head, line.id, line))
            _refresh(group)
            if group:
                heapq.heappush(heap, (self.key(group[0][2], tree), name))

    def ahead_of(self, workload: Waiting, tree: QuotaTree) -> Iterator[tuple[Line, int]]:
        """Per line of its class: how many of its members come before the workload."""
        mine = self.by_shape[workload.shape]
        rank = self.rank(mine, tree)
        member = (workload.submitted, workload.id)
        shares: dict[str, Share] = {mine.shape.queue: rank[1]}  # many lines, few queues
        for line in self.of_class(workload.shape.gpu_class):
            if line.never:
                continue
            queue = line.shape.queue
            if queue not in shares:
                shares[queue] = self.rank(line, tree)[1]
            other = (-line.shape.priority, shares[queue])
            if other < rank:
                yield line, len(line.members)
            elif other == rank:
                yield line, bisect_left(line.members, member)

    def position(self, workload: Waiting, tree: QuotaTree) -> Position | None:
        shape = workload.shape
        mine = self.by_shape[shape]
        if mine.never:
            return None
        if any(line.never for line in self.of_class(shape.gpu_class)):  # rare, and they hold no position
            ahead = sum(count for _, count in self.ahead_of(workload, tree))
            lines = self.of_class(shape.gpu_class)
            return Position(ahead, sum(len(line.members) for line in lines if not line.never))
        rank, member = self.rank(mine, tree), (workload.submitted, workload.id)
        ahead = everybody = 0
        for (priority, queue), places in self.places[shape.gpu_class].items():
            everybody += len(places)
            share = tree.share(queue, shape.gpu_class) if self.fair_share else ()
            other = (-priority, share)
            if other < rank:
                ahead += len(places)
            elif other == rank:
                ahead += bisect_left(places, member)
        return Position(ahead, everybody)

    def listed(
        self, tree: QuotaTree, after: Waiting | None = None, gpu_class: str | None = None
    ) -> Iterator[Waiting]:
        """Everybody in order, of one class or of all; those who can never run come last."""
        groups: dict[tuple[bool, Rank], list[Line]] = {}
        for line in self.by_shape.values() if gpu_class is None else self.of_class(gpu_class):
            groups.setdefault((line.never is not None, self.rank(line, tree)), []).append(line)
        start = None
        if after is not None:
            line = self.by_shape[after.shape]
            start = (line.never is not None, self.rank(line, tree))
        for rank in sorted(groups):
            if start is not None and rank < start:
                continue
            tails: list[Iterable[Member]] = []
            for line in groups[rank]:
                first = 0
                if after is not None and rank == start:
                    first = bisect_right(line.members, (after.submitted, after.id))
                tails.append(line.members[first:] if first else line.members)
            for _, id in heapq.merge(*tails):
                yield self.waiting[id]


def _refresh(group: list[tuple[Member, str, Line]]) -> None:
    """Put in anew what changed since it was put in, so that the first is the line with the oldest head."""
    while group:
        head, id, line = group[0]
        if not line.members:
            heapq.heappop(group)
        elif line.head != head:
            heapq.heapreplace(group, (line.head, id, line))
        else:
            return
