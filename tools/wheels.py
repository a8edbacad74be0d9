"""What the tests' tools take from the package index, each in an environment of its own in the cache folder.

~/.cache/windlass/NAME-VERSION      (or under XDG_CACHE_HOME)
"""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

_STDERR = 2  # the real one, also where a test runner has put another in its place


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass"


def environment_of(wheel: str, *, with_dependencies: bool = False) -> Path:
    """The folder of the environment that holds `name==version`; made once. What was made only halfway is
    made anew."""
    folder = cache() / wheel.replace("==", "-")
    whole = folder / "whole"
    if not whole.exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
        command += ["--quiet", *([] if with_dependencies else ["--no-deps"]), wheel]
        subprocess.run(command, check=True, stdout=_STDERR)
        whole.touch()
    return folder
