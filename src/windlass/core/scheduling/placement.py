"""Where a workload would go: all workers or none (elastic ones: at least the fewest).

    1. a bound that rules out most of what has no room
    2. for a topology, the smallest domain that takes all; for another gang, one site
    3. worker after worker to the node whose value falls least (see `value.py`), the tighter of
       equals, the cheaper of those
    4. on the node: linked GPUs for a worker that needs several, the tightest shared GPU for a share

Workers of a gang are identical, so filling node after node with as many as fit is complete: if that finds no
room, there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from windlass.core.scheduling.adjacency import groups_of, pick, together
from windlass.core.scheduling.gpus import Need, need_of
from windlass.core.scheduling.kinds import COMPARED, Ask, Kind, Kinds
from windlass.core.scheduling.model import Placement, Shape, WorkerPlacement
from windlass.core.scheduling.nodes import ClassRooms, Domain, Fleet, Room, domain_of
from windlass.core.units import GPU

LOOKED_AT = 16
"""Among so many nodes of one kind, one is looked for whose free GPUs are linked."""
_LAST = 1 << 40
"""The fall of what is not compared."""


@dataclass(frozen=True, slots=True)
class _Found:
    """Nodes for workers, one entry each, and what that costs: falls of value, then price."""

    rooms: tuple[Room, ...]
    fall: int
    price: int


_NOTHING = _Found((), 0, 0)


def place(
    fleet: Fleet, shape: Shape, want: int, *, fewest: int | None = None, avoid: Collection[str] = ()
) -> Placement | None:
    """Room for `want` workers, or for as many as there is room for down to `fewest`."""
    fewest = want if fewest is None else min(fewest, want)
    rooms = fleet.classes.get(shape.gpu_class)
    if rooms is None or not may_fit(rooms, shape, fewest):
        return None
    search = _Search(rooms, shape, avoid)
    found = _NOTHING
    if shape.topology is not None:
        domains = rooms.domains(shape.topology.level)
        found = _in_one_domain(search, domains, shape, want, fewest)
    if len(found.rooms) < fewest and (shape.topology is None or shape.topology.mode == "preferred"):
        found = _at_one_site(search, rooms, want)
    if len(found.rooms) < fewest:
        return None
    return Placement(tuple(_workers(found.rooms, search.need)))


def has_room(fleet: Fleet, shape: Shape, workers: int, *, avoid: Collection[str] = ()) -> bool:
    """Whether `place` would find room, without comparing where: for whoever asks often and rarely goes."""
    rooms = fleet.classes.get(shape.gpu_class)
    if rooms is None or not may_fit(rooms, shape, workers):
        return False
    search = _Search(rooms, shape, avoid)
    if shape.topology is not None and shape.topology.mode == "required":
        return (
            len(_in_one_domain(search, rooms.domains(shape.topology.level), shape, workers, workers).rooms)
            == workers
        )
    return search.any() if workers == 1 else _fits_at_a_site(search, workers)


def has_room_near(
    fleet: Fleet, shape: Shape, workers: int, given_back: Sequence[int], *, avoid: Collection[str] = ()
) -> bool:
    """The same where there was no room before something was given back on these nodes, which can all take
    a worker: only what they are part of is looked at."""
    rooms = fleet.classes[shape.gpu_class]
    search = _Search(rooms, shape, avoid)
    if shape.topology is None or shape.topology.mode == "preferred":
        if workers == 1:
            return any(rooms.rooms[rank].node.name not in avoid for rank in given_back)
        return may_fit(rooms, shape, workers) and _fits_at_a_site(search, workers)
    level = shape.topology.level
    touched = {domain_of(rooms.rooms[rank].node, level) for rank in given_back}
    domains = [domain for domain in rooms.domains(level) if domain[0] in touched]
    return len(_in_one_domain(search, domains, shape, workers, workers).rooms) == workers


def may_fit(rooms: ClassRooms, shape: Shape, workers: int) -> bool:
    """A cheap upper bound: False is certain, True only a reason to look."""
    if shape.gpus == 0:
        return True
    if shape.gpus * workers > rooms.free:
        return False
    return not _whole_gpus(shape) or rooms.slots(shape.gpus // GPU) >= workers


def _whole_gpus(shape: Shape) -> bool:
    return shape.unit >= GPU and shape.gpus % GPU == 0


def _at_one_site(search: _Search, rooms: ClassRooms, want: int) -> _Found:
    """A gang is started by one orchestrator: at the site that takes most of it, and suits it best."""
    if want == 1:
        return search.one()
    sites = [site for site, free in sorted(rooms.free_by_site.items()) if search.allows(site)]
    if len(sites) == 1:
        return search.fill(want, search.everywhere())
    found = [search.fill(want, search.everywhere(site)) for site in sites]
    return min(found, key=lambda one: (-len(one.rooms), one.fall, one.price), default=_NOTHING)


def _fits_at_a_site(search: _Search, want: int) -> bool:
    """All of a gang at one site, wherever there."""
    counts: dict[str, int] = {}
    for kind, members in search.everywhere():
        each = kind.workers(search.ask)
        for _ in members:
            counts[kind.site] = counts.get(kind.site, 0) + each
            if counts[kind.site] >= want:
                return True
    return False


def _in_one_domain(
    search: _Search, domains: Iterable[tuple[Domain, list[Room]]], shape: Shape, want: int, fewest: int
) -> _Found:
    """All workers inside one value of the label: the smallest domain that takes them all, or else
    the one that takes most of an elastic gang."""
    sized = []
    for value, members in domains:
        size = _domain_size(members, shape)
        if size >= fewest:
            sized.append((size, value, members))
    best = _NOTHING
    for _, _, members in sorted(sized, key=lambda domain: domain[:2]):
        found = search.fill(want, search.among(members))
        if len(found.rooms) == want:
            return found
        if len(found.rooms) > len(best.rooms):
            best = found
    return best


def _domain_size(members: Sequence[Room], shape: Shape) -> int:
    """How many workers a domain could take, CPU and memory left aside."""
    if shape.gpus == 0:
        return len(members) * GPU
    if _whole_gpus(shape):
        per_worker = shape.gpus // GPU
        return sum(room.whole // per_worker for room in members)
    return sum(sum(room.left) for room in members) // shape.gpus


def _workers(rooms: Iterable[Room], need: Need) -> Iterator[WorkerPlacement]:
    left: dict[str, list[int]] = {}
    for worker, room in enumerate(rooms):
        name = room.node.name
        if name not in left:
            left[name] = room.codes()
        yield WorkerPlacement(worker, name, pick(left[name], need, groups_of(room.node)))


def _second(kind: Kind) -> tuple[int, ...]:
    """Among kinds that suit equally: the tighter, the cheaper, the first by name."""
    return kind.gpus.free, kind.price, kind.cpu, kind.memory, kind.ranks[0]


class _Search:
    """One look for room for one shape, over the kinds of its class."""

    def __init__(self, rooms: ClassRooms, shape: Shape, avoid: Collection[str]) -> None:
        self.rooms = rooms.rooms
        self.kinds: Kinds = rooms.settle()
        self.sites = shape.sites
        self.avoid = avoid
        self.need = need_of(shape)
        self.ask: Ask = self.kinds.ask(self.need, shape.cpu_milli, shape.memory_mib)

    def allows(self, site: str) -> bool:
        return not self.sites or site in self.sites

    def one(self) -> _Found:
        """The best node for a single worker."""
        kinds = self._with_room(COMPARED)
        if self.avoid:
            kinds = [kind for kind in kinds if self._first(kind) is not None]
        if not kinds:
            return _NOTHING
        best = kinds[0]
        if len(kinds) > 1:
            best = min(self.kinds.least(kinds, self.ask), key=_second)
        room = self._linked(best)
        return _Found((room,), 0, best.price)

    def any(self) -> bool:
        return any(self._first(kind) is not None for kind in self._with_room(None if self.avoid else 1))

    def everywhere(self, site: str | None = None) -> list[tuple[Kind, Iterator[Room]]]:
        return [
            (kind, self._allowed(kind.ranks))
            for kind in self._with_room(None)
            if site is None or kind.site == site
        ]

    def among(self, members: Iterable[Room]) -> list[tuple[Kind, Iterator[Room]]]:
        ranks: dict[Kind, list[int]] = {}
        for room in members:
            kind = room.kind
            if kind is not None and self.allows(kind.site) and kind.holds(self.ask):
                ranks.setdefault(kind, []).append(room.rank)
        return [(kind, self._allowed(sorted(ranks[kind]))) for kind in sorted(ranks)]

    def fill(self, want: int, offered: Sequence[tuple[Kind, Iterator[Room]]]) -> _Found:
        """Node after node, the kinds it suits best first. A node takes as many workers as fit: they are
        closer to each other there than anywhere else."""
        chosen: list[Room] = []
        total = price = 0
        for fall, kind, rooms in self._best_first(offered):
            each = kind.workers(self.ask)
            for room in rooms:
                here = min(each, want - len(chosen))
                chosen.extend([room] * here)
                total, price = total + fall * here, price + kind.price * here
                if len(chosen) == want:
                    return _Found(tuple(chosen), total, price)
        return _Found(tuple(chosen), total, price)

    def _best_first(
        self, offered: Sequence[tuple[Kind, Iterator[Room]]]
    ) -> list[tuple[int, Kind, Iterator[Room]]]:
        if len(offered) < 2:
            return [(0, kind, rooms) for kind, rooms in offered]
        falls = self.kinds.falls([kind for kind, _ in offered[:COMPARED]], self.ask)
        falls += [_LAST] * (len(offered) - len(falls))
        keyed = [(fall, kind, rooms) for (kind, rooms), fall in zip(offered, falls, strict=True)]
        return sorted(keyed, key=lambda one: (one[0], *_second(one[1])))

    def _with_room(self, most: int | None) -> list[Kind]:
        return self.kinds.with_room(self.ask, self.need.amount, self.sites, most)

    def _allowed(self, ranks: Sequence[int]) -> Iterator[Room]:
        rooms = (self.rooms[rank] for rank in ranks)
        return (room for room in rooms if room.node.name not in self.avoid) if self.avoid else rooms

    def _first(self, kind: Kind) -> Room | None:
        return self.rooms[kind.ranks[0]] if not self.avoid else next(self._allowed(kind.ranks), None)

    def _linked(self, kind: Kind) -> Room:
        """Of the first few nodes of a kind, one where the GPUs are linked; else the first."""
        first = self._first(kind)
        assert first is not None
        if len(self.need.parts) < 2:
            return first
        for _, room in zip(range(LOOKED_AT), self._allowed(kind.ranks), strict=False):
            if together(room.codes(), self.need, groups_of(room.node)):
                return room
        return first
