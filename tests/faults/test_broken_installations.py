"""Clients against one envelope, and somebody who breaks things: servers, agents and supervisors killed and
frozen, clocks stepped, the disk full, the database gone and back, or failed over to its standby. Nothing
acknowledged is lost, nothing happens twice, the books are right.

The seed is printed; WINDLASS_FAULTS_SEED repeats what was chosen (not when the machine did what),
WINDLASS_FAULTS_KILLS says how often to kill, WINDLASS_FAULTS_CLIENTS how many submit.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.control.documents import CATALOG
from tests.faults.breaking import Breaker
from tests.faults.clients import Client, Watcher, at_work
from tests.faults.installation import Installation, alone, replicas
from tests.faults.judging import Inspector, judge, summary

KILLS = int(os.environ.get("WINDLASS_FAULTS_KILLS", "500"))
CLIENTS = int(os.environ.get("WINDLASS_FAULTS_CLIENTS", "64"))
DATABASES: dict[str, Callable[[Path], AbstractContextManager[Installation]]] = {
    "sqlite": alone,
    "postgresql": replicas,
}


@pytest.mark.parametrize("database", DATABASES)
def test_whatever_is_broken_nothing_acknowledged_is_lost_and_nothing_happens_twice(
    database: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("WINDLASS_FAULTS_SEED") or random.SystemRandom().randrange(10**6))
    say(capsys, f"\n{database}: WINDLASS_FAULTS_SEED={seed}, {KILLS} kills, {CLIENTS} clients")
    started = place / "started"
    started.touch()
    with DATABASES[database](place) as subject:
        furnish(subject)
        over, rested = threading.Event(), threading.Event()
        clients = [Client(n, subject, started, random.Random(seed * 1000 + n), over) for n in range(CLIENTS)]
        watchers = [Watcher(subject, address, rested) for address in subject.addresses]
        inspector, breaker = Inspector(subject, rested), Breaker(subject, seed)
        with at_work([*watchers, inspector], rested):
            with at_work(clients, over):
                breaker.work(KILLS)
            subject.until_ready()
            subject.eventually(lambda: is_idle(subject), "everything is at rest")
        say(capsys, summary(clients, inspector, started, breaker.done))
        judge(subject, clients, watchers, inspector, started)


def furnish(subject: Installation) -> None:
    documents: list[dict[str, Any]] = [one for one in yaml.safe_load_all(CATALOG) if one]
    status, answer = subject.call("POST", "/v1/apply", documents)
    assert status == 200, answer


def is_idle(subject: Installation) -> bool:
    status, queue = subject.call("GET", "/v1/queue")
    return status == 200 and (queue["waitingTotal"], queue["runningTotal"]) == (0, 0)


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Also when all is well: what a run of minutes did is worth a line."""
    with capsys.disabled():
        print(text, flush=True)  # noqa: T201 (a line of the report)
