"""SkyPilot: its API server on SQLite, no cloud.

Without a cloud nothing can wait in it: a managed job ends as FAILED_PRECHECKS, and asking for GPUs
downloads a catalog first (raw.githubusercontent.com, not a package index). So submits and a queue at rest
are not compared. What it keeps without a cloud are the records of its API requests; reading and listing
those stands for reading and listing work. Its server trusts loopback and checks no credential there.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.clients import Found, Order, drive
from benchmarks.peers import cache
from benchmarks.peers.sides import TOKEN, Server, Work, free_port, lonely, start

_RECORDS = 101
_FIRST_DUTIES_S = 15.0  # its own daemons start and look around
_LIST = "/api/status?all_status=true&limit=100"
_NO_WAITING = "without a cloud a managed job fails its checks instead of waiting (FAILED_PRECHECKS)"

_REMARKS = (
    "SkyPilot: without a cloud it keeps only records of its own API requests; those are what is read and"
    " listed. Its server checks no credential on loopback; Windlass does.",
    "SkyPilot: memory and CPU are those of all its processes; a page that several share is counted once.",
)


@dataclass(slots=True)
class Skypilot:
    programs: Path
    environ: dict[str, str]
    server: Server
    version: str
    one: str = ""
    name: str = "skypilot"
    can_queue: bool = False
    gaps: dict[str, str] = field(
        default_factory=lambda: dict.fromkeys(("submit", "burst", "queued"), _NO_WAITING)
    )
    remarks: list[str] = field(default_factory=lambda: list(_REMARKS))
    calls: dict[str, str] = field(
        default_factory=lambda: {
            "read": "GET /api/get?request_id=…, the record of a finished request",
            "list": f"GET {_LIST}, records of requests",
            "help": "sky --help",
            "show": "sky api status",
        }
    )

    def order(self, work: Work, prefix: str, count: int, clients: int) -> Order:
        assert work != "submit", f"{prefix}: {_NO_WAITING}"
        path = _LIST if work == "list" else f"/api/get?request_id={self.one}"
        return Order("GET", [path], requests=count, clients=clients, keep=1)

    def drive(self, order: Order) -> Found:
        return drive(self.server.port, TOKEN, order)

    def settle(self) -> None:
        """Nothing was submitted."""

    def cpu_s(self) -> float:
        return self.server.family.cpu_s()

    def memory_mb(self) -> float:
        return self.server.family.memory_mb()

    def lean(self) -> None:
        """It has nothing to switch off. From here on there are records to read and list."""
        self.one = _leave_records(self.server.port)

    def whole(self) -> None:
        """It always is."""

    def command(self, which: str) -> tuple[list[str], dict[str, str]]:
        asked = ["--help"] if which == "help" else ["api", "status"]
        address = {"SKYPILOT_API_SERVER_ENDPOINT": _address(self.server.port)}
        return [str(self.programs / "sky"), *asked], {**self.environ, **address}


@contextmanager
def running() -> Iterator[Skypilot]:
    programs = cache.programs("skypilot")
    with TemporaryDirectory(prefix="windlass-bench-peer-", ignore_cleanup_errors=True) as folder:
        home, port = Path(folder), free_port()
        environ = {**lonely(home, programs, port), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
        command = [str(programs / "sky"), "api", "start", "--foreground", "--host", "127.0.0.1"]
        server = start(home, [*command, "--port", str(port)], environ, lambda: _answers(port))
        try:
            time.sleep(_FIRST_DUTIES_S)
            yield Skypilot(programs, environ, server, cache.pinned_version("skypilot"))
        finally:
            server.family.end(server.process)


def _leave_records(port: int) -> str:
    """So many that there are a hundred to list; gives the last. One after the other: for requests that
    come faster the server starts further processes, which would stay and be counted."""
    made = ""
    for _ in range(_RECORDS):
        with urllib.request.urlopen(f"{_address(port)}/enabled_clouds", timeout=60) as answer:  # noqa: S310
            made = answer.headers["X-Skypilot-Request-ID"]
        with urllib.request.urlopen(f"{_address(port)}/api/get?request_id={made}", timeout=60):  # noqa: S310
            pass
    return made


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"{_address(port)}/api/health", timeout=5) as answer:  # noqa: S310
            return bool(json.load(answer)["status"] == "healthy")
    except (urllib.error.URLError, OSError):
        return False


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}"
