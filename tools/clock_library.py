"""Where libfaketime is, with which a test steps the wall clock of one process: prints the library's path.

From a wheel that is put into the cache folder once. Debian's older build makes `time.sleep` wait wrongly
where only the wall clock is stepped.

    python -m tools.clock_library
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

WHEEL = "libfaketime==3.0.1"


def clock_library() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass"
    environment = cache / WHEEL.replace("==", "-")
    if (found := _inside(environment)) is None:
        venv.create(environment, with_pip=True, clear=True)
        pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--no-deps", WHEEL], check=True, stdout=sys.stderr)
        found = _inside(environment)
    if found is None:
        raise SystemExit(f"{WHEEL} holds no library for this machine")
    return found


def _inside(environment: Path) -> Path | None:
    return next(environment.glob("lib/**/libfaketime.so.1"), None)


if __name__ == "__main__":
    print(clock_library())
