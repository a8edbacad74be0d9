"""Who may be asked to leave, over a tree of quotas and a fleet of nodes. Which of them: `victims.py`.

Three ways to make room, tried in this order:
- *borrowing*: the newcomer's queue may end beyond its own pool. Asked are lower priorities of its own
  queue, and queues that use more than their pool where the newcomer's part of the tree has the better
  right to it (its need fits a pool that the other is outside of);
- *inside*: the newcomer's queue ends inside its own pool, that is, takes back what is its own. Every
  queue that uses more than its pool is asked, whatever the priority;
- *fair share* (if that is on): the newcomer borrows and stays, with its need, below the share of a queue
  that borrows too. Only present use counts, so that nobody is stopped for yesterday, and the smaller
  share must be smaller with the newcomer in it: who was asked to leave cannot come back for it.

Across queues only borrowed use is taken: a queue that is inside its pool, also by what this very plan
took from it, is asked for nothing more. Work is whole, so the last piece of what a queue borrowed may
carry a part of its guarantee with it.

Never a victim: work that may not be preempted, or is inside its minimum runtime. Work on its way
out already is room that is coming and is used before anybody new is asked to leave: quota is judged
on `state.future`, where it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass.core.scheduling.lines import Line
from windlass.core.scheduling.model import Shape
from windlass.core.scheduling.quota import Pool
from windlass.core.scheduling.rights import Group, groups_to_ask
from windlass.core.scheduling.state import Held, State
from windlass.core.scheduling.trial import Trial
from windlass.core.scheduling.victims import ASKED, Candidate, Plan, Way, all_would_do, choose, fits
from windlass.core.units import MilliGpu, Ms

_HIGHEST = 1 << 62
_ASKED_IN_A_QUESTION = 48


def make_room(state: State, line: Line, now: Ms) -> Plan | None:
    """Whom to ask to leave so that a workload of this line can start; None: nobody would help."""
    if not (state.options.preemption and line.shape.preempts):
        return None
    if state.hopeless.known(line, (state.changes, now)):
        return None
    chance = _chance(state, line.shape, now)
    if chance is None:
        state.hopeless.add_larger(line)
        return None
    plan = _make_room(state, line.shape, chance, now, ASKED)
    if plan is None:
        state.hopeless.add(line)
    return plan


def could_give_way(state: State, shape: Shape, now: Ms) -> Plan | None:
    """Who would have to leave for it if it had the priority for that; a question, so it looks at few."""
    shape = replace(shape, priority=_HIGHEST)
    chance = _chance(state, shape, now)
    return None if chance is None else _make_room(state, shape, chance, now, _ASKED_IN_A_QUESTION)


@dataclass(frozen=True, slots=True)
class _Chance:
    """Who is leaving, who may be asked to, and the ways that the sums do not rule out."""

    leaving: list[Held]
    groups: list[Group]
    ways: list[Way]


def _chance(state: State, shape: Shape, now: Ms) -> _Chance | None:
    """None: by the sums alone nobody's leaving helps, and the more it needed, the less."""
    pool = state.future_pool(shape)
    groups = groups_to_ask(state, pool, shape, now) if _may_preempt(state, pool, shape) else []
    ways = [way for way in _ways(pool, shape, groups) if _could_help(state, shape, groups, way)]
    leaving = list(state.stopping.get(shape.gpu_class, {}).values())
    waiting_helps = leaving and shape.needed <= pool.free() and _enough_room(state, shape, 0)
    return _Chance(leaving, groups, ways) if ways or waiting_helps else None


def _make_room(state: State, shape: Shape, chance: _Chance, now: Ms, asked: int) -> Plan | None:
    with Trial(state) as trial:
        for held in chance.leaving:
            trial.remove(held)
        if chance.leaving and fits(state, shape, trial, "borrowing") is not None:
            return _plan(state, shape, trial, chance.leaving, [], "borrowing")
        everybody = [one for group in chance.groups for one in group.candidates()]
        if len(everybody) <= asked and not all_would_do(state, shape, trial, everybody):
            return None
        for way in chance.ways:
            candidates = [one for group in _askable(chance.groups, way) for one in group.candidates()]
            candidates.sort(key=lambda candidate: candidate.order(now))
            chosen = choose(state, shape, trial, candidates[:asked], way, now)
            if chosen:
                return _plan(state, shape, trial, chance.leaving, chosen, way)
        return None


def _may_preempt(state: State, pool: Pool, shape: Shape) -> bool:
    """Preempting for quota is for what fits the queue's own pool, or that of a part of the tree; or,
    with fair share, for whoever borrows less than others."""
    need = shape.needed
    if need <= pool.free() or not shape.preemptible or need <= pool.home.pool:
        return True
    if state.options.fair_share:
        return True
    rest = need
    for node in pool.home.path:
        if node.use + rest <= node.pool:
            return node.parent is not None
        rest -= max(0, node.kept - node.use)
    return False


def _ways(pool: Pool, shape: Shape, groups: list[Group]) -> tuple[Way, ...]:
    """Which ways to try, and in which order: not to borrow asks more, to borrow asks those one has a
    right over; fair share comes last, because it takes from queues that have no less right."""
    if not groups:
        return ()
    if not shape.preemptible:
        return ("inside",)
    others = [group for group in groups if group.below is not None]
    fair: tuple[Way, ...] = ("fair-share",) if any(one.side is not None for one in others) else ()
    rightful = [group for group in others if group.advantage or group.inside]
    if not rightful:
        return ("borrowing", *fair)
    if pool.home.use >= pool.home.pool:
        return ("borrowing", "inside", *fair)
    if not any(group.advantage for group in rightful):
        return ("inside", "borrowing", *fair)
    return ("borrowing", "inside", *fair)


def _askable(groups: list[Group], way: Way) -> list[Group]:
    if way == "inside":
        return [group for group in groups if group.advantage or group.inside]
    return [
        group
        for group in groups
        if group.below is None or group.advantage or (way == "fair-share" and group.side is not None)
    ]


def _could_help(state: State, shape: Shape, groups: list[Group], way: Way) -> bool:
    """Sums that rule a way out before anything is tried."""
    need = shape.needed
    askable = _askable(groups, way)
    if not askable:
        return False
    everything = sum(group.work.amount for group in askable)
    if not _enough_room(state, shape, everything) or need > state.future_pool(shape).free() + everything:
        return False
    if way != "inside" or not shape.preemptible:
        return True
    home = state.future_pool(shape).home
    own = sum(group.work.amount for group in askable if group.below is None)
    return home.use - own + need <= home.pool


def _enough_room(state: State, shape: Shape, freed: int) -> bool:
    rooms = state.fleet.classes.get(shape.gpu_class)
    leaving = state.leaving.get(shape.gpu_class, 0)
    return rooms is not None and shape.needed <= rooms.free + leaving + freed


def _plan(
    state: State, shape: Shape, trial: Trial, leaving: list[Held], needed: list[Candidate], way: Way
) -> Plan:
    awaited = _awaited(state, shape, trial, leaving, way)
    placement = fits(state, shape, trial, way)
    assert placement is not None, "what was needed is gone, so it fits"
    total = shape.gpus * len(placement.workers)
    after = [candidate.held.id for candidate in needed] + [held.id for held in awaited]
    return Plan(
        placement,
        MilliGpu(state.future_pool(shape).beyond_guarantee(total)),
        tuple(sorted(after)),
        tuple((candidate.held, candidate.reason(way)) for candidate in needed),
    )


def _awaited(state: State, shape: Shape, trial: Trial, leaving: list[Held], way: Way) -> list[Held]:
    """Those on their way out that must really be gone before the newcomer may start.

    A victim of an earlier promise need not be, if only quota is asked: the promise has taken its
    place in the sums. Its GPUs may be needed all the same, and no `max` may be passed meanwhile.
    """
    promised_away = {id for promise in state.promises.values() for id in promise.victims}

    def stays(held: Held) -> None:
        trial.put_back(held)
        if held.id not in promised_away:
            trial.count(held)

    def goes(held: Held) -> None:
        if held.id not in promised_away:
            trial.discount(held)
        trial.remove(held)

    def starts() -> bool:
        return _below_ceilings(state, shape) and fits(state, shape, trial, way) is not None

    backwards = leaving[::-1]
    for held in backwards:
        stays(held)
    if starts():
        return []  # the usual case, asked first because many may be leaving at once
    for held in leaving:
        goes(held)
    awaited: list[Held] = []
    for held in backwards:
        stays(held)
        if not starts():
            goes(held)
            awaited.append(held)
    return awaited


def _below_ceilings(state: State, shape: Shape) -> bool:
    need = shape.needed
    return all(node.max is None or node.held + need <= node.max for node in state.pool(shape).path)
