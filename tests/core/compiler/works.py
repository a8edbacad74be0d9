"""Admitted work to compile and check, built from a plain one by what a test is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windlass.core.compiler.work import Work
from windlass.core.documents.kinds import HardwareProfile, PerGpu, Site
from windlass.core.units import Ms

H100 = HardwareProfile("h100-80g", "NVIDIA-H100-80GB-HBM3", 80, per_gpu=PerGpu(12, 128))
MIG = HardwareProfile(
    "h100-80g", "NVIDIA-H100-80GB-HBM3", 10, "mig", 142, "1g.10gb", PerGpu(2, 16), max_per_worker=1
)
QUARTER = HardwareProfile("l40s-48g", "NVIDIA-L40S", 12, "time-slice", 250, per_gpu=PerGpu(2, 24))

PROFILES = {"h100-80g": H100, "h100-mig-1g": MIG, "l40s-quarter": QUARTER}

KUBERNETES = Site("kubernetes", region="eu", queueing="site")
SLURM = Site("slurm", region="eu", queueing="site")
LOCAL = Site("local")

TRAINING = Work(
    tenant="acme",
    project="vision",
    env="dev",
    name="sft-run",
    type="training-job@1.0.0",
    workload="job",
    tier="gold",
    priority=1000,
    image="ghcr.io/acme/sft:v3",
    units=2,
    profile="h100-80g",
    hardware=H100,
    site="fra1",
    at=SLURM,
    workers=2,
    most_workers=2,
    command=("python", "train.py"),
    variables={"EPOCHS": "3"},
    labels={"team": "core"},
    time_limit=Ms(4 * 3_600_000),
)


def work(profile: str = "h100-80g", **changes: Any) -> Work:
    """The training job, on hardware of the named profile, with what is said to be different."""
    return replace(TRAINING, profile=profile, hardware=PROFILES[profile], **changes)
