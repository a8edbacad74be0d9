"""Elastic gangs: they start with their fewest workers, and grow with what nobody else could start with.

Growing comes after everybody who waits was tried, in order, so more workers for one never keep another
from starting; and like whoever is last in line it takes nothing that is reserved or owed. A gang stays
where it is: new workers join at its site and, where topology is required, in its domain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from windlass.core.scheduling.backfill import room_beside_all
from windlass.core.scheduling.fit import quota_allows
from windlass.core.scheduling.model import Placement, WorkerPlacement
from windlass.core.scheduling.nodes import Fleet, domain_of
from windlass.core.scheduling.owed import owed_first
from windlass.core.scheduling.state import Held, State
from windlass.core.units import Ms


def grow(state: State, gpu_class: str, now: Ms, *, only: Collection[str] | None = None) -> Iterator[Held]:
    """Give more workers to elastic gangs (of those in `only`), the first in order first. Each that grew, one
    by one: what it borrowed is what it borrowed before the next one grew."""
    for held in sorted(state.elastic.get(gpu_class, {}).values(), key=_order):
        if held.stopping or held.promised or (only is not None and held.id not in only):
            continue
        more = _more_workers(state, held, now)
        if more is not None:
            yield _joined(state, held, more)


def _order(held: Held) -> tuple[int, Ms, str]:
    return -held.shape.priority, held.submitted, held.id


def _more_workers(state: State, held: Held, now: Ms) -> Placement | None:
    missing = held.shape.workers - len(held.placement.workers)
    if missing <= 0:
        return None
    asked = replace(held.shape, workers=missing, min_workers=1)
    count = quota_allows(state.pool(asked), asked)
    while count and owed_first(state, asked, asked.gpus * count) is not None:
        count -= 1
    if not count:
        return None
    avoid = _Elsewhere(state.fleet, held, state.avoided(asked, (held.id,)))
    return room_beside_all(state, replace(asked, workers=count), avoid, now)


def _joined(state: State, held: Held, more: Placement) -> Held:
    state.let_go(held.id)
    first = 1 + max(worker.worker for worker in held.placement.workers)
    joining = tuple(
        WorkerPlacement(first + number, worker.node, worker.gpus)
        for number, worker in enumerate(more.workers)
    )
    grown = replace(held, placement=Placement((*held.placement.workers, *joining)), takes=[])
    state.hold(grown)
    return grown


@dataclass(slots=True)
class _Elsewhere(Collection[str]):
    """Every node where a new worker would not be with the others, or that the gang keeps away from."""

    fleet: Fleet
    held: Held
    avoid: Collection[str]

    def __contains__(self, node: object) -> bool:
        assert isinstance(node, str)
        first = self.fleet.rooms.get(self.held.placement.workers[0].node)
        there = self.fleet.rooms[node].node
        if first is None or node in self.avoid or there.site != first.node.site:
            return True
        topology = self.held.shape.topology
        return (
            topology is not None
            and topology.mode == "required"
            and domain_of(there, topology.level) != domain_of(first.node, topology.level)
        )

    def __iter__(self) -> Iterator[str]:
        return (node for node in self.fleet.rooms if node in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
