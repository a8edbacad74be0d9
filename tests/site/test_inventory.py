"""Nodes: simulated exactly as asked, or as NVML has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.core.errors import Invalid
from windlass.site.nodes.inventory import class_of, from_nvml, simulated


def test_the_default_fleet() -> None:
    nodes = simulated("h100-80gx8,l40s-48gx4", nodes=2).nodes
    assert [(node.name, node.gpu_class, node.gpus) for node in nodes] == [
        ("local-h100-80g-1", "h100-80g", 8),
        ("local-h100-80g-2", "h100-80g", 8),
        ("local-l40s-48g-1", "l40s-48g", 4),
        ("local-l40s-48g-2", "l40s-48g", 4),
    ]
    assert all(node.simulated and node.state == "ready" for node in nodes)
    assert {node.labels["rack"] for node in nodes[:2]} == {"r1"}  # a gang of a class fits into a rack
    assert {node.labels["rack"] for node in nodes[2:]} == {"r2"}
    assert (nodes[0].cpu_milli, nodes[0].memory_mib) == (96_000, 8 * 128 * 1024)


def test_a_class_may_have_an_x_in_its_name() -> None:
    (node,) = simulated("rtx4090-24gx2", nodes=1).nodes
    assert (node.gpu_class, node.gpus) == ("rtx4090-24g", 2)


@pytest.mark.parametrize(
    "fleet", ["", "h100", "h100x", "x8", "h100x0", "h100x65", "H100x8", "h100x8,", "h100x8,h100x4", "h100x-1"]
)
def test_what_is_no_fleet_is_refused_with_a_remedy(fleet: str) -> None:
    with pytest.raises(Invalid) as refused:
        simulated(fleet, nodes=2)
    assert refused.value.remedy


@pytest.mark.parametrize("nodes", [0, -1, 10_001])
def test_the_number_of_nodes_has_limits(nodes: int) -> None:
    with pytest.raises(Invalid):
        simulated("h100-80gx8", nodes=nodes)


@pytest.mark.parametrize(
    ("model", "memory_mib", "gpu_class"),
    [
        ("NVIDIA H100 80GB HBM3", 81559, "h100-80g"),
        ("NVIDIA L40S", 46068, "l40s-48g"),
        ("NVIDIA A100-SXM4-40GB", 40536, "a100-40g"),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-80g"),
        ("NVIDIA H200", 143771, "h200-140g"),
        ("NVIDIA L4", 23034, "l4-24g"),
        ("Tesla T4", 15360, "t4-16g"),
        ("Tesla V100-SXM2-16GB", 16384, "v100-16g"),
        ("NVIDIA GeForce RTX 4090", 24564, "rtx4090-24g"),
        ("NVIDIA RTX A6000", 49140, "a6000-48g"),
        ("NVIDIA", 8192, "gpu-8g"),
    ],
)
def test_the_class_of_a_model(model: str, memory_mib: int, gpu_class: str) -> None:
    assert class_of(model, memory_mib) == gpu_class


def test_without_a_driver_there_is_no_inventory() -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has a driver")
    assert from_nvml() is None


SHOW = """
import msgspec
from windlass.site.nodes.inventory import from_nvml
found = from_nvml(host="Box.Lab")
print(msgspec.json.encode([found.nodes, found.devices] if found else None).decode())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc to build a stand-in for the driver with")
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).with_name("nvml_stand_in.c")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(target), str(source)], check=True)
    return folder


def show(library: Path, models: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "LD_LIBRARY_PATH": str(library), "STAND_IN_GPUS": models},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_real_gpus_are_found_through_nvml(library: Path) -> None:
    said = show(library, "NVIDIA H100 80GB HBM3:81559;NVIDIA H100 80GB HBM3:81559")
    assert '"name":"box-lab","gpu_class":"h100-80g","gpus":2' in said
    assert '"simulated":false' in said
    assert '{"box-lab":[0,1]}' in said


def test_two_models_are_two_nodes_and_a_lost_gpu_is_left_out(library: Path) -> None:
    said = show(library, "NVIDIA L40S:46068;lost:0;NVIDIA H100 80GB HBM3:81559;NVIDIA L40S:46068")
    assert '{"box-lab-h100-80g":[2],"box-lab-l40s-48g":[0,3]}' in said


def test_a_driver_without_gpus_is_no_inventory(library: Path) -> None:
    assert show(library, "") == "null\n"
