"""Where peers are installed: one virtual environment each, made once, outside the checkout.

The pins beside this file are complete, so that a peer is the same tomorrow. The stamp is written last:
an installation that was interrupted is made anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_PATIENCE_S = 600
_STAMP = "installed"


class Unavailable(Exception):
    """A peer that cannot be installed or started here; the text says what failed."""


def pins(name: str) -> str:
    return (Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8")


def pinned_version(name: str) -> str:
    line = next(line for line in pins(name).splitlines() if line.startswith(f"{name}=="))
    return line.partition("==")[2]


def folder_of(name: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    return cache / "windlass" / "peers" / f"{name}-{pinned_version(name)}-{python}"


def programs(name: str) -> Path:
    """The folder of the peer's commands; installs it the first time (about a minute)."""
    folder = folder_of(name)
    stamp = folder / _STAMP
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != pins(name):
        print(f"installing {name} {pinned_version(name)} into {folder} …", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)], name)
        wanted = Path(__file__).parent / f"{name}.txt"
        quiet = ["--quiet", "--disable-pip-version-check"]
        _run([str(folder / "bin" / "pip"), "install", *quiet, "-r", str(wanted)], name)
        stamp.write_text(pins(name), encoding="utf-8")
    return folder / "bin"


def _run(command: list[str], name: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{name} was not installed after {_PATIENCE_S} s: {' '.join(command)}") from None
    if done.returncode != 0:
        raise Unavailable(
            f"{name} cannot be installed: {' '.join(command)} ended with {done.returncode}\n"
            f"{done.stderr.strip()[-2000:]}"
        )
