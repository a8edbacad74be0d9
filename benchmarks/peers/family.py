"""All processes of a server, wherever they hide: what they use, and their end.

A peer may have workers, detach them into sessions of their own, and overwrite what the kernel shows of
their environment. Whatever is in the server's session, carries its home in its environment, or works in
its home belongs to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import cpu_s

_GRACE_S, _LOOK_S = 10.0, 0.1


@dataclass(frozen=True, slots=True)
class Family:
    """Those of one server, whose first process leads a session. `home` is its own and temporary."""

    first: int
    home: Path

    def members(self) -> list[int]:
        mark = f"\0HOME={self.home}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if self._is_one(entry, mark):
                        found.append(int(entry.name))
        return found

    def cpu_s(self) -> float:
        """Of all of them, and of those that have ended and were waited for."""
        total = 0.0
        for pid in self.members():
            with suppress(OSError):
                total += cpu_s(pid) + _children_s(pid)
        return total

    def memory_mb(self) -> float:
        """A page that several have is counted once."""
        total = 0.0
        for pid in self.members():
            with suppress(OSError):
                total += proportional_mb(pid)
        return total

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Ask the first, then insist with all, and wait until the last is gone."""
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)
        deadline = time.monotonic() + _GRACE_S
        ended: set[int] = set()
        while (left := self.members()) or any(_lives(pid) for pid in ended):
            if time.monotonic() > deadline:
                raise RuntimeError(f"these processes of {self.home} do not end: {left or sorted(ended)}")
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            ended.update(left)
            time.sleep(_LOOK_S)
        process.wait()

    def _is_one(self, entry: Path, mark: bytes) -> bool:
        if _stat(entry)[3] == str(self.first):
            return _stat(entry)[0] not in "ZX"
        where = entry.joinpath("cwd").readlink()
        return where.is_relative_to(self.home) or mark in b"\0" + entry.joinpath("environ").read_bytes()


def proportional_mb(pid: int) -> float:
    """Memory of one process in MB; of a page shared by n processes, an n-th."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def _lives(pid: int) -> bool:
    try:
        return _stat(Path(f"/proc/{pid}"))[0] not in "ZX"
    except OSError:
        return False


def _children_s(pid: int) -> float:
    fields = _stat(Path(f"/proc/{pid}"))
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _stat(entry: Path) -> list[str]:
    """From the state on: 0 state, 1 parent, 2 group, 3 session, 13 and 14 times of children."""
    return entry.joinpath("stat").read_text().rpartition(")")[2].split()
