"""Work on its way from one place to another: it is told to go, and its next place is earmarked.

While it leaves, it holds what it had, and the next place is nobody else's, in GPUs and in the quota of the
future. When it comes back to the queue it is promised that place, and starts when whoever stood there is
gone too. If it ends instead, or the place is lost (its node is not ready any more, the quotas changed), the
earmark is dropped, and work that comes back then waits like anybody else, at its old age.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.scheduling.model import Placement, Waiting
from windlass.core.scheduling.state import Held, Moving, State, expected_end
from windlass.core.units import MilliGpu


def keep_place(state: State, held: Held, target: Placement, leaving: Sequence[Held]) -> None:
    """Earmark its next place. The GPUs of all that are `leaving` are given back meanwhile."""
    moving = Moving(held.shape, target, state.fleet.take(held.shape, target), on_the_way(target, leaving))
    state.moving[held.id] = moving
    state.future_pool(held.shape).charge(held.amount)
    state.neighbours.count(state.tree, held.shape, target, 1)


def on_the_way(target: Placement, leaving: Sequence[Held]) -> dict[str, None]:
    """Who must be gone before something can start there: whoever leaves one of its nodes, because GPUs are
    not all that a node has, and who stands beside whom may matter."""
    nodes = {worker.node for worker in target.workers}
    return {
        held.id: None for held in leaving if any(worker.node in nodes for worker in held.placement.workers)
    }


def arrived(state: State, workload: Waiting) -> bool:
    """It is back in the queue: from now on its place is a promise. False: it has no place."""
    moving = state.moving.get(workload.id)
    if moving is None or workload.shape != moving.shape:
        return False
    _forget(state, workload.id)
    shape, since = workload.shape, workload.began
    held = Held(workload.id, shape, workload.submitted, since, moving.target, expected_end(shape, since))
    held.queued = workload.queued
    borrowed = MilliGpu(state.future_pool(shape).beyond_guarantee(held.amount))
    state.make_promise(held, dict.fromkeys(moving.after), borrowed, since)
    return True


def drop(state: State, ids: Sequence[str]) -> None:
    """Their places are nobody's again, or fall to those who have not left them yet."""
    for id in ids:
        _forget(state, id)


def drop_ended(state: State) -> None:
    """Whoever is gone and did not come back has ended."""
    drop(state, [id for id in state.moving if id not in state.held])


def _forget(state: State, id: str) -> None:
    moving = state.moving.pop(id)
    leaving = [state.held[other] for other in moving.after]
    for held in leaving:
        state.fleet.give_back(held.takes)
    state.fleet.give_back(moving.takes)
    for held in leaving:
        held.takes = state.fleet.take(held.shape, held.placement)
    amount = moving.shape.gpus * len(moving.target.workers)
    state.future_pool(moving.shape).discharge(amount)
    state.neighbours.count(state.tree, moving.shape, moving.target, -1)
    state.changes += 1
    state.stale_classes[moving.shape.gpu_class] = None
