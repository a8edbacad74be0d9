"""The quota tree: what is free to a queue, what is charged where, what was borrowed.

One tree per class, because nothing is lent across classes. A `Pool` is one quota node in one class.
Three sums are kept on every charge, each bubbling up the path of the queue:

- `use`: what counts against the pool. Use beyond the part a node keeps from lending (`kept`)
  counts in its parent, and so on up. Kueue's reading; `free` and `potential` come from it.
- `claim`: what counts against the guarantee. Use beyond a node's own guarantee (`own`, without its
  children's) counts in its parent. What arrives beyond the topmost guarantee is borrowed from
  somebody else. Work that may not be preempted must not get there.
- `held`: everything charged at or below, kept parts included.

A scope without an entry for the class is part of its nearest ancestor that has one (its *home*):
it has no guarantee of its own to defend, so within that home only priority decides.

Fair share goes by the *dominant* share: of all classes, the one of which a node uses most beyond its
own pool, measured against all there is of that class, over its weight. What it had lately counts on
top for the order (`past_share`), never for who has to leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from windlass.core.scheduling.model import Limit, Quota

Share = tuple[int, ...]
"""One number per level of the tree, the top first."""

UNWEIGHTED_SHARE = 1 << 62
"""The share of a queue with weight 0: behind everybody who has a weight."""
SHARE_SCALE = 10**9
"""Shares are fractions of all there is, in billionths: integers, so that equal is equal."""


class Pool:
    """One quota node in one class. Plain slots: this is read for every line in every cycle."""

    __slots__ = (
        "alike",
        "branch",
        "children",
        "claim",
        "entry",
        "guaranteed",
        "headroom",
        "held",
        "kept",
        "max",
        "name",
        "over",
        "own",
        "parent",
        "past_share",
        "path",
        "pool",
        "tree",
        "use",
        "weight",
    )

    def __init__(self, quota: Quota, parent: Pool | None, entry: Limit | None, tree: QuotaTree) -> None:
        self.name = quota.name
        self.weight = quota.weight
        self.tree = tree
        self.alike = tree.alike(quota.name)
        self.alike.append(self)
        self.past_share = tree.past_share(quota.name)
        self.parent = parent
        self.entry = entry
        self.children: list[Pool] = []
        self.over: dict[Pool, None] = {}  # children that use more than their own pool
        self.path: tuple[Pool, ...] = (self, *(parent.path if parent else ()))
        self.branch: str = tree.branch(quota.name) if tree.known(quota.name) or not parent else parent.branch
        self.max: int | None = entry.max if entry else None
        self.guaranteed = 0
        self.own = 0
        self.pool = 0
        self.kept = 0
        self.headroom: int | None = None  # how far it may go beyond its guarantee
        self.use = 0
        self.claim = 0
        self.held = 0
        if parent is not None:
            parent.children.append(self)

    def settle(self) -> None:
        """Derive the constants from the children, which are settled already.

        A guarantee includes the children's; where it is absent, or smaller in a catalog that was
        not checked, it is their sum.
        """
        below = sum(child.guaranteed for child in self.children)
        self.guaranteed = max(self.entry.guaranteed if self.entry else 0, below)
        self.own = self.guaranteed - below
        self.pool = self.own + sum(child.pool - child.kept for child in self.children)
        if self.entry is not None and self.entry.lend is not None:
            self.kept = max(0, self.pool - self.entry.lend)
        if self.max is not None:
            self.headroom = self.max - self.guaranteed

    def charge(self, amount: int) -> None:
        self.tree.changed(self.branch)
        rest = amount
        for node in self.path:
            local = node.kept - node.use
            node.use += rest
            if node.use > node.pool and node.parent is not None:
                node.parent.over[node] = None
            if local > 0:
                rest -= local
            if rest <= 0:
                break
        rest = amount
        for node in self.path:
            local = node.own - node.claim
            node.claim += rest
            if local > 0:
                rest -= local
            if rest <= 0:
                break
        for node in self.path:
            node.held += amount

    def discharge(self, amount: int) -> None:
        self.tree.changed(self.branch)
        rest = amount
        for node in self.path:
            above = node.use - node.kept
            node.use -= rest
            if node.use <= node.pool and node.parent is not None:
                node.parent.over.pop(node, None)
            if above <= 0:
                break
            rest = min(rest, above)
        rest = amount
        for node in self.path:
            above = node.claim - node.own
            node.claim -= rest
            if above <= 0:
                break
            rest = min(rest, above)
        for node in self.path:
            node.held -= amount

    def free(self) -> int:
        """How much more this queue may use now, borrowing included. Never negative."""
        path = self.path
        value = path[-1].pool - path[-1].use
        for node in path[-2::-1]:
            if node.headroom is not None:
                ceiling = node.pool - node.kept - max(0, node.use - node.kept) + node.headroom
                value = min(value, ceiling)
            if node.kept > node.use:
                value += node.kept - node.use
        return max(0, value)

    def potential(self) -> int:
        """How much it could use if nobody else used anything."""
        value = self.path[-1].pool
        for node in self.path[-2::-1]:
            value += node.kept
            if node.headroom is not None:
                value = min(value, node.pool + node.headroom)
        return value

    def beyond_guarantee(self, need: int) -> int:
        """How much of `need` more would lie beyond every guarantee on the path: what it borrows."""
        return max(0, need - self.guaranteed_room())

    @property
    def borrowed(self) -> int:
        """How much of what it uses lies beyond every guarantee on its path."""
        return min(max(0, node.claim - node.own) for node in self.path)

    def guaranteed_room(self) -> int:
        """How much more lies inside the guarantees of the path."""
        return sum(max(0, node.own - node.claim) for node in self.path)

    def guarantee(self) -> int:
        """The most that work which may not be preempted can ever hold here."""
        return sum(node.own for node in self.path)

    def ceiling(self) -> tuple[int, Pool] | None:
        """The lowest `max` on the path, and whose it is."""
        limits = [(node.max, depth, node) for depth, node in enumerate(self.path) if node.max is not None]
        if not limits:
            return None
        value, _, node = min(limits, key=lambda limit: limit[:2])
        return value, node

    @property
    def home(self) -> Pool:
        for node in self.path:
            if node.entry is not None:
                return node
        return self

    @property
    def within(self) -> bool:
        """Uses no more than its own pool: nothing to reclaim from it."""
        return self.use <= self.pool

    def short_of_ceilings(self, need: int) -> dict[Pool, int]:
        """The nodes of the path whose ceiling is too low for `need` more, whatever is free outside of them,
        and by how much: at least that has to go at or below each."""
        short: dict[Pool, int] = {}
        rest = need
        for node in self.path[:-1]:
            rest -= max(0, node.kept - node.use)
            if node.headroom is not None:
                ceiling = node.pool - node.kept - max(0, node.use - node.kept) + node.headroom
                if rest > ceiling:
                    short[node] = rest - ceiling
        return short

    def stands_at(self, more: int = 0) -> int:
        """Its dominant share now over its weight, with `more` of this class."""
        return self.standing(self._dominant(more))

    def _dominant(self, more: int = 0) -> int:
        """The largest of its shares. Plain and quick: asked for every tenant that waits or borrows."""
        most = 0
        for pool in self.alike:
            use = pool.use + more if pool is self else pool.use
            if use > pool.pool:
                most = max(most, (use - pool.pool) * SHARE_SCALE // max(1, pool.path[-1].pool))
        return most

    def share(self) -> Share:
        """Weighted dominant share, from the top of the tree down to this queue: lower goes first.

        Comparing from the top makes tenants fair among each other before their projects are.
        """
        return tuple([node.standing(node.past_share + node._dominant()) for node in self.path[-2::-1]])

    def standing(self, share: int) -> int:
        return share // self.weight if self.weight > 0 else UNWEIGHTED_SHARE


class QuotaTree:
    """All quotas; pools of a class are made when the class is first asked for. `version` is another one
    whenever something is charged; whoever puts everything back may put it back too (`trial.py`)."""

    def __init__(self, quotas: Sequence[Quota] = ()) -> None:
        self._quotas = {quota.name: quota for quota in quotas}
        self._order = _parents_first(self._quotas)
        self._classes: dict[str, dict[str, Pool]] = {}
        self._alike: dict[str, list[Pool]] = {}
        self._shares: dict[str, dict[tuple[str, str], Share]] = {}  # by branch
        self._chains: dict[str, tuple[str, ...]] = {}
        tops = [quota for quota in self._order if quota.parent not in self._quotas]
        self._bare_root = tops[0].name if len(tops) == 1 and not tops[0].limits else None
        self._guaranteed: int | None = None
        self._past = {quota.name: quota.past_use for quota in quotas if quota.past_use}
        self.version = 0
        self._versions = count(1)

    def changed(self, branch: str) -> None:
        """Something was charged in a branch: no other's shares are affected."""
        self.version = next(self._versions)
        self._shares.pop(branch, None)

    def pool(self, queue: str, gpu_class: str) -> Pool:
        """The pool of a queue. One that is in no quota any more gets a pool without a guarantee below the
        nearest scope that its path still names, so that work which runs on in it counts there."""
        pools = self._classes.get(gpu_class)
        if pools is None:
            pools = self._classes[gpu_class] = self._grow(gpu_class)
        found = pools.get(queue)
        if found is None:
            above = queue
            while above and above not in pools:
                above = above.rpartition("/")[0]
            found = pools[queue] = Pool(Quota(queue), pools[above], None, self)
        return found

    def share(self, queue: str, gpu_class: str) -> Share:
        """The share of a queue, remembered until something is charged in its branch."""
        pool = self.pool(queue, gpu_class)
        shares = self._shares.get(pool.branch)
        if shares is None:
            shares = self._shares[pool.branch] = {}
        known = shares.get((queue, gpu_class))
        if known is None:
            known = shares[queue, gpu_class] = pool.share()
        return known

    def alike(self, name: str) -> list[Pool]:
        """The pools of one quota node, one for each class that was asked for."""
        return self._alike.setdefault(name, [])

    def use_past(self, past: Mapping[str, int]) -> None:
        """What each node had beyond its due lately, in thousandths of a GPU: it waits for that now."""
        self._past = dict(past)
        for name, pools in self._alike.items():
            for pool in pools:
                pool.past_share = self.past_share(name)
        self._shares.clear()
        self.version = next(self._versions)

    def past_share(self, name: str) -> int:
        past = self._past.get(name, 0)
        return past * SHARE_SCALE // max(1, self._everything()) if past else 0

    def _everything(self) -> int:
        """All that is guaranteed of all classes: past use is not told by class."""
        if self._guaranteed is None:
            below: dict[tuple[str | None, str], int] = {}
            for quota in reversed(self._order):
                parent = quota.parent if quota.parent in self._quotas else None
                for gpu_class in self.classes():
                    limit = quota.limits.get(gpu_class)
                    children = below.get((quota.name, gpu_class), 0)
                    total = max(limit.guaranteed if limit else 0, children)
                    below[parent, gpu_class] = below.get((parent, gpu_class), 0) + total
            self._guaranteed = sum(below.get((None, gpu_class), 0) for gpu_class in self.classes())
        return self._guaranteed

    def empty(self) -> QuotaTree:
        """The same quotas with nothing charged."""
        fresh = QuotaTree(tuple(self._quotas.values()))
        fresh._past = self._past
        return fresh

    def known(self, queue: str) -> bool:
        return queue in self._quotas

    def entitled(self, queue: str, gpu_class: str) -> bool:
        return any(node.entry is not None for node in self.pool(queue, gpu_class).path)

    def chain(self, queue: str) -> tuple[str, ...]:
        """The names from a queue up to the top of the tree."""
        known = self._chains.get(queue)
        if known is None:
            names = [queue]
            while (quota := self._quotas.get(names[-1])) is not None and quota.parent in self._quotas:
                names.append(quota.parent)
            known = self._chains[queue] = tuple(names)
        return known

    def tenant(self, queue: str) -> str:
        """Who a queue belongs to: the first part of its path, or where queues are not paths, its branch."""
        return queue.partition("/")[0] if "/" in queue else self.branch(queue)

    def branch(self, name: str) -> str:
        """The top of the part of the tree a node is in; a single top without limits is the root, no part."""
        *below, top = self.chain(name)
        return below[-1] if below and top == self._bare_root else top

    def classes(self) -> tuple[str, ...]:
        """Every class that has a limit somewhere, in order of name."""
        return tuple(sorted({name for quota in self._quotas.values() for name in quota.limits}))

    def leaves(self) -> tuple[str, ...]:
        parents = {quota.parent for quota in self._quotas.values()}
        return tuple(sorted(name for name in self._quotas if name not in parents))

    def _grow(self, gpu_class: str) -> dict[str, Pool]:
        tops = [quota for quota in self._order if quota.parent not in self._quotas]
        if len(tops) == 1 and gpu_class not in tops[0].limits:
            # A single top without limits of its own is the root: one more level above it would
            # only make "the whole tree" look like a part of something larger.
            root = Pool(tops[0], None, None, self)
            pools = {"": root, tops[0].name: root}
        else:
            root = Pool(Quota(""), None, None, self)
            pools = {"": root}
        for quota in self._order:
            if quota.name not in pools:
                parent = pools[quota.parent] if quota.parent in self._quotas else root
                pools[quota.name] = Pool(quota, parent, quota.limits.get(gpu_class), self)
        for quota in reversed(self._order):
            pools[quota.name].settle()
        root.settle()
        return pools


def _parents_first(quotas: dict[str, Quota]) -> list[Quota]:
    ordered: dict[str, Quota] = {}
    for start in quotas.values():
        chain: list[Quota] = []
        quota: Quota | None = start
        while quota is not None and quota.name not in ordered:
            if quota in chain:
                raise ValueError(f"quota {quota.name} is its own ancestor")
            chain.append(quota)
            quota = quotas.get(quota.parent) if quota.parent is not None else None
        ordered.update((link.name, link) for link in reversed(chain))
    return list(ordered.values())
