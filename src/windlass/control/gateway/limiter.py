"""Who has asked too much: token buckets by principal, by tenant and, before anybody is known, by address.

A decision is arithmetic on memory (core/rates.py). Alone, a process keeps the buckets itself; replicas
share them (gateway/sharing.py). The arithmetic is the same for everybody, so a noisy asker is refused
before it has cost anything, and the others are not.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import NamedTuple, Protocol

from windlass.control.gateway.bounds import Limit
from windlass.control.identity.scopes import Principal
from windlass.core.bounds import Bounds
from windlass.core.errors import Reason, TooMany
from windlass.core.rates import UNIT, Bucket, Rate, charge, full, take
from windlass.core.units import Ms
from windlass.runtime.metrics import LIMITED

_MOST = 20_000
"""Buckets of one kind that are kept. Of more, those that are full again are forgotten first."""


class Standing(NamedTuple):
    """How a bucket stands after a request: for the headers of its answer."""

    rate: Rate
    level: int
    wait_ms: int = 0

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """The most that can be asked at once, how much of it is left, in how many seconds all of it is."""
        missing = self.rate.burst * UNIT - self.level
        return (
            (b"ratelimit-limit", b"%d" % self.rate.burst),
            (b"ratelimit-remaining", b"%d" % (max(0, self.level) // UNIT)),
            (b"ratelimit-reset", b"%d" % -(-missing // (self.rate.per_s * UNIT))),
        )


class Buckets(Protocol):
    @property
    def rate(self) -> Rate: ...

    def take(self, key: str, cost: int, now: Ms) -> Standing: ...

    def charge(self, key: str, cost: int, now: Ms) -> Standing: ...


class OwnBuckets:
    """Of a process that shares them with nobody."""

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._buckets: dict[str, Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str, cost: int, now: Ms) -> Standing:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= _MOST:
                self._forget(now)
            bucket = full(self.rate, now)
        bucket, wait_ms = take(bucket, self.rate, cost, now)
        self._buckets[key] = bucket
        return Standing(self.rate, bucket.level, wait_ms)

    def charge(self, key: str, cost: int, now: Ms) -> Standing:
        bucket = charge(self._buckets.get(key) or full(self.rate, now), self.rate, cost, now)
        self._buckets[key] = bucket
        return Standing(self.rate, bucket.level)

    def _forget(self, now: Ms) -> None:
        """Those that are full are as good as none; of the rest, the half that was quiet longest."""
        longest = self.rate.burst * UNIT // max(1, self.rate.per_s)
        kept = {key: bucket for key, bucket in self._buckets.items() if now - bucket.at < longest}
        if len(kept) >= _MOST:
            newest = sorted(kept, key=lambda key: kept[key].at)[_MOST // 2 :]
            kept = {key: kept[key] for key in newest}
        self._buckets = kept


class Limiter:
    def __init__(
        self, bounds: Bounds, clock: Callable[[], Ms], principals: Buckets, tenants: Buckets
    ) -> None:
        self.bounds = bounds
        self._clock = clock
        self._principals = principals
        self._tenants = tenants
        self._addresses = OwnBuckets(bounds.address)

    def admit(self, principal: Principal, cost: int) -> Standing | None:
        """The tighter of the two buckets; None where there is no limit."""
        now = self._clock()
        own = self._take("principal", self._principals, asker(principal), cost, now)
        if principal.tenant is None:
            return own
        shared = self._take("tenant", self._tenants, principal.tenant, cost, now)
        if own is None or shared is None:
            return own or shared
        return own if own.level <= shared.level else shared

    def charge(self, principal: Principal, cost: int) -> Standing | None:
        """For what is known only afterwards: it has passed, and who asks next waits for it."""
        now, found = self._clock(), []
        if self._principals.rate.per_s:
            found.append(self._principals.charge(asker(principal), cost, now))
        if principal.tenant is not None and self._tenants.rate.per_s:
            found.append(self._tenants.charge(principal.tenant, cost, now))
        return min(found, key=lambda standing: standing.level, default=None)

    def admit_address(self, address: str) -> Standing | None:
        """For what is asked without a credential, or with a wrong one."""
        return self._take("address", self._addresses, network(address), 1, self._clock())

    def _take(self, limit: Limit, buckets: Buckets, key: str, cost: int, now: Ms) -> Standing | None:
        if not buckets.rate.per_s:
            return None
        standing = buckets.take(key, cost, now)
        if standing.wait_ms:
            LIMITED.labels(limit).inc()
            raise Limited(limit, standing)
        return standing


class Limited(TooMany):
    """More was asked than one principal, one tenant or one address may ask in the time."""

    def __init__(self, limit: Limit, standing: Standing) -> None:
        rate, wait_s = standing.rate, max(1, -(-standing.wait_ms // 1000))
        whose = {"principal": "you", "tenant": "your tenant", "address": "your address"}[limit]
        remedy = f"wait {wait_s} s and ask less often; a watch tells what changes without asking again"
        reason = Reason(
            rule=f"limit.{limit}",
            message=f"{whose}: more than {rate.per_s} units a second, after {rate.burst} at once",
            remedy=remedy,
            limit=str(rate.per_s),
        )
        super().__init__(
            f"too many requests by {whose}: {rate.per_s} units a second may pass, {rate.burst} at once",
            remedy=remedy,
            reasons=[reason],
            retry_s=wait_s,
        )
        self.standing = standing


def asker(principal: Principal) -> str:
    """Whose bucket it is: however many tokens somebody exchanges a key for, they have one bucket."""
    if principal.account is not None:
        return f"{principal.tenant}/{principal.account}"
    return principal.parent or principal.key_id


def network(address: str) -> str:
    """An IPv6 subscriber has a whole /64 to ask from."""
    if ":" not in address:
        return address
    try:
        return ip_address(address.partition("%")[0]).exploded[:19]
    except ValueError:
        return address
