"""Those who use an installation while it is broken, and remember what they said and were told."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Protocol

from tests.faults.installation import PATIENCE_S, Installation
from tests.journeys.platforms import Away
from tests.simulation.history import Record, Watch

_BUSY = (429, 503)
_POLL_S = 1.0
_PATIENCE_S = 4 * PATIENCE_S  # one may be unlucky for long: as long as others are answered, nothing is wrong


@dataclass
class Client:
    """Submits one job after the other: each until it is acknowledged, whatever happens in between, and
    then waits for its end."""

    number: int
    subject: Installation
    started: Path
    chance: random.Random
    over: threading.Event
    records: list[Record] = field(default_factory=list)
    acknowledged: dict[str, str] = field(default_factory=dict)  # path -> decision
    refused: list[Any] = field(default_factory=list)
    failure: BaseException | None = None

    def work(self) -> None:
        try:
            turn = 0
            while not self.over.is_set():
                turn += 1
                self._one_job(f"c{self.number}-{turn}")
        except BaseException as error:  # of a thread: told by whoever judges
            self.failure = error

    def _one_job(self, name: str) -> None:
        status, body = self.insist("POST", "/v1/apply", self._intent(name), f"k-{name}")
        if status != 200:
            self.refused.append(body)
            return
        self.acknowledged[f"nlp/prod/{name}"] = body["results"][0]["decision"]["id"]
        at = f"/v1/projects/nlp/components/prod/{name}"
        if self.chance.random() < 0.15:
            time.sleep(self.chance.random())
            self.insist("POST", f"{at}/actions/cancel", None, f"x-{name}")
        while not self.over.wait(_POLL_S * (0.5 + self.chance.random())):
            status, body = self.insist("GET", at)
            if status == 200 and body["status"]["phase"] in ("Succeeded", "Failed", "Cancelled"):
                return

    def insist(self, method: str, path: str, body: object = None, once: str = "") -> tuple[int, Any]:
        """The same request with the same key to one server after the other, until one answers."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            at, sent = self.chance.choice(self.subject.addresses), _now_ms()
            try:
                status, answer = self.subject.call(method, path, body, at=at, once=once)
            except Away:
                self.records.append(Record(method, path, sent, body=body, key=once, credential="admin"))
                self._wait()
                continue
            self.records.append(Record(method, path, sent, _now_ms(), status, body, answer, once, "admin"))
            if status not in _BUSY:
                return status, answer
            self._wait()
        raise AssertionError(f"nobody answered {method} {path}\n{self.subject.logs()}")

    def _wait(self) -> None:
        """So many, asking all the time, would keep the machine from starting servers."""
        time.sleep(0.05 + self.chance.random() ** 2 * 3)

    def _intent(self, name: str) -> dict[str, object]:
        length_s = f"{self.chance.random() ** 2 * 8:.2f}"
        told = f"echo $WINDLASS_WORKLOAD/$WINDLASS_ATTEMPT/$RANK >> {self.started}; sleep {length_s}"
        return {
            "apiVersion": "windlass.dev/v1",
            "kind": "Component",
            "metadata": {"name": name, "project": "nlp"},
            "spec": {
                "type": "training-job",
                "env": "prod",
                "image": "ghcr.io/acme/sft:v3",
                "gpus": self.chance.choice((1, 1, 2, 4)),
                "command": ["sh", "-c", told],
                "timeLimit": "10m",
                "retries": 20,
            },
        }


@dataclass
class Watcher:
    """Reads every event at one address, and comes back with the last id whenever it is cut off."""

    subject: Installation
    address: str
    over: threading.Event
    ids: list[int] = field(default_factory=list)

    def work(self) -> None:
        while not self.over.is_set():
            try:
                self._read()
            except (OSError, HTTPException):
                time.sleep(0.1)

    def _read(self) -> None:
        connection = HTTPConnection(self.address, timeout=2)
        since = {"last-event-id": str(self.ids[-1] if self.ids else 0)}
        try:
            headers = {"authorization": f"Bearer {self.subject.key}", **since}
            connection.request("GET", "/v1/events?watch=true", headers=headers)
            answer = connection.getresponse()
            while not self.over.is_set() and (line := answer.readline()):
                if line.startswith(b"id:") and line.endswith(b"\n"):
                    self.ids.append(int(line[3:]))
        finally:
            connection.close()

    @property
    def watch(self) -> Watch:
        return Watch(0, tuple(self.ids), live=False)


class Worker(Protocol):
    def work(self) -> None: ...


@contextmanager
def at_work(workers: Sequence[Worker], over: threading.Event) -> Iterator[None]:
    threads = [threading.Thread(target=one.work) for one in workers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(2 * PATIENCE_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
