"""How long forgotten attempts stay for their logs: the newest few hundred, within a size."""

from __future__ import annotations

import shutil
from pathlib import Path

from windlass.site.orchestrators.local.folders import remove_if_empty
from windlass.site.orchestrators.local.launch import Limits


class Retention:
    def __init__(self, ended: Path, limits: Limits) -> None:
        self._ended = ended
        self._limits = limits
        self._sizes: dict[Path, int] | None = None  # oldest first; read from disk once

    def add(self, attempt: Path) -> None:
        """Keep this one, and let go of the oldest that no longer fit beside it."""
        sizes = self._known()
        sizes.pop(attempt, None)
        sizes[attempt] = _size(attempt)
        while len(sizes) > 1 and (
            len(sizes) > self._limits.retain_attempts or sum(sizes.values()) > self._limits.retain_bytes
        ):
            oldest = next(iter(sizes))
            del sizes[oldest]
            shutil.rmtree(oldest, ignore_errors=True)
            remove_if_empty(oldest.parent)

    def _known(self) -> dict[Path, int]:
        if self._sizes is None:
            found = [path for path in self._ended.glob("*/*") if path.is_dir()]
            found.sort(key=lambda path: path.stat().st_ctime)  # a rename sets it: when it was forgotten
            self._sizes = {path: _size(path) for path in found}
        return self._sizes


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
