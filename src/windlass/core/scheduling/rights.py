"""By what right who may be asked to leave: the rules at the head of `preemption.py`, over the quota tree.

Every line that waits asks, and most ask in vain, so work is looked at in groups of one home and priority,
and what all lines would find alike below one node of the tree is found once for each state of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.core.scheduling.model import Shape
from windlass.core.scheduling.quota import Pool
from windlass.core.scheduling.state import Borrowed, Borrowing, Held, State, Unprotected
from windlass.core.scheduling.victims import Candidate
from windlass.core.units import Ms


@dataclass(frozen=True, slots=True)
class Group:
    """Work of one home and priority that may be asked to leave, all by the same right (see `Candidate`)."""

    work: Unprotected
    home: Pool
    top: Pool
    below: Pool | None
    advantage: bool
    inside: bool
    side: tuple[Pool, int] | None = None

    def candidates(self) -> Iterator[Candidate]:
        for held in self.work.held:
            yield Candidate(held, self.home, self.top, self.below, self.advantage, self.inside, self.side)


def groups_to_ask(state: State, queue: Pool, shape: Shape, now: Ms) -> list[Group]:
    """Everybody who may be asked, the nearest in the tree first. Where a ceiling is in the way, only who is
    below it can help: if they are not enough, nobody is."""
    home = queue.home
    need = shape.needed
    own = list(_own(state, home, shape, now))
    freed = sum(work.amount for work in own)
    # Without an advantage others only help a queue that ends inside its own pool.
    inside = home.use - freed + need <= home.pool or not shape.preemptible
    fair = state.options.fair_share and shape.preemptible
    found = [Group(work, home, home, None, advantage=False, inside=True) for work in own]
    short = _short(queue, shape)
    # `added` is what the newcomer adds to the use of `done`, `rest` what of it reaches the node above.
    advantage, added, rest, done = False, need, need, home
    for node in home.path:
        side = (done, added) if fair and done is not node else None
        if node.over and (advantage or inside or side is not None):
            above = None if advantage or inside or side is None else side[0].stands_at(side[1])
            for other in _borrowed_below(state, node, shape.gpu_class, now, above):
                if other.top is not done:
                    found.append(Group(other.work, other.home, other.top, node, advantage, inside, side))
                    freed += other.work.amount
        if short.get(node, 0) > freed:
            return []
        advantage = advantage or node.use + rest <= node.pool
        added, rest, done = rest, max(0, rest - max(0, node.kept - node.use)), node
    return found


def _short(queue: Pool, shape: Shape) -> dict[Pool, int]:
    """How much has to go at or below which nodes of the path, at least."""
    need = shape.needed
    short = queue.short_of_ceilings(need)
    if not shape.preemptible:
        # It does not borrow, so only who uses the guarantees of its path is in its way.
        top = next((node for node in reversed(queue.home.path) if node.own), queue.home)
        short[top] = max(need - queue.guaranteed_room(), short.get(top, 0))
    return short


def _own(state: State, home: Pool, shape: Shape, now: Ms) -> Iterator[Unprotected]:
    """Work of its own home of lower priority."""
    for priority in state.by_home.get((shape.gpu_class, home.name), {}):
        if priority < shape.priority:
            work = _unprotected(state, (shape.gpu_class, home.name, priority), now)
            _wake(state, shape.gpu_class, work.until)
            if work.held:
                yield work


def _borrowed_below(
    state: State, node: Pool, gpu_class: str, now: Ms, above: int | None
) -> tuple[Borrowed, ...]:
    """Who borrows below a node, the largest share first; with `above`, of those with a larger share."""
    stamp = (node.tree.version, state.changes, now)
    known = state.borrowing.get(node)
    if known is None or known.stamp != stamp:
        known = state.borrowing[node] = _borrowing(state, node, gpu_class, stamp)
    reached = len(known.until) if above is None else bisect_left(known.shares, -above)
    if reached:
        _wake(state, gpu_class, known.until[reached - 1])
    if above is None:
        return known.work
    return known.work[: bisect_left(known.work, -above, key=lambda one: -one.stands_at)]


def _borrowing(state: State, node: Pool, gpu_class: str, stamp: tuple[int, int, Ms]) -> Borrowing:
    shares: list[int] = []
    untils: list[Ms | None] = []
    borrowed: list[Borrowed] = []
    promised = _promised_below(state, gpu_class)
    until: Ms | None = None
    for top in sorted(node.over, key=lambda child: -child.stands_at()):
        stands_at = top.stands_at()
        for home in _over_pool(top, promised):
            for priority in state.by_home.get((gpu_class, home.name), {}):
                work = _unprotected(state, (gpu_class, home.name, priority), stamp[2])
                if work.held:
                    borrowed.append(Borrowed(stands_at, top, home, work))
                if work.until is not None:
                    until = work.until if until is None else min(until, work.until)
        shares.append(-stands_at)
        untils.append(until)
    return Borrowing(stamp, tuple(shares), tuple(untils), tuple(borrowed))


def _over_pool(pool: Pool, promised: dict[Pool, int]) -> Iterator[Pool]:
    """A pool and those below it that use more than they have."""
    if pool.use - promised.get(pool, 0) > pool.pool:
        yield pool
        for child in pool.over:
            yield from _over_pool(child, promised)


def _promised_below(state: State, gpu_class: str) -> dict[Pool, int]:
    """What is promised at or below each pool. It has not begun and cannot be asked to leave; a queue
    that only a promise takes beyond its pool must not pay for it with work that was inside."""
    sums: dict[Pool, int] = {}
    for promise in state.promises.values():
        if promise.held.shape.gpu_class == gpu_class:
            for pool in state.future_pool(promise.held.shape).path:
                sums[pool] = sums.get(pool, 0) + promise.held.amount
    return sums


def _wake(state: State, gpu_class: str, until: Ms | None) -> None:
    """Nothing will happen when a minimum runtime ends, so somebody has to look again by the clock."""
    if until is not None:
        state.protected_until[gpu_class] = min(state.protected_until.get(gpu_class, until), until)


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
        if safe_until <= now or held.id in state.not_begun:
            may_go.append(held)
        elif until is None or safe_until < until:
            until = safe_until
    amount = sum(held.amount for held in may_go)
    known = state.unprotected[group] = Unprotected(now, until, tuple(may_go), amount)
    return known
