"""What the engine knows between two cycles, and the few moves that change it.

`State` is an owned value: whoever calls `cycle` hands it over and uses only what comes back, so the
inside is updated in place. Nothing in it is shared with the caller but frozen values.

Work that holds GPUs is a `Held`. A promised workload (victims on their way out) is a `Held` too,
with `promised` set: its GPUs are earmarked and its quota is charged from the moment of the promise,
while its victims stay charged until they are released. So what is really held can never pass a
ceiling, at the price of room that stays empty for the moment of the change-over.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.core.scheduling.apart import Avoided, Neighbours
from windlass.core.scheduling.calibration import Calibration
from windlass.core.scheduling.lines import Line, Lines
from windlass.core.scheduling.model import Cause, Node, Options, Placement, Quota, Shape, Waiting
from windlass.core.scheduling.nodes import Fleet, Take
from windlass.core.scheduling.quota import Pool, QuotaTree
from windlass.core.units import HOUR_MS, MilliGpu, Ms

ASSUMED_DURATION = Ms(HOUR_MS)
"""How long work without a stated duration is taken to run: an assumption every estimate states."""


@dataclass(slots=True, eq=False)
class Held:
    """One workload that holds GPUs, or has them promised. `end` is when it should be done."""

    id: str
    shape: Shape
    submitted: Ms
    since: Ms
    placement: Placement
    end: Ms
    stopping: bool = False
    promised: bool = False
    takes: list[Take] = field(default_factory=list)
    queued: Ms | None = None
    last_checkpoint: Ms | None = None
    amount: MilliGpu = field(init=False)

    def __post_init__(self) -> None:
        self.amount = MilliGpu(self.shape.gpus * len(self.placement.workers))

    @property
    def saved(self) -> Ms:
        """Up to when its work is kept if it has to go."""
        return self.since if self.last_checkpoint is None else max(self.since, self.last_checkpoint)


@dataclass(slots=True, eq=False)
class Promise:
    """GPUs earmarked for a workload, and the victims that must be gone before it may have them."""

    held: Held
    borrowed: MilliGpu
    victims: dict[str, None]
    since: Ms


@dataclass(slots=True, eq=False)
class Moving:
    """The next place of work that was told to go because it moves, and who must leave that place first."""

    shape: Shape
    target: Placement
    takes: list[Take]
    after: dict[str, None]


@dataclass(frozen=True, slots=True)
class Reservation:
    """When the first line that lacks room should start, and where. `placement` None: so far away
    that the place is not known, only that it is not before `starts`."""

    starts: Ms
    placement: Placement | None


@dataclass(frozen=True, slots=True)
class Unprotected:
    """Who of a group may be asked to leave, from `since` on and until the next minimum runtime ends, and
    what they hold together."""

    since: Ms
    until: Ms | None
    held: tuple[Held, ...]
    amount: int


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Work of one home and priority that borrows, `top` being the child it is in of the node it was looked
    for below, and what that stands at."""

    stands_at: int
    top: Pool
    home: Pool
    work: Unprotected


@dataclass(frozen=True, slots=True)
class Borrowing:
    """Who borrows below one node, the largest share first: the shares (negated) of its children, the end of
    the next minimum runtime up to each of them, and the work that may go."""

    stamp: tuple[int, int, Ms]
    shares: tuple[int, ...]
    until: tuple[Ms | None, ...]
    work: tuple[Borrowed, ...]


@dataclass(slots=True)
class BesideHead:
    """The needs for which there is no room beside what is reserved for one head, in one state."""

    at: tuple[int, str] = (-1, "")
    needs: set[str] = field(default_factory=set)

    def of(self, version: int, head: str) -> set[str]:
        if self.at != (version, head):
            self.at, self.needs = (version, head), set()
        return self.needs


@dataclass(slots=True)
class Hopeless:
    """Who cannot be helped by anybody's leaving, as found in one state at one moment: lines, and by queue,
    priority and whether it may be preempted the least need for which the sums rule it out. Who needs more
    may ask nobody else, so it is ruled out too."""

    at: tuple[int, Ms] = (-1, Ms(0))
    lines: set[str] = field(default_factory=set)
    needs: dict[tuple[str, str, int, bool], int] = field(default_factory=dict)

    def known(self, line: Line, at: tuple[int, Ms]) -> bool:
        if self.at != at:
            self.at = at
            self.lines.clear()
            self.needs.clear()
            return False
        least = self.needs.get(line.asking)
        return (least is not None and line.needed >= least) or line.asks in self.lines

    def add(self, line: Line) -> None:
        self.lines.add(line.asks)

    def add_larger(self, line: Line) -> None:
        self.needs[line.asking] = min(line.needed, self.needs.get(line.asking, line.needed))


@dataclass(slots=True, eq=False)
class State:
    options: Options
    fleet: Fleet
    # Charges twice: as things are, and as they will be when all that is stopping has gone. Admission
    # goes by the first; who has to leave for whom is decided on the second.
    tree: QuotaTree
    future: QuotaTree
    lines: Lines
    # Told apart from the quotas, where somebody keeps it (`PastUseChanged`).
    past_use: Mapping[str, MilliGpu] | None = None
    held: dict[str, Held] = field(default_factory=dict)
    promises: dict[str, Promise] = field(default_factory=dict)
    # Victims told of before their GPUs came back: they queue again when they do.
    returning: dict[str, Waiting] = field(default_factory=dict)
    moving: dict[str, Moving] = field(default_factory=dict)
    neighbours: Neighbours = field(default_factory=Neighbours)
    # Who holds what, by class, home and priority: the way victims are looked for.
    by_home: dict[tuple[str, str], dict[int, dict[str, Held]]] = field(default_factory=dict)
    unprotected: dict[tuple[str, str, int], Unprotected] = field(default_factory=dict)
    elastic: dict[str, dict[str, Held]] = field(default_factory=dict)  # by class
    stopping: dict[str, dict[str, Held]] = field(default_factory=dict)  # by class
    leaving: dict[str, int] = field(default_factory=dict)  # GPUs of those, by class
    ends: dict[str, list[tuple[Ms, str]]] = field(default_factory=dict)  # per class, soonest first
    # What the next cycle must look at: whole classes where room appeared, or single lines.
    stale_classes: dict[str, None] = field(default_factory=dict)
    stale_lines: dict[str, Line] = field(default_factory=dict)
    # Per class the first lines in order that lack room: those behind must not delay them.
    blocked: dict[str, list[Line]] = field(default_factory=dict)
    # Who had no room, by need, and what of its class had been given back until then (`room.py`).
    no_room: dict[str, int] = field(default_factory=dict)
    lacks: tuple[int, dict[tuple[str, str], Cause | None]] = field(default_factory=lambda: (-1, {}))
    reservations: dict[str, tuple[int, Reservation | None]] = field(default_factory=dict)  # by line
    # Whether the nodes there are have room for a line once everything has ended, as far as known.
    startable: dict[str, bool] = field(default_factory=dict)
    beside_head: BesideHead = field(default_factory=BesideHead)
    # Per class and home the first line that waits for its own guarantee, which is lent away.
    owed: dict[str, dict[str, Line]] = field(default_factory=dict)
    # Grows with every move. What was found about who could give way, good for one state and moment.
    changes: int = 0
    hopeless: Hopeless = field(default_factory=Hopeless)
    borrowing: dict[Pool, Borrowing] = field(default_factory=dict)
    # GPUs by class and site, on ready nodes and on others, until the nodes change.
    calibration: Calibration = field(default_factory=Calibration)
    sizes: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    # Who was admitted in this very cycle: not begun, so no minimum runtime protects it yet.
    not_begun: dict[str, None] = field(default_factory=dict)
    # When the minimum runtime of somebody ends who was in the way of a class.
    protected_until: dict[str, Ms] = field(default_factory=dict)

    # --- the moves ---

    def hold(self, held: Held) -> None:
        """Charge GPUs and quota, and enter the indexes."""
        self.changes += 1
        held.takes = self.fleet.take(held.shape, held.placement)
        self.held[held.id] = held
        if held.shape.fewest < held.shape.workers:
            self.elastic.setdefault(held.shape.gpu_class, {})[held.id] = held
        self._enter(held)

    def let_go(self, id: str) -> Held | None:
        held = self.held.pop(id, None)
        if held is None:
            return None
        self.changes += 1
        self.fleet.give_back(held.takes)
        gpu_class = held.shape.gpu_class
        self.elastic.get(gpu_class, {}).pop(id, None)
        pool = self.pool(held.shape)
        pool.discharge(held.amount)
        self.neighbours.count(self.tree, held.shape, held.placement, -1)
        del self.by_home[gpu_class, pool.home.name][held.shape.priority][id]
        self.unprotected.pop((gpu_class, pool.home.name, held.shape.priority), None)
        if held.stopping:
            del self.stopping[gpu_class][id]
            self.leaving[gpu_class] -= held.amount
        else:
            self.future_pool(held.shape).discharge(held.amount)
        ends = self.ends[gpu_class]
        del ends[bisect_left(ends, (held.end, id))]
        return held

    def begin(self) -> None:
        """The cycle is over: who was admitted in it begins, and its minimum runtime with it."""
        for id in self.not_begun:
            held = self.held.get(id)
            if held is not None and held.shape.min_runtime:
                self.changes += 1
                home = self.pool(held.shape).home.name
                self.unprotected.pop((held.shape.gpu_class, home, held.shape.priority), None)
        self.not_begun.clear()

    def stop(self, held: Held) -> None:
        """Told to go: no victim any more, but room that is coming."""
        if held.stopping:
            return
        self.changes += 1
        held.stopping = True
        self.unprotected.pop(
            (held.shape.gpu_class, self.pool(held.shape).home.name, held.shape.priority), None
        )
        self.future_pool(held.shape).discharge(held.amount)
        self._note_stopping(held)

    def make_promise(self, held: Held, victims: dict[str, None], borrowed: MilliGpu, now: Ms) -> None:
        """Earmark: victims keep what the newcomer will not use, until they are gone."""
        leaving = [self.held[id] for id in victims]
        for victim in leaving:
            self.fleet.give_back(victim.takes)
        held.promised = True
        self.hold(held)
        for victim in leaving:
            victim.takes = self.fleet.take(victim.shape, victim.placement)
        self.promises[held.id] = Promise(held, borrowed, victims, now)

    def drop_promise(self, id: str) -> Waiting:
        """Take a promise back; what it had earmarked falls to the victims again, until they go."""
        promise = self.promises.pop(id)
        leaving = [self.held[victim] for victim in promise.victims]
        for victim in leaving:
            self.fleet.give_back(victim.takes)
        held = promise.held
        self.let_go(id)
        for victim in leaving:
            victim.takes = self.fleet.take(victim.shape, victim.placement)
        return Waiting(id, held.shape, held.submitted, held.queued)

    def pool(self, shape: Shape) -> Pool:
        return self.tree.pool(shape.queue, shape.gpu_class)

    def future_pool(self, shape: Shape) -> Pool:
        return self.future.pool(shape.queue, shape.gpu_class)

    def avoided(self, shape: Shape, gone: Collection[str] = ()) -> Collection[str]:
        """Nodes this shape keeps away from, or that are kept from it; `gone` are taken to have left."""
        if not self.neighbours.mind(shape):
            return ()
        left = Neighbours()
        for id in gone:
            if id in self.held:
                left.count(self.tree, self.held[id].shape, self.held[id].placement, 1)
        named = {
            worker.node: None
            for id in shape.avoid
            for place in self._places(id, gone)
            for worker in place.workers
        }
        return Avoided(self.tree, shape, self.neighbours, left, named)

    def _places(self, id: str, gone: Collection[str]) -> Iterator[Placement]:
        """Where somebody stands, and where it is about to."""
        if id in self.held and id not in gone:
            yield self.held[id].placement
        if id in self.moving:
            yield self.moving[id].target

    def ready_gpus(self, gpu_class: str, sites: Collection[str] = ()) -> int:
        """How many GPUs of a class are on nodes that are ready, at these sites (none named: at all)."""
        sizes = self._sizes(gpu_class)
        return sum(ready for site, (ready, _) in sizes.items() if not sites or site in sites)

    def unready_gpus(self, gpu_class: str, sites: Collection[str]) -> int:
        """How many are on nodes that are not, at these sites (none named: at all)."""
        sizes = self._sizes(gpu_class)
        return sum(unready for site, (_, unready) in sizes.items() if not sites or site in sites)

    def _sizes(self, gpu_class: str) -> dict[str, tuple[int, int]]:
        known = self.sizes.get(gpu_class)
        if known is None:
            known = self.sizes[gpu_class] = {}
            rooms = self.fleet.classes.get(gpu_class)
            for room in rooms.rooms.values() if rooms else ():
                ready, unready = known.get(room.node.site, (0, 0))
                if room.node.state == "ready":
                    known[room.node.site] = (ready + room.node.gpus, unready)
                else:
                    known[room.node.site] = (ready, unready + room.node.gpus)
        return known

    def use_quotas(self, quotas: Sequence[Quota]) -> None:
        """Charge everything anew on another tree."""
        self.changes += 1
        self.tree, self.future = QuotaTree(quotas), QuotaTree(quotas)
        self.borrowing, self.no_room = {}, {}
        if self.past_use is not None:
            self.use_past(self.past_use)
        self.by_home, self.ends, self.stopping, self.leaving = {}, {}, {}, {}
        self.unprotected, self.neighbours = {}, Neighbours()
        for held in self.held.values():
            self._enter(held)

    def use_past(self, past: Mapping[str, MilliGpu]) -> None:
        self.past_use = past
        self.tree.use_past(past)

    def use_fleet(self, nodes: Sequence[Node]) -> None:
        """Charge everything anew on another fleet; victims get what is left beside promised work."""
        fresh = self.fleet.rebuilt(nodes)
        self.fleet = fresh
        for held in sorted(self.held.values(), key=lambda held: held.stopping):
            held.takes = fresh.take(held.shape, held.placement)

    def _enter(self, held: Held) -> None:
        gpu_class = held.shape.gpu_class
        pool = self.pool(held.shape)
        pool.charge(held.amount)
        self.neighbours.count(self.tree, held.shape, held.placement, 1)
        priorities = self.by_home.setdefault((gpu_class, pool.home.name), {})
        priorities.setdefault(held.shape.priority, {})[held.id] = held
        self.unprotected.pop((gpu_class, pool.home.name, held.shape.priority), None)
        if held.stopping:
            self._note_stopping(held)
        else:
            self.future_pool(held.shape).charge(held.amount)
        insort(self.ends.setdefault(gpu_class, []), (held.end, held.id))

    def _note_stopping(self, held: Held) -> None:
        gpu_class = held.shape.gpu_class
        self.stopping.setdefault(gpu_class, {})[held.id] = held
        self.leaving[gpu_class] = self.leaving.get(gpu_class, 0) + held.amount


def new_state(options: Options | None = None) -> State:
    chosen = options or Options()
    return State(chosen, Fleet(), QuotaTree(), QuotaTree(), Lines(fair_share=chosen.fair_share))


def expected_end(shape: Shape, since: Ms) -> Ms:
    return Ms(since + (ASSUMED_DURATION if shape.expected is None else shape.expected))
