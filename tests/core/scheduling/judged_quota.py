"""Amounts and quotas as the judge reads them: Kueue's reading, in thousandths, one class at a time.

Nothing of the engine is used here, and nothing is remembered: every number is worked out from the scenario.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Doc = dict[str, Any]
WHOLE = 1000


def milli(amount: Any) -> int:
    return int(Decimal(str(amount)) * WHOLE)


def unit_of(work: Doc) -> tuple[int, int, str]:
    """How many pieces one worker needs, how large each is, and how its GPUs are shared."""
    if "migProfile" in work:
        return work.get("units", 1), int(work["migProfile"][0]) * WHOLE // 7, "mig"
    gpus = milli(work["gpus"])
    return (1, gpus, "time-slice") if 0 < gpus < WHOLE else (gpus // WHOLE, WHOLE, "dedicated")


def per_worker(work: Doc) -> int:
    pieces, unit, _ = unit_of(work)
    return pieces * unit


def fewest(work: Doc) -> int:
    return int(work["minWorkers"] if "minWorkers" in work else work.get("workers", 1))


def need(work: Doc) -> int:
    return per_worker(work) * fewest(work)


@dataclass
class Tree:
    """The quotas of one class, and what is held in each queue."""

    quotas: dict[str, Doc]
    gpu_class: str
    held: Counter[str] = field(default_factory=Counter)

    def entry(self, name: str) -> Doc | None:
        listed = self.quotas[name].get("gpus", []) if name else []
        return next((limit for limit in listed if limit["class"] == self.gpu_class), None)

    def path(self, queue: str) -> list[str]:
        found = [queue]
        while found[-1]:
            found.append(self.quotas[found[-1]].get("parent", ""))
        return found

    def children(self, name: str) -> list[str]:
        return [child for child, quota in self.quotas.items() if quota.get("parent", "") == name]

    def guaranteed(self, name: str) -> int:
        entry = self.entry(name)
        return max(
            milli(entry.get("guaranteed", 0)) if entry else 0, sum(map(self.guaranteed, self.children(name)))
        )

    def own(self, name: str) -> int:
        return self.guaranteed(name) - sum(map(self.guaranteed, self.children(name)))

    def most(self, name: str) -> int | None:
        entry = self.entry(name)
        return milli(entry["max"]) if entry and "max" in entry else None

    def pool(self, name: str) -> int:
        return self.own(name) + sum(self.pool(child) - self.kept(child) for child in self.children(name))

    def kept(self, name: str) -> int:
        entry = self.entry(name)
        return max(0, self.pool(name) - milli(entry["lend"])) if entry and "lend" in entry else 0

    def use(self, name: str) -> int:
        beyond = (max(0, self.use(child) - self.kept(child)) for child in self.children(name))
        return self.held[name] + sum(beyond)

    def free(self, name: str) -> int:
        if not name:
            return self.pool(name) - self.use(name)
        lent = self.free(self.quotas[name].get("parent", ""))
        most = self.most(name)
        if most is not None:
            over = max(0, self.use(name) - self.kept(name))
            lent = min(lent, self.pool(name) - self.kept(name) - over + most - self.guaranteed(name))
        return max(0, self.kept(name) - self.use(name)) + lent

    def below(self, name: str) -> int:
        return self.held[name] + sum(map(self.below, self.children(name)))

    def entitled(self, queue: str) -> bool:
        return any(self.entry(name) is not None for name in self.path(queue))

    def home(self, queue: str) -> str:
        return next((name for name in self.path(queue) if self.entry(name) is not None), queue)

    def beyond(self, name: str) -> int:
        """What is held at or below a node beyond the guarantees there."""
        return max(0, self.held[name] + sum(map(self.beyond, self.children(name))) - self.own(name))

    def room(self, queue: str) -> int:
        """How much more fits inside the guarantees on the path."""
        claims = {
            name: self.held[name] + sum(map(self.beyond, self.children(name))) for name in self.path(queue)
        }
        return sum(max(0, self.own(name) - claim) for name, claim in claims.items())
