"""What a platform costs that nobody talks to: CPU share and memory of its process.

Twice: with nothing in it, and with work that waits and one job that runs. The job's own supervisor
is another process and not counted.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.measuring import rss_mb, spending
from benchmarks.platforms import Platform, running
from benchmarks.reporting import Report, parser

SHARE_PERCENT, MEMORY_MB = 2.0, 120.0


def measure(queued: int, seconds: float) -> Report:
    report = Report("idle", {"queued": queued, "seconds": seconds})
    with running(held=False) as platform:
        _watch(report, platform, "empty", "empty", seconds, memory_budget=MEMORY_MB)
    with running() as platform:
        platform.preload(queued)
        what = f"{queued} queued, 1 running"
        # The memory budget is that of an idle server; a longer queue is kept in memory on top of it.
        memory = MEMORY_MB if queued <= 10_000 else None
        _watch(report, platform, "queued", what, seconds, memory_budget=memory)
    return report


def _watch(
    report: Report, platform: Platform, key: str, what: str, seconds: float, *, memory_budget: float | None
) -> None:
    with spending(platform.pid) as spent:
        time.sleep(seconds)
    share = spent.cpu_s / spent.wall_s * 100
    report.add(f"{key}CpuPercent", f"idle, {what}: CPU", share, "%", SHARE_PERCENT)
    report.add(f"{key}MemoryMb", f"idle, {what}: memory", rss_mb(platform.pid), "MB", memory_budget)


def arguments() -> argparse.ArgumentParser:
    made = parser("idle", __doc__)
    made.add_argument("--queued", type=int, default=10_000, help="waiting workloads")
    made.add_argument("--seconds", type=float, default=10.0, help="how long to watch, each time")
    return made


def main() -> int:
    asked = arguments().parse_args()
    return measure(asked.queued, asked.seconds).tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
