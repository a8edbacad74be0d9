"""Token buckets: how much may pass, in integers, with time as an argument.

A bucket holds at most `burst` units and gains `per_s` of them a second. Levels are kept in thousandths of
a unit, so that a millisecond adds a whole number and nothing is ever rounded: over any window of t seconds
no more than burst + per_s * t passes.

Replicas share one bucket by way of a *pool*: each takes a grant from it every period, spends the grant
without asking anybody, and brings back what is left. `settle` is the pool's side of that exchange;
core/shares.py is the replica's.
"""

from __future__ import annotations

from typing import NamedTuple

from windlass.core.units import Ms

UNIT = 1000
"""Levels are thousandths."""


class Rate(NamedTuple):
    """`per_s` 0: no limit."""

    per_s: int
    burst: int


class Bucket(NamedTuple):
    level: int  # thousandths of a unit; below zero where something was charged after the fact
    at: Ms


def full(rate: Rate, now: Ms) -> Bucket:
    return Bucket(rate.burst * UNIT, now)


def level_at(bucket: Bucket, rate: Rate, now: Ms) -> int:
    """A clock that was set back adds nothing."""
    return min(rate.burst * UNIT, bucket.level + rate.per_s * max(0, now - bucket.at))


def take(bucket: Bucket, rate: Rate, cost: int, now: Ms) -> tuple[Bucket, int]:
    """The bucket afterwards, and 0; or as it was, and in how many milliseconds there is enough. What costs
    more than the whole bucket costs the whole bucket: else it could never pass."""
    level, price = level_at(bucket, rate, now), min(cost, rate.burst) * UNIT
    if price > level:
        return Bucket(level, now), -(-(price - level) // rate.per_s)
    return Bucket(level - price, now), 0


def charge(bucket: Bucket, rate: Rate, cost: int, now: Ms) -> Bucket:
    """After the fact: what has passed is paid for, if need be by what is yet to come; a whole bucket of
    debt at most."""
    return Bucket(max(-rate.burst * UNIT, level_at(bucket, rate, now) - cost * UNIT), now)


def first_grant(rate: Rate, replicas: int) -> int:
    """What a replica may let through of a bucket that no replica has spoken of: half a burst, for all of
    them together. It is charged to the pool at the next exchange."""
    return rate.burst * UNIT // (2 * replicas)


def settle(
    pool: Bucket, rate: Rate, now: Ms, *, returned: int, wanted: int, replicas: int
) -> tuple[Bucket, int]:
    """The pool after one replica's exchange, and its new grant.

    `returned` is what is left of the old grant, or, below zero, what was let through without one. A
    replica gets what it wants while there is some, and a little without wanting it: whoever moves over to
    it need not be refused.
    """
    level = min(rate.burst * UNIT, level_at(pool, rate, now) + returned)
    spare = max(0, level)
    grant = min(spare, max(wanted, spare // (4 * replicas)))
    return Bucket(level - grant, now), grant
