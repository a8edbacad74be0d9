"""The platform may be killed at any instruction: what it acknowledged is there, what ran ran once, and
the books balance."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.control.books import audit_budget_holds, audit_holding, audit_money, holdings
from tests.control.documents import CATALOG, intent
from tests.control.engines import SqliteDatabase
from tests.control.worlds import World, url
from tests.journeys.platforms import _PROGRAM, Away, Platform, eventually, platform

from windlass.core.units import Ms
from windlass.site.orchestrators.fake import FakeSite

KILLS = 12
SEED = 20260302
CATALOG_JSON = list(yaml.safe_load_all(CATALOG))

JOB = """
gpu="$OUT/gpu-$CUDA_VISIBLE_DEVICES"
mkdir "$gpu" 2>/dev/null || echo "$NAME on $CUDA_VISIBLE_DEVICES" >> "$OUT/clashes"
echo ran >> "$OUT/$NAME.runs"
echo "hello from $NAME"
sleep 0.1
rmdir "$gpu"
exit $CODE
"""


def job(name: str, out: Path, code: int) -> dict[str, Any]:
    variables = {"OUT": str(out), "NAME": name, "CODE": str(code)}
    return intent(f"vision/prod/{name}", 1, command=["sh", "-c", JOB], variables=variables, timeLimit="10m")


class Author:
    """Submits jobs one after the other, each under a key of its own, again when no answer came."""

    def __init__(self, subject: Platform, out: Path) -> None:
        self.subject = subject
        self.out = out
        self.codes: dict[str, int] = {}
        self.acknowledged: dict[str, str] = {}
        self.unsure: list[str] = []

    def work_until_away(self) -> None:
        try:
            for name in list(self.unsure):
                self.submit(name)
            while True:
                name = f"job-{len(self.codes):04}"
                self.codes[name] = 7 if len(self.codes) % 5 == 4 else 0
                self.unsure.append(name)
                self.submit(name)
                time.sleep(0.01)  # a person is not a benchmark; the fleet has four GPUs
        except Away:
            return

    def submit(self, name: str) -> None:
        status, answer = self.subject.call(
            "POST", "/v1/apply", job(name, self.out, self.codes[name]), once=name
        )
        assert status == 200, answer
        self.acknowledged[name] = answer["results"][0]["decision"]["id"]
        self.unsure.remove(name)


@pytest.mark.slow
def test_a_platform_killed_again_and_again_keeps_every_promise(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    out = tmp_path / "out"
    out.mkdir()
    with platform(tmp_path) as subject:
        furnish(subject)
        author = Author(subject, out)
        for number in range(KILLS):
            if number:
                subject.start()
            killing = threading.Timer(chance.uniform(0.02, 0.4), subject.kill)
            killing.start()
            author.work_until_away()
            killing.join()
        subject.start()
        for name in list(author.unsure):
            author.submit(name)
        assert len(author.codes) > KILLS, "some work was done between the kills"
        wait_for_the_end(subject, author)
        check_what_is_told(subject, author)
        subject.stop()
    check_what_happened(out, author)
    asyncio.run(check_the_books(tmp_path / "data", author))


def furnish(subject: Platform) -> None:
    root = subject.start()
    status, answer = subject.call("POST", "/v1/apply", CATALOG_JSON, key=root)
    assert status == 200, answer
    asked = {"name": "author", "role": "developer", "tenant": "acme"}
    _, made = subject.call("POST", "/v1/keys", asked, key=root)
    subject.key = made["secret"]


def wait_for_the_end(subject: Platform, author: Author) -> None:
    def over() -> bool:
        queue = subject.get("/v1/queue")
        return (queue["waitingTotal"], queue["runningTotal"]) == (0, 0)

    eventually(over, "the end of every job")
    listed: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        page = subject.get(f"/v1/components?limit=500&cursor={cursor}")
        listed += page["items"]
        cursor = page["cursor"]
    assert sorted(item["metadata"]["name"] for item in listed) == sorted(author.codes)
    for item in listed:
        code = author.codes[item["metadata"]["name"]]
        assert item["status"]["phase"] == ("Failed" if code else "Succeeded"), item
        assert item["status"]["exitCode"] == code and item["status"]["attempt"] == 1, item


def check_what_is_told(subject: Platform, author: Author) -> None:
    """Every acknowledged decision is there, every log is whole, the same request is still answered."""
    for name, decision in author.acknowledged.items():
        assert subject.get(f"/v1/decisions/{decision}")["component"] == f"vision/prod/{name}"
        assert subject.get(f"{url(f'vision/prod/{name}')}/logs") == f"hello from {name}\n"
    first = next(iter(author.acknowledged))
    status, again = subject.call("POST", "/v1/apply", job(first, author.out, author.codes[first]), once=first)
    assert status == 200 and again["results"][0]["decision"]["id"] == author.acknowledged[first]
    assert set(subject.get("/v1/costs")["ledgerSum"].values()) == {"0.00"}


def check_what_happened(out: Path, author: Author) -> None:
    assert not (out / "clashes").exists(), (out / "clashes").read_text()
    runs = {path.stem: path.read_text() for path in out.glob("*.runs")}
    assert runs == dict.fromkeys(author.codes, "ran\n"), "each ran, and ran once"


async def check_the_books(data: Path, author: Author) -> None:
    world = World(SqliteDatabase(data), site=FakeSite())
    world.clock.now = Ms(time.time_ns() // 1_000_000)
    await world.open()
    try:
        audit_money(world)
        audit_holding(world)
        audit_budget_holds(world)
        held = holdings(world)
        assert all(holding.until is not None for holding in held)
        assert sorted(holding.component for holding in held) == sorted(author.codes)
    finally:
        await world.close()


@pytest.mark.slow
def test_work_that_waited_is_not_placed_on_nodes_that_are_gone_after_a_restart(tmp_path: Path) -> None:
    """The store still has the fleet of before; nothing may be placed until the site has said its own."""
    with platform(tmp_path) as subject:
        furnish(subject)
        gang = intent("vision/prod/gang", 4, workers=2, command=["true"])
        assert subject.call("POST", "/v1/apply", gang)[0] == 200
        eventually(lambda: cause(subject) == "capacity", "the gang waits for a second node")
        subject.stop()
        with closing(sqlite3.connect(tmp_path / "data" / "windlass.db")) as store, store:
            (body,) = store.execute("SELECT body FROM nodes").fetchone()
            name = json.loads(body)["name"]
            ghost = ("local", "ghost", body.replace(name, "ghost"))
            store.execute("INSERT INTO nodes (site, name, body) VALUES (?, ?, ?)", ghost)
        subject.start()
        eventually(lambda: subject.get("/v1/queue")["waitingTotal"] + over(subject), "a look at the gang")
        assert cause(subject) == "capacity"
        subject.stop()


def cause(subject: Platform) -> Any:
    return subject.get(f"{url('vision/prod/gang')}/explanation")["cause"]


def over(subject: Platform) -> int:
    return int(subject.get(url("vision/prod/gang"))["status"]["phase"] == "Failed")


@pytest.mark.slow
def test_a_second_platform_on_the_same_folder_gives_up_and_says_why(tmp_path: Path) -> None:
    with platform(tmp_path) as subject:
        subject.start()
        assert subject.process is not None
        command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "data"), "", "{}"]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode != 0 and second.stdout == ""
        assert f"another platform uses the data folder {tmp_path / 'data'}" in second.stderr
        assert f"process {subject.process.pid}" in second.stderr
        assert subject.call("GET", "/healthz")[0] == 200, "the first one did not mind"
        assert subject.stop() == 0
