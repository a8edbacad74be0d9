"""Who keeps away from whom: named work, named parts of the quota tree, and other tenants.

Work may name what it does not want beside it (`avoid`): work by its id, or a tenant, project or queue by
the name of its quota. It may also want its nodes free of other tenants (`dedicated`). Both are mutual
where they concern parts of the tree: who is named does not join either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from windlass.core.scheduling.model import Placement, Shape
from windlass.core.scheduling.quota import QuotaTree

Counts = dict[str, dict[str, int]]
"""By node, then by name."""


@dataclass(slots=True)
class Neighbours:
    """Who stands on which node, as far as somebody may mind."""

    queues: Counts = field(default_factory=dict)
    dedicated: Counts = field(default_factory=dict)  # tenants that want no other beside them
    shunned: Counts = field(default_factory=dict)  # names that work there keeps away from

    def count(self, tree: QuotaTree, shape: Shape, placement: Placement, sign: int) -> None:
        for node in {worker.node for worker in placement.workers}:
            _add(self.queues, node, shape.queue, sign)
            if shape.dedicated:
                _add(self.dedicated, node, tree.tenant(shape.queue), sign)
            for name in shape.avoid:
                _add(self.shunned, node, name, sign)

    def mind(self, shape: Shape) -> bool:
        """Whether a newcomer of this shape has to look at all."""
        return bool(shape.avoid or shape.dedicated or self.dedicated or self.shunned)


@dataclass(slots=True)
class Avoided(Collection[str]):
    """The nodes a newcomer keeps away from. Asked one by one: there may be ten thousand."""

    tree: QuotaTree
    shape: Shape
    neighbours: Neighbours
    gone: Neighbours
    named: Mapping[str, None]  # where named work stands

    def __contains__(self, node: object) -> bool:
        assert isinstance(node, str)
        if node in self.named:
            return True
        mine = self.tree.chain(self.shape.queue)
        if any(name in mine for name in self._on("shunned", node)):
            return True
        tenant = self.tree.tenant(self.shape.queue)
        if any(other != tenant for other in self._on("dedicated", node)):
            return True
        return (bool(self.shape.avoid) or self.shape.dedicated) and any(
            (self.shape.dedicated and self.tree.tenant(queue) != tenant)
            or any(name in self.shape.avoid for name in self.tree.chain(queue))
            for queue in self._on("queues", node)
        )

    def __iter__(self) -> Iterator[str]:
        for node in {**self.named, **dict.fromkeys(self.neighbours.queues)}:
            if node in self:
                yield node

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _on(self, what: str, node: str) -> Iterator[str]:
        gone = getattr(self.gone, what).get(node, {})
        for name, count in getattr(self.neighbours, what).get(node, {}).items():
            if count > gone.get(name, 0):
                yield name


def apart(tree: QuotaTree, one: Shape, id: str, other: Shape, other_id: str) -> bool:
    """Whether two workloads keep off each other's nodes."""
    if other_id in one.avoid or id in other.avoid:
        return True
    if (one.dedicated or other.dedicated) and tree.tenant(one.queue) != tree.tenant(other.queue):
        return True
    return any(name in one.avoid for name in tree.chain(other.queue)) or any(
        name in other.avoid for name in tree.chain(one.queue)
    )


def _add(counts: Counts, node: str, name: str, sign: int) -> None:
    names = counts.setdefault(node, {})
    names[name] = names.get(name, 0) + sign
    if not names[name]:
        del names[name]
        if not names:
            del counts[node]
