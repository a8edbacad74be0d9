"""Where libfaketime is, with which a test steps the wall clock of one process: prints the library's path.

From a wheel that is put into the cache folder once. Debian's older build makes `time.sleep` wait wrongly
where only the wall clock is stepped.

    python -m tools.clock_library
"""

from __future__ import annotations

from pathlib import Path

from tools.wheels import environment_of

WHEEL = "libfaketime==3.0.1"


def clock_library() -> Path:
    found = next(environment_of(WHEEL).glob("lib/**/libfaketime.so.1"), None)
    if found is None:
        raise SystemExit(f"{WHEEL} holds no library for this machine")
    return found


if __name__ == "__main__":
    print(clock_library())
