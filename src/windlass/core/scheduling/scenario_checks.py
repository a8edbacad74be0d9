"""What no single field of a scenario can tell: quotas against each other, running work against nodes."""

from __future__ import annotations

from dataclasses import replace

from windlass.core.scheduling.gpus import need_of, parts_of
from windlass.core.scheduling.mig import Profile, can_lie_together
from windlass.core.scheduling.model import Node, Placement, Quota, Running, Shape, WorkerPlacement
from windlass.core.scheduling.scenario_fields import Errors, Fields
from windlass.core.units import GPU, format_gpus

LIMIT = ("class", "guaranteed", "max", "lend")
"""The fields of what a quota says of one class."""


def check_quotas(quotas: list[tuple[Fields, Quota]]) -> bool:
    """Whether they are a tree."""
    by_name = {quota.name: quota for _, quota in quotas}
    a_tree = True
    for fields, quota in quotas:
        if quota.parent is not None and quota.parent not in by_name:
            fields.wrong("parent", f"names {quota.parent}, which is in no quota")
        if _own_ancestor(quota, by_name):
            fields.wrong("parent", f"makes {quota.name} its own ancestor")
            a_tree = False
    if a_tree:
        _check_sums(quotas, by_name)
    return a_tree


def with_past_below(quotas: list[tuple[Fields, Quota]]) -> list[tuple[Fields, Quota]]:
    """What was used below a quota was used by it too."""
    by_name = {quota.name: quota for _, quota in quotas}
    past = {name: quota.past_use for name, quota in by_name.items()}
    for quota in sorted(by_name.values(), key=lambda quota: -_depth(quota, by_name)):
        if quota.parent in past:
            past[quota.parent] += past[quota.name]
    return [(fields, replace(quota, past_use=past[quota.name])) for fields, quota in quotas]


def _own_ancestor(quota: Quota, by_name: dict[str, Quota]) -> bool:
    seen: set[str] = set()
    above = quota.parent
    while above in by_name and above not in seen:
        seen.add(above)
        above = by_name[above].parent
    return quota.name in seen


def _check_sums(quotas: list[tuple[Fields, Quota]], by_name: dict[str, Quota]) -> None:
    """A guarantee that is stated includes the children's. One that is not stated is their sum."""
    below: dict[tuple[str, str], int] = {}
    deepest_first = sorted(by_name.values(), key=lambda quota: -_depth(quota, by_name))
    for gpu_class in {name for quota in by_name.values() for name in quota.limits}:
        for quota in deepest_first:
            limit = quota.limits.get(gpu_class)
            children = below.get((quota.name, gpu_class), 0)
            total = max(limit.guaranteed if limit else 0, children)
            if quota.parent is not None:
                above = (quota.parent, gpu_class)
                below[above] = below.get(above, 0) + total
    for fields, quota in quotas:
        for gpu_class, limit in quota.limits.items():
            has = max(limit.guaranteed, below.get((quota.name, gpu_class), 0))
            if limit.lend is not None and limit.lend > has:
                fields.wrong(
                    "gpus",
                    f"lends {format_gpus(limit.lend)} of {gpu_class}, but is guaranteed {format_gpus(has)}",
                    "lend is a part of what is guaranteed; leave it out to lend all.",
                )
            children = below.get((quota.name, gpu_class), 0)
            if limit.max is not None and children > limit.max >= limit.guaranteed:
                fields.wrong(
                    "gpus",
                    f"has a max of {format_gpus(limit.max)} of {gpu_class}, "
                    f"but the quotas below it are guaranteed {format_gpus(children)} together",
                )
            elif children > limit.guaranteed and (limit.guaranteed or _stated(fields, gpu_class)):
                fields.wrong(
                    "gpus",
                    f"guarantees {format_gpus(limit.guaranteed)} of {gpu_class}, "
                    f"but the quotas below it {format_gpus(children)} together",
                )


def _stated(quota: Fields, gpu_class: str) -> bool:
    """Whether the quota says what it guarantees of a class, be it nothing."""
    entries = (Fields(Errors(), node, path, LIMIT) for path, node in quota.entries("gpus"))
    return any(entry.has("guaranteed") for entry in entries if entry.text("class") == gpu_class)


def _depth(quota: Quota, by_name: dict[str, Quota]) -> int:
    depth = 0
    above = quota.parent
    while above is not None and above in by_name:
        depth += 1
        above = by_name[above].parent
    return depth


def placed(errors: Errors, held: Fields, shape: Shape, fleet: dict[str, Node]) -> Placement:
    """The GPUs a running workload holds. One entry may hold several workers of one node."""
    per_worker = max(1, len(parts_of(shape)))
    workers: list[WorkerPlacement] = []
    for path, entry in held.entries("on"):
        fields = Fields(errors, entry, path, ("node", "gpus"))
        fields.require("node", "gpus")
        name, gpus = fields.text("node"), fields.integers("gpus")
        node = fleet.get(name)
        if node is None:
            fields.wrong("node", f"names {name}, which is no node")
        elif node.gpu_class != shape.gpu_class:
            fields.wrong("node", f"names {name}, which has class {node.gpu_class}, not {shape.gpu_class}")
        elif any(gpu >= node.gpus for gpu in gpus):
            fields.wrong("gpus", f"names a GPU that {name} does not have; it has {node.gpus}")
        if shape.gpus and len(gpus) % per_worker:
            fields.wrong("gpus", f"holds {len(gpus)} GPUs, but a worker needs {per_worker}")
        chunks = [gpus[at : at + per_worker] for at in range(0, len(gpus), per_worker)] or [gpus]
        workers.extend(WorkerPlacement(len(workers) + n, name, chunk) for n, chunk in enumerate(chunks))
    if held.has("on") and not shape.fewest <= len(workers) <= shape.workers:
        held.wrong("on", f"holds {len(workers)} workers, not {shape.workers}")
    return Placement(tuple(workers))


def check_running(running: list[tuple[Fields, Running]], fleet: dict[str, Node]) -> None:
    """No GPU may be held twice: whole ones by two, shared ones beyond what they are, in two ways, or
    by MIG instances that cannot lie together."""
    left = {(node.name, gpu): GPU for node in fleet.values() for gpu in range(node.gpus)}
    modes: dict[tuple[str, int], str] = {}
    instances: dict[tuple[str, int], list[Profile]] = {}
    holders: dict[tuple[str, int], dict[str, None]] = {}
    for fields, work in running:
        refused: set[tuple[str, int]] = set()
        parts, profile = parts_of(work.shape), need_of(work.shape).profile
        for worker in work.placement.workers:
            for gpu, part in zip(worker.gpus, parts, strict=False):
                key = (worker.node, gpu)
                if key not in left:
                    continue
                left[key] -= part
                lying = instances.setdefault(key, [])
                if profile is not None:
                    lying.append(profile)
                shared_alike = modes.setdefault(key, work.shape.sharing) == work.shape.sharing
                others = [id for id in holders.setdefault(key, {}) if id != work.id]
                holders[key][work.id] = None
                if left[key] < 0 or not shared_alike or not can_lie_together(lying):
                    if key not in refused:
                        by = ", ".join(others) or "itself"
                        fields.wrong(
                            "running", f"holds GPU {gpu} of {worker.node}, which is held already by {by}"
                        )
                    refused.add(key)
                    left[key] = 0
                    lying.clear()
