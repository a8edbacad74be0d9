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

from collections.abc import Iterator
from dataclasses import replace

from windlass.core.scheduling.lines import Line
from windlass.core.scheduling.model import Shape
from windlass.core.scheduling.quota import Pool
from windlass.core.scheduling.state import Held, State, Unprotected
from windlass.core.scheduling.trial import Trial
from windlass.core.scheduling.victims import ASKED, Candidate, Plan, Way, choose, fits, smaller_share
from windlass.core.units import MilliGpu, Ms

_HIGHEST = 1 << 62
_ASKED_IN_A_QUESTION = 48
_HOPELESS = 10_000
"""So many answers are remembered; they are good for one state only."""


def make_room(state: State, line: Line, now: Ms) -> Plan | None:
    """Whom to ask to leave so that a workload of this line can start; None: nobody would help."""
    if not (state.options.preemption and line.shape.preempts):
        return None
    if state.hopeless.get(line.asks) == (state.changes, now):
        return None
    plan = _make_room(state, line.shape, now)
    if plan is None:
        if len(state.hopeless) > _HOPELESS:
            state.hopeless.clear()
        state.hopeless[line.asks] = (state.changes, now)
    return plan


def could_give_way(state: State, shape: Shape, now: Ms) -> Plan | None:
    """Who would have to leave for it if it had the priority for that; a question, so it looks at few."""
    return _make_room(state, replace(shape, priority=_HIGHEST), now, asked=_ASKED_IN_A_QUESTION)


def _make_room(state: State, shape: Shape, now: Ms, asked: int = ASKED) -> Plan | None:
    pool = state.future_pool(shape)
    need = shape.gpus * shape.fewest
    waiting_helps = need <= pool.free() and _enough_room(state, shape, 0)
    candidates = _candidates(state, shape, now) if _may_preempt(state, pool, shape) else []
    ways = [way for way in _ways(pool, shape, candidates) if _could_help(state, shape, candidates, way)]
    leaving = list(state.stopping.get(shape.gpu_class, {}).values())
    if not ways and not (waiting_helps and leaving):
        return None
    with Trial(state) as trial:
        for held in leaving:
            trial.remove(held)
        if leaving and fits(state, shape, trial, "borrowing") is not None:
            return _plan(state, shape, trial, leaving, [], "borrowing")
        for way in ways:
            chosen = choose(state, shape, trial, _askable(candidates, way)[:asked], way, now)
            if chosen:
                return _plan(state, shape, trial, leaving, chosen, way)
        return None


def _may_preempt(state: State, pool: Pool, shape: Shape) -> bool:
    """Preempting for quota is for what fits the queue's own pool, or that of a part of the tree; or,
    with fair share, for whoever borrows less than others."""
    need = shape.gpus * shape.fewest
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


def _candidates(state: State, shape: Shape, now: Ms) -> list[Candidate]:
    home = state.future_pool(shape).home
    need = shape.gpus * shape.fewest
    own = list(_eligible(state, home, shape, now, below=shape.priority))
    found = [Candidate(held, home, home, None, advantage=False, inside=True) for held in own]
    # Without an advantage others only help a queue that ends inside its own pool.
    inside = home.use - sum(held.amount for held in own) + need <= home.pool or not shape.preemptible
    fair = state.options.fair_share and shape.preemptible
    # `added` is what the newcomer adds to the use of `done`, `rest` what of it reaches the node above.
    advantage, added, rest, done = False, need, need, home
    promised = _promised_below(state, shape.gpu_class)
    for node in home.path:
        if advantage or inside or fair:
            side = (done, added) if fair and done is not node else None
            for top, pool in _over_pool(node, done, promised):
                if advantage or inside or smaller_share(side, top):
                    found.extend(
                        Candidate(held, pool, top, node, advantage=advantage, inside=inside, side=side)
                        for held in _eligible(state, pool, shape, now)
                    )
        advantage = advantage or node.use + rest <= node.pool
        added, rest, done = rest, max(0, rest - max(0, node.kept - node.use)), node
    if len(found) > 1:
        found.sort(key=lambda candidate: candidate.order(now))
    return found


def _promised_below(state: State, gpu_class: str) -> dict[Pool, int]:
    """What is promised at or below each pool. It has not begun and cannot be asked to leave; a queue
    that only a promise takes beyond its pool must not pay for it with work that was inside."""
    sums: dict[Pool, int] = {}
    for promise in state.promises.values():
        if promise.held.shape.gpu_class == gpu_class:
            for pool in state.future_pool(promise.held.shape).path:
                sums[pool] = sums.get(pool, 0) + promise.held.amount
    return sums


def _over_pool(
    node: Pool, done: Pool, promised: dict[Pool, int], top: Pool | None = None
) -> Iterator[tuple[Pool, Pool]]:
    """Pools below `node` that use more than they have, without the subtree already looked at; each
    with the child of `node` it is in."""
    for child in node.children:
        if child is not done and child.use - promised.get(child, 0) > child.pool:
            yield top or child, child
            yield from _over_pool(child, done, promised, top or child)


def _eligible(state: State, home: Pool, shape: Shape, now: Ms, *, below: int | None = None) -> Iterator[Held]:
    """Work of one home that may be asked to leave; with `below`, of lower priority only."""
    gpu_class = shape.gpu_class
    for priority in state.by_home.get((gpu_class, home.name), {}):
        if below is not None and priority >= below:
            continue
        known = _unprotected(state, (gpu_class, home.name, priority), now)
        if known.until is not None:
            # Nothing will happen at that moment, so somebody has to look again by the clock.
            wake = state.protected_until.get(gpu_class, known.until)
            state.protected_until[gpu_class] = min(wake, known.until)
        yield from known.held


def _unprotected(state: State, group: tuple[str, str, int], now: Ms) -> Unprotected:
    """Every line asks the same of the same few groups: remembered until the group or time changes it."""
    known = state.unprotected.get(group)
    if known is not None and known.since <= now and (known.until is None or now < known.until):
        return known
    gpu_class, home, priority = group
    may_go: list[Held] = []
    until: Ms | None = None
    for held in state.by_home[gpu_class, home][priority].values():
        if held.stopping or held.promised or not held.shape.preemptible:
            continue
        safe_until = Ms(held.since + held.shape.min_runtime)
        if safe_until <= now:
            may_go.append(held)
        elif until is None or safe_until < until:
            until = safe_until
    known = state.unprotected[group] = Unprotected(now, until, tuple(may_go))
    return known


def _ways(pool: Pool, shape: Shape, candidates: list[Candidate]) -> tuple[Way, ...]:
    """Which ways to try, and in which order: not to borrow asks more, to borrow asks those one has a
    right over; fair share comes last, because it takes from queues that have no less right."""
    if not candidates:
        return ()
    if not shape.preemptible:
        return ("inside",)
    others = [candidate for candidate in candidates if candidate.below is not None]
    fair: tuple[Way, ...] = ("fair-share",) if any(one.side is not None for one in others) else ()
    rightful = [candidate for candidate in others if candidate.advantage or candidate.inside]
    if not rightful:
        return ("borrowing", *fair)
    if pool.home.use >= pool.home.pool:
        return ("borrowing", "inside", *fair)
    if not any(candidate.advantage for candidate in rightful):
        return ("inside", "borrowing", *fair)
    return ("borrowing", "inside", *fair)


def _askable(candidates: list[Candidate], way: Way) -> list[Candidate]:
    if way == "inside":
        return [candidate for candidate in candidates if candidate.advantage or candidate.inside]
    return [
        candidate
        for candidate in candidates
        if candidate.below is None
        or candidate.advantage
        or (way == "fair-share" and candidate.side is not None)
    ]


def _could_help(state: State, shape: Shape, candidates: list[Candidate], way: Way) -> bool:
    """Sums that rule a way out before anything is tried."""
    need = shape.gpus * shape.fewest
    askable = _askable(candidates, way)
    if not askable:
        return False
    everything = sum(candidate.held.amount for candidate in askable)
    if not _enough_room(state, shape, everything) or need > state.future_pool(shape).free() + everything:
        return False
    if way != "inside" or not shape.preemptible:
        return True
    home = state.future_pool(shape).home
    own = sum(candidate.held.amount for candidate in askable if candidate.below is None)
    return home.use - own + need <= home.pool


def _enough_room(state: State, shape: Shape, freed: int) -> bool:
    rooms = state.fleet.classes.get(shape.gpu_class)
    leaving = state.leaving.get(shape.gpu_class, 0)
    return rooms is not None and shape.gpus * shape.fewest <= rooms.free + leaving + freed


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
    need = shape.gpus * shape.fewest
    return all(node.max is None or node.held + need <= node.max for node in state.pool(shape).path)
