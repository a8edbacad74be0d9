"""One replica's share of a bucket that several replicas have in common.

An exchange with the pool (core/rates.py `settle`) takes time, and may fail without anybody knowing whether
it happened. A share is kept so that every doubt costs the asker, never the limit: what was offered back is
not spent meanwhile, and what was let through without a grant is charged until the charge has surely
arrived, twice rather than never.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from windlass.core.rates import UNIT, Rate


class Offer(NamedTuple):
    returned: int
    wanted: int


@dataclass(slots=True)
class Share:
    """`granted` may be let through, `spent` was. `owed`: the grant is not the pool's, so what is spent of
    it is charged and nothing of it is returned. All in thousandths of a unit."""

    granted: int
    owed: bool = True
    spent: int = 0
    wanted: int = 0
    charged: int = 0  # by the exchange that is under way

    @property
    def left(self) -> int:
        return self.granted - self.spent

    @property
    def idle(self) -> bool:
        return not (self.spent or self.wanted or self.charged)

    def spend(self, price: int) -> bool:
        self.wanted += price
        if price > self.left:
            return False
        self.spent += price
        return True

    def charge(self, price: int, *, most: int) -> None:
        """For what has passed already; `most` bounds the debt."""
        self.wanted += price
        self.spent += max(0, min(price, self.left + most))

    def offer(self) -> Offer:
        """Begin an exchange. A quarter of what is left stays, for who asks while it lasts."""
        wanted, self.wanted = 2 * self.wanted, 0
        if self.owed or self.left < 0:
            self.charged = self.spent if self.owed else -self.left
            self.granted, self.spent = max(0, self.left), 0
            return Offer(-self.charged, wanted)
        kept = self.left // 4
        returned = self.left - kept
        self.granted, self.spent = kept, 0
        return Offer(returned, wanted)

    def accept(self, grant: int) -> None:
        """The exchange has happened. What was spent meanwhile without a grant is spent of this one."""
        self.granted = grant if self.owed else self.granted + grant
        self.owed, self.charged = False, 0

    def doubt(self) -> None:
        """Nobody knows whether the exchange happened: what it would have charged is charged again."""
        if self.charged:
            self.granted += self.charged
            self.spent += self.charged
            self.owed, self.charged = True, 0

    def grow(self, rate: Rate, replicas: int, elapsed_ms: int) -> None:
        """Cut off from the others: an equal part of the rate, and at most one of the burst."""
        if not self.owed:
            self.granted, self.spent, self.owed = max(0, self.left), max(0, -self.left), True
        most = self.spent + rate.burst * UNIT // replicas
        more = rate.per_s * elapsed_ms // replicas
        self.granted = max(self.granted, min(most, self.granted + more))
