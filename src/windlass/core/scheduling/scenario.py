"""A described world for one offline run of the engine: contract §8's scenario, read and checked.

Refused, with every error at once: unknown or repeated fields and names, wrong types, quotas that
are their own ancestors or promise more than they have, workloads in a queue that is not a leaf,
running work on nodes or GPUs that do not exist, have another class, or are taken already.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeVar, cast

import yaml

from windlass.core.scheduling.model import (
    Limit,
    Node,
    NodeState,
    Options,
    Quota,
    Running,
    Shape,
    SharingMode,
    Topology,
    TopologyMode,
    Waiting,
)
from windlass.core.scheduling.scenario_checks import (
    LIMIT,
    check_quotas,
    check_running,
    placed,
    with_past_below,
)
from windlass.core.scheduling.scenario_fields import Errors, Fields, compose
from windlass.core.units import GPU, MilliGpu, Ms, format_gpus

Named = TypeVar("Named")
_MIG_PROFILE = re.compile(r"([12347])g\.[0-9]+gb(\+[a-z.]+)?")
MIG_SLICES = 7

_TOP = ("now", "seed", "options", "nodes", "quotas", "workloads")
_OPTIONS = ("fairShare", "preemption", "backfill")
MAX_NODE_GPUS = 4096
"""Each GPU of a node is a value of its own; no node comes near."""
MAX_UNITS = MIG_SLICES * MAX_NODE_GPUS
"""As many MIG instances as such a node could be cut into."""

_NODE = ("name", "class", "gpus", "cpuMilli", "memoryMib", "labels", "site", "pricePerGpuHour", "state")
_QUOTA = ("name", "parent", "weight", "pastUse", "gpus")
_WORKLOAD = (
    "name", "queue", "class", "workers", "minWorkers", "gpus", "migProfile", "units", "cpuMilli", "memoryMib",
    "priority", "submitted", "expectedDuration", "preempts", "preemptible", "minRuntime", "topology", "avoid",
    "sites", "dedicated", "movable", "running",
)  # fmt: skip
_RUNNING = ("since", "lastCheckpoint", "on")


@dataclass(frozen=True, slots=True)
class Scenario:
    now: Ms
    options: Options
    nodes: tuple[Node, ...]
    quotas: tuple[Quota, ...]
    waiting: tuple[Waiting, ...]
    running: tuple[Running, ...]


def parse_scenario(text: str) -> Scenario:
    """Raises Invalid with a reason for everything that is wrong."""
    errors = Errors()
    top = Fields(errors, compose(text), "", _TOP)
    now = top.seconds("now")
    top.integer("seed", 0)  # nothing here is drawn by chance; accepted so that a scenario is complete
    options = _options(errors, top)
    nodes = _unique([_node(errors, path, node) for path, node in top.entries("nodes")])
    quotas = _unique([_quota(errors, path, node) for path, node in top.entries("quotas")])
    if check_quotas(quotas):
        quotas = with_past_below(quotas)
    workloads = [
        _workload(errors, path, node, {quota.name: fields for fields, quota in quotas})
        for path, node in top.entries("workloads")
    ]
    distinct = _unique(workloads)
    _check_queues(distinct, [quota for _, quota in quotas])
    _check_classes(distinct, [quota for _, quota in quotas], [node for _, node in nodes])
    fleet = {node.name: node for _, node in nodes}
    running = [
        (fields, work)
        for fields, workload in distinct
        if (work := _running(errors, fields, workload, fleet, now))
    ]
    check_running(running, fleet)
    errors.raise_if_any()
    wishes = _mutual_wishes([workload for _, workload in distinct])
    holding = {work.id for _, work in running}
    return Scenario(
        now,
        options,
        tuple(node for _, node in nodes),
        tuple(quota for _, quota in quotas),
        tuple(
            replace(workload, shape=replace(workload.shape, avoid=wishes[workload.id]))
            for _, workload in distinct
            if workload.id not in holding
        ),
        tuple(replace(work, shape=replace(work.shape, avoid=wishes[work.id])) for _, work in running),
    )


def _mutual_wishes(workloads: list[Waiting]) -> dict[str, tuple[str, ...]]:
    """Whom each keeps away from. It is mutual: of two, the one that comes second keeps away."""
    wishes = {workload.id: dict.fromkeys(workload.shape.avoid) for workload in workloads}
    for workload in workloads:
        for other in workload.shape.avoid:
            wishes.get(other, {})[workload.id] = None
    return {id: tuple(sorted(others)) for id, others in wishes.items()}


def _options(errors: Errors, top: Fields) -> Options:
    if not top.has("options"):
        return Options()
    fields = Fields(errors, top.nodes["options"], "options", _OPTIONS)
    return Options(
        fair_share=fields.flag("fairShare", default=True),
        preemption=fields.flag("preemption", default=True),
        backfill=fields.flag("backfill", default=True),
    )


def _node(errors: Errors, path: str, node: yaml.Node) -> tuple[Fields, Node]:
    fields = Fields(errors, node, path, _NODE)
    fields.require("name", "class", "gpus")
    return fields, Node(
        name=fields.text("name"),
        gpu_class=fields.text("class"),
        gpus=fields.integer("gpus", 0, least=0, most=MAX_NODE_GPUS),
        cpu_milli=fields.optional_integer("cpuMilli", least=0),
        memory_mib=fields.optional_integer("memoryMib", least=0),
        labels=fields.labels("labels"),
        site=fields.text("site", "local"),
        state=cast(NodeState, fields.choice("state", ("ready", "draining", "unverified", "down"), "ready")),
        price=fields.money("pricePerGpuHour"),
    )


def _quota(errors: Errors, path: str, node: yaml.Node) -> tuple[Fields, Quota]:
    fields = Fields(errors, node, path, _QUOTA)
    fields.require("name")
    limits: dict[str, Limit] = {}
    for entry_path, entry in fields.entries("gpus"):
        limit = Fields(errors, entry, entry_path, LIMIT)
        limit.require("class")
        gpu_class = limit.text("class")
        if gpu_class in limits:
            limit.wrong("class", f"names {gpu_class} a second time in this quota")
        guaranteed, most = limit.gpus("guaranteed"), limit.optional_gpus("max")
        if most is not None and most < guaranteed:
            limit.wrong("max", f"is less than guaranteed, which is {format_gpus(guaranteed)}")
        limits[gpu_class] = Limit(guaranteed, most, limit.optional_gpus("lend"))
    return fields, Quota(
        name=fields.text("name"),
        parent=fields.text("parent") if fields.has("parent") else None,
        weight=fields.integer("weight", 1, least=0),
        past_use=fields.thousandths("pastUse", least=0),
        limits=limits,
    )


def _workload(
    errors: Errors, path: str, node: yaml.Node, queues: dict[str, Fields]
) -> tuple[Fields, Waiting]:
    fields = Fields(errors, node, path, _WORKLOAD)
    fields.require("name", "queue", "class")
    queue = fields.text("queue")
    if queue and queue not in queues:
        fields.wrong("queue", f"names {queue}, which is in no quota")
    gpus, unit, sharing = _amount(fields)
    workers = fields.integer("workers", 1, least=1)
    fewest = fields.integer("minWorkers", workers, least=1) if fields.has("minWorkers") else None
    if fewest is not None and fewest > workers:
        fields.wrong("minWorkers", f"is more than workers, which is {workers}")
    shape = Shape(
        queue=queue,
        gpu_class=fields.text("class"),
        gpus=gpus,
        workers=workers,
        unit=unit,
        sharing=sharing,
        mig_profile=fields.text("migProfile") if sharing == "mig" else None,
        cpu_milli=fields.integer("cpuMilli", 0, least=0),
        memory_mib=fields.integer("memoryMib", 0, least=0),
        priority=fields.integer("priority", 0),
        preempts=fields.flag("preempts", default=True),
        preemptible=fields.flag("preemptible", default=True),
        min_runtime=fields.seconds("minRuntime", least=0),
        expected=fields.seconds("expectedDuration", least=0) if fields.has("expectedDuration") else None,
        topology=_topology(errors, fields),
        sites=fields.texts("sites"),
        avoid=fields.texts("avoid"),
        min_workers=fewest,
        dedicated=fields.flag("dedicated", default=False),
        movable=fields.flag("movable", default=False),
    )
    if fields.name in shape.avoid:
        fields.wrong("avoid", "names the workload itself")
    return fields, Waiting(fields.text("name"), shape, fields.seconds("submitted"))


def _amount(fields: Fields) -> tuple[MilliGpu, MilliGpu, SharingMode]:
    """GPUs per worker, the share one unit has of a GPU, and how that GPU is shared."""
    if fields.has("migProfile"):
        if fields.has("gpus"):
            fields.wrong("gpus", "and migProfile exclude each other")
        profile = _MIG_PROFILE.fullmatch(fields.text("migProfile"))
        if profile is None:
            fields.wrong("migProfile", "is a MIG profile such as 1g.10gb")
            return MilliGpu(0), MilliGpu(GPU), "mig"
        share = int(profile[1]) * GPU // MIG_SLICES
        return MilliGpu(share * fields.integer("units", 1, least=1, most=MAX_UNITS)), MilliGpu(share), "mig"
    if fields.has("units"):
        fields.wrong("units", "goes with migProfile")
    fields.require("gpus")
    gpus = fields.gpus("gpus")
    if gpus > GPU and gpus % GPU:
        fields.wrong("gpus", "is a whole number of GPUs or a fraction of one")
    if 0 < gpus < GPU:
        return gpus, gpus, "time-slice"
    return gpus, MilliGpu(GPU), "dedicated"


def _topology(errors: Errors, fields: Fields) -> Topology | None:
    if not fields.has("topology"):
        return None
    topology = Fields(errors, fields.nodes["topology"], fields.at("topology"), ("level", "mode"))
    topology.require("level")
    mode = topology.choice("mode", ("required", "preferred"), "preferred")
    return Topology(topology.text("level"), cast(TopologyMode, mode))


def _running(
    errors: Errors, fields: Fields, workload: Waiting, fleet: dict[str, Node], now: Ms
) -> Running | None:
    if not fields.has("running"):
        return None
    held = Fields(errors, fields.nodes["running"], fields.at("running"), _RUNNING)
    held.require("since", "on")
    since = held.seconds("since")
    checkpoint = held.seconds("lastCheckpoint") if held.has("lastCheckpoint") else None
    for name, at in (("since", since), ("lastCheckpoint", checkpoint)):
        if at is not None and at > now:
            held.wrong(name, "is later than now")
    placement = placed(errors, held, workload.shape, fleet)
    return Running(
        workload.id, workload.shape, workload.submitted, since, placement, last_checkpoint=checkpoint
    )


def _unique(found: list[tuple[Fields, Named]]) -> list[tuple[Fields, Named]]:
    """The first of each name; a second one is an error."""
    distinct: dict[str, tuple[Fields, Named]] = {}
    for fields, item in found:
        name = fields.name
        if name and name in distinct:
            fields.wrong("name", f"is {name} for a second time")
        else:
            distinct.setdefault(name, (fields, item))
    return list(distinct.values())


def _check_classes(workloads: list[tuple[Fields, Waiting]], quotas: list[Quota], nodes: list[Node]) -> None:
    """A class may have quota and no node yet, or nodes and no quota; one that has neither is a typo."""
    known = {node.gpu_class for node in nodes} | {name for quota in quotas for name in quota.limits}
    for fields, workload in workloads:
        gpu_class = workload.shape.gpu_class
        if gpu_class and gpu_class not in known:
            near = get_close_matches(gpu_class, sorted(known), n=1)
            remedy = f"Did you mean {near[0]}?" if near else ""
            fields.wrong("class", f"names {gpu_class}, of which there is no node and no quota", remedy)


def _check_queues(workloads: list[tuple[Fields, Waiting]], quotas: list[Quota]) -> None:
    parents = {quota.parent for quota in quotas}
    for fields, workload in workloads:
        if workload.shape.queue in parents:
            fields.wrong(
                "queue", f"names {workload.shape.queue}, which has quotas below it; a queue is a leaf"
            )
