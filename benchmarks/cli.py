"""What a command costs the person who types it: CPU of the client process, from exec to exit.

The interpreter's own start is in it, and so is everything the command imports. The platform it
talks to is another process and not counted. Shown is the best of several runs, after one that
warms the file cache and leaves bytecode behind (in a temporary folder), as any earlier run of a user's
would have.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import world
from benchmarks.platforms import ROOT, Platform, running
from benchmarks.reporting import Report, parser

CLIENT_S = 0.15
_SCENARIO = """
now: 0
nodes:
- {name: n1, class: h100-80g, gpus: 8, cpuMilli: 96000, memoryMib: 1048576}
- {name: n2, class: h100-80g, gpus: 8, cpuMilli: 96000, memoryMib: 1048576}
quotas:
- {name: team-a, gpus: [{class: h100-80g, guaranteed: 8, max: 16}]}
- {name: team-b, gpus: [{class: h100-80g, guaranteed: 8}]}
workloads:
- {name: a1, queue: team-a, class: h100-80g, workers: 2, gpus: 4, submitted: 0, expectedDuration: 3600}
- {name: a2, queue: team-a, class: h100-80g, workers: 1, gpus: 8, submitted: 1, expectedDuration: 3600}
- {name: b1, queue: team-b, class: h100-80g, workers: 1, gpus: 8, submitted: 2, expectedDuration: 600}
"""


def measure(runs: int, queued: int) -> Report:
    report = Report("cli", {"runs": runs, "queued": queued})
    with running() as platform, tempfile.TemporaryDirectory() as folder:
        platform.preload(queued)
        scenario = Path(folder) / "scenario.yaml"
        scenario.write_text(_SCENARIO)
        one = "/".join(world.HOLDER)
        for key, what, arguments, budget in (
            ("help", "windlass --help", ["--help"], CLIENT_S),
            ("getComponents", "windlass get components", ["get", "components"], CLIENT_S),
            ("getOne", "windlass get component NAME", ["get", "component", one], None),
            ("why", "windlass why NAME", ["why", one], None),
            ("queue", "windlass queue", ["queue"], None),
            ("schedule", "windlass schedule -f, 3 workloads", ["schedule", "-f", str(scenario)], None),
        ):
            best = min(_cpu_s(platform, folder, arguments) for _ in range(runs + 1))
            report.add(f"{key}CpuS", f"{what}: client CPU", best, "s", budget)
    best = min(child_cpu_s([sys.executable, "-c", "pass"], _plain_environment()) for _ in range(runs + 1))
    report.add("pythonCpuS", "for comparison, python -c pass", best, "s")
    return report


def _cpu_s(platform: Platform, folder: str, arguments: list[str]) -> float:
    told = {
        "WINDLASS_SERVER": platform.address,
        "WINDLASS_API_KEY": platform.secret,
        "WINDLASS_CONFIG": str(Path(folder) / "contexts"),
        "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode"),
    }
    return child_cpu_s([*_windlass(), *arguments], {**_plain_environment(), **told})


def _plain_environment() -> dict[str, str]:
    """Bytecode is kept, as for any user; else every run would compile what it imports."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _windlass() -> list[str]:
    installed = Path(sys.executable).parent / "windlass"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "windlass.experience.cli.main"]


def child_cpu_s(command: list[str], environ: dict[str, str]) -> float:
    """User and system seconds of one child, by the kernel's own account of it."""
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(command, env=environ, cwd=ROOT, stdout=said, stderr=said)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            said.seek(0)
            raise RuntimeError(
                f"{' '.join(command)}: exit {child.returncode}\n{said.read().decode()[-2000:]}"
            )
    return usage.ru_utime + usage.ru_stime


def arguments() -> argparse.ArgumentParser:
    made = parser("cli", __doc__)
    made.add_argument("--runs", type=int, default=10, help="the best of so many is shown")
    made.add_argument("--queued", type=int, default=200, help="components the platform has")
    return made


def main() -> int:
    asked = arguments().parse_args()
    return measure(asked.runs, asked.queued).tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
