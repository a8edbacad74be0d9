"""Which work to move for a hole. Where everything goes then: `rearranging.py`.

Sets are compared by GPU time lost, then by how many move, then by name. The search is bounded:
- among up to `EXACT` workloads that accept moving, every set is compared;
- among more, a hole for one worker is looked for node by node, on the `NODES` that could be cheapest, and
  on each among the sets that just make room there;
- a hole for a gang is looked for domain by domain (without a required topology: site by site): the cheapest
  workers are cleared one after the other until all fit, then whoever need not move stays;
- if whoever was to move has nowhere to go, one more is moved out of its way, and nobody for that one.
So beyond `EXACT` a cheaper plan, or one that needs a longer chain, may exist and not be found.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import combinations

from windlass.core.scheduling.nodes import ClassRooms, Room
from windlass.core.scheduling.rearranging import Arrangement, Board, Stuck, Wanted, arrange
from windlass.core.scheduling.state import Held, State
from windlass.core.scheduling.survey import required
from windlass.core.units import GpuUs, Ms

EXACT = 8
"""Among so many every set is compared: 255 of them."""
NODES, DOMAINS = 64, 16
"""So many places are tried."""
ON_ONE_NODE = 8
"""Of those on one node so many are looked at, the cheapest."""
AGAIN = 4
"""So often a domain is tried again without somebody who had nowhere to go."""
DISPLACED, DISPLACING = 8, 24
"""Of so many sets with somebody who had nowhere to go, and so many others, one more is moved."""

Price = tuple[int, int, tuple[str, ...]]


def lost(held: Held, now: Ms) -> GpuUs:
    """The GPU time it has to spend again: since its last checkpoint, or since it started."""
    return GpuUs(held.amount * max(0, now - held.saved))


def search(state: State, wanted: Wanted, candidates: Sequence[Held], now: Ms) -> Arrangement | Stuck:
    """The cheapest arrangement found, or who or what was in the way."""
    looking = _Search(state, wanted, candidates, now)
    if len(candidates) <= EXACT:
        looking.every_set()
    elif wanted.shape.fewest == 1:
        looking.node_by_node()
    else:
        looking.domain_by_domain()
    if looking.best is None and len(candidates) > EXACT:
        looking.one_more()
    return looking.best[1] if looking.best is not None else looking.stuck


class _Search:
    def __init__(self, state: State, wanted: Wanted, candidates: Sequence[Held], now: Ms) -> None:
        self.state = state
        self.wanted = wanted
        self.shape = wanted.shape
        self.rooms: ClassRooms = state.fleet.classes[wanted.shape.gpu_class]
        self.cost = {held.id: lost(held, now) for held in candidates}
        self.candidates = sorted(candidates, key=lambda held: (self.cost[held.id], held.id))
        self.best: tuple[Price, Arrangement] | None = None
        self.stuck = Stuck(None)
        self.displaced: list[tuple[Sequence[Held], str]] = []

    # --- the ways to look -----------------------------------------------------------------------

    def every_set(self) -> None:
        for some in self._sets(self.candidates):
            if self._try(some):
                return

    def node_by_node(self) -> None:
        on = self._by_node()
        ranked = sorted(
            (bound, name)
            for name, some in on.items()
            if (bound := self._bound(self.state.fleet.rooms[name], some)) is not None
        )
        for bound, name in ranked[:NODES]:
            if self._dearer(bound):
                return
            with Board(self.state) as board:
                for some in self._ways(board, self.state.fleet.rooms[name], on[name]):
                    if self._dearer(self._price(some)[0]) or self._try(some):
                        break

    def domain_by_domain(self) -> None:
        on = self._by_node()
        ranked = []
        for number, members in enumerate(self._domains()):
            guess = self._domain_guess(members, on)
            if guess is not None:
                ranked.append((guess, number, members))
        for _, _, members in sorted(ranked, key=lambda entry: entry[:2])[:DOMAINS]:
            self._clear(members, on)

    def one_more(self) -> None:
        """Somebody had nowhere to go: perhaps another can make room for it."""
        for some, _ in self.displaced[:DISPLACED]:
            ids = {held.id for held in some}
            for other in self.candidates[:DISPLACING]:
                if other.id not in ids:
                    self._try([*some, other])

    # --- sets and their prices ------------------------------------------------------------------

    def _try(self, some: Sequence[Held]) -> bool:
        found = arrange(self.state, self.wanted, some)
        if isinstance(found, Stuck):
            if found.id is not None:
                self.stuck = self.stuck if self.stuck.id is not None else found
                self.displaced.append((some, found.id))
            return False
        price = self._price([held for held, _ in found.moved])
        if self.best is None or price < self.best[0]:
            self.best = price, found
        return True

    def _price(self, some: Sequence[Held]) -> Price:
        return sum(self.cost[held.id] for held in some), len(some), tuple(sorted(held.id for held in some))

    def _dearer(self, bound: int) -> bool:
        return self.best is not None and bound > self.best[0][0]

    def _sets(self, some: Sequence[Held]) -> list[tuple[Held, ...]]:
        """Every set of them, the cheapest first."""
        sizes = range(1, len(some) + 1)
        return sorted((one for size in sizes for one in combinations(some, size)), key=self._price)

    # --- one node -------------------------------------------------------------------------------

    def _by_node(self) -> dict[str, list[Held]]:
        """Who stands on which node that the hole may use, the cheapest first."""
        on: dict[str, list[Held]] = {}
        for held in self.candidates:
            for name in {worker.node for worker in held.placement.workers}:
                if (room := self.state.fleet.rooms.get(name)) is not None and self._usable(room):
                    on.setdefault(name, []).append(held)
        return on

    def _usable(self, room: Room) -> bool:
        node = room.node
        return node.state == "ready" and (not self.shape.sites or node.site in self.shape.sites)

    def _bound(self, room: Room, some: Sequence[Held]) -> int | None:
        """At least so much is lost for one more worker on a node; None: they cannot make room for it."""
        here = sorted((_amount_on(held, room) for held in some), reverse=True)
        left, few = sum(room.left) - self.shape.gpus * self.rooms.workers_on(room, self.shape), 0
        while few < len(here) and (left < self.shape.gpus or not few):
            left, few = left + here[few], few + 1
        if left < self.shape.gpus or not few:
            return None
        return sum(self.cost[held.id] for held in some[:few])

    def _ways(self, board: Board, room: Room, some: Sequence[Held]) -> Iterator[tuple[Held, ...]]:
        """Sets on one node that just make room for one more worker, the cheapest first."""
        before = self.rooms.workers_on(room, self.shape)
        free = sum(room.left)
        found: list[frozenset[str]] = []
        for one in self._sets(some[:ON_ONE_NODE]):
            ids = frozenset(held.id for held in one)
            if any(enough <= ids for enough in found):
                continue
            if free + sum(_amount_on(held, room) for held in one) < self.shape.gpus:
                continue
            for held in one:
                board.remove(held)
            more = self.rooms.workers_on(room, self.shape) > before
            for held in reversed(one):
                board.put_back(held)
            if more:
                found.append(ids)
                yield one

    # --- a gang ---------------------------------------------------------------------------------

    def _domains(self) -> Iterator[Sequence[Room]]:
        topology = self.shape.topology
        if topology is not None and required(self.shape):
            for _, members in self.rooms.domains(topology.level):
                yield [room for room in members if self._usable(room)]
            return
        sites: dict[str, list[Room]] = {}
        for room in self.rooms.rooms.values():
            if self._usable(room):
                sites.setdefault(room.node.site, []).append(room)
        yield from (members for _, members in sorted(sites.items()))

    def _domain_guess(self, members: Sequence[Room], on: dict[str, list[Held]]) -> int | None:
        """About what is lost for a gang there: the cheapest nodes, one for each worker that lacks room. Not a
        bound: workers may stand on one node together, and one that moves may leave several. None: with all
        that could move gone there would not be room for it."""
        bounds, there, most = [], 0, 0
        for room in members:
            some = on.get(room.node.name, ())
            there += self.rooms.workers_on(room, self.shape)
            freed = sum(room.left) + sum(_amount_on(held, room) for held in some)
            most += freed // max(1, self.shape.gpus)
            bound = self._bound(room, some)
            if bound is not None:
                bounds.append(bound)
        if not bounds or most < self.shape.fewest:
            return None
        return sum(sorted(bounds)[: max(1, self.shape.fewest - there)])

    def _clear(self, members: Sequence[Room], on: dict[str, list[Held]]) -> None:
        staying: set[str] = set()
        for _ in range(AGAIN):
            some = self._until_it_fits(members, on, staying)
            if not some or self._try(some):
                return
            held_up = self.displaced[-1] if self.displaced else None
            if held_up is None or held_up[0] is not some:
                return
            staying.add(held_up[1])

    def _until_it_fits(
        self, members: Sequence[Room], on: dict[str, list[Held]], staying: set[str]
    ) -> list[Held]:
        """Room for one more worker at a time, the cheapest first; then whoever is not needed stays."""
        lifted: dict[str, Held] = {}
        with Board(self.state) as board:
            heap: list[tuple[int, str, tuple[Held, ...]]] = []
            by_name = {room.node.name: room for room in members}

            def offer(name: str) -> None:
                some = [held for held in on.get(name, ()) if held.id not in lifted and held.id not in staying]
                way = next(self._ways(board, by_name[name], some), None)
                if way is not None:
                    heapq.heappush(heap, (self._price(way)[0], name, way))

            for name in self._most_promising(by_name, on):
                offer(name)
            while heap and not self._fits(board):
                _, name, way = heapq.heappop(heap)
                if not any(held.id in lifted for held in way):
                    for held in way:
                        board.remove(held)
                        lifted[held.id] = held
                offer(name)
            if not self._fits(board):
                return []
            for held in sorted(lifted.values(), key=lambda held: (-self.cost[held.id], held.id)):
                board.put_back(held)
                if self._fits(board):
                    del lifted[held.id]
                else:
                    board.remove(held)
        return list(lifted.values())

    def _most_promising(self, by_name: dict[str, Room], on: dict[str, list[Held]]) -> list[str]:
        """In a site of thousands, the nodes that could be cleared most cheaply: twice what is needed."""
        ranked = sorted(
            (bound, name)
            for name, room in by_name.items()
            if name in on and (bound := self._bound(room, on[name])) is not None
        )
        return [name for _, name in ranked[: max(NODES, 2 * self.shape.fewest)]]

    def _fits(self, board: Board) -> bool:
        kept = board.keep(self.wanted.kept)
        found = board.room(self.wanted.id, self.shape, self.shape.fewest)
        for handle in reversed(kept):
            board.stop(handle)
        return found is not None


def _amount_on(held: Held, room: Room) -> int:
    """What it holds on one node."""
    name = room.node.name
    return held.shape.gpus * sum(1 for worker in held.placement.workers if worker.node == name)
