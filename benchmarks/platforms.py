"""A real platform in a process of its own: `windlass up` on a free port and a temporary folder.

`running` starts it, applies the world's catalog and has the holder take the whole fleet, so that
what is submitted afterwards waits. Leaving stops the platform, then the jobs (they outlive a
platform, and a benchmark must leave none behind), then removes the folder.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import world
from benchmarks.clients import Order, drive
from benchmarks.measuring import cpu_s

ROOT = Path(__file__).resolve().parent.parent
_PATIENCE_S = 120.0
# Quiet: three looks in a row with less than a tenth of a core in between.
_QUIET_LOOKS, _LOOK_S, _QUIET_CPU_S = 3, 0.05, 0.005
UNREACHED = "1000000:100000000"
"""A limit that is counted like every other and never refuses anybody."""
_PROGRAM = """
import json, sys
from pathlib import Path
from windlass.core.bounds import Bounds, parse_rate
from windlass.platform import UpOptions, run_up

def tell(news):
    print(json.dumps({"address": news.address, "secret": news.secret}), flush=True)

limit = parse_rate(sys.argv[3])
bounds = Bounds(principal=limit, tenant=limit)
up = UpOptions(data=Path(sys.argv[1]), port=0, gpus=sys.argv[2], nodes=1, context=None, bounds=bounds)
run_up(up, tell)
"""


@dataclass(slots=True)
class Platform:
    """One that answers. After `crash_and_restart` it has another process, address and key."""

    data: Path
    process: subprocess.Popen[bytes]
    address: str
    secret: str

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def apply(self, documents: list[world.Document]) -> Any:
        return self._call("POST", "/v1/apply", documents)

    def post(self, path: str, body: object) -> Any:
        return self._call("POST", path, body)

    def action(self, path: str, action: str) -> Any:
        return self._call("POST", f"{path}/actions/{action}", {})

    def phase(self, document: world.Document) -> str:
        found: str = self.get(world.path_of(document))["status"]["phase"]
        return found

    def preload(self, count: int, *, at_once: int = 100, clients: int = 16) -> None:
        """Fill the queue: many documents a request, many requests at a time."""
        if count:
            requests = [json.dumps(some) for some in world.many_queued(count, at_once=at_once)]
            found = drive(self.port, self.secret, Order("POST", ["/v1/apply"], requests, clients))
            assert found.statuses == {"200": len(requests)}, f"preloading failed: {found.statuses}"
        self.settle()

    def settle(self) -> None:
        """Until the scheduler has looked at everything submitted, and what it had to do is done."""
        wait_until(self._ready, "the platform to be ready")
        quiet, before = 0, 0.0
        while quiet < _QUIET_LOOKS:
            used = cpu_s(self.pid)
            quiet = quiet + 1 if used - before < _QUIET_CPU_S else 0
            before = used
            time.sleep(_LOOK_S)

    def _ready(self) -> bool:
        try:
            self.get("/readyz")
        except RuntimeError:  # 503 while it loads
            return False
        return True

    def crash_and_restart(self) -> None:
        """kill -9, then start again on the same folder."""
        self.process.kill()
        self.process.wait()
        self.process, self.address, self.secret = _start(self.data, UNREACHED)
        self.settle()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _call(self, method: str, path: str, body: object) -> Any:
        request = urllib.request.Request(  # noqa: S310 (our own address)
            self.address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from None


@contextmanager
def running(*, held: bool = True, limit: str = UNREACHED) -> Iterator[Platform]:
    """`limit`: what one principal, and one tenant, may ask.
    `held`: with the world's catalog, one finished component, and the holder on the whole fleet."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that being stopped cleans up too
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", ignore_cleanup_errors=True) as folder:
        data = Path(folder)
        platform = Platform(data, *_start(data, limit))
        try:
            if held:
                _occupy(platform)
            platform.settle()
            yield platform
        finally:
            platform.stop()
            _end_jobs(data)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """A platform tells us nothing by itself, so this asks again."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {_PATIENCE_S:.0f} s in vain for {what}")
        time.sleep(0.05)


def _start(data: Path, limit: str) -> tuple[subprocess.Popen[bytes], str, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(data), world.FLEET, limit],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "WINDLASS_CONFIG": str(data / "contexts")},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the platform did not start (exit {process.wait()})")
    news = json.loads(line)
    return process, news["address"], news["secret"]


def _occupy(platform: Platform) -> None:
    platform.apply(world.catalog())
    platform.apply([world.finished()])
    wait_until(lambda: platform.phase(world.finished()) == "Succeeded", "a first job to finish")
    platform.apply([world.holder()])
    wait_until(lambda: platform.phase(world.holder()) == "Running", "the holder to run")


def _end_jobs(data: Path) -> None:
    """The supervisors of this folder, known by its name in their command line, end their jobs and
    themselves when told to. Cancelling through the platform would start those who wait."""
    for pid in _supervisors(data):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not _supervisors(data), "the jobs to end")


def _supervisors(data: Path) -> list[int]:
    mark = f"{data}/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if mark in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
