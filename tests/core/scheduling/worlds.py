"""Builders for small worlds, a driver that runs cycles, and the laws every state must keep."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from windlass.core.scheduling.engine import State, cause_of, cycle, new_state, position, running
from windlass.core.scheduling.gpus import parts_of
from windlass.core.scheduling.model import (
    Admit,
    Adopted,
    Event,
    Limit,
    LineCause,
    Node,
    NodesChanged,
    Options,
    Outcome,
    Placement,
    Preempt,
    Quota,
    QuotasChanged,
    Released,
    Running,
    Shape,
    Submitted,
    Waiting,
    WorkerPlacement,
)
from windlass.core.scheduling.placement import has_room
from windlass.core.scheduling.room import lacks_room
from windlass.core.units import GPU, MilliGpu, Ms

CLASS = "h100"
DEFAULTS = Options()
SHARED = Path(__file__).parents[4] / "shared"
"""Files that lie beside the checkout where the project is built; tests that read them skip without."""


def shape(queue: str, gpus: float = 1, workers: int = 1, **more: Any) -> Shape:
    """`gpus` per worker; a fraction is a time-sliced share."""
    amount = MilliGpu(round(gpus * GPU))
    fraction = {"unit": amount, "sharing": "time-slice"} if 0 < amount < GPU else {}
    for name in ("expected", "min_runtime"):
        if more.get(name) is not None:
            more[name] = Ms(more[name] * 1000)
    return Shape(queue, more.pop("gpu_class", CLASS), amount, workers, **{**fraction, **more})


def node(name: str, gpus: int = 8, **more: Any) -> Node:
    return Node(name, more.pop("gpu_class", CLASS), gpus, **more)


def quota(name: str, parent: str | None = None, *limit: int | None, **more: Any) -> Quota:
    """`quota(name, parent, guaranteed, max, lend)` in GPUs; without numbers it has no entry."""
    amounts = [None if value is None else MilliGpu(value * GPU) for value in limit] + [None] * 3
    limits = {CLASS: Limit(amounts[0] or MilliGpu(0), amounts[1], amounts[2])} if limit else {}
    return Quota(name, parent, limits=limits, **more)


def on(*workers: tuple[str, tuple[int, ...]]) -> Placement:
    return Placement(tuple(WorkerPlacement(i, name, gpus) for i, (name, gpus) in enumerate(workers)))


@dataclass
class World:
    """Runs cycles at a settable time and keeps what came out last."""

    nodes: tuple[Node, ...] = (node("n1"),)
    quotas: tuple[Quota, ...] = (quota("a", None, 8), quota("b", None, 8))
    options: Options = DEFAULTS
    now: int = 0  # seconds
    state: State = field(init=False)
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        self.state = new_state(self.options)
        self.send(NodesChanged(self.nodes), QuotasChanged(self.quotas))

    def send(self, *events: Event) -> Outcome:
        self.state, self.outcome = cycle(self.state, events, Ms(self.now * 1000))
        return self.outcome

    def submit(self, id: str, shape: Shape, submitted: int | None = None) -> Outcome:
        return self.send(self.arrival(id, shape, submitted))

    def arrival(self, id: str, shape: Shape, submitted: int | None = None) -> Submitted:
        return Submitted(Waiting(id, shape, Ms((self.now if submitted is None else submitted) * 1000)))

    def adopt(self, id: str, shape: Shape, placement: Placement, since: int = 0, **more: Any) -> Outcome:
        at = Ms(since * 1000)
        return self.send(Adopted(Running(id, shape, at, at, placement, **more)))

    def release(self, *ids: str) -> Outcome:
        return self.send(*(Released(id) for id in ids))

    @property
    def admitted(self) -> list[str]:
        return [admit.id for admit in self.outcome.admitted if not admit.after]

    @property
    def promised(self) -> dict[str, tuple[str, ...]]:
        return {admit.id: admit.after for admit in self.outcome.admitted if admit.after}

    @property
    def preempted(self) -> dict[str, str]:
        return {preempt.id: preempt.reason for preempt in self.outcome.preempted}

    @property
    def running(self) -> list[str]:
        return [work.id for work in running(self.state)]

    def cause(self, id: str) -> str:
        found = cause_of(self.state, id)
        assert found is not None
        return found.cause

    def also(self, id: str) -> tuple[str, ...]:
        found = cause_of(self.state, id)
        assert found is not None
        return found.also

    def ahead(self, id: str) -> int | None:
        found = position(self.state, id)
        return None if found is None else found.ahead


ALL = tuple(range(8))
TWO_TEAMS = (quota("org"), quota("a", "org", 8, 16), quota("b", "org", 8, 16))
TWO_NODES = (node("n1"), node("n2"))


def lent() -> World:
    """b's node is borrowed by a, whose second workload runs there."""
    world = World(TWO_NODES, TWO_TEAMS, now=100)
    world.adopt("a1", shape("a", 8), on(("n1", ALL)), since=10)
    world.adopt("a2", shape("a", 8), on(("n2", ALL)), since=30)
    return world


def check_laws(state: State) -> None:
    """What holds after every cycle, whatever happened before."""
    _nothing_twice(state)
    _no_ceiling_passed(state)
    _everybody_knows_why(state)
    _what_is_remembered_is_true(state)


def _what_is_remembered_is_true(state: State) -> None:
    """Who had no room, whose share is how large, who borrows: as if looked up for the first time."""
    for line in state.lines.by_shape.values():
        asked, avoid = line.shape, state.avoided(line.shape)
        assert lacks_room(state, line) == (not has_room(state.fleet, asked, asked.fewest, avoid=avoid))
        pool = state.pool(asked)
        assert state.tree.share(asked.queue, asked.gpu_class) == pool.share()
        for tree in (pool, state.future_pool(asked)):
            for above in tree.path:
                assert set(above.over) == {child for child in above.children if child.use > child.pool}


def _nothing_twice(state: State) -> None:
    """No GPU, CPU or memory of a node is given to two, and what is given adds up to what is gone."""
    gpus: dict[tuple[str, int], int] = {}
    cpu: dict[str, int] = {}
    memory: dict[str, int] = {}
    for work in running(state):
        parts = parts_of(work.shape)
        for worker in work.placement.workers:
            for gpu, part in zip(worker.gpus, parts, strict=True):
                gpus[worker.node, gpu] = gpus.get((worker.node, gpu), 0) + part
            cpu[worker.node] = cpu.get(worker.node, 0) + work.shape.cpu_milli
            memory[worker.node] = memory.get(worker.node, 0) + work.shape.memory_mib
    for (name, gpu), amount in gpus.items():
        room = state.fleet.rooms.get(name)
        assert amount <= GPU, f"GPU {gpu} of {name} is given out {amount} thousandths"
        assert room is None or gpu < room.node.gpus
    for name, room in state.fleet.rooms.items():
        assert room.node.cpu_milli is None or cpu.get(name, 0) <= room.node.cpu_milli
        assert room.node.memory_mib is None or memory.get(name, 0) <= room.node.memory_mib
        assert all(0 <= left <= GPU for left in room.left)
        assert room.whole == room.left.count(GPU)


def _no_ceiling_passed(state: State) -> None:
    """What really holds GPUs never passes a `max`, at any level (promises do not hold any yet)."""
    held: dict[tuple[str, str], int] = {}
    for work in running(state):
        amount = work.shape.gpus * len(work.placement.workers)
        for pool in state.tree.pool(work.shape.queue, work.shape.gpu_class).path:
            key = (pool.name, work.shape.gpu_class)
            held[key] = held.get(key, 0) + amount
            assert pool.max is None or held[key] <= pool.max, f"{pool.name} holds {held[key]} of {pool.max}"


def _everybody_knows_why(state: State) -> None:
    """Everybody who waits has a cause; positions of a class are 0..n-1, each once."""
    places: dict[str, list[int]] = {}
    for workload in [*state.lines.waiting.values()]:
        cause = cause_of(state, workload.id)
        assert cause is not None, f"{workload.id} waits without a cause"
        assert cause.cause not in cause.also
        assert cause.message
        found = position(state, workload.id)
        if state.lines.by_shape[workload.shape].never is not None:
            assert found is None
        else:
            assert found is not None
            places.setdefault(workload.shape.gpu_class, []).append(found.ahead)
    for id, promise in state.promises.items():
        found = position(state, id)
        assert found is not None
        places.setdefault(promise.held.shape.gpu_class, []).append(found.ahead)
    for taken in places.values():
        assert sorted(taken) == list(range(len(taken)))


__all__ = [
    "ALL",
    "CLASS",
    "SHARED",
    "TWO_NODES",
    "TWO_TEAMS",
    "Admit",
    "LineCause",
    "Preempt",
    "World",
    "check_laws",
    "lent",
    "node",
    "on",
    "quota",
    "replace",
    "shape",
]
