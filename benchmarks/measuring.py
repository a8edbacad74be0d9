"""CPU time, memory and the machine: the numbers everything else is made of.

CPU time is what is measured wherever possible, because the machine may be shared: another job makes
the wall clock lie, but hardly the CPU clock. It counts user and system time of all threads.
"""

from __future__ import annotations

import gc
import os
import platform
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CPUCLOCK_SCHED = 2  # linux/posix-timers.h: the process clock, in nanoseconds, of user and system time


def cpu_s(pid: int) -> float:
    """CPU seconds a process has used so far, its children not counted.

    The process's own clock, which is what /proc/PID/stat shows too, rounded there to hundredths.
    """
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int | None = None) -> float:
    """Memory a process has in RAM now, in MB (millions of bytes)."""
    pages = int(Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(slots=True)
class Spent:
    """What the block of a `spending` took, once it has ended."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


@contextmanager
def spending(pid: int | None = None) -> Iterator[Spent]:
    """CPU and wall time of a process (this one unless told otherwise) while the block runs."""
    pid = pid or os.getpid()
    spent = Spent()
    wall, cpu = time.perf_counter(), cpu_s(pid)
    try:
        yield spent
    finally:
        spent.cpu_s, spent.wall_s = cpu_s(pid) - cpu, time.perf_counter() - wall


def each_us(work: Callable[[int], object], count: int, *, rounds: int = 1) -> float:
    """CPU microseconds of one call, over `count` calls: the best of so many rounds.

    The garbage collector runs before and not during: it is another's cost at another time.
    """
    best = float("inf")
    number = 0
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        try:
            with spending() as spent:
                for _ in range(count):
                    work(number)
                    number += 1
        finally:
            gc.enable()
        best = min(best, spent.cpu_s / count * 1e6)
    return best


def machine() -> dict[str, object]:
    """What the numbers were measured on, so that they can be judged."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": model,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": [round(load, 2) for load in os.getloadavg()],
    }
