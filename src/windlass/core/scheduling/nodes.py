"""The fleet: which GPU of which node has how much left, and the indexes that make looking cheap.

A `Room` is one node's free space. Only `ready` nodes are indexed, so nothing new lands elsewhere;
what runs on the others stays charged. Rooms with the same left of everything are of one `Kind`
(see `kinds.py`), and placement compares kinds, not nodes. Ranks are in order of price, then name, so
ties break the same way whatever order the fleet was told in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from windlass.core.scheduling.gpus import GpuState, GpuStates, code_of, need_of, parts_of
from windlass.core.scheduling.kinds import Kind, Kinds
from windlass.core.scheduling.mig import put
from windlass.core.scheduling.mix import Mix
from windlass.core.scheduling.model import Node, Placement, Shape, SharingMode
from windlass.core.units import GPU

UNCOUNTED = 1 << 60
"""CPU or memory of a node that does not count it."""
Domain = tuple[str, str, str]
"""Site, block and value of a label: names of racks need not be unique beyond their block."""
Piece = tuple[int, int, SharingMode, int]
"""Index of a GPU, thousandths, how the GPU was shared when they were taken, MIG slices."""
_GAINS = 1024
_MAX_STATES = 100_000
"""Ways in which the GPUs of a node may be left that are remembered; beyond, they are worked out anew."""


class Room:
    """Free space on one node. `left[i]` is what is left of GPU i, in thousandths; `slices[i]` what MIG
    has cut from it."""

    __slots__ = ("cpu", "kind", "left", "memory", "modes", "node", "rank", "sharers", "slices", "whole")

    def __init__(self, node: Node, rank: int) -> None:
        self.node = node
        self.rank = rank
        self.left = [GPU] * node.gpus
        self.modes: list[SharingMode | None] = [None] * node.gpus
        self.sharers = [0] * node.gpus
        self.slices = [0] * node.gpus
        self.whole = node.gpus
        self.cpu = UNCOUNTED if node.cpu_milli is None else node.cpu_milli
        self.memory = UNCOUNTED if node.memory_mib is None else node.memory_mib
        self.kind: Kind | None = None

    def codes(self) -> list[int]:
        return [
            code_of(left, mode, slices)
            for left, mode, slices in zip(self.left, self.modes, self.slices, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Size:
    """How a node is built, ready or not."""

    site: str
    gpus: int
    cpu_milli: int | None
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class Take:
    """What one worker has on one node, as it was taken: giving it back is exact."""

    node: str
    gpus: tuple[Piece, ...]
    cpu_milli: int
    memory_mib: int


class Gains:
    """On which nodes something was given back, in order: what had no room before has none unless one of
    those since can take a worker of it."""

    def __init__(self) -> None:
        self._ranks: list[int] = []
        self._forgotten = 0

    @property
    def count(self) -> int:
        return self._forgotten + len(self._ranks)

    def note(self, rank: int) -> None:
        self._ranks.append(rank)
        if len(self._ranks) > _GAINS:
            del self._ranks[: _GAINS // 2]
            self._forgotten += _GAINS // 2

    def since(self, count: int) -> list[int] | None:
        """None: too long ago to know."""
        return self._ranks[count - self._forgotten :] if count >= self._forgotten else None


class ClassRooms:
    """The nodes of one class, with the indexes over the ready ones."""

    def __init__(self, table: GpuStates, mix: Mix) -> None:
        self.rooms: dict[int, Room] = {}
        self.free = 0
        self.free_by_site: dict[str, int] = {}
        self.by_whole: dict[int, int] = {}  # how many nodes have so many GPUs wholly free
        self.kinds = Kinds(table, mix)
        self.changed: dict[int, None] = {}  # rooms whose kind is to be found anew
        self.gains = Gains()
        self.slots_cache: dict[int, int] = {}
        self.domains_cache: dict[str, list[tuple[Domain, list[Room]]]] = {}

    def slots(self, gpus: int) -> int:
        """How many workers of `gpus` whole GPUs fit, CPU and memory left aside: an upper bound."""
        known = self.slots_cache.get(gpus)
        if known is None:
            known = sum(nodes * (count // gpus) for count, nodes in self.by_whole.items())
            self.slots_cache[gpus] = known
        return known

    def domains(self, level: str) -> list[tuple[Domain, list[Room]]]:
        """Ready nodes that are together at a level, in order of name."""
        known = self.domains_cache.get(level)
        if known is None:
            groups: dict[Domain, list[Room]] = {}
            for room in self.rooms.values():
                domain = domain_of(room.node, level)
                if domain is not None and room.node.state == "ready":
                    groups.setdefault(domain, []).append(room)
            known = self.domains_cache[level] = sorted(groups.items(), key=lambda group: group[0])
        return known

    def with_room(self) -> Iterator[Room]:
        """Ready nodes with something left of a GPU, the tightest first."""
        for kind in self.settle().live:
            if kind.gpus.free:
                yield from (self.rooms[rank] for rank in kind.ranks)

    def workers_on(self, room: Room, shape: Shape) -> int:
        """How many workers of a shape one node could take now; 0 for work without GPUs."""
        need = need_of(shape)
        kinds = self.settle()
        if room.kind is None or not need.parts:
            return 0
        return room.kind.workers(kinds.ask(need, shape.cpu_milli, shape.memory_mib))

    def settle(self) -> Kinds:
        """The kinds as they are now. What changed since the last look is sorted in, each room once."""
        kinds = self.kinds
        if len(kinds.table) > _MAX_STATES:
            kinds = self.kinds = Kinds(GpuStates(), kinds.mix)
            for room in self.rooms.values():
                room.kind = None
                self.changed[room.rank] = None
        for rank in self.changed:
            room = self.rooms[rank]
            node = room.node
            now = None
            if node.state == "ready":
                gpus = _gpus_of(room, kinds.table)
                now = kinds.kind(gpus, room.cpu, room.memory, node.site, node.price)
            if now is not room.kind:
                if room.kind is not None:
                    kinds.leave(room.kind, rank)
                if now is not None:
                    kinds.join(now, rank)
                room.kind = now
        self.changed.clear()
        return kinds

    def enter(self, room: Room, sign: int) -> None:
        """Put a node into the indexes (sign 1) or take it out of them (sign -1)."""
        self._free(room, sign * sum(room.left))
        self._whole(room.whole, sign)
        self.changed[room.rank] = None
        self.slots_cache.clear()
        self.domains_cache.clear()

    def change(self, room: Room, pieces: Iterable[Piece], sign: int) -> None:
        """Take pieces of GPUs (sign 1) or give them back (sign -1), and keep the indexes true."""
        left, sharers, modes = room.left, room.sharers, room.modes
        total = 0
        for gpu, amount, mode, slices in pieces:
            left[gpu] -= sign * amount
            total += amount
            if slices:
                room.slices[gpu] += sign * slices
            if sign > 0 and not sharers[gpu]:
                # Only the first: a reservation, or a victim that is leaving, may lie over another's share.
                modes[gpu] = mode
            sharers[gpu] += sign
            if not sharers[gpu]:
                modes[gpu] = None
        whole = left.count(GPU)
        if room.node.state == "ready":
            self._free(room, -sign * total)
            self.changed[room.rank] = None
            if whole != room.whole:
                self._whole(room.whole, -1)
                self._whole(whole, 1)
                self.slots_cache.clear()
        room.whole = whole

    def _free(self, room: Room, amount: int) -> None:
        self.free += amount
        site = room.node.site
        self.free_by_site[site] = self.free_by_site.get(site, 0) + amount

    def _whole(self, count: int, sign: int) -> None:
        nodes = self.by_whole.get(count, 0) + sign
        if nodes:
            self.by_whole[count] = nodes
        else:
            del self.by_whole[count]


class Fleet:
    """All nodes. `version` is another one whenever something was taken or given back; whoever puts everything
    back may put it back too (`trial.py`)."""

    def __init__(self, nodes: Sequence[Node] = (), mixes: dict[str, Mix] | None = None) -> None:
        """`mixes`: what is known of the work that comes, by class; it outlives the fleet."""
        self.mixes: dict[str, Mix] = {} if mixes is None else mixes
        self.table = GpuStates()
        self.rooms: dict[str, Room] = {}
        self.classes: dict[str, ClassRooms] = {}
        self.version = 0
        self.trying = False  # what is given back now will be taken again
        self._versions = count(1)
        self._sizes: dict[str, dict[Size, None]] | None = None
        self._levels: dict[str, dict[tuple[str, str], None]] | None = None
        self.relabelled = 0  # grows when labels change
        for rank, node in enumerate(sorted(nodes, key=lambda node: (node.price, node.name))):
            room = self.rooms[node.name] = Room(node, rank)
            of_class = self.classes.get(node.gpu_class)
            if of_class is None:
                mix = self.mixes.setdefault(node.gpu_class, Mix())
                of_class = self.classes[node.gpu_class] = ClassRooms(self.table, mix)
            of_class.rooms[rank] = room
            if node.state == "ready":
                of_class.enter(room, 1)
        self._note_sites()

    def rebuilt(self, nodes: Sequence[Node]) -> Fleet:
        """Another fleet with nothing taken; its versions go on from here."""
        fresh = Fleet(nodes, self.mixes)
        fresh._versions = self._versions
        fresh.version = next(self._versions)
        return fresh

    def class_of(self, node: str) -> str | None:
        room = self.rooms.get(node)
        return None if room is None else room.node.gpu_class

    def mix(self, gpu_class: str) -> Mix:
        """What is known of the work that comes for a class."""
        return self.mixes.setdefault(gpu_class, Mix())

    def update(self, nodes: Sequence[Node]) -> bool:
        """Follow changes of readiness alone, in place. False: the fleet has another shape."""
        changed = []
        if len(nodes) != len(self.rooms):
            return False
        for node in nodes:
            room = self.rooms.get(node.name)
            if room is None:
                return False
            if node is room.node or node == room.node:
                continue
            if _built_differently(node, room.node):
                return False
            changed.append((room, node))
        for room, node in changed:
            of_class = self.classes[node.gpu_class]
            if node.labels != room.node.labels:
                self._levels, self.relabelled = None, self.relabelled + 1
            if room.node.state == "ready":
                of_class.enter(room, -1)
            room.node = node
            if node.state == "ready":
                of_class.enter(room, 1)
        self._note_sites()
        self.version = next(self._versions)
        return True

    def sizes(self) -> Mapping[str, Mapping[Size, None]]:
        """By class, the few ways in which its nodes are built."""
        if self._sizes is None:
            self._sizes = {}
            for room in self.rooms.values():
                node = room.node
                size = Size(node.site, node.gpus, node.cpu_milli, node.memory_mib)
                self._sizes.setdefault(node.gpu_class, {})[size] = None
        return self._sizes

    def levels(self) -> Mapping[str, Mapping[tuple[str, str], None]]:
        """By class, the sites and labels of its nodes, ready or not."""
        if self._levels is None:
            self._levels = {}
            for room in self.rooms.values():
                found = self._levels.setdefault(room.node.gpu_class, {})
                found.update(dict.fromkeys((room.node.site, label) for label in room.node.labels))
        return self._levels

    def take(self, shape: Shape, placement: Placement) -> list[Take]:
        """Charge a placement. Takes at most what is there: work found running on a node that is
        gone or smaller than it was is followed as far as possible, never refused."""
        parts = parts_of(shape)
        takes = []
        for worker in placement.workers:
            room = self.rooms.get(worker.node)
            if room is None:
                continue
            amounts = parts if len(parts) == len(worker.gpus) else _spread(shape.gpus, len(worker.gpus))
            takes.append(self._take(room, shape, tuple(zip(worker.gpus, amounts, strict=True))))
        self.version = next(self._versions)
        return takes

    def retake(self, takes: Sequence[Take]) -> None:
        """Undo `give_back`, exactly."""
        for take in takes:
            room = self.rooms[take.node]
            room.cpu -= take.cpu_milli
            room.memory -= take.memory_mib
            self.classes[room.node.gpu_class].change(room, take.gpus, 1)
        self.version = next(self._versions)

    def give_back(self, takes: Sequence[Take]) -> None:
        for take in takes:
            room = self.rooms[take.node]
            room.cpu += take.cpu_milli
            room.memory += take.memory_mib
            of_class = self.classes[room.node.gpu_class]
            of_class.change(room, take.gpus, -1)
            if not self.trying:
                of_class.gains.note(room.rank)
        self.version = next(self._versions)

    def _take(self, room: Room, shape: Shape, wanted: Sequence[tuple[int, int]]) -> Take:
        of_class = self.classes[room.node.gpu_class]
        taken: list[Piece] = []
        for gpu, amount in wanted:
            got, slices = _there(room, shape, gpu, amount)
            if got > 0:
                piece = (gpu, got, room.modes[gpu] or shape.sharing, slices)
                of_class.change(room, (piece,), 1)
                taken.append(piece)
        cpu, memory = min(shape.cpu_milli, room.cpu), min(shape.memory_mib, room.memory)
        room.cpu -= cpu
        room.memory -= memory
        of_class.changed[room.rank] = None
        return Take(room.node.name, tuple(taken), cpu, memory)

    def _note_sites(self) -> None:
        self.ready_sites: Mapping[str, None] = dict.fromkeys(
            room.node.site for room in self.rooms.values() if room.node.state == "ready"
        )


def domain_of(node: Node, level: str) -> Domain | None:
    """What a node is part of at a level; None where it does not say."""
    value = node.labels.get(level)
    if value is None:
        return None
    return node.site, node.labels.get("block", "") if level == "rack" else "", value


def _gpus_of(room: Room, table: GpuStates) -> GpuState:
    """Most nodes have no GPU in part: then how many are free is all there is to know."""
    if sum(room.left) == room.whole * GPU:
        return table.wholly(room.node.gpus, room.whole)
    return table.state(room.codes())


def _there(room: Room, shape: Shape, gpu: int, amount: int) -> tuple[int, int]:
    """How much of a GPU there is to take, at most `amount`, and the MIG slices that go with it."""
    got = min(amount, room.left[gpu]) if 0 <= gpu < len(room.left) else 0
    if got <= 0:
        return 0, 0
    profile = need_of(shape).profile if amount < GPU else None
    slices = None if profile is None else put(room.slices[gpu], profile)
    if room.modes[gpu] not in (None, shape.sharing) or (profile is not None and slices is None):
        # Over another's share (see `change`): nobody else can have the rest, in either mode.
        return room.left[gpu], 0
    return got, slices or 0


def _spread(amount: int, gpus: int) -> tuple[int, ...]:
    """For adopted work whose GPUs are not as many as its shape says: evenly, at most all of each."""
    return tuple(min(GPU, amount // gpus) for _ in range(gpus)) if gpus else ()


def _built_differently(a: Node, b: Node) -> bool:
    return replace(a, state=b.state, labels=b.labels) != b
