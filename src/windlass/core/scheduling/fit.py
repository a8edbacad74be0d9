"""Whether a workload may start now: what its quota allows, and whether there is room for that."""

from __future__ import annotations

from collections.abc import Collection

from windlass.core.scheduling.gpus import need_of
from windlass.core.scheduling.lines import Line, Never
from windlass.core.scheduling.model import Placement, Shape
from windlass.core.scheduling.nodes import Fleet, Size
from windlass.core.scheduling.placement import place
from windlass.core.scheduling.quota import Pool
from windlass.core.scheduling.state import State
from windlass.core.units import GPU, format_gpus


def quota_allows(pool: Pool, shape: Shape) -> int:
    """How many of its workers the quota has room for, 0 if fewer than it needs to start."""
    if shape.gpus == 0:
        return shape.workers
    free = pool.free()
    if not shape.preemptible and free >= shape.gpus:
        # What may not be preempted could not be given back, so it must not be borrowed.
        free = min(free, pool.guaranteed_room())
    workers = min(shape.workers, free // shape.gpus)
    return workers if workers >= shape.fewest else 0


def in_words(amount: int, gpu_class: str) -> str:
    return f"{format_gpus(amount)} GPU{'' if amount == GPU else 's'} of {gpu_class}"


def fit(state: State, shape: Shape, gone: Collection[str] = ()) -> Placement | None:
    """Where it would start now, or None. An elastic gang starts with its fewest workers."""
    if not quota_allows(state.pool(shape), shape):
        return None
    return place(state.fleet, shape, shape.fewest, avoid=state.avoided(shape, gone))


def never(state: State, line: Line) -> Never | None:
    """Why a line can never move. Depends on the quotas and on how the nodes are built, whoever runs on
    them, so it is judged once for each."""
    known, now = line.judged_by, (state.tree, state.fleet, state.fleet.relabelled)
    if known is None or known[0] is not now[0] or known[1:] != now[1:]:
        shape = line.shape
        line.never = _never(state, shape) or _too_large(state, shape) or _nowhere_together(state, shape)
        line.judged_by = now
    return line.never


def _never(state: State, shape: Shape) -> Never | None:
    """Why it can never run, judged against the quotas alone and an otherwise empty platform."""
    tree, need = state.tree, shape.needed
    wanted = in_words(need, shape.gpu_class)
    tail = "It can never run under the present quotas and holds no position."
    if not tree.known(shape.queue):
        return Never("entitlement", f"There is no queue {shape.queue}. {tail}")
    if not tree.entitled(shape.queue, shape.gpu_class):
        return Never("entitlement", f"{shape.queue} is not entitled to {shape.gpu_class}. {tail}")
    pool = tree.pool(shape.queue, shape.gpu_class)
    ceiling = pool.ceiling()
    if ceiling is not None and need > ceiling[0]:
        limit, owner = ceiling
        return Never(
            "entitlement", f"It needs {wanted}; the ceiling of {owner.name} is {format_gpus(limit)}. {tail}"
        )
    if need > pool.potential():
        most = format_gpus(pool.potential())
        return Never(
            "quota", f"It needs {wanted}; all quotas together lend {shape.queue} at most {most}. {tail}"
        )
    if not shape.preemptible and need > pool.guarantee():
        most = format_gpus(pool.guarantee())
        return Never(
            "quota",
            f"It needs {wanted} and may not be preempted, so it cannot borrow; "
            f"{shape.queue} is guaranteed {most}. {tail}",
        )
    return None


def _too_large(state: State, shape: Shape) -> Never | None:
    """A worker cannot span nodes. A class without a node yet, or a site without one, only waits."""
    sizes = [
        size
        for size in state.fleet.sizes().get(shape.gpu_class, ())
        if not shape.sites or size.site in shape.sites
    ]
    if not sizes or any(_holds(state.fleet, size, shape) for size in sizes):
        return None
    where = f" at {', '.join(shape.sites)}" if shape.sites else ""
    largest = max(size.gpus for size in sizes)
    lack = in_words(shape.gpus, shape.gpu_class)
    if shape.gpus <= largest * GPU:
        lack += f", {shape.cpu_milli} mCPU and {shape.memory_mib} MiB at once"
    return Never(
        "capacity",
        f"One worker needs {lack}; no node{where} is that large, ready or not. "
        "It can never run on the present nodes and holds no position.",
    )


def _nowhere_together(state: State, shape: Shape) -> Never | None:
    """Workers that must be in one rack need a node that says in which rack it is."""
    topology = shape.topology
    sizes = state.fleet.sizes().get(shape.gpu_class, ())
    sites = {size.site for size in sizes if not shape.sites or size.site in shape.sites}
    if topology is None or topology.mode != "required" or not sites:
        return None
    labels = state.fleet.levels().get(shape.gpu_class, {})
    if any((site, topology.level) in labels for site in sites):
        return None
    where = f" at {', '.join(shape.sites)}" if shape.sites else ""
    return Never(
        "capacity",
        f"It has to be in one {topology.level}; no node of {shape.gpu_class}{where} has a label "
        f"{topology.level}, ready or not. It can never run on the present nodes and holds no position.",
    )


def _holds(fleet: Fleet, size: Size, shape: Shape) -> bool:
    """An empty node of this size has room for one worker."""
    empty = fleet.table.state((GPU,) * size.gpus)
    return (
        empty[fleet.table.number(need_of(shape))] is not None
        and (size.cpu_milli is None or shape.cpu_milli <= size.cpu_milli)
        and (size.memory_mib is None or shape.memory_mib <= size.memory_mib)
    )
