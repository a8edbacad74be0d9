"""Buckets that several replicas share, without a question to the database per request.

Each replica spends what it was granted. About once a second it brings back what is left and takes a new
grant, for all buckets in one transaction on one row (core/rates.py `settle`). What that promises, for any
window of t seconds and however many replicas: while they reach the database, no more than 2 * burst +
rate * t passes in all, and in the long run no more than the rate, because what passed without a grant is
charged afterwards. A replica that cannot reach the database goes on with its equal share, which adds
(burst + rate * t) / replicas for each that is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from windlass.control.db import limits
from windlass.control.db.port import Store, Tx
from windlass.control.gateway.limiter import Standing
from windlass.control.identity.scopes import system_scope
from windlass.core.errors import Unavailable
from windlass.core.rates import UNIT, Bucket, Rate, first_grant, full, level_at, settle
from windlass.core.shares import Offer, Share
from windlass.core.units import Ms
from windlass.runtime.logging import warn

PERIOD_S = 1.0
_PATIENCE_S = 3.0  # an exchange that takes longer has failed
_SIGN_OF_LIFE_MS = (
    3000  # how often a replica with nothing to tell says that it is there, and counts the others
)
_GONE_MS = 15_000
_GROW_MS = 100  # how often shares grow while this replica is cut off
_MOST = 20_000
_CROWD = ""

Key = tuple[str, str]
"""Kind and name of a bucket."""


class Row(msgspec.Struct):
    """`replicas`: when each was last heard of. `pools`: level and time, by kind and name; only of those
    that are not full."""

    replicas: dict[str, int] = {}
    pools: dict[str, dict[str, tuple[int, int]]] = {}


class SharedBuckets:
    """One kind of bucket at one replica."""

    def __init__(self, rate: Rate, exchange: Exchange) -> None:
        self.rate = rate
        self._exchange = exchange
        self.shares: dict[str, Share] = {}

    def take(self, key: str, cost: int, now: Ms) -> Standing:
        share = self.shares.get(key)
        if share is None:
            share = self._first(key)
        self._exchange.grow(now)
        wait_ms = 0 if share.spend(min(cost, self.rate.burst) * UNIT) else round(PERIOD_S * 1000)
        return Standing(self.rate, share.left, wait_ms)

    def charge(self, key: str, cost: int, now: Ms) -> Standing:
        share = self.shares.get(key) or self._first(key)
        self._exchange.grow(now)
        share.charge(cost * UNIT, most=self.rate.burst * UNIT)
        return Standing(self.rate, share.left)

    def _first(self, key: str) -> Share:
        """Of a bucket that nobody has spoken of. Those who come when there are too many share one."""
        made = Share(first_grant(self.rate, self._exchange.replicas))
        return self.shares.setdefault(key if len(self.shares) < _MOST else _CROWD, made)


class Exchange:
    """Between this replica's shares and everybody's pools."""

    def __init__(self, store: Store, clock: Callable[[], Ms], name: str) -> None:
        self._store = store
        self._clock = clock
        self._name = name
        self._scope = system_scope("limits")
        self._kinds: dict[str, SharedBuckets] = {}
        self._told: Ms | None = None  # when the others last heard of this replica
        self._cut_off: Ms | None = None  # since when they cannot be reached, or until when shares have grown
        self.replicas = 1

    def buckets(self, kind: str, rate: Rate) -> SharedBuckets:
        made = self._kinds[kind] = SharedBuckets(rate, self)
        return made

    def grow(self, now: Ms) -> None:
        """While the others cannot be reached, shares grow by themselves."""
        if self._cut_off is None or now - self._cut_off < _GROW_MS:
            return
        elapsed, self._cut_off = now - self._cut_off, now
        for kind in self._kinds.values():
            for share in kind.shares.values():
                share.grow(kind.rate, self.replicas, elapsed)

    async def run(self) -> None:
        while True:
            await self.turn()
            await asyncio.sleep(PERIOD_S)

    async def turn(self) -> None:
        """One exchange, unless there is nothing to tell."""
        now = self._clock()
        quiet = not any(kind.shares for kind in self._kinds.values())
        if quiet and self._told is not None and now - self._told < _SIGN_OF_LIFE_MS:
            return
        self.grow(now)
        shares = {
            (kind, key): share for kind, one in self._kinds.items() for key, share in one.shares.items()
        }
        idle = {key for key, share in shares.items() if share.idle}
        offers = {key: share.offer() for key, share in shares.items()}
        try:
            async with asyncio.timeout(_PATIENCE_S):
                grants, self.replicas = await self._store.unit(
                    self._scope, lambda tx: self._settle(tx, offers, idle)
                )
        except (Unavailable, TimeoutError) as error:
            for share in shares.values():
                share.doubt()
            if self._cut_off is None:
                self._cut_off = now
                warn("limits cannot be shared; this replica keeps to an equal part", detail=str(error))
            return
        self._told, self._cut_off = now, None
        self._apply(shares, grants)

    def _apply(self, shares: dict[Key, Share], grants: dict[Key, int]) -> None:
        """A share without a grant is of a bucket that is full again, unless somebody asked meanwhile."""
        for (kind, key), share in shares.items():
            if (kind, key) not in grants and share.idle:
                del self._kinds[kind].shares[key]
        for (kind, key), grant in grants.items():
            mine = self._kinds[kind].shares
            mine.setdefault(key, Share(0, owed=False)).accept(grant)

    async def _settle(self, tx: Tx, offers: dict[Key, Offer], idle: set[Key]) -> tuple[dict[Key, int], int]:
        """In the transaction: every pool that this replica or another has a part in."""
        stored, now = await limits.read(tx), self._clock()
        row = msgspec.json.decode(stored, type=Row) if stored is not None else Row()
        row.replicas = {name: at for name, at in row.replicas.items() if now - at < _GONE_MS}
        row.replicas[self._name] = now
        grants: dict[Key, int] = {}
        for kind, one in self._kinds.items():
            pools = row.pools.get(kind, {})
            row.pools[kind] = {}
            for key in {*pools, *(name for other, name in offers if other == kind)}:
                offer = offers.get((kind, key), Offer(0, 0))
                pool = Bucket(pools[key][0], Ms(pools[key][1])) if key in pools else full(one.rate, now)
                whole = level_at(pool, one.rate, now) + offer.returned >= one.rate.burst * UNIT
                if whole and ((kind, key) in idle or (kind, key) not in offers):
                    continue  # full, and nobody here asks: as if it had never been
                pool, grants[kind, key] = settle(
                    pool,
                    one.rate,
                    now,
                    returned=offer.returned,
                    wanted=offer.wanted,
                    replicas=len(row.replicas),
                )
                row.pools[kind][key] = (pool.level, pool.at)
        await limits.write(tx, msgspec.json.encode(row).decode(), first=stored is None)
        return grants, len(row.replicas)
