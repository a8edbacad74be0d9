"""Inside its guarantee nobody starves: what is owed to a lender is not lent again.

A line that asks for no more than its queue's unused guarantee and finds it lent away is *owed* it. From
the first cycle that looked at it, nobody who would borrow starts with what it needs. What is lent already
comes back: taken as soon as its minimum runtime is over where the line preempts, or else as it ends. So
the first of a queue, inside its guarantee, waits at most for the longest minimum runtime of those who
borrow at that moment (the longest rest of their work, if it does not preempt), and for their leaving,
as far as the nodes hold what is guaranteed. Beyond the guarantee there is no such bound.
"""

from __future__ import annotations

from windlass.core.scheduling.lines import Line
from windlass.core.scheduling.model import Shape
from windlass.core.scheduling.state import State


def inside_guarantee(state: State, shape: Shape) -> bool:
    """It would not borrow."""
    return state.pool(shape).guaranteed_room() >= shape.needed > 0


def note_owed(state: State, line: Line) -> None:
    """Remember a line that waits for what is its own, if nobody of its home is owed already: they come
    in order, so the first is the one."""
    owed = state.owed.setdefault(line.shape.gpu_class, {})
    home = state.pool(line.shape).home.name
    before = owed.get(home)
    if before is not None and before is not line and _still_owed(state, before):
        line = min(before, line, key=lambda one: state.lines.key(one, state.tree))
    if _still_owed(state, line):
        owed[home] = line


def forget_owed(state: State, line: Line) -> bool:
    """It started or left, or has its quota and lacks only room. True: those it held back may go now."""
    owed = state.owed.get(line.shape.gpu_class)
    if not owed:
        return False
    homes = [home for home, other in owed.items() if other is line]
    for home in homes:
        del owed[home]
    return bool(homes)


def owed_first(state: State, shape: Shape, amount: int) -> Line | None:
    """Whom starting `amount` of this shape would keep from its own; None: it does not borrow, or there
    is enough for all."""
    owed = state.owed.get(shape.gpu_class)
    pool = state.pool(shape)
    if not owed or pool.beyond_guarantee(amount) == 0:
        return None
    mine = pool.home.name
    lenders = [other for home, other in owed.items() if home != mine and _still_owed(state, other)]
    if not lenders:
        return None
    charged = [(state.pool(other.shape), other.shape.needed) for other in lenders]
    before = pool.free()
    for lender, need in charged:
        lender.charge(need)
    enough = pool.free() >= amount
    for lender, need in charged:
        lender.discharge(need)
    if enough or before < amount:
        return None
    return min(lenders, key=lambda other: other.head)


def _still_owed(state: State, line: Line) -> bool:
    return bool(line.members) and line.never is None and inside_guarantee(state, line.shape)
