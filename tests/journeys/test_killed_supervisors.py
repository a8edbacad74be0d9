"""Server and supervisors killed together, again and again: every attempt ran at most once and was paid
for once, and work with retries gets to its end."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.control.books import audit_budget_holds, audit_holding, audit_money, holdings
from tests.control.documents import intent
from tests.control.engines import SqliteDatabase
from tests.control.worlds import World
from tests.journeys.platforms import Platform, eventually, platform
from tests.journeys.test_killed_platform import furnish

from windlass.core.units import Ms
from windlass.site.orchestrators.fake import FakeSite
from windlass.site.orchestrators.local.folders import worker_file
from windlass.site.orchestrators.local.processes import send_signal

SEED = 7
JOBS = 8
ROUNDS = 3
SCRIPT = 'echo "$NAME $WINDLASS_ATTEMPT $RANK" >> "$OUT"; (sleep 0.2; :) & sleep 0.3; wait'


@pytest.mark.slow
def test_server_and_supervisors_killed_together_lose_and_repeat_nothing(tmp_path: Path) -> None:
    chance, out = random.Random(SEED), tmp_path / "runs"
    with platform(tmp_path) as subject:
        furnish(subject)
        for number in range(JOBS):
            name = f"job-{number}"
            wishes = {"workers": 1 + number % 2, "retries": 20, "timeLimit": "10m"}
            variables = {"OUT": str(out), "NAME": name}
            document = intent(
                f"vision/prod/{name}", 1, command=["sh", "-c", SCRIPT], variables=variables, **wishes
            )
            assert subject.call("POST", "/v1/apply", document)[0] == 200
        for _ in range(ROUNDS):
            time.sleep(chance.uniform(0.1, 0.6))  # an instant nobody chose
            subject.kill()
            kill_some_supervisors(tmp_path / "data", chance)
            subject.start()
        eventually(lambda: is_idle(subject), "the end of every job")
        listed = subject.get("/v1/components?limit=500")["items"]
        assert Counter(item["status"]["phase"] for item in listed) == {"Succeeded": JOBS}
        subject.stop()
    lines = out.read_text().splitlines()
    assert len(lines) == len(set(lines)), "no worker of an attempt ran twice"
    asyncio.run(check_the_books(tmp_path / "data"))


def kill_some_supervisors(data: Path, chance: random.Random) -> None:
    for path in sorted(data.glob("site/jobs/*/*/*/state.json")):
        state = worker_file(path.parent)
        if state is not None and state.ended_ms is None and chance.random() < 0.5:
            send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGKILL)


def is_idle(subject: Platform) -> bool:
    queue = subject.get("/v1/queue")
    return (queue["waitingTotal"], queue["runningTotal"]) == (0, 0)


async def check_the_books(data: Path) -> None:
    world = World(SqliteDatabase(data), site=FakeSite())
    world.clock.now = Ms(time.time_ns() // 1_000_000)
    await world.open()
    try:
        audit_money(world)
        audit_holding(world)
        audit_budget_holds(world)
        held = holdings(world)
        assert all(holding.until is not None for holding in held)
        assert len({holding.id for holding in held}) == len(held) >= JOBS
    finally:
        await world.close()
