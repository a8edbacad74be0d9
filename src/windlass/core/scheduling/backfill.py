"""Starting small work early without delaying the first that lacks room.

The first line of a class for which there is quota but no room gets a reservation: the moment, and
the GPUs, at which it should start when running work ends as expected. Work behind it may start if
it is over before that moment, or if it fits beside the reserved GPUs. Without backfill nothing
behind it starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType

from windlass.core.scheduling.apart import apart
from windlass.core.scheduling.fit import fit, quota_allows
from windlass.core.scheduling.lines import Line
from windlass.core.scheduling.model import Placement, Shape
from windlass.core.scheduling.owed import owed_first
from windlass.core.scheduling.placement import place
from windlass.core.scheduling.state import Reservation, State
from windlass.core.scheduling.trial import Trial, Untouched
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
    if line in blocked or not all(other.members for other in blocked):
        blocked[:] = [other for other in blocked if other.members and other is not line]
    if len(blocked) >= REMEMBERED and not any(
        state.startable.get(other.id) or _reservation(state, other, now) for other in blocked
    ):
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
    return _place_beside(state, line, head, reservation)


def delayed_head(state: State, line: Line, now: Ms) -> Line | None:
    """Whom a line with quota and room would delay if it started now."""
    found = head_of(state, line, now)
    if found is None:
        return None
    head, reservation = found
    if state.options.backfill and (
        _over_before(line.shape, reservation, now)
        or _place_beside(state, line, head, reservation) is not None
    ):
        return None
    return head


def _place_beside(state: State, line: Line, head: Line, reservation: Reservation) -> Placement | None:
    """Room beside what is reserved. Where there is none for a need, there is none for the next line with the
    same, as long as nothing has changed."""
    reserved = reservation.placement
    if reserved is None:
        return None
    kept_apart = state.neighbours.mind(line.shape) or state.neighbours.mind(head.shape)
    nothing_for = state.beside_head.of(state.fleet.version, head.id)
    if not kept_apart and line.needs in nothing_for:
        return None
    with _reserved(state, head, reserved):
        if not quota_allows(state.pool(line.shape), line.shape):
            return None
        avoid = _off_reserved(state, line, head, reserved, ())
        placement = place(state.fleet, line.shape, line.shape.fewest, avoid=avoid)
    if placement is None and not kept_apart:
        nothing_for.add(line.needs)
    return placement


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
    pool, amount = state.pool(head.shape), head.shape.gpus * len(placement.workers)
    with Untouched(state):
        reserved = state.fleet.take(head.shape, placement)
        pool.charge(amount)
        try:
            yield
        finally:
            pool.discharge(amount)
            state.fleet.give_back(reserved)


def plan_beside_head(state: State, line: Line, plan: Plan, now: Ms) -> Plan | None:
    """The plan with which `line` may ask others to leave without delaying its head, perhaps with another
    place than the plan has. None: it waits. A lender that takes back what is its own waits for nobody but
    who is ahead in the same queue: theirs is the same right."""
    found = head_of(state, line, now)
    if found is None:
        return plan
    head, reservation = found
    takes_back = plan.victims and all(reason == "reclaim" for _, reason in plan.victims)
    if takes_back and state.pool(head.shape).home is not state.pool(line.shape).home:
        return plan
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
            pool, amount = state.future_pool(head.shape), head.shape.needed
            pool.charge(amount)
            allowed = quota_allows(state.future_pool(line.shape), line.shape)
            pool.discharge(amount)
            avoid = _off_reserved(state, line, head, reservation.placement, trial.gone)
            placement = place(state.fleet, line.shape, line.shape.fewest, avoid=avoid) if allowed else None
    return None if placement is None else replace(plan, placement=placement)


def _over_before(shape: Shape, reservation: Reservation, now: Ms) -> bool:
    return shape.expected is not None and now + shape.expected <= reservation.starts


def _reservation(state: State, head: Line, now: Ms) -> Reservation | None:
    if state.startable.get(head.id) is False:
        return None
    known = state.reservations.get(head.id)
    if known is None or known[0] != state.fleet.version:
        found = reserve(state, head.shape, now)
        known = state.reservations[head.id] = (state.fleet.version, found)
        if found is None and not state.moving:
            state.startable[head.id] = False
        elif found is not None and found.placement is not None:
            state.startable[head.id] = True
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
    if state.ready_gpus(shape.gpu_class) * GPU < shape.needed:
        return None
    ends = state.ends.get(shape.gpu_class, [])
    leaving = state.stopping.get(shape.gpu_class)
    if leaving:  # they are gone in a moment, however long they were to run
        ends = [(now, id) for id in leaving] + [end for end in ends if end[1] not in leaving]
    horizon = min(len(ends), HORIZON)
    with _Ends(state, shape, ends) as trial:
        # More room never hurts, so the first count that is enough can be searched for by halves.
        low = ends_in_vain = trial.too_few(horizon)
        high = min(low + 1, horizon)
        while high < horizon and trial.after(high) is None:
            low, high = high, min(2 * high - ends_in_vain, horizon)
        found = trial.after(high) if high > low or not high else None
        if found is None:
            return Reservation(ends[horizon - 1][0], None) if horizon < len(ends) else None
        while high - low > 1:
            middle = (low + high) // 2
            there = trial.after(middle)
            if there is None:
                low = middle
            else:
                high, found = middle, there
        return Reservation(Ms(max(now, ends[high - 1][0] if high else now)), found)


class _Ends(Untouched):
    """The fleet as it is after the first so many ends; quota is not asked."""

    def __init__(self, state: State, shape: Shape, ends: Sequence[tuple[Ms, str]]) -> None:
        super().__init__(state)
        self._shape = shape
        self._held = [state.held[id] for _, id in ends[:HORIZON]]
        self._gone: dict[str, None] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release(0)
        super().__exit__(kind, error, trace)

    def too_few(self, horizon: int) -> int:
        """So many ends do not even free enough in sum."""
        rooms = self._state.fleet.classes.get(self._shape.gpu_class)
        lacking = self._shape.needed - (rooms.free if rooms else 0)
        count = 0
        while count < horizon:
            lacking -= sum(amount for take in self._held[count].takes for _, amount, *_ in take.gpus)
            if lacking <= 0:
                break
            count += 1
        return count

    def after(self, count: int) -> Placement | None:
        self._release(count)
        avoid = self._state.avoided(self._shape, self._gone)
        return place(self._state.fleet, self._shape, self._shape.fewest, avoid=avoid)

    def _release(self, count: int) -> None:
        fleet = self._state.fleet
        for held in self._held[len(self._gone) : count]:
            fleet.give_back(held.takes)
            self._gone[held.id] = None
        for held in reversed(self._held[count : len(self._gone)]):
            fleet.retake(held.takes)
            del self._gone[held.id]
