"""The world of the benchmarks: who is there, and what they ask for.

Fifty projects of ten tenants wait in fifty lines, four sizes of job among them, for a small fleet
that one `holder` keeps full. Nobody has a budget, and ceilings are far away: what is measured is the
platform's work, not its refusals.
"""

from __future__ import annotations

from collections.abc import Iterator

API = "windlass.dev/v1"
GPU_CLASS = "bench-80g"
FLEET = f"{GPU_CLASS}x8"
TENANTS = 10
PROJECTS = 50
SIZES = (1, 2, 4, 8)
HOLDER = ("holder", "prod", "holder")
FINISHED = ("holder", "prod", "finished")

Document = dict[str, object]


def catalog() -> list[Document]:
    return [
        *hardware(),
        *tenant("holder", "firm", ["holder"]),
        *(
            one
            for number in range(TENANTS)
            for one in tenant(f"tenant-{number}", "standard", _projects(number))
        ),
    ]


def hardware() -> list[Document]:
    """What every world needs: tiers, a profile, prices."""
    return [
        document("Tier", "firm", {"priority": 100, "preempts": False, "preemptible": False}),
        document(
            "Tier", "standard", {"priority": 50, "preempts": True, "preemptible": True, "minRuntime": "10m"}
        ),
        document(
            "HardwareProfile",
            GPU_CLASS,
            {
                "class": GPU_CLASS,
                "gpuModel": "BENCH-80GB",
                "memoryGib": 80,
                "perGpu": {"cpu": 8, "memoryGib": 64},
                "maxPerWorker": 8,
            },
        ),
        document(
            "PriceBook",
            "list",
            {
                "currency": "USD",
                "effectiveFrom": "2026-01-01T00:00:00Z",
                "prices": [{"profileClass": GPU_CLASS, "perGpuHour": "2.50"}],
            },
        ),
    ]


def holder(seconds: int = 1800) -> Document:
    """Keeps the whole fleet, and so the queue, until it is cancelled; ends by itself if forgotten."""
    limit: Document = {"timeLimit": f"{seconds}s"}
    return component(*HOLDER, gpus=8, command=["sleep", str(seconds)], more=limit)


def finished() -> Document:
    return component(*FINISHED, gpus=1, command=["true"])


def queued(number: int, prefix: str = "job") -> Document:
    """The n-th of those who wait: neighbours in number are of different projects."""
    project = number % PROJECTS
    return component(f"project-{project}", "prod", f"{prefix}-{number}", gpus=SIZES[project % len(SIZES)])


def many_queued(count: int, *, at_once: int, prefix: str = "job") -> Iterator[list[Document]]:
    for first in range(0, count, at_once):
        yield [queued(number, prefix) for number in range(first, min(first + at_once, count))]


def path_of(document: Document) -> str:
    metadata, spec = document["metadata"], document["spec"]
    assert isinstance(metadata, dict) and isinstance(spec, dict)
    return f"/v1/projects/{metadata['project']}/components/{spec['env']}/{metadata['name']}"


def component(
    project: str,
    env: str,
    name: str,
    *,
    gpus: int,
    command: list[str] | None = None,
    more: Document | None = None,
) -> Document:
    return {
        "apiVersion": API,
        "kind": "Component",
        "metadata": {"name": name, "project": project},
        "spec": {
            "type": "training-job",
            "env": env,
            "image": "ghcr.io/acme/sft:v3",
            "gpus": gpus,
            "command": command or ["python", "train.py"],
            "variables": {"EPOCHS": "3"},
            **(more or {}),
        },
    }


def tenant(name: str, tier: str, projects: list[str], *, guaranteed: int = 8) -> list[Document]:
    """A tenant, its projects, and an envelope whose ceiling is far away."""
    return [
        document("Tenant", name, {"displayName": name, "tier": tier}),
        *(
            document(
                "Project",
                project,
                {"environments": ["prod"], "traits": ["spot-tolerant"], "defaultProfile": GPU_CLASS},
                tenant=name,
            )
            for project in projects
        ),
        document(
            "Envelope",
            name,
            {
                "scope": {"tenant": name},
                "gpus": [{"profileClass": GPU_CLASS, "guaranteed": guaranteed, "max": 100_000}],
                "sharing": ["dedicated"],
            },
            tenant=name,
        ),
    ]


def _projects(tenant: int) -> list[str]:
    return [f"project-{number}" for number in range(tenant, PROJECTS, TENANTS)]


def document(kind: str, name: str, spec: Document, **metadata: str) -> Document:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
