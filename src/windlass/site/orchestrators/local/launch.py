"""From an assignment to what a supervisor is told: pure, so that it can be read in a test.

Variables, later ones win: a small base, the author's, the platform's. The server's own
environment is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.contracts.agent import Assignment, WorkerSpec
from windlass.core.units import GPU
from windlass.site.nodes.inventory import Inventory
from windlass.site.orchestrators.local.containers import Engine, container_name, file_of
from windlass.site.orchestrators.local.folders import Record
from windlass.site.orchestrators.local.processes import WORK_VARIABLE

LOOPBACK = "127.0.0.1"
VARIABLES_FILE = "variables.env"
"""Beside spec.json: what a container's engine is to tell the job, and is not to hear itself."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the operator grants a worker's output and a service's restarts."""

    log_cap_bytes: int = 8 << 20  # per file; the last two are kept
    backoff_first_ms: int = 1_000
    backoff_max_ms: int = 60_000
    healthy_ms: int = 60_000
    pulse_ms: int = 15_000  # between signs of life: how exactly an end is known that nobody saw
    retain_attempts: int = 500
    retain_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class Refusal:
    failure: str
    remedy: str


def refusal(assignment: Assignment, inventory: Inventory, engine: Engine | None) -> Refusal | None:
    """Why it can never be started here, if so."""
    if not assignment.command and not (engine and assignment.image):
        return Refusal(
            "nothing to run: this site runs processes, and the component has no command",
            "give spec.command, or use a component type that has a local command",
        )
    if not assignment.workers:
        return Refusal("nothing to run: no worker was assigned", "submit it again")
    for worker in assignment.workers:
        node = inventory.node(worker.node)
        if node is None:
            names = ", ".join(node.name for node in inventory.nodes)
            return Refusal(f"the node {worker.node} is not on this site", f"its nodes are: {names}")
        bad = [index for index in worker.gpus if not 0 <= index < node.gpus]
        # Several shares of one GPU are fine, the same whole GPU twice is not.
        twice = len(set(worker.gpus)) != len(worker.gpus) and assignment.gpu_milli > GPU // 2
        if bad or twice:
            return Refusal(
                f"worker {worker.index} was given the GPUs {list(worker.gpus)} of {worker.node}, "
                f"which has {node.gpus}",
                "the site has changed since this was placed; submit it again",
            )
    for name, value in assignment.variables.items():
        if not name or "=" in name or "\0" in name + value:
            return Refusal(f"{name!r} cannot be an environment variable", "rename it in spec.variables")
    return None


def distinct(gpus: tuple[int, ...]) -> tuple[int, ...]:
    """Each GPU once, in order, however many shares of it a worker has."""
    return tuple(dict.fromkeys(gpus))


def variables(record: Record, worker: WorkerSpec, inventory: Inventory) -> dict[str, str]:
    """What the platform tells a worker about itself."""
    assignment = record.assignment
    devices = inventory.device_numbers(worker.node, distinct(worker.gpus))
    told = {
        "WINDLASS_WORKLOAD": assignment.workload,
        "WINDLASS_COMPONENT": f"{assignment.project}/{assignment.env}/{assignment.component}",
        "WINDLASS_WORKER": str(worker.index),
        "WINDLASS_ATTEMPT": str(assignment.attempt),
        "WINDLASS_NODE": worker.node,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the order NVML counts in
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, devices)),
    }
    if assignment.kind == "job":
        told |= {
            "RANK": str(worker.index),
            "WORLD_SIZE": str(len(assignment.workers)),
            "LOCAL_RANK": "0",  # a worker sees only its own GPUs, as if alone on its node
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": LOOPBACK,
            "MASTER_PORT": str(record.master_port),
        }
    else:
        told |= {"HOST": LOOPBACK, "PORT": str(record.ports[worker.index])}
    return told


def supervisor_spec(
    record: Record,
    worker: WorkerSpec,
    *,
    inventory: Inventory,
    engine: Engine | None,
    base: Mapping[str, str],
    work: Path,
    look: Path,
    limits: Limits,
) -> dict[str, Any]:
    """spec.json. `base` has PATH, HOME, LANG and TMPDIR for a process."""
    assignment = record.assignment
    told = variables(record, worker, inventory)
    spec: dict[str, Any] = {
        "command": list(assignment.command),
        "environment": {**base, **assignment.variables, **told, WORK_VARIABLE: str(work)},
        "folder": assignment.working_dir or str(work),
        "restart": assignment.kind == "service",
        "grace_ms": assignment.grace_ms,
        "signal": assignment.signal,
        "time_limit_ms": assignment.time_limit_ms,
        "log_cap_bytes": limits.log_cap_bytes,
        "backoff": {
            "first_ms": limits.backoff_first_ms,
            "max_ms": limits.backoff_max_ms,
            "healthy_ms": limits.healthy_ms,
        },
        "pulse_ms": limits.pulse_ms,
        "look": str(look),
        "kill_command": [],
        "contained": False,
    }
    if record.container and engine is not None:
        spec |= _contained(record, worker, inventory, engine, told, base, work.parent / VARIABLES_FILE)
    return spec


def _contained(
    record: Record,
    worker: WorkerSpec,
    inventory: Inventory,
    engine: Engine,
    told: Mapping[str, str],
    base: Mapping[str, str],
    variables_file: Path,
) -> dict[str, Any]:
    assignment = record.assignment
    port = record.ports.get(worker.index)
    publish = None
    if port is not None and assignment.port is not None:
        publish = (port, assignment.port)
        told = {**told, "HOST": "0.0.0.0", "PORT": str(assignment.port)}  # noqa: S104 - its own network
    node = inventory.node(worker.node)
    real = node is not None and not node.simulated
    inside = {**assignment.variables, **told}
    name = container_name(assignment.workload, assignment.attempt, worker.index)
    return {
        "command": engine.run_command(
            container=name,
            image=assignment.image,
            command=assignment.command,
            variables=inside,
            variables_file=str(variables_file),
            devices=inventory.device_numbers(worker.node, distinct(worker.gpus)) if real else (),
            publish=publish,
        ),
        "environment": dict(base),
        VARIABLES_FILE: file_of(inside),
        "kill_command": engine.kill_command(name),
        "contained": True,
    }
