"""Starting small work early without delaying the first that lacks room.

The first line of a class for which there is quota but no room gets a reservation: the moment, and
the GPUs, at which it should start when running work ends as expected. Work behind it may start if
it is over before that moment, or if it fits beside the reserved GPUs. Without backfill nothing
behind it starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from windlass.core.scheduling.apart import apart
from windlass.core.scheduling.fit import fit, quota_allows
from windlass.core.scheduling.lines import Line
from windlass.core.scheduling.model import Placement, Shape
from windlass.core.scheduling.owed import owed_first
from windlass.core.scheduling.placement import place
from windlass.core.scheduling.state import Reservation, State
from windlass.core.scheduling.trial import Trial
from windlass.core.scheduling.victims import Plan
from windlass.core.units import GPU, Ms

HORIZON = 2048
"""How many ends of running work are looked at. Beyond, only "not before then" is known."""
FORESEEN = 32
"""How many ends an explanation looks at."""
REMEMBERED = 3
"""How many lines that lack room are kept per class: the first one that can ever start counts."""


def note_blocked(state: State, line: Line, now: Ms) -> None:
    """Remember a line that has quota but no room, if it is among the first of its class. Where none of
    those can ever start on the nodes there are, they are no reason to overlook one that can."""
    blocked = state.blocked.setdefault(line.shape.gpu_class, [])
    blocked[:] = [other for other in blocked if other.members and other is not line]
    if len(blocked) >= REMEMBERED and not any(_reservation(state, other, now) for other in blocked):
        blocked.clear()
    key = state.lines.key(line, state.tree)
    place = sum(1 for other in blocked if state.lines.key(other, state.tree) < key)
    if place < REMEMBERED:
        blocked.insert(place, line)
        del blocked[REMEMBERED:]


def head_of(state: State, line: Line, now: Ms) -> tuple[Line, Reservation] | None:
    """The line whose start `line` must not delay, and its reservation."""
    blocked = state.blocked.get(line.shape.gpu_class)
    if not blocked:
        return None
    key = state.lines.key(line, state.tree)
    for head in blocked:
        if not head.members or head is line or state.lines.key(head, state.tree) > key:
            continue
        reservation = _reservation(state, head, now)
        if reservation is not None:
            return head, reservation
    return None


def may_start(state: State, line: Line, placement: Placement, now: Ms) -> Placement | None:
    """With what it fits now it may start: nobody is owed what it would borrow, and it delays nobody ahead
    (perhaps elsewhere than `placement`). None: it waits."""
    if owed_first(state, line.shape, line.shape.gpus * len(placement.workers)) is not None:
        return None
    return beside_head(state, line, placement, now)


def heads_before(state: State, line: Line) -> list[Line]:
    """The lines with reservations that this one has to leave alone."""
    blocked = state.blocked.get(line.shape.gpu_class)
    if not blocked:
        return []
    key = state.lines.key(line, state.tree)
    return [head for head in blocked if head.members and state.lines.key(head, state.tree) < key]


def keep_reservations(state: State, heads: list[Line], version: int) -> None:
    """What started beside a reservation, or is over before it, has not changed it."""
    for head in heads:
        known = state.reservations.get(head.id)
        if known is not None and known[0] == version:
            state.reservations[head.id] = (state.fleet.version, known[1])


def beside_head(state: State, line: Line, placement: Placement, now: Ms) -> Placement | None:
    """The placement with which `line` may start now without delaying its head; None: it waits."""
    found = head_of(state, line, now)
    if found is None:
        return placement
    head, reservation = found
    if not state.options.backfill:
        return None
    if _over_before(line.shape, reservation, now):
        return placement
    if reservation.placement is None:
        return None
    with _reserved(state, head, reservation.placement):
        if not quota_allows(state.pool(line.shape), line.shape):
            return None
        avoid = _off_reserved(state, line, head, reservation.placement, ())
        return place(state.fleet, line.shape, line.shape.fewest, avoid=avoid)


def _off_reserved(
    state: State, line: Line, head: Line, reserved: Placement, gone: Collection[str]
) -> Collection[str]:
    """The nodes a line keeps away from; those reserved for its head too, if the two keep apart."""
    avoid = state.avoided(line.shape, gone)
    if not apart(state.tree, line.shape, line.head[1], head.shape, head.head[1]):
        return avoid
    return {*avoid, *(worker.node for worker in reserved.workers)}


def room_beside_all(state: State, shape: Shape, avoid: Collection[str], now: Ms) -> Placement | None:
    """Room for the last in line: it delays nobody for whom something is reserved."""
    for head in state.blocked.get(shape.gpu_class, ()):
        reservation = _reservation(state, head, now) if head.members else None
        if reservation is None:
            continue
        if not state.options.backfill or reservation.placement is None:
            return None
        with _reserved(state, head, reservation.placement):
            workers = quota_allows(state.pool(shape), shape)
            return place(state.fleet, shape, workers, fewest=1, avoid=avoid) if workers else None
    return place(state.fleet, shape, shape.workers, fewest=1, avoid=avoid)


@contextmanager
def _reserved(state: State, head: Line, placement: Placement) -> Iterator[None]:
    """Taking the reserved GPUs takes exactly those of them that are free now, and their quota."""
    version = state.fleet.version
    pool, amount = state.pool(head.shape), head.shape.gpus * len(placement.workers)
    reserved = state.fleet.take(head.shape, placement)
    pool.charge(amount)
    try:
        yield
    finally:
        pool.discharge(amount)
        state.fleet.give_back(reserved)
        state.fleet.version = version


def plan_beside_head(state: State, line: Line, plan: Plan, now: Ms) -> Plan | None:
    """The plan with which `line` may ask others to leave without delaying its head, perhaps with another
    place than the plan has. None: it waits. A lender that takes back what is its own waits for nobody."""
    takes_back = plan.victims and all(reason == "reclaim" for _, reason in plan.victims)
    found = None if takes_back else head_of(state, line, now)
    if found is None:
        return plan
    head, reservation = found
    if not state.options.backfill:
        return None
    if _over_before(line.shape, reservation, now):
        return plan
    if reservation.placement is None or not plan.victims:
        return None  # room that is about to come free is the head's
    with Trial(state) as trial:
        for id in plan.after:
            trial.remove(state.held[id])
        with _reserved(state, head, reservation.placement):
            pool, amount = state.future_pool(head.shape), head.shape.gpus * head.shape.fewest
            pool.charge(amount)
            allowed = quota_allows(state.future_pool(line.shape), line.shape)
            pool.discharge(amount)
            avoid = _off_reserved(state, line, head, reservation.placement, trial.gone)
            placement = place(state.fleet, line.shape, line.shape.fewest, avoid=avoid) if allowed else None
    return None if placement is None else replace(plan, placement=placement)


def _over_before(shape: Shape, reservation: Reservation, now: Ms) -> bool:
    return shape.expected is not None and now + shape.expected <= reservation.starts


def _reservation(state: State, head: Line, now: Ms) -> Reservation | None:
    known = state.reservations.get(head.id)
    if known is None or known[0] != state.fleet.version:
        known = state.reservations[head.id] = (state.fleet.version, reserve(state, head.shape, now))
    return known[1]


def first_release(state: State, shape: Shape) -> str | None:
    """The workload with whose expected end there is quota and room for this shape. None: that is not
    within the next `FORESEEN` ends."""
    ends = state.ends.get(shape.gpu_class, [])[:FORESEEN]
    with Trial(state) as trial:
        for _, id in ends:
            trial.remove(state.held[id])
        if fit(state, shape, trial.gone) is None:
            return None
        for _, id in reversed(ends):
            trial.put_back(state.held[id])
            if fit(state, shape, trial.gone) is None:
                return id
    return None


def reserve(state: State, shape: Shape, now: Ms) -> Reservation | None:
    """When there will be room, if running work ends as expected and nobody else starts. None: never."""
    if state.ready_gpus(shape.gpu_class) * GPU < shape.gpus * shape.fewest:
        return None
    ends = state.ends.get(shape.gpu_class, [])
    leaving = state.stopping.get(shape.gpu_class)
    if leaving:  # they are gone in a moment, however long they were to run
        ends = [(now, id) for id in leaving] + [end for end in ends if end[1] not in leaving]
    horizon = min(len(ends), HORIZON)
    with Trial(state) as trial:

        def release(count: int) -> Placement | None:
            """As the world is after the first `count` ends."""
            for _, id in ends[len(trial.gone) : count]:
                trial.remove(state.held[id])
            for _, id in reversed(ends[count : len(trial.gone)]):
                trial.put_back(state.held[id])
            avoid = state.avoided(shape, trial.gone)
            return place(state.fleet, shape, shape.fewest, avoid=avoid)

        # More room never hurts, so the first count that is enough can be searched for by halves.
        low, high, found = 0, 1, None
        while high < horizon and release(high) is None:
            low, high = high, high * 2
        high = min(high, horizon)
        found = release(high)
        if found is None:
            return Reservation(ends[horizon - 1][0], None) if horizon < len(ends) else None
        while high - low > 1:
            middle = (low + high) // 2
            there = release(middle)
            if there is None:
                low = middle
            else:
                high, found = middle, there
        return Reservation(Ms(max(now, ends[high - 1][0] if high else now)), found)
