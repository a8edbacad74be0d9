"""What a comparison asks of a side, and Windlass's own side of it.

Each side says how the same work is asked of it: an `Order` for the clients. Where it has no
equivalent, `gaps` says why. `remarks` are what else a fair reader has to know.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Protocol

from benchmarks import world
from benchmarks.clients import Found, Order, drive
from benchmarks.measuring import cpu_s
from benchmarks.peers.cache import Unavailable
from benchmarks.peers.family import Family, proportional_mb
from benchmarks.platforms import Platform, running, wait_until

Work = Literal["submit", "read", "list"]
TOKEN = "benchmark-token"
_CLOSED = "http://127.0.0.1:9"  # the discard port: nobody listens


class Side(Protocol):
    """One platform that is up. `calls` and `gaps` are for the reader of the result."""

    name: str
    version: str
    calls: dict[str, str]
    gaps: dict[str, str]
    remarks: list[str]
    can_queue: bool

    def order(self, work: Work, prefix: str, count: int, clients: int) -> Order: ...
    def drive(self, order: Order) -> Found: ...
    def settle(self) -> None: ...
    def cpu_s(self) -> float: ...
    def memory_mb(self) -> float: ...
    def lean(self) -> None:
        """From here on without what may be switched off while single requests are measured."""

    def whole(self) -> None:
        """From here on with everything that runs by default, as it was at first."""

    def command(self, which: str) -> tuple[list[str], dict[str, str]]: ...


@dataclass(slots=True)
class Windlass:
    """Ours: everything on, from the first request to the last."""

    platform: Platform
    folder: Path
    version: str
    name: str = "windlass"
    can_queue: bool = True
    gaps: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    calls: dict[str, str] = field(
        default_factory=lambda: {
            "submit": "POST /v1/apply, one component, with an idempotency key",
            "read": "GET /v1/projects/{project}/components/{env}/{name}",
            "list": "GET /v1/components?limit=100",
            "help": "windlass --help",
            "show": "windlass get components",
        }
    )

    def order(self, work: Work, prefix: str, count: int, clients: int) -> Order:
        match work:
            case "submit":
                bodies = [json.dumps(world.queued(number, prefix)) for number in range(count)]
                return Order("POST", ["/v1/apply"], bodies, clients, keep=1)
            case "read":
                path = world.path_of(world.queued(0, prefix))
                return Order("GET", [path], requests=count, clients=clients, keep=1)
            case "list":
                return Order("GET", ["/v1/components?limit=100"], requests=count, clients=clients, keep=1)

    def drive(self, order: Order) -> Found:
        return drive(self.platform.port, self.platform.secret, order)

    def settle(self) -> None:
        self.platform.settle()

    def cpu_s(self) -> float:
        return cpu_s(self.platform.pid)

    def memory_mb(self) -> float:
        return proportional_mb(self.platform.pid)

    def lean(self) -> None:
        """Nothing is switched off."""

    def whole(self) -> None:
        """It always is."""

    def command(self, which: str) -> tuple[list[str], dict[str, str]]:
        program = str(Path(sys.executable).parent / "windlass")
        told = {
            "WINDLASS_SERVER": self.platform.address,
            "WINDLASS_API_KEY": self.platform.secret,
            "WINDLASS_CONFIG": str(self.folder / "contexts"),
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
        }
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return [program, *(["--help"] if which == "help" else ["get", "components"])], {**kept, **told}


@contextmanager
def ours() -> Iterator[Windlass]:
    from importlib.metadata import version

    with TemporaryDirectory(prefix="windlass-bench-") as folder, running() as platform:
        yield Windlass(platform, Path(folder), version("windlass"))


@dataclass(slots=True)
class Server:
    """A peer's server: a command in a home of its own, all its processes known."""

    home: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def family(self) -> Family:
        return Family(self.process.pid, self.home)


def start(home: Path, command: list[str], environ: dict[str, str], answers: Callable[[], bool]) -> Server:
    """Start it and wait until it answers. What it writes goes to a file in its home."""
    log = home / "server.log"
    with log.open("ab") as written:
        process = subprocess.Popen(
            command, env=environ, cwd=home, stdout=written, stderr=written, start_new_session=True
        )
    server = Server(home, int(environ["BENCHMARK_PORT"]), process)
    try:
        wait_until(lambda: answers() or process.poll() is not None, "an answer")
    except BaseException as trouble:
        server.family.end(process)
        if isinstance(trouble, RuntimeError):
            raise Unavailable(_failure(command, str(trouble), log)) from None
        raise
    if process.poll() is not None:
        server.family.end(process)
        raise Unavailable(_failure(command, f"it ended with {process.returncode}", log))
    return server


def _failure(command: list[str], what: str, log: Path) -> str:
    said = log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
    return f"{' '.join(command)}: {what}\n{said}"


def lonely(home: Path, programs: Path, port: int) -> dict[str, str]:
    """The environment of a peer: its own home, and a closed door to everything but this machine."""
    doors = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _CLOSED)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "BENCHMARK_PORT": str(port),
        "no_proxy": "127.0.0.1,localhost",
        "NO_PROXY": "127.0.0.1,localhost",
        **doors,
    }


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port
