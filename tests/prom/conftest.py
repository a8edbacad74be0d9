"""A real Prometheus: the system's, else Debian's package, unpacked into a cache folder of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass" / "prometheus"
CACHED = str(CACHE / "usr" / "bin")


@dataclass(frozen=True)
class Programs:
    prometheus: str
    promtool: str


@pytest.fixture(scope="session")
def programs() -> Programs:
    if found := _find(None):
        return found
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be fetching it
        trouble = "" if _find(CACHED) else _fetch()
    if (found := _find(CACHED)) is None:
        pytest.skip(f"no prometheus on PATH, and Debian's package cannot be had: {trouble}")
    return found


def _find(folder: str | None) -> Programs | None:
    prometheus, promtool = (shutil.which(name, path=folder) for name in ("prometheus", "promtool"))
    return Programs(prometheus, promtool) if prometheus and promtool else None


def _fetch() -> str:
    """Download and unpack; why it did not work, or nothing."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return "this is not Debian or one of its kin; install prometheus yourself"
    got = subprocess.run(
        ["apt-get", "download", "prometheus"],
        cwd=CACHE,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    packages = sorted(CACHE.glob("prometheus_*.deb"))
    if not packages:
        return got.stderr.strip()[-300:] or "apt-get found nothing; `apt-get update` may help"
    made = subprocess.run(
        ["dpkg-deb", "-x", str(packages[-1]), str(CACHE)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return made.stderr.strip()[-300:] if made.returncode else ""
