"""A real platform is put back to an earlier day while its jobs run on: what the restored database knows is
found again, what it does not know ends, a number given twice is two attempts, and each pays for itself."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.control.books import audit_holding, audit_money, holdings
from tests.control.documents import intent
from tests.control.engines import SqliteDatabase
from tests.control.worlds import World, url
from tests.journeys.platforms import Platform, eventually, platform
from tests.journeys.test_killed_platform import furnish

from windlass.platform import back_up, restore
from windlass.runtime.clock import system_clock
from windlass.site.orchestrators.fake import FakeSite

WAITS = 'echo ran >> "$OUT/$NAME.runs"; trap "exit 0" TERM; while :; do sleep 0.05; done'


def job(name: str, out: Path, gpus: int) -> dict[str, Any]:
    variables = {"OUT": str(out), "NAME": name}
    return intent(f"vision/prod/{name}", gpus, command=["sh", "-c", WAITS], variables=variables)


def submit(subject: Platform, *documents: object) -> None:
    status, answer = subject.call("POST", "/v1/apply", list(documents))
    assert status == 200, answer


def phase(subject: Platform, name: str) -> str:
    status, answer = subject.call("GET", url(f"vision/prod/{name}"))
    return str(answer["status"]["phase"]) if status == 200 else str(status)


def is_over(subject: Platform, name: str) -> bool:
    return phase(subject, name) in ("Cancelled", "Succeeded")


def runs(out: Path, name: str) -> int:
    file = out / f"{name}.runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.slow
def test_a_platform_put_back_to_an_earlier_day_starts_no_attempt_twice(tmp_path: Path) -> None:
    out, data = tmp_path / "out", tmp_path / "data"
    out.mkdir()
    with platform(tmp_path) as subject:
        furnish(subject)
        submit(subject, job("stays", out, 2))
        eventually(lambda: phase(subject, "stays") == "Running", "the first job")
        submit(subject, job("blocker", out, 2))
        eventually(lambda: phase(subject, "blocker") == "Running", "the second job")
        submit(subject, job("waits", out, 2))
        eventually(lambda: phase(subject, "waits") == "Pending", "the third job")
        back_up(data, tmp_path / "monday.db", force=False)

        subject.call("POST", f"{url('vision/prod/blocker')}/actions/cancel")
        eventually(lambda: phase(subject, "waits") == "Running", "the third job, after the backup")
        submit(subject, job("unknown", out, 1))
        assert subject.stop() == 0
        restore(data, tmp_path / "monday.db", force=True)
        subject.start()

        assert phase(subject, "unknown") == "404"
        eventually(lambda: phase(subject, "blocker") == "Failed", "what was told to end since has its end")
        eventually(lambda: runs(out, "waits") == 2, "attempt 1 of Tuesday ended; attempt 1 of now began")
        eventually(lambda: phase(subject, "waits") == "Running", "the third job, anew")
        assert phase(subject, "stays") == "Running" and runs(out, "stays") == 1
        assert runs(out, "blocker") == 1
        for name in ("stays", "waits"):
            subject.call("POST", f"{url(f'vision/prod/{name}')}/actions/cancel")
            eventually(partial(is_over, subject, name), f"the end of {name}")
        subject.stop()
        asyncio.run(books(data))


async def books(data: Path) -> None:
    world = World(SqliteDatabase(data), site=FakeSite())
    world.clock.now = system_clock()
    await world.open()
    try:
        audit_money(world)
        audit_holding(world)
        assert all(holding.until is not None for holding in holdings(world))
    finally:
        await world.close()
