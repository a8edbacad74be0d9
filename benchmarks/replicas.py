"""Two servers on one PostgreSQL: what a submit and a read cost them, how many submits a second they take
together, and how soon the other leads when the leader is killed (-9).

Servers, database and clients share the machine. The database is durable (fsync on). CPU is that of both
servers' processes: the one that answers, and the one that follows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.postgres_server import PostgresServer, Session, free_port

from benchmarks import world
from benchmarks.clients import Found, Order, drive
from benchmarks.measuring import cpu_s
from benchmarks.platforms import ROOT, wait_until
from benchmarks.reporting import Report, parser

SUBMIT_MS, READ_MS, LIST_MS, SUBMITS_PER_S, TAKEOVER_S = 1.2, 0.5, 4.0, 500.0, 5.0
_WINDLASS = [sys.executable, "-m", "windlass.experience.cli"]


@dataclass(slots=True)
class Replicas:
    database: PostgresServer
    ports: list[int]
    processes: list[subprocess.Popen[bytes]]
    secret: str

    def cpu_s(self) -> float:
        return sum(cpu_s(process.pid) for process in self.processes)

    def together(self, orders: list[Order]) -> list[Found]:
        """One order per server, at the same time."""
        with ThreadPoolExecutor(len(orders)) as pool:
            ports = self.ports[: len(orders)]
            done = [pool.submit(drive, p, self.secret, o) for p, o in zip(ports, orders, strict=True)]
            found = [one.result() for one in done]
        assert all(set(one.statuses) == {"200"} for one in found), [one.statuses for one in found]
        return found

    def get(self, number: int, path: str) -> Any:
        address = f"http://127.0.0.1:{self.ports[number]}{path}"
        headers = {"Authorization": f"Bearer {self.secret}"}
        request = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return json.load(answer)


def measure(submits: int, clients: int, reads: int, rounds: int) -> Report:
    report = Report("replicas", {"submits": submits, "clients": clients, "reads": reads, "rounds": rounds})
    with running(2) as replicas:
        _submits(report, replicas, submits, clients, rounds)
        _reads(report, replicas, reads, rounds)
        _takeover(report, replicas)
    return report


def _submits(report: Report, replicas: Replicas, submits: int, clients: int, rounds: int) -> None:
    for key, many in (("submit", 1), ("submitParallel", clients)):
        costs, rates = [], []
        for number in range(rounds):
            each = max(1, submits // rounds // 2)
            orders = [
                Order(
                    "POST",
                    ["/v1/apply"],
                    _documents(f"{key.lower()}{number}s{side}", each),
                    max(1, many // 2),
                )
                for side in range(2 if many > 1 else 1)
            ]
            before, began = replicas.cpu_s(), time.perf_counter()
            found = replicas.together(orders)
            seconds = time.perf_counter() - began
            time.sleep(0.3)  # the followers' share
            answers = sum(one.answers for one in found)
            costs.append((replicas.cpu_s() - before) * 1e3 / answers)
            slowest_s = max(one.seconds for one in found)
            rates.append(answers / (slowest_s if many > 1 else seconds))
        who = f"{many} clients" if many > 1 else "1 client"
        budget = SUBMITS_PER_S if many > 1 else None
        report.add(f"{key}CpuMs", f"submit, {who}: CPU of both servers", min(costs), "ms", SUBMIT_MS)
        report.add(
            f"{key}PerSecond", f"submit, {who}: rate", max(rates), "/s", budget, at_least=True, by_clock=True
        )


def _documents(prefix: str, count: int) -> list[str]:
    return [json.dumps(world.queued(each, prefix)) for each in range(count)]


def _reads(report: Report, replicas: Replicas, reads: int, rounds: int) -> None:
    waiting = world.path_of(world.queued(0, "submit0s0"))
    for key, what, path, budget, share in (
        ("read", "read a waiting component", waiting, READ_MS, 1),
        ("list", "list of 100", "/v1/components?limit=100", LIST_MS, 8),
    ):
        costs = []
        for _ in range(rounds):
            before = replicas.cpu_s()
            (found,) = replicas.together([Order("GET", [path], requests=max(1, reads // share // rounds))])
            costs.append((replicas.cpu_s() - before) * 1e3 / found.answers)
        report.add(f"{key}CpuMs", f"{what}: server CPU", min(costs), "ms", budget)


def _takeover(report: Report, replicas: Replicas) -> None:
    session = Session(replicas.database.url())

    def leader() -> str:
        return str(session.rows("SELECT holder FROM leases")[0]["holder"])

    first = leader()
    leads = next(n for n in range(len(replicas.processes)) if first.startswith(f"bench-{n}/"))
    replicas.processes[leads].kill()
    began = time.perf_counter()
    wait_until(lambda: leader() != first, "the other to lead")
    took_s = time.perf_counter() - began
    session.close()
    report.add("takeoverS", "from kill -9 of the leader to the next", took_s, "s", TAKEOVER_S)


@contextmanager
def running(count: int) -> Iterator[Replicas]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", ignore_cleanup_errors=True) as folder:
        database = PostgresServer(Path(folder) / "pg")
        database.create()
        database.start()
        key = Path(folder) / "admin.key"
        environment = {
            **os.environ,
            "WINDLASS_CONFIG": f"{folder}/contexts",
            "WINDLASS_DATABASE": database.url(),
        }
        quiet = subprocess.DEVNULL
        subprocess.run(
            [*_WINDLASS, "migrate", "--admin-key", str(key)], check=True, env=environment, stderr=quiet
        )
        ports = [free_port() for _ in range(count)]
        processes = [
            subprocess.Popen(
                [*_WINDLASS, "server", "--listen", f"127.0.0.1:{port}", "--name", f"bench-{number}"],
                env=environment,
                cwd=ROOT,
                stderr=quiet,
            )
            for number, port in enumerate(ports)
        ]
        replicas = Replicas(database, ports, processes, key.read_text().strip())
        try:
            wait_until(lambda: all(_answers(replicas, n) for n in range(count)), "the servers to answer")
            wait_until(lambda: bool(replicas.get(0, "/v1/events?last=1")["items"]), "a leader")
            body = [json.dumps(world.catalog())]
            replicas.together([Order("POST", ["/v1/apply"], body)])
            yield replicas
        finally:
            for process in processes:
                process.kill()
                process.wait()
            database.stop("immediate")


def _answers(replicas: Replicas, number: int) -> bool:
    try:
        replicas.get(number, "/v1/whoami")
    except OSError:
        return False
    return True


def arguments() -> argparse.ArgumentParser:
    made = parser("replicas", __doc__)
    made.add_argument("--submits", type=int, default=4000, help="with one client, and again with many")
    made.add_argument("--clients", type=int, default=16, help="for the parallel submits, half on each server")
    made.add_argument("--reads", type=int, default=1000, help="of a component; fewer of what costs more")
    made.add_argument("--rounds", type=int, default=3, help="the best of so many is shown")
    return made


def main() -> int:
    asked = arguments().parse_args()
    return measure(asked.submits, asked.clients, asked.reads, asked.rounds).tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
