"""Work, templates and a catalog for the Kubernetes target, and how goldens are written down."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

import windlass.core
from windlass.core.catalog.snapshot import Catalog
from windlass.core.compiler.work import Work
from windlass.core.documents.kinds import HardwareProfile, PerGpu, Site
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_yaml

GOLDENS = Path(__file__).parents[3] / "golden" / "compiler" / "kubernetes"

SOURCES = Path(windlass.core.__file__).parent

H100 = HardwareProfile("h100-80g", "NVIDIA-H100-80GB-HBM3", 80, per_gpu=PerGpu(12, 128))
MIG = HardwareProfile(
    "h100-80g",
    "NVIDIA-H100-80GB-HBM3",
    10,
    sharing="mig",
    share=142,
    mig_profile="1g.10gb",
    per_gpu=PerGpu(2, 16),
    max_per_worker=1,
)
QUARTER = HardwareProfile(
    "l40s-48g", "NVIDIA-L40S", 12, sharing="time-slice", share=250, per_gpu=PerGpu(2, 24), max_per_worker=1
)
KUBE = Site("kubernetes", region="eu", queueing="site")

WORK = Work(
    tenant="acme",
    project="nlp",
    env="prod",
    name="sft-run",
    type="training-job@1.0.0",
    workload="job",
    tier="standard",
    priority=50,
    image="ghcr.io/acme/sft:v3",
    units=4,
    profile="h100-80g",
    hardware=H100,
    site="fra1",
    at=KUBE,
    workers=2,
    most_workers=2,
)

JOB: dict[str, Any] = {
    "objects": [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
        },
        {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}},
    ]
}
SERVICE: dict[str, Any] = {
    "objects": [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
        }
    ]
}

CATALOG = """
apiVersion: windlass.dev/v1
kind: Tier
metadata: {name: gold}
spec: {priority: 100, preempts: true, preemptible: false, priorityRange: {min: -2, max: 2}}
---
apiVersion: windlass.dev/v1
kind: Tier
metadata: {name: standard}
spec: {priority: 50, preempts: true, preemptible: true}
---
apiVersion: windlass.dev/v1
kind: Tier
metadata: {name: best-effort}
spec: {priority: -5, preempts: false, preemptible: true}
---
apiVersion: windlass.dev/v1
kind: HardwareProfile
metadata: {name: h100-80g}
spec: {class: h100-80g, gpuModel: NVIDIA-H100-80GB-HBM3, memoryGib: 80, perGpu: {cpu: 12, memoryGib: 128}}
---
apiVersion: windlass.dev/v1
kind: HardwareProfile
metadata: {name: h100-mig-1g}
spec: {class: h100-80g, gpuModel: NVIDIA-H100-80GB-HBM3, memoryGib: 10, sharing: mig, migProfile: 1g.10gb,
       share: 142, perGpu: {cpu: 2, memoryGib: 16}, maxPerWorker: 1}
---
apiVersion: windlass.dev/v1
kind: HardwareProfile
metadata: {name: l40s-quarter}
spec: {class: l40s-48g, gpuModel: NVIDIA-L40S, memoryGib: 12, sharing: time-slice, share: 250,
       perGpu: {cpu: 2, memoryGib: 24}, maxPerWorker: 1}
---
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: acme}
spec: {tier: standard}
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: nlp, tenant: acme}
spec: {environments: [dev, prod], defaultProfile: h100-80g}
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: vision, tenant: acme}
spec: {environments: [prod], defaultProfile: h100-80g}
---
apiVersion: windlass.dev/v1
kind: Envelope
metadata: {name: acme, tenant: acme}
spec:
  scope: {tenant: acme}
  gpus:
  - {profileClass: h100-80g, guaranteed: "14.5", max: 24, lend: 8}
  - {profileClass: l40s-48g, guaranteed: 2, max: 4}
  sharing: [dedicated, mig]
---
apiVersion: windlass.dev/v1
kind: Envelope
metadata: {name: nlp-prod, tenant: acme}
spec:
  scope: {tenant: acme, project: nlp, env: prod}
  gpus: [{profileClass: h100-80g, guaranteed: 8, max: 8}]
  weight: 3
---
apiVersion: windlass.dev/v1
kind: Envelope
metadata: {name: nlp, tenant: acme}
spec: {scope: {tenant: acme, project: nlp}, gpus: [{profileClass: h100-80g, guaranteed: "8.5"}]}
---
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: umbra}
spec: {tier: best-effort, sites: [elsewhere]}
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: shade, tenant: umbra}
spec: {environments: [prod]}
---
apiVersion: windlass.dev/v1
kind: Site
metadata: {name: fra1}
spec: {orchestrator: kubernetes, region: eu, queueing: site, isolation: dedicated-nodes}
---
apiVersion: windlass.dev/v1
kind: Site
metadata: {name: elsewhere}
spec: {orchestrator: kubernetes, queueing: platform}
"""


def catalog() -> Catalog:
    """Read, but not judged: sites of this kind are not everybody's to declare yet."""
    shipped = sorted((SOURCES / "catalog" / "shipped").glob("*.yaml"))
    found = parse_all(
        [tree for text in (CATALOG, *(one.read_text() for one in shipped)) for tree in read_yaml(text)]
    )
    assert not found.problems, found.problems
    return Catalog.build(7, [item.value for item in found.documents])


def work(**changes: Any) -> Work:
    return replace(WORK, **changes)


def pod_spec(manifests: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Of a Job or a Deployment, which come first."""
    spec: Mapping[str, Any] = manifests[0]["spec"]["template"]["spec"]
    return spec


def main_container(manifests: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    found = [one for one in pod_spec(manifests)["containers"] if one["name"] == "main"]
    assert len(found) == 1
    return found[0]  # type: ignore[no-any-return]


def variables(manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in main_container(manifests)["env"]}


def canonical(tree: Any) -> bytes:
    return msgspec.json.encode(tree, order="sorted")


def same_as_golden(name: str, tree: Any) -> None:
    readable = msgspec.json.format(canonical(tree), indent=1).decode() + "\n"
    golden = GOLDENS / f"{name}.json"
    if os.environ.get("WINDLASS_GOLDENS") == "write":
        golden.write_text(readable)
    assert readable == golden.read_text()
