"""What the tests' tools take from Debian: packages unpacked into the cache folder, nothing installed.

~/.cache/windlass/NAME      (or under XDG_CACHE_HOME)

The lists of packages are the cache folder's own: a new machine has none, or old ones that name versions
which are gone, and to renew the machine's own is not for us.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from tools.wheels import cache

PATIENCE_S = 300


class NotToBeHad(Exception):
    """There is no such thing here, and why."""


def unpacked(name: str, packages: tuple[str, ...]) -> Path:
    """The folder that holds the packages' files as if it were `/`; made once."""
    folder = cache() / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be fetching it
        whole = folder / "whole"
        wanted = " ".join(packages)
        if not whole.exists() or whole.read_text() != wanted:
            _unpack(folder, packages)
            whole.write_text(wanted)
    return folder


def _unpack(folder: Path, packages: tuple[str, ...]) -> None:
    if not all(shutil.which(tool) for tool in ("apt-get", "dpkg-deb")):
        raise NotToBeHad(f"this is not Debian or one of its kin; install {', '.join(packages)} yourself")
    lists = cache() / "apt"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    own = [
        "-o",
        f"Dir::State::Lists={lists}",
        "-o",
        "Dir::Cache::pkgcache=",
        "-o",
        "Dir::Cache::srcpkgcache=",
    ]
    own += ["-o", "APT::Sandbox::User="]  # whose user could not write here
    for old in folder.glob("*.deb"):
        old.unlink()
    _call(folder, "apt-get", *own, "update")
    _call(folder, "apt-get", *own, "download", *packages)
    for package in sorted(folder.glob("*.deb")):
        _call(folder, "dpkg-deb", "-x", str(package), str(folder))
        package.unlink()
    for name in ("bin", "sbin", "lib"):  # where a machine of today has them
        if (old := folder / name).is_dir():
            shutil.copytree(old, folder / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(old)


def laid_over_usr(folder: Path) -> tuple[str, ...]:
    """What a command is started through to find the packages where they expect themselves: under /usr, in a
    mount namespace that no other process sees."""
    if not shutil.which("unshare"):
        raise NotToBeHad("there is no unshare here")
    script = 'mount -t overlay overlay -o "lowerdir=$1:/usr" /usr && shift && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, "sh", str(folder / "usr"))


def _call(folder: Path, *command: str) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if done.returncode:
        raise NotToBeHad(f"`{command[0]} {command[-1]}` failed: {done.stderr.strip()[-300:]}")
