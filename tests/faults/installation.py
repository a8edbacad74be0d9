"""A whole installation of real processes, to be broken: several servers on PostgreSQL and a site's agent,
or the whole platform in one process on SQLite.

Every process is started from here, known by its pid, and ended with the block that started it.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.control.engines import Database, SqliteDatabase
from tests.faults.disks import Disk, mounted_disk
from tests.faults.networks import Way, network
from tests.journeys.platforms import Away, ask
from tests.postgres.clusters import OwnDatabase
from tests.postgres.pairs import Pair, started_pair
from tests.site.worlds import LocalWorld
from tools.clock_library import clock_library
from tools.postgres_server import free_port

from windlass.core.errors import Unavailable
from windlass.sdk.contexts import load_contexts
from windlass.site.orchestrators.local.folders import WorkerFile, worker_file

PATIENCE_S = 180.0
FLEET = ("--gpus", "h100-80gx8", "--nodes", "2")
_WINDLASS = [sys.executable, "-m", "windlass.experience.cli"]


@dataclass
class Process:
    """One command, which can be killed, frozen and started again, and whose wall clock can be stepped."""

    name: str
    command: Sequence[str]
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.step_clock(0)
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self._environment())

    def send(self, number: signal.Signals) -> None:
        if (process := self.process) is not None:
            process.send_signal(number)

    def kill(self) -> None:
        """Also one that is frozen. Afterwards there is no process, unless it had ended by itself before: why,
        somebody will want to know."""
        if (process := self.process) is not None and process.poll() is None:
            process.kill()
            process.wait(PATIENCE_S)
            self.process = None

    def step_clock(self, seconds: int) -> None:
        """Away from the real time by so much; monotonic time goes on as it did."""
        draft = self._clock.with_suffix(f".{threading.get_ident()}")  # either hand of whoever breaks it
        draft.write_text(f"{seconds:+d}\n")
        draft.rename(self._clock)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def _clock(self) -> Path:
        return self.folder / f"{self.name}.clock"

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "WINDLASS_CONFIG": str(self.folder / "config.toml"),
            "WINDLASS_LOG_LEVEL": "warning",
            "LD_PRELOAD": str(clock_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }


@dataclass
class Installation:
    folder: Path
    database: Database
    site: Path  # the folder whose jobs have supervisors
    disk: Disk  # what is stored is stored here: the database's files, and the site's
    pair: Pair | None = None
    servers: list[Process] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)  # of each server to the database
    agent: Process | None = None
    key: str = ""

    @property
    def processes(self) -> list[Process]:
        return [*self.servers, *([self.agent] if self.agent is not None else [])]

    def add_server(self, *command: str) -> None:
        address = f"127.0.0.1:{free_port()}"
        name = f"server{len(self.servers)}"
        self.servers.append(Process(name, [*_WINDLASS, *command, "--listen", address], self.folder))
        self.addresses.append(address)
        self.servers[-1].start()

    def add_agent(self) -> None:
        asked = {"name": "site", "role": "agent", "site": "local"}
        key = self.folder / "agent.key"
        key.write_text(self.call("POST", "/v1/keys", asked)[1]["secret"])
        servers = ",".join(f"http://{address}" for address in self.addresses)
        command = [*_WINDLASS, "agent", "--site", "local", "--server", servers]
        command += ["--key-file", str(key), "--data", str(self.site), *FLEET]
        self.agent = Process("agent", command, self.folder)
        self.agent.start()

    def start_those_that_were_killed(self) -> None:
        for one in self.processes:
            if one.process is None:
                one.start()

    def restart_those_that_gave_up(self) -> int:
        """A server that finds no database when it starts says so and ends; whatever runs it starts it
        again. None ends for another reason."""
        ended = [one for one in self.processes if one.process is not None and not one.runs]
        for one in ended:
            assert one.process is not None and one.process.returncode == Unavailable.exit_code, self.logs()
            one.start()
        return len(ended)

    def until_ready(self) -> None:
        for address in self.addresses:
            self.eventually(partial(self._is_ready, address), f"{address} is ready")

    def until_one_is_ready(self) -> None:
        turns = itertools.cycle(self.addresses)
        self.eventually(lambda: self._is_ready(next(turns)), "one of them is ready")

    def _is_ready(self, address: str) -> bool:
        self.restart_those_that_gave_up()
        return self.call("GET", "/readyz", at=address)[0] == 200

    def eventually(self, look: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                if look():
                    return
            except Away:
                pass
            time.sleep(0.1)
        raise AssertionError(f"{what}: did not come true\n{self.logs()}")

    def call(
        self, method: str, path: str, body: object = None, *, at: str = "", once: str = ""
    ) -> tuple[int, Any]:
        """One request to one server. Raises Away when nobody knows whether it was heard."""
        return ask(at or self.addresses[0], self.key, method, path, body, once=once, timeout_s=20)

    def supervisors(self) -> list[WorkerFile]:
        """Of every worker that runs."""
        found = []
        for path in sorted(self.site.glob("site/jobs/*/*/*/state.json")):
            state = worker_file(path.parent)  # None: retired while we looked
            if state is not None and state.ended_ms is None:
                found.append(state)
        return found

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))


@contextmanager
def replicas(folder: Path, count: int = 3) -> Iterator[Installation]:
    """Servers on a PostgreSQL with a synchronous standby, and the agent of a site."""
    with mounted_disk(folder / "disk") as disk:
        pair = started_pair(disk.folder)
        found = Installation(folder, OwnDatabase(pair.url), disk.folder / "site", disk, pair)
        with _ended(found):
            pair.wait_for_each_other()
            key = folder / "admin.key"
            command = [*_WINDLASS, "migrate", "--database", pair.url, "--admin-key", str(key)]
            subprocess.run(command, check=True, timeout=PATIENCE_S)
            found.key = key.read_text().strip()
            with network() as between:
                for _ in range(count):
                    way = between.way_to(pair.ports)
                    found.ways.append(way)
                    found.add_server("server", "--database", pair.url_by(way.ports))
                found.until_ready()
                found.add_agent()
                yield found


@contextmanager
def alone(folder: Path) -> Iterator[Installation]:
    """`windlass up`: centre, site and database in one process."""
    with mounted_disk(folder / "disk") as disk:
        data = disk.folder / "data"
        found = Installation(folder, SqliteDatabase(data), data, disk)
        with _ended(found):
            found.add_server("up", "--data", str(data), *FLEET)
            found.until_ready()
            contexts = folder / "config.toml"
            found.eventually(contexts.exists, "a context is written")
            found.key = load_contexts(contexts).contexts["local"].api_key
            yield found


@contextmanager
def _ended(found: Installation) -> Iterator[None]:
    """Whatever happens in the block, nothing of it outlives it."""
    try:
        yield
    finally:
        for process in found.processes:
            if process.runs:
                process.kill()
        if (found.site / "site").exists():
            LocalWorld(found.site).end_everything()
        if found.pair is not None:
            found.pair.stop()
