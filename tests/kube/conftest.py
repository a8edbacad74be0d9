"""One plane for all tests, with the objects of a site and its cells. Only `make test-kube` asks for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.core.compiler.kubernetes.worlds import catalog
from tests.kube.plane import Plane, eventually, plane
from tools.kube_binaries import built

from windlass.core.compiler.kubernetes.cell import cell_objects
from windlass.core.compiler.kubernetes.site import site_objects

CELLS = (("nlp", "dev"), ("nlp", "prod"), ("vision", "prod"))
NODES = 4


@pytest.fixture(scope="session")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    try:
        programs = built()
    except SystemExit as reason:
        pytest.skip(str(reason))
    with plane(programs, tmp_path_factory.mktemp("plane")) as running:
        made = site_objects(catalog(), "fra1")
        (kueue,) = [one.config for one in made.requirements if one.name == "kueue"]
        assert kueue is not None
        running.start_kueue(kueue)
        for thing in made.objects:
            running.client.apply(thing)
        for project, env in CELLS:
            for thing in cell_objects(catalog(), "fra1", project, env):
                running.client.apply(thing)
        for number in range(NODES):
            _node(running, number)
        yield running


def _node(running: Plane, number: int) -> None:
    """As a site's nodes are: of a class and a place, kept for one tenant. KWOK keeps it ready."""
    name = f"gpu-{number}"
    labels = {
        "windlass.dev/class": "h100-80g",
        "windlass.dev/tenant": "acme",
        "topology.kubernetes.io/zone": "a",
        "windlass.dev/block": "b1",
        "windlass.dev/rack": f"r{number // 2}",
        "kubernetes.io/hostname": name,
    }
    taint = {"key": "windlass.dev/tenant", "value": "acme", "effect": "NoSchedule"}
    running.client.apply(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [taint]},
        }
    )
    room = {
        "cpu": "128",
        "memory": "2048Gi",
        "pods": "110",
        "ephemeral-storage": "4Ti",
        "nvidia.com/gpu": "8",
        "nvidia.com/mig-1g.10gb": "7",
    }
    running.client.status(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"capacity": room, "allocatable": room},
        }
    )

    def settled() -> bool | None:
        taints = running.client.get("v1", "Node", name)["spec"].get("taints", [])
        return True if [one["key"] for one in taints] == ["windlass.dev/tenant"] else None

    eventually(settled, f"the node {name}")
