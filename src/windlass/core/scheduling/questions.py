"""What can be asked between cycles: position, cause, who waits, who runs, who uses what, what if.

Questions do not change the state. None of them looks at every waiting workload.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from windlass.core.scheduling.backfill import may_start, plan_beside_head
from windlass.core.scheduling.causes import binding, message
from windlass.core.scheduling.estimate import estimate
from windlass.core.scheduling.fit import fit, never
from windlass.core.scheduling.lines import Line, line_of
from windlass.core.scheduling.model import Estimate, LineCause, Position, Running, Use, Waiting, WhatIf
from windlass.core.scheduling.preemption import make_room
from windlass.core.scheduling.remedies import remedy
from windlass.core.scheduling.state import State
from windlass.core.units import MilliGpu, Ms


def position(state: State, id: str) -> Position | None:
    """How many come first among those that wait for the same class. Promised work comes before all
    others. None: it does not wait, or can never run."""
    promised = state.promises.get(id)
    workload = state.lines.waiting.get(id)
    if promised is not None:
        gpu_class = promised.held.shape.gpu_class
    elif workload is not None:
        gpu_class = workload.shape.gpu_class
    else:
        return None
    first = [other for other, it in state.promises.items() if it.held.shape.gpu_class == gpu_class]
    if workload is None:
        waiting = sum(len(line.members) for line in state.lines.of_class(gpu_class) if line.never is None)
        return Position(first.index(id), len(first) + waiting)
    behind = state.lines.position(workload, state.tree)
    if behind is None:
        return None
    return Position(len(first) + behind.ahead, len(first) + behind.of)


def cause_of(state: State, id: str, now: Ms | None = None) -> LineCause | None:
    """Why it waits; with `now`, what would let it in too. Promised work is `starting`: it only waits for
    its victims to leave."""
    promise = state.promises.get(id)
    if promise is not None:
        leaving = ", ".join(sorted(promise.victims))
        text = f"Its GPUs are earmarked; it starts when {leaving} has left them."
        return LineCause(line_of(promise.held.shape), "starting", (), text, promise.since)
    workload = state.lines.waiting.get(id)
    if workload is None:
        return None
    line = state.lines.by_shape[workload.shape]
    if line.cause is None:
        return None
    found = replace(line.cause, message=message(state, line, line.cause.cause), never=line.never is not None)
    if now is None:
        return found
    protected = dict(state.protected_until)
    helps = remedy(state, line, line.cause.cause, now)
    state.protected_until = protected
    return replace(found, remedy=helps)


def waiting_in_order(state: State, limit: int, after: str | None = None) -> tuple[Waiting, ...]:
    """A page of everybody who waits: promised work, then in order, then what can never run."""
    promised = [
        Waiting(id, promise.held.shape, promise.held.submitted) for id, promise in state.promises.items()
    ]
    start = None
    if after is not None and after in state.promises:
        promised = promised[list(state.promises).index(after) + 1 :]
    elif after is not None:
        promised = []
        start = state.lines.waiting.get(after)
        if start is None:
            return ()
    page = promised[:limit]
    page.extend(islice(state.lines.listed(state.tree, start), limit - len(page)))
    return tuple(page)


def running(state: State) -> tuple[Running, ...]:
    """Everybody who holds GPUs, in order of id; promised work does not hold them yet."""
    return tuple(
        Running(held.id, held.shape, held.submitted, held.since, held.placement, held.stopping)
        for _, held in sorted(state.held.items())
        if not held.promised
    )


def usage(state: State) -> dict[str, dict[str, Use]]:
    """Per queue, every class it has a limit for or uses; promised work counts as use."""
    limited = [
        (queue, gpu_class)
        for queue in state.tree.leaves()
        for gpu_class in state.tree.classes()
        if state.tree.pool(queue, gpu_class).entry is not None
    ]
    used = dict.fromkeys(limited, 0)
    borrowed = dict.fromkeys(limited, 0)
    tree = state.tree.empty()
    # Where queues share a guarantee above them, whoever came last is who went beyond it.
    for held in sorted(state.held.values(), key=lambda held: (held.shape.preemptible, held.since)):
        key = (held.shape.queue, held.shape.gpu_class)
        pool = tree.pool(*key)
        borrowed[key] = borrowed.get(key, 0) + pool.beyond_guarantee(held.amount)
        used[key] = used.get(key, 0) + held.amount
        pool.charge(held.amount)
    table: dict[str, dict[str, Use]] = {queue: {} for queue in state.tree.leaves()}
    for queue, gpu_class in sorted(used):
        key = (queue, gpu_class)
        table.setdefault(queue, {})[gpu_class] = Use(MilliGpu(used[key]), MilliGpu(borrowed[key]))
    return table


def what_if(state: State, workload: Waiting, now: Ms) -> WhatIf:
    """What would happen to a workload submitted now. It may be waiting already under its id."""
    probe = Waiting(f"{workload.id} (what if)", workload.shape, workload.submitted)
    protected = dict(state.protected_until)
    known = workload.shape in state.lines.by_shape
    line = state.lines.add(probe)
    try:
        # In a line that waits already it stands with the others, for the same cause.
        start = None if known or never(state, line) is not None else _start(state, line, now)
        if start is not None:
            return start
        cause, *also = binding(state, line, now)
        reason = LineCause(line.id, cause, tuple(also), message(state, line, cause), now)
        return WhatIf(
            None,
            cause=reason,
            position=position(state, probe.id),
            estimate=estimate(state, probe.id, now),
        )
    finally:
        state.lines.remove(probe.id)
        state.protected_until = protected


def _start(state: State, line: Line, now: Ms) -> WhatIf | None:
    shape = line.shape
    soon = Estimate(now, now, now, "it fits now")
    placement = fit(state, shape)
    if placement is not None:
        placement = may_start(state, line, placement, now)
        if placement is None:
            return None
        amount = shape.gpus * len(placement.workers)
        return WhatIf(placement, MilliGpu(state.future_pool(shape).beyond_guarantee(amount)), estimate=soon)
    plan = make_room(state, line, now)
    if plan is not None:
        plan = plan_beside_head(state, line, plan, now)
    if plan is None:
        return None
    leaving = Estimate(now, now, Ms(now + 60_000), f"{len(plan.after)} workload(s) give way")
    return WhatIf(plan.placement, plan.borrowed, plan.after, estimate=leaving)
