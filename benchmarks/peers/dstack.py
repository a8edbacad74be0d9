"""dstack: its server on SQLite, no backend, so that a run that asks for a GPU has to wait.

What waits in dstack is a run that may be retried when there is no capacity; its server tries each again
and again. The costs of single requests are taken from a server with its background work switched off
(DSTACK_SERVER_BACKGROUND_PROCESSING_DISABLED), so that nothing but the requests is counted; rest and
parallel submits are measured on the server as it is by default.
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

_RUNS = "/api/project/main/runs"
_FIRST_LOOK_S = 20.0
_REMARKS = (
    "dstack: one request after the other (submit, read, list) is measured on a server whose background"
    " work is switched off (DSTACK_SERVER_BACKGROUND_PROCESSING_DISABLED), so that nothing else is counted;"
    " Windlass has everything on.",
    "dstack tries a waiting run again after 15 s, later after up to 10 min; at rest it is watched in the"
    " first minute after the submits, and uses less when the queue has been still for long.",
    "dstack sets SQLite to synchronous=NORMAL: what it has acknowledged survives a killed process, but not"
    " surely a power cut. Windlass answers after an fsync.",
    "dstack: log level warning, no image in the run (it would ask a registry at every submit), no backend"
    " and no fleet.",
)


@dataclass(slots=True)
class Dstack:
    programs: Path
    environ: dict[str, str]
    server: Server
    version: str
    name: str = "dstack"
    can_queue: bool = True
    gaps: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=lambda: list(_REMARKS))
    calls: dict[str, str] = field(
        default_factory=lambda: {
            "submit": f"POST {_RUNS}/apply, a task for one GPU, retried on no-capacity",
            "read": f"POST {_RUNS}/get, by name",
            "list": "POST /api/runs/list, limit 100, include_jobs false",
            "help": "dstack --help",
            "show": "dstack ps",
        }
    )

    def order(self, work: Work, prefix: str, count: int, clients: int) -> Order:
        match work:
            case "submit":
                bodies = [_plan(f"{prefix}-{number}") for number in range(count)]
                return Order("POST", [f"{_RUNS}/apply"], bodies, clients, keep=1)
            case "read":
                bodies = [json.dumps({"run_name": f"{prefix}-0"})] * count
                return Order("POST", [f"{_RUNS}/get"], bodies, clients, keep=1)
            case "list":
                bodies = [json.dumps({"limit": 100, "include_jobs": False})] * count
                return Order("POST", ["/api/runs/list"], bodies, clients, keep=1)

    def drive(self, order: Order) -> Found:
        return drive(self.server.port, TOKEN, order)

    def settle(self) -> None:
        """Its background never rests, so there is nothing to wait for."""

    def cpu_s(self) -> float:
        return self.server.family.cpu_s()

    def memory_mb(self) -> float:
        return self.server.family.memory_mb()

    def lean(self) -> None:
        self._restart(background=False)

    def whole(self) -> None:
        """And what has waited meanwhile has been looked at for the first time."""
        self._restart(background=True)
        time.sleep(_FIRST_LOOK_S)

    def _restart(self, *, background: bool) -> None:
        self.server.family.end(self.server.process)
        self.server = _serve(self.programs, self.server.home, self.environ, background=background)

    def command(self, which: str) -> tuple[list[str], dict[str, str]]:
        return [str(self.programs / "dstack"), "--help" if which == "help" else "ps"], self.environ


@contextmanager
def running() -> Iterator[Dstack]:
    programs = cache.programs("dstack")
    with TemporaryDirectory(prefix="windlass-bench-peer-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        environ = {
            **lonely(home, programs, free_port()),
            "DSTACK_DEFAULT_CREDS_DISABLED": "1",
            "GPUHUNT_CATALOG_URL": f"file://{home}/no-catalog",
        }
        # Its command line reports the installation when it looks for a newer version, once a day. There
        # is no setting against it, but it does not look again on a day on which it has looked.
        looked = home / ".cache" / ".dstack" / "cli" / "last_check"
        looked.parent.mkdir(parents=True)
        looked.touch()
        server = _serve(programs, home, environ, background=True)
        side = Dstack(programs, environ, server, cache.pinned_version("dstack"))
        try:
            yield side
        finally:
            side.server.family.end(side.server.process)


def _serve(programs: Path, home: Path, environ: dict[str, str], *, background: bool) -> Server:
    port = environ["BENCHMARK_PORT"]
    quiet = {} if background else {"DSTACK_SERVER_BACKGROUND_PROCESSING_DISABLED": "1"}
    command = [str(programs / "dstack"), "server", "-y", "-l", "warning", "--host", "127.0.0.1"]
    return start(
        home,
        [*command, "--port", port, "--token", TOKEN],
        {**environ, **quiet},
        lambda: _answers(int(port)),
    )


def _answers(port: int) -> bool:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/projects/list",
        data=b"{}",
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return bool(json.load(answer))
    except (urllib.error.URLError, OSError):
        return False


def _plan(name: str) -> str:
    """Without an image of its own: dstack would ask the image's registry about it at every submit."""
    configuration = {
        "type": "task",
        "name": name,
        "commands": ["python train.py"],
        "env": {"EPOCHS": "3"},
        "resources": {"gpu": {"count": {"min": 1, "max": 1}}},
        "retry": {"on_events": ["no-capacity"], "duration": "30d"},
    }
    plan = {"run_spec": {"run_name": name, "configuration": configuration}}
    return json.dumps({"plan": plan, "force": False})
