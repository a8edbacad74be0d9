"""Whether there is room for a line, without looking again for every line in every cycle.

What a line needs of nodes is the same for many lines of many queues, and where there was no room, there is
none until something is given back on a node that could take a worker. So who had no room is remembered, by
need, with the moment: then only the nodes given back on since are looked at.
"""

from __future__ import annotations

from collections.abc import Collection

from windlass.core.scheduling.gpus import need_of
from windlass.core.scheduling.lines import Line
from windlass.core.scheduling.model import Cause, Shape
from windlass.core.scheduling.nodes import ClassRooms
from windlass.core.scheduling.placement import has_room, has_room_near
from windlass.core.scheduling.state import State
from windlass.core.scheduling.survey import host_short

_REMEMBERED = 20_000


def lacks_room(state: State, line: Line) -> bool:
    """There is no room for its fewest workers now."""
    shape = line.shape
    rooms = state.fleet.classes.get(shape.gpu_class)
    if rooms is None:
        return True
    key = _need(state, line)
    since = state.no_room.get(key)
    given_back = None if since is None else rooms.gains.since(since)
    if given_back is None:
        lacks = not has_room(state.fleet, shape, shape.fewest, avoid=state.avoided(shape))
    else:
        able = [rank for rank in given_back if _takes_a_worker(rooms, rank, shape)]
        lacks = not able or not has_room_near(
            state.fleet, shape, shape.fewest, able, avoid=state.avoided(shape)
        )
    if lacks:
        if len(state.no_room) > _REMEMBERED:
            state.no_room.clear()
        state.no_room[key] = rooms.gains.count
    else:
        state.no_room.pop(key, None)
    return lacks


def lack_of_room(state: State, line: Line) -> Cause | None:
    """Which lack of room it waits for, if any; asked by many lines of the same need in the same state."""
    version, known = state.lacks
    if version != state.fleet.version:
        version, known = state.lacks = (state.fleet.version, {})
    key = (line.shape.gpu_class, _need(state, line))
    if key not in known:
        known[key] = _lack_of_room(state, line)
    return known[key]


def _need(state: State, line: Line) -> str:
    """What of a line says whether there is room for it; where neighbours matter, its queue does too."""
    return line.asks if state.neighbours.mind(line.shape) else line.needs


def _takes_a_worker(rooms: ClassRooms, rank: int, shape: Shape) -> bool:
    kinds = rooms.settle()
    kind = rooms.rooms[rank].kind
    if kind is None or (shape.sites and kind.site not in shape.sites):
        return False
    return kind.holds(kinds.ask(need_of(shape), shape.cpu_milli, shape.memory_mib))


def _lack_of_room(state: State, line: Line) -> Cause | None:
    shape = line.shape
    avoid = state.avoided(shape)
    if shape.gpu_class not in state.fleet.classes:
        return "capacity"
    if shape.needed > _free_in_sum(state, shape, avoid):
        return "capacity"
    if not lacks_room(state, line):
        return None
    return "capacity" if host_short(state, shape, avoid) else "fragmentation"


def _free_in_sum(state: State, shape: Shape, avoid: Collection[str]) -> int:
    """What is free on ready nodes of the class at the sites it may use, avoided nodes left out."""
    rooms = state.fleet.classes[shape.gpu_class]
    free = sum(rooms.free_by_site.get(site, 0) for site in set(shape.sites)) if shape.sites else rooms.free
    for name in avoid:
        room = state.fleet.rooms.get(name)
        if room is None or room.node.state != "ready" or room.node.gpu_class != shape.gpu_class:
            continue
        if not shape.sites or room.node.site in shape.sites:
            free -= sum(room.left)
    return free
