"""The benchmarks run, and say what they found in the form they promise. No number is judged here:
a test must not fail because the machine is busy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = [
    "api",
    "cli",
    "authorization",
    "compiling",
    "fairness",
    "idle",
    "cycle",
    "admissions",
    "watchers",
    "placement",
    "performance",
]
TINY = {
    "api": ["--queued", "60", "--submits", "20", "--reads", "20", "--rounds", "1", "--clients", "4"],
    "cli": ["--runs", "0", "--queued", "5"],
    "authorization": ["--decisions", "30"],
    "compiling": ["--intents", "40", "--documents", "100"],
    "fairness": ["--submits", "10", "--flood", "40", "--clients", "4", "--readers", "4"],
    "idle": ["--queued", "60", "--seconds", "0.2"],
    "cycle": ["--queued", "500", "--nodes", "30", "--events", "20"],
    "admissions": ["--queues", "10", "--workloads", "60", "--nodes", "2"],
    "watchers": ["--watchers", "60", "--per-second", "10", "--seconds", "1"],
}
PROMISED = {
    "api": {"submitCpuMs", "submitParallelPerSecond", "readPendingCpuMs", "listCpuMs", "queueCpuMs"},
    "cli": {"helpCpuS", "getComponentsCpuS", "scheduleCpuS"},
    "compiling": {"kubernetesS", "slurmS", "localS", "snapshotS"},
    "authorization": {"loadMs", "decisionUs", "rememberedUs", "memoryMb"},
    "fairness": {
        *("fairMedianTimes", "fairP99Times", "limitedMedianTimes", "limitedP99Times"),
        *("readingMedianTimes", "readingP99Times"),
    },
    "idle": {"emptyCpuPercent", "queuedCpuPercent", "emptyMemoryMb", "queuedMemoryMb"},
    "cycle": {"submittedUs", "releasedUs", "positionUs", "estimateUs", "memoryMb"},
    "admissions": {"admissionsPerSecond", "cpuMs", "schedulerCpuMs", "siteCpuMs"},
    "watchers": {"watchersPercent", "memory"},
}
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,96000,393216,8,T4\n"
TASKS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
    "one,4000,4096,1,1000,,LS\nshare,2000,4096,1,300,T4|P100,LS\n"
    "two,8000,8192,2,1000,P100,LS\ncpu,1000,1024,0,0,,LS\n"
)


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("module", ["benchmarks", *(f"benchmarks.{name}" for name in MODULES)])
def test_every_benchmark_has_help(module: str) -> None:
    done = run(module, "--help")
    assert done.returncode == 0
    assert f"python -m {module}" in done.stdout
    assert "--json" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_every_benchmark_works_in_a_tiny_form(name: str) -> None:
    answer = found(run(f"benchmarks.{name}", "--json", *TINY[name]))
    assert answer["benchmark"] == name
    assert answer["machine"].keys() >= {"cores", "python", "load"}
    assert answer["results"].keys() >= PROMISED[name]
    assert all(value >= 0 for value in answer["results"].values())
    assert {measure["verdict"] for measure in answer["measures"]} <= {"ok", "over", "regression", "-"}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["windlass", "fgd", "best-fit", "random"])
def test_placement_fills_a_small_fleet_and_repeats_itself(tmp_path: Path, policy: str) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "tasks.csv").write_text(TASKS)
    files = ["--nodes", str(tmp_path / "nodes.csv"), "--tasks", str(tmp_path / "tasks.csv")]
    asked = ["--json", *files, "--seeds", "42-43", "--policy", policy]
    first, again = (found(run("benchmarks.placement", *asked)) for _ in range(2))
    assert first["policy"] == policy
    assert first["perSeed"].keys() == {"42", "43"}
    assert all(30 < allocated <= 100 for allocated in first["perSeed"].values())
    assert first["mean"] == pytest.approx(sum(first["perSeed"].values()) / 2, abs=0.01)
    assert first["perSeed"] == again["perSeed"]


@pytest.mark.slow
def test_placement_without_its_data_is_skipped_with_a_message() -> None:
    done = run("benchmarks.placement", "--nodes", "absent.csv", "--tasks", "gone.csv")
    assert done.returncode == 0
    assert "skipped: absent.csv and gone.csv" in done.stdout
