"""Defragmentation as a proposal: which moves free which hole, at what cost, or why none can.

Only work that accepts moving is ever in a plan (`movable`, and it may be preempted), whole gangs of it, and
not inside its minimum runtime. The plan holds as a whole: the hole and the new place of everything moved
exist at the same time, beside whatever is reserved for those who are ahead. Planning changes nothing;
`defrag_apply.py` carries a plan out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

from windlass.core.documents.kinds import HardwareProfile
from windlass.core.scheduling.backfill import head_of
from windlass.core.scheduling.causes import BRIEFLY, binding
from windlass.core.scheduling.defrag_search import EXACT, lost, search
from windlass.core.scheduling.fit import in_words, never
from windlass.core.scheduling.lines import Line
from windlass.core.scheduling.model import Placement, Shape, Topology
from windlass.core.scheduling.owed import owed_first
from windlass.core.scheduling.placement import place
from windlass.core.scheduling.rearranging import NOBODY, Arrangement, Stuck, Wanted
from windlass.core.scheduling.state import Held, State
from windlass.core.units import GPU, GpuUs, MilliGpu, Ms, format_duration

PROPOSED = 20
"""Lines for which a plan is made when nobody is named: each costs a search."""


@dataclass(frozen=True, slots=True)
class Move:
    """One gang, stopped where it is and started again elsewhere. `lost` is the GPU time it spends again."""

    id: str
    source: Placement
    target: Placement
    lost: GpuUs


@dataclass(frozen=True)
class Plan:
    """`id` is whom the hole is for, empty for a hole that a person named."""

    id: str
    shape: Shape
    hole: Placement
    moves: tuple[Move, ...]

    @property
    def lost(self) -> GpuUs:
        return GpuUs(sum(move.lost for move in self.moves))

    @property
    def restarted(self) -> int:
        """Workers that start again."""
        return sum(len(move.source.workers) for move in self.moves)

    @cached_property
    def digest(self) -> str:
        """Names what would be done, whatever it costs by now: the same moves to the same places."""
        done = (self.id, self.hole, [(move.id, move.source, move.target) for move in self.moves])
        return blake2b(repr(done).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class NoPlan:
    id: str
    shape: Shape
    why: str


def fragmented(state: State) -> list[str]:
    """The first of every line that waits because of fragmentation, in order: whom a plan could be for."""
    waiting = [line for line in _in_order(state) if line.cause and line.cause.cause == "fragmentation"]
    return [line.head[1] for line in waiting[:PROPOSED]]


def plan_for(state: State, id: str, now: Ms) -> Plan | NoPlan | None:
    """What would let a waiting workload in; None: no such workload waits."""
    promise = state.promises.get(id)
    if promise is not None:
        return NoPlan(id, promise.held.shape, "Its GPUs are earmarked already; it starts when they are free.")
    workload = state.lines.waiting.get(id)
    if workload is None:
        return None
    line = state.lines.by_shape[workload.shape]
    why = _not_helped(state, line, id, now)
    if why:
        return NoPlan(id, workload.shape, why)
    ahead = head_of(state, line, now)
    if ahead is None:
        return _planned(state, Wanted(id, workload.shape), now)
    head, reservation = ahead
    delayed = NoPlan(id, workload.shape, f"It would delay {head.head[1]}, which is ahead.")
    if reservation.placement is None:
        return delayed
    beside = Wanted(id, workload.shape, ((head.shape, reservation.placement),))
    found = _planned(state, beside, now)
    if isinstance(found, NoPlan) and isinstance(_planned(state, replace(beside, kept=()), now), Plan):
        return delayed
    return found


def plan_hole(state: State, shape: Shape, now: Ms) -> Plan | NoPlan:
    """The same for a hole that a person names, whoever might use it: no quota is asked."""
    shape = replace(shape, queue=NOBODY)
    rooms = state.fleet.classes.get(shape.gpu_class)
    if rooms is None:
        return NoPlan(NOBODY, shape, f"There is no node of class {shape.gpu_class}.")
    there = place(state.fleet, shape, shape.fewest, avoid=state.avoided(shape))
    if there is not None:
        return Plan(NOBODY, shape, there, ())
    need = shape.needed
    if need > rooms.free:
        wanted, free = in_words(need, shape.gpu_class), in_words(rooms.free, shape.gpu_class)
        return NoPlan(NOBODY, shape, f"It needs {wanted}; {free} are free in sum, and moving frees no more.")
    return _planned(state, Wanted(NOBODY, shape), now)


def named_hole(gpu_class: str, gpus: MilliGpu, workers: int, topology: str | None) -> Shape:
    """A hole as a person names it: GPUs per worker, or a share of one. Raises ValueError."""
    if not gpus or (gpus > GPU and gpus % GPU):
        raise ValueError("a hole is for a whole number of GPUs, or for a part of one")
    together = Topology(topology, "required") if topology else None
    if gpus >= GPU:
        return Shape(NOBODY, gpu_class, gpus, workers, topology=together)
    return Shape(NOBODY, gpu_class, gpus, workers, unit=gpus, sharing="time-slice", topology=together)


def profiled_hole(profile: HardwareProfile, units: int, workers: int, topology: str | None) -> Shape:
    """The same in units of a hardware profile, with the CPU and memory that go with them."""
    return Shape(
        queue=NOBODY,
        gpu_class=profile.gpu_class,
        gpus=MilliGpu(profile.share * units),
        workers=workers,
        unit=MilliGpu(profile.share),
        sharing=profile.sharing,
        mig_profile=profile.mig_profile,
        cpu_milli=profile.per_gpu.cpu * 1000 * units,
        memory_mib=profile.per_gpu.memory_gib * 1024 * units,
        topology=Topology(topology, "required") if topology else None,
    )


def accepts_moving(held: Held) -> bool:
    """It said so, and nothing protects it from being stopped."""
    return held.shape.movable and held.shape.preemptible


def _in_order(state: State) -> list[Line]:
    lines = [line for line in state.lines.by_shape.values() if never(state, line) is None]
    return sorted(lines, key=lambda line: (line.shape.gpu_class, state.lines.key(line, state.tree)))


def _not_helped(state: State, line: Line, id: str, now: Ms) -> str:
    """Why moving others would not let it in; empty: it might."""
    forever = never(state, line)
    if forever is not None:
        return forever.message
    first = line.head[1]
    if first != id:
        return f"{first} waits for the same and is ahead of it: a hole would be for that one."
    cause = binding(state, line, now)[0]
    if cause != "fragmentation":
        return f"It waits because {BRIEFLY[cause]} ({cause}); moving others does not change that."
    lender = owed_first(state, line.shape, line.shape.needed)
    if lender is not None:
        return f"It would borrow what is guaranteed to {lender.head[1]}, which waits for it."
    return ""


def _planned(state: State, wanted: Wanted, now: Ms) -> Plan | NoPlan:
    shape = wanted.shape
    accepting = [held for held in _standing(state, shape.gpu_class) if accepts_moving(held)]
    movable = [held for held in accepting if held.since + held.shape.min_runtime <= now]
    if not movable:
        return NoPlan(wanted.id, shape, _nobody_moves(accepting, shape.gpu_class, now))
    found = search(state, wanted, movable, now)
    if isinstance(found, Stuck):
        return NoPlan(wanted.id, shape, _no_way(found, movable))
    return _plan(wanted, found, now)


def _plan(wanted: Wanted, found: Arrangement, now: Ms) -> Plan:
    moves = [Move(held.id, held.placement, target, lost(held, now)) for held, target in found.moved]
    return Plan(wanted.id, wanted.shape, found.hole, tuple(sorted(moves, key=lambda move: move.id)))


def _standing(state: State, gpu_class: str) -> Iterator[Held]:
    """Everybody who holds GPUs of a class, and was not told to go."""
    for (name, _), priorities in state.by_home.items():
        if name == gpu_class:
            for group in priorities.values():
                yield from (held for held in group.values() if not held.stopping and not held.promised)


def _nobody_moves(accepting: list[Held], gpu_class: str, now: Ms) -> str:
    if not accepting:
        return f"Nothing that runs on {gpu_class} accepts moving."
    soonest = min(accepting, key=lambda held: (held.since + held.shape.min_runtime, held.id))
    rest = format_duration(max(1000, (soonest.since + soonest.shape.min_runtime - now) // 1000 * 1000))
    return (
        f"What accepts moving is inside its minimum runtime, {soonest.id} for another {rest}, "
        "the others for longer."
        if len(accepting) > 1
        else f"Only {soonest.id} accepts moving, and is inside its minimum runtime for another {rest}."
    )


def _no_way(found: Stuck, movable: list[Held]) -> str:
    if found.id is not None:
        return f"{found.id} would have to move, and there is no other place for it beside the hole."
    if len(movable) > EXACT:
        return (
            f"Among the {len(movable)} workloads that accept moving, none were found that make such a hole."
        )
    who = "the one workload that accepts" if len(movable) == 1 else "what accepts"
    return f"Moving {who} it makes no such hole."
