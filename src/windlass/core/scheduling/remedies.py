"""What would let a waiting line in: the smallest raise of a quota, the first release, who could give way.

Computed when somebody asks, on the state of that moment, and bounded: an answer costs a few
milliseconds however long the queue and however large the fleet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from windlass.core.scheduling.backfill import first_release
from windlass.core.scheduling.fit import in_words, quota_allows
from windlass.core.scheduling.lines import Line
from windlass.core.scheduling.model import Cause, Shape
from windlass.core.scheduling.owed import inside_guarantee
from windlass.core.scheduling.preemption import could_give_way
from windlass.core.scheduling.quota import Pool
from windlass.core.scheduling.state import State
from windlass.core.units import GPU, MilliGpu, Ms, format_gpus

NAMED = 3
"""So many victims are named; of more only the number is told."""


@dataclass(frozen=True, slots=True)
class Raise:
    """One limit of one quota node that is too small by so much."""

    quota: str
    limit: Literal["max", "guaranteed"]
    by: MilliGpu


def raises(state: State, shape: Shape) -> tuple[Raise, ...]:
    """The smallest raises of limits on its path with which its quota has room for it; empty: it has.

    What a ceiling lacks is missing there. What the whole tree lacks to lend is cheapest as a guarantee at
    the top of its branch, where it counts for nobody else first; no guarantee may be above its ceiling.
    """
    pool, need = state.pool(shape), shape.needed
    if quota_allows(pool, shape):
        return ()
    short_of = pool.short_of_ceilings(need)
    top = pool.path[-2] if len(pool.path) > 1 else pool
    kept = sum(max(0, node.kept - node.use) for node in pool.path[:-1])
    short = need - kept - (pool.path[-1].pool - pool.path[-1].use)
    if not shape.preemptible:
        short = max(short, _guarantee_short(pool, top, need))
    if short > 0 and top.max is not None and top.guaranteed + short > top.max:
        short_of[top] = max(short_of.get(top, 0), top.guaranteed + short - top.max)
    found = [Raise(node.name, "max", MilliGpu(by)) for node, by in short_of.items()]
    if short > 0:
        found.append(Raise(top.name, "guaranteed", MilliGpu(short)))
    return tuple(found)


def _guarantee_short(pool: Pool, top: Pool, need: int) -> int:
    """What the guarantees of the path lack for work that may not borrow."""
    lacking = need - pool.guaranteed_room()
    return lacking + max(0, top.claim - top.own) if lacking > 0 else 0


def remedy(state: State, line: Line, cause: Cause, now: Ms) -> str:
    """What would let the head of a line in, in a sentence or two; empty where only the site can help."""
    if line.never is not None:
        return ""
    told = []
    if cause == "quota":
        told.append(_quota_remedy(state, line.shape))
    elif cause == "priority":
        told.append(_priority_remedy(line))
    if cause in ("quota", "capacity", "fragmentation"):
        told += [_release_remedy(state, line), _victims_remedy(state, line, now)]
    if cause in ("capacity", "fragmentation") and not any(told):
        told.append(_nodes_remedy(state, line))
    return " ".join(sentence for sentence in told if sentence)


def bound(state: State, line: Line) -> str:
    """How long it can take at most, as far as anything says so."""
    shape = line.shape
    if not shape.gpus:
        return ""
    if inside_guarantee(state, shape):
        return f"It is inside the guarantee of {shape.queue}: nothing of that is lent anew before it starts."
    return f"It lies beyond the guarantee of {shape.queue}, for which there is no latest start."


def _quota_remedy(state: State, shape: Shape) -> str:
    parts = []
    for step in raises(state, shape):
        pool = next(node for node in state.pool(shape).path if node.name == step.quota)
        now = pool.max if step.limit == "max" else pool.guaranteed
        to = format_gpus((now or 0) + step.by)
        parts.append(f"the {step.limit} of {step.quota} by {in_words(step.by, shape.gpu_class)} (to {to})")
    return f"Raising {' and '.join(parts)} would give it the quota." if parts else ""


def _priority_remedy(line: Line) -> str:
    if line.lender:
        return f"It starts after {line.behind} has what is its own, or when others end."
    shorter = "a shorter" if line.shape.expected is not None else "an"
    return f"It would start in the gap with {shorter} expected duration, or when {line.behind} has started."


def _release_remedy(state: State, line: Line) -> str:
    last = first_release(state, line.shape)
    return f"There is room for it as soon as {last} and what should end before it have ended." if last else ""


def _nodes_remedy(state: State, line: Line) -> str:
    """Where it is known that no end of running work helps."""
    shape = line.shape
    ready = state.ready_gpus(shape.gpu_class, shape.sites) * GPU
    if shape.needed <= ready and state.startable.get(line.id) is not False:
        return ""
    return "No end of what runs makes room for it: it starts when nodes are added or become ready."


def _victims_remedy(state: State, line: Line, now: Ms) -> str:
    """Whom a higher priority, or a tier that preempts, would ask to leave."""
    if not state.options.preemption:
        return ""
    plan = could_give_way(state, replace(line.shape, preempts=True), now)
    if plan is None or not plan.victims:
        return ""
    ids = [held.id for held, _ in plan.victims]
    who = ", ".join(ids[:NAMED]) if len(ids) <= NAMED else f"{len(ids)} workloads ({ids[0]} first)"
    above = max(held.shape.priority for held, _ in plan.victims)
    rightful = all(reason != "priority" for _, reason in plan.victims)
    if line.shape.preempts and (rightful or line.shape.priority > above):
        return f"{who} would give way once nobody who is ahead waits for the same room."
    if rightful:
        return f"If its tier preempted, {who} would give way."
    if line.shape.priority > above:
        return f"If its tier preempted, {who} of lower priority would give way."
    return f"With a priority above {above} and a tier that preempts, {who} would give way."
