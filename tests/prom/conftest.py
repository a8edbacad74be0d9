"""A real Prometheus: the system's, else Debian's package, unpacked into a cache folder of its own."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.debian_packages import NotToBeHad, unpacked


@dataclass(frozen=True)
class Programs:
    prometheus: str
    promtool: str


@pytest.fixture(scope="session")
def programs() -> Programs:
    if found := _find(None):
        return found
    try:
        unpacked_at = unpacked("prometheus", ("prometheus",))
    except NotToBeHad as why:
        pytest.skip(f"no prometheus on PATH, and Debian's package cannot be had: {why}")
    found = _find(str(unpacked_at / "usr" / "bin"))
    assert found is not None, "Debian's package has both programs"
    return found


def _find(folder: str | None) -> Programs | None:
    prometheus, promtool = (shutil.which(name, path=folder) for name in ("prometheus", "promtool"))
    return Programs(prometheus, promtool) if prometheus and promtool else None
