"""A real PostgreSQL in a folder of its own: for tests and benchmarks.

WINDLASS_TEST_PG_BIN says where its binaries are, else the machine's own are taken (tools/postgres_binaries).
PostgreSQL refuses to run as root; then it runs as another user.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from asyncio import new_event_loop, run_coroutine_threadsafe
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg

from tools.postgres_binaries import on_this_machine

PASSWORD = "windlass"  # noqa: S105 (of a database that lives for a test)
FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""For those who kill no database: the disk is not waited for."""


class PostgresServer:
    """One instance. `settings` go to its configuration file."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None, port: int | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = port or free_port()
        self.settings = {
            "listen_addresses": "'127.0.0.1'",
            "unix_socket_directories": f"'{folder}'",
            "max_connections": "200",
            **(settings or {}),
        }

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://windlass:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        _give(self.folder)
        run(
            "initdb",
            "-D",
            str(self.data),
            "-U",
            "windlass",
            f"--pwfile={secret}",
            "-A",
            "scram-sha-256",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        )
        lines = [f"{name} = {value}" for name, value in self.settings.items()]
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("\n".join(["", *lines, ""]))
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write("host replication windlass 127.0.0.1/32 scram-sha-256\n")

    def start(self) -> None:
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        for stale in self.folder.glob(".s.PGSQL.*"):
            stale.unlink()
        log = self.folder / "log"
        run(
            "pg_ctl", "-D", str(self.data), "-o", f"-p {self.port}", "-l", str(log), "-w", "-t", "60", "start"
        )

    def promote(self) -> None:
        """A standby becomes the primary."""
        run("pg_ctl", "-D", str(self.data), "-w", "promote")

    def stop(self, mode: str = "fast") -> None:
        run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop", check=False)

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """As a machine that loses power, but for the disk's cache."""
        os.kill(self.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])


def standby_of(primary: PostgresServer, folder: Path, port: int | None = None) -> PostgresServer:
    """A copy of it that follows it, not started yet."""
    standby = PostgresServer(folder, primary.settings, port)
    folder.mkdir(parents=True)
    _give(folder)
    where = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "windlass")
    run("pg_basebackup", *where, "-D", str(standby.data), "-R", "-X", "stream", "-c", "fast", "--no-sync")
    with (standby.data / "postgresql.conf").open("a") as file:
        file.write(f"unix_socket_directories = '{folder}'\n")
    return standby


def run(tool: str, *args: str, check: bool = True) -> None:
    command = [str(binaries() / tool), *args]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, user=_user(), cwd="/", env=_environment()
    )
    if check and done.returncode:
        raise RuntimeError(f"{tool} failed: {done.stdout}{done.stderr}")


@cache
def binaries() -> Path:
    named = os.environ.get("WINDLASS_TEST_PG_BIN")
    found = Path(named) if named else on_this_machine()
    if found is None:
        raise RuntimeError("no PostgreSQL on this machine; `make test-pg` brings one")
    if _user() is None or all(parent.stat().st_mode & 0o001 for parent in found.parents):
        return found
    copy = Path(tempfile.mkdtemp(prefix="windlass-pg-bin-"))  # the other user cannot go where it is
    copy.chmod(0o755)
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    # A wheel's programs find their libraries beside the package.
    whole = next((parent for parent in found.parents if parent.name == "site-packages"), found.parent)
    shutil.copytree(whole, copy / "install", symlinks=True)
    return copy / "install" / found.relative_to(whole)


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8", "PGPASSWORD": PASSWORD}


@cache
def _user() -> str | None:
    """Who runs it, if we are root: `postgres` where there is one."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _give(folder: Path) -> None:
    """To the user that runs it; the way there must be open to them."""
    user = _user()
    if user is None:
        return
    for parent in reversed(folder.parents):
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    for path in (folder, *folder.iterdir()):
        shutil.chown(path, user)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Session:
    """SQL from outside an event loop, or from inside one that must not notice: a thread of its own."""

    def __init__(self, url: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._connection: Any = self._wait(asyncpg.connect(url))

    def rows(self, statement: str, *args: object) -> Sequence[Any]:
        found: Sequence[Any] = self._wait(self._connection.fetch(statement, *args))
        return found

    def close(self) -> None:
        self._wait(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, coroutine: Any) -> Any:
        return run_coroutine_threadsafe(coroutine, self._loop).result(60)
