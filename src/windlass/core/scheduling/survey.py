"""What free room looks like to one shape: the numbers an explanation tells."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from windlass.core.scheduling.gpus import parts_of
from windlass.core.scheduling.model import Shape
from windlass.core.scheduling.nodes import Room, domain_of
from windlass.core.scheduling.state import State
from windlass.core.units import GPU


@dataclass(frozen=True, slots=True)
class Survey:
    """`free` in sum on `nodes` that are ready and allowed; `hole` is the most one worker could have on one
    node; `workers` fit at the best place they could be together; `shunned` is free on nodes it keeps away
    from; `unready` are GPUs on nodes where nothing starts, `everything` all there are."""

    free: int
    nodes: int
    hole: int
    workers: int
    shunned: int
    unready: int
    everything: int


def survey(state: State, shape: Shape) -> Survey:
    rooms = state.fleet.classes[shape.gpu_class]
    avoid = state.avoided(shape)
    free = nodes = hole = shunned = 0
    together: dict[object, int] = {}
    for room in rooms.with_room():
        node = room.node
        if shape.sites and node.site not in shape.sites:
            continue
        if avoid and node.name in avoid:
            shunned += sum(room.left)
            continue
        free, nodes = free + sum(room.left), nodes + 1
        hole = max(hole, _hole(room, shape))
        place = domain_of(node, shape.topology.level) if required(shape) and shape.topology else node.site
        if place is not None:
            together[place] = together.get(place, 0) + rooms.workers_on(room, shape)
    unready = state.unready_gpus(shape.gpu_class, shape.sites) * GPU
    everything = state.ready_gpus(shape.gpu_class, shape.sites) * GPU + unready
    return Survey(free, nodes, hole, max(together.values(), default=0), shunned, unready, everything)


@dataclass(frozen=True, slots=True)
class HostShort:
    """What of the hosts is not enough in sum, and by what numbers."""

    of: str
    need: int
    free: int


def host_short(state: State, shape: Shape, avoid: Collection[str]) -> HostShort | None:
    """CPU or memory that all ready and allowed nodes together have too little of, if any."""
    rooms = state.fleet.classes[shape.gpu_class]
    free_cpu = free_memory = 0
    for kind in rooms.settle().live if shape.cpu_milli or shape.memory_mib else ():
        if shape.sites and kind.site not in shape.sites:
            continue
        count = len(kind.ranks)
        if avoid:
            count = sum(1 for rank in kind.ranks if rooms.rooms[rank].node.name not in avoid)
        free_cpu, free_memory = free_cpu + count * kind.cpu, free_memory + count * kind.memory
    if shape.cpu_milli * shape.fewest > free_cpu:
        return HostShort("mCPU", shape.cpu_milli * shape.fewest, free_cpu)
    if shape.memory_mib * shape.fewest > free_memory:
        return HostShort("MiB of memory", shape.memory_mib * shape.fewest, free_memory)
    return None


def required(shape: Shape) -> bool:
    return shape.topology is not None and shape.topology.mode == "required"


def _hole(room: Room, shape: Shape) -> int:
    """For shares, what is left of one GPU that may be shared so; else the GPUs wholly free."""
    if shape.unit >= GPU:
        return room.whole * GPU
    fitting = (
        left for left, mode in zip(room.left, room.modes, strict=True) if mode in (None, shape.sharing)
    )
    parts = len(parts_of(shape))
    return max(fitting, default=0) if parts == 1 else sum(fitting)
