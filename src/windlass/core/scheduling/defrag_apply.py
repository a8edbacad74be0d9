"""Carrying a plan out on the engine's state: the moved are told to go, the hole is promised to whom it is
for, and everything that moves has its next place earmarked. Nobody can take either in between.

The plan must have been made of this very state; a plan of an earlier one is made anew first.
"""

from __future__ import annotations

from windlass.core.scheduling.cycle import taken_from
from windlass.core.scheduling.defrag import Plan
from windlass.core.scheduling.model import Preempt
from windlass.core.scheduling.moving import keep_place, on_the_way
from windlass.core.scheduling.state import Promise, State
from windlass.core.units import MilliGpu, Ms


def carry_out(state: State, plan: Plan, now: Ms) -> tuple[Preempt, ...]:
    """Who has to go, and for whom."""
    line = state.lines.by_shape[plan.shape]
    assert line.head[1] == plan.id, "a plan is for the first of a line"
    leaving = [state.held[move.id] for move in plan.moves]
    borrowed = MilliGpu(
        state.future_pool(plan.shape).beyond_guarantee(plan.shape.gpus * len(plan.hole.workers))
    )
    held = taken_from(state, line, plan.hole, now)
    held.promised = True
    for one in leaving:
        state.stop(one)
        state.fleet.give_back(one.takes)
    state.hold(held)
    state.promises[held.id] = Promise(held, borrowed, on_the_way(plan.hole, leaving), now)
    for move, one in zip(plan.moves, leaving, strict=True):
        keep_place(state, one, move.target, leaving)
    for one in leaving:
        one.takes = state.fleet.take(one.shape, one.placement)
    state.stale_classes[plan.shape.gpu_class] = None
    return tuple(Preempt(move.id, plan.id, "defragmentation") for move in plan.moves)
