"""Which nodes a machine offers: what NVML finds, else what the operator wants simulated.

A node is one class of GPU. A machine with two models becomes two nodes, and `devices` says which
device number each index of a node is. MIG partitions of real GPUs are not looked at.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.contracts.agent import NodeReport
from windlass.core.errors import Invalid

# Per simulated GPU; enough for every profile of the examples (h100-80g asks 12 CPUs and 128 GiB).
SIMULATED_CPU_MILLI = 12_000
SIMULATED_MEMORY_MIB = 128 * 1024
NODES_PER_RACK = 2
RACKS_PER_BLOCK = 2
MAX_GPUS_PER_NODE = 64
MAX_NODES = 10_000

# What a card is sold as, where neither its name nor its usable memory says it.
SOLD_GIB = {"l40s": 48, "l40": 48, "l4": 24, "a40": 48, "a10": 24, "a10g": 24, "a6000": 48, "t4": 16}
_MAKERS = {"nvidia", "tesla", "geforce", "quadro", "graphics", "device"}
_CLASS = re.compile(r"[a-z0-9]([a-z0-9-]{0,51}[a-z0-9])?")
_FLEET_REMEDY = "write CLASSxN[,CLASSxN…], for example h100-80gx8,l40s-48gx4"


@dataclass(frozen=True, slots=True)
class Inventory:
    """`devices` maps a node's GPU indexes to device numbers; a node not in it counts from zero."""

    nodes: tuple[NodeReport, ...]
    devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def node(self, name: str) -> NodeReport | None:
        return next((node for node in self.nodes if node.name == name), None)

    def device_numbers(self, node: str, indexes: tuple[int, ...]) -> tuple[int, ...]:
        numbers = self.devices.get(node)
        return indexes if numbers is None else tuple(numbers[index] for index in indexes)


def simulated(fleet: str, *, nodes: int, site: str = "local") -> Inventory:
    """`h100-80gx8,l40s-48gx4`: `nodes` nodes of each kind. Raises `Invalid` with a remedy."""
    if not 1 <= nodes <= MAX_NODES:
        raise Invalid(f"--nodes is a number from 1 to {MAX_NODES}, not {nodes}", remedy="try --nodes 2")
    reports: list[NodeReport] = []
    racks = 0
    for gpu_class, gpus in _parse_fleet(fleet):
        for number in range(nodes):
            rack = racks + number // NODES_PER_RACK
            reports.append(
                NodeReport(
                    name=f"{site}-{gpu_class}-{number + 1}",
                    gpu_class=gpu_class,
                    gpus=gpus,
                    cpu_milli=gpus * SIMULATED_CPU_MILLI,
                    memory_mib=gpus * SIMULATED_MEMORY_MIB,
                    labels={"rack": f"r{rack + 1}", "block": f"b{rack // RACKS_PER_BLOCK + 1}"},
                    simulated=True,
                )
            )
        racks += -(-nodes // NODES_PER_RACK)
    return Inventory(tuple(reports))


def _parse_fleet(fleet: str) -> list[tuple[str, int]]:
    kinds: dict[str, int] = {}
    for part in fleet.split(","):
        match = re.fullmatch(r"(.+)x([0-9]{1,6})", part.strip())
        if match is None or _CLASS.fullmatch(match[1]) is None:
            raise Invalid(f"{part.strip()!r} is not a class and a number of GPUs", remedy=_FLEET_REMEDY)
        gpu_class, gpus = match[1], int(match[2])
        if not 1 <= gpus <= MAX_GPUS_PER_NODE:
            raise Invalid(
                f"a node has 1 to {MAX_GPUS_PER_NODE} GPUs, not {gpus} of {gpu_class}",
                remedy="use --nodes for more of them",
            )
        if gpu_class in kinds:
            raise Invalid(f"the class {gpu_class} is given twice", remedy="use --nodes for more of a kind")
        kinds[gpu_class] = gpus
    return list(kinds.items())


def from_nvml(*, host: str | None = None) -> Inventory | None:
    """The real GPUs of this machine, or None when there is no driver or no GPU."""
    found = _nvml_devices()
    if not found:
        return None
    classes: dict[str, list[int]] = {}
    for number, (name, memory_mib) in found.items():
        classes.setdefault(class_of(name, memory_mib), []).append(number)
    base = _label(host or platform.node()) or "local"
    cpu_milli = (os.cpu_count() or 1) * 1000
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    nodes, devices = [], {}
    for gpu_class, numbers in sorted(classes.items()):
        name = base if len(classes) == 1 else f"{base}-{gpu_class}"
        devices[name] = tuple(numbers)
        nodes.append(
            NodeReport(
                name=name,
                gpu_class=gpu_class,
                gpus=len(numbers),
                # Several nodes on one machine divide it by their GPUs.
                cpu_milli=cpu_milli * len(numbers) // len(found),
                memory_mib=memory * len(numbers) // len(found),
                labels={"rack": "r1", "block": "b1"},
            )
        )
    return Inventory(tuple(nodes), devices)


def _nvml_devices() -> dict[int, tuple[str, int]]:
    """Device number -> model name and memory. A GPU that fell off the bus is left out."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    try:
        found = {}
        for number in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(number)
                memory = pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20
                found[number] = (str(pynvml.nvmlDeviceGetName(handle)), int(memory))
            except pynvml.NVMLError:
                continue
        return found
    finally:
        pynvml.nvmlShutdown()


def class_of(model: str, memory_mib: int) -> str:
    """`NVIDIA H100 80GB HBM3` -> `h100-80g`. The memory is the one printed on the box."""
    words = [word for word in re.split(r"[\s_-]+", model.lower()) if word and word not in _MAKERS]
    if len(words) > 1 and words[0] == "rtx":
        words = [words[1] if words[1].startswith("a") else f"rtx{words[1]}", *words[2:]]
    name = _label(words[0]) if words else "gpu"
    printed = next((int(word[:-2]) for word in words if re.fullmatch(r"[0-9]+gb", word)), None)
    gib = printed or SOLD_GIB.get(name) or round(memory_mib / 1024)
    return f"{name}-{gib}g"


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")
