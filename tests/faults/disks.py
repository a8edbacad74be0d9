"""A disk of one's own, which can be made full at an instant, and have room again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SIZE_MIB = 4096  # more than a long run writes


@dataclass(frozen=True)
class Disk:
    folder: Path
    can_be_full: bool

    def fill(self) -> None:
        """What is on it now stays; nothing more fits."""
        found = os.statvfs(self.folder)
        self._resize((found.f_blocks - found.f_bfree) * found.f_frsize // 1024)

    def make_room(self) -> None:
        self._resize(_SIZE_MIB * 1024)

    def _resize(self, kib: int) -> None:
        size = f"remount,size={max(kib, 1)}k"
        done = subprocess.run(
            ["mount", "-o", size, str(self.folder)], capture_output=True, text=True, check=False
        )
        # Somebody may write between the look and the change: a disk cannot be smaller than what is on it.
        if done.returncode and kib < _SIZE_MIB * 1024:
            self._resize(kib + 256)
        elif done.returncode:
            raise RuntimeError(done.stderr)


@contextmanager
def mounted_disk(folder: Path) -> Iterator[Disk]:
    """Where the machine lets us mount nothing, an ordinary folder that is never full."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE_MIB}m,mode=755", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, check=False)
    try:
        yield Disk(folder, can_be_full=made.returncode == 0)
    finally:
        if made.returncode == 0:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
