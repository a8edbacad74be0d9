"""A real site's agent is killed and the site given up while its jobs run on: they end at the centre. When the
agent comes back they end at the site too, and what may start again has started once more and no oftener."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent, site
from tests.control.worlds import url
from tests.journeys.platforms import PATIENCE_S, Platform, eventually, platform
from tests.journeys.test_killed_platform import CATALOG_JSON
from tests.journeys.test_restored_platform import WAITS, books, phase, runs, submit
from tests.site.worlds import LocalWorld

SOON = """
from windlass.control.sites import presence
presence.LENGTH, presence.LENGTHEN, presence.PERIOD_S = 8_000, 500, 0.5
"""
"""A site is away after eight seconds instead of ninety; its agent asks every five."""


def job(name: str, out: Path, **spec: Any) -> dict[str, Any]:
    variables = {"OUT": str(out), "NAME": name}
    there = {"placement": {"sites": ["fra1"]}, "command": ["sh", "-c", WAITS], "variables": variables}
    return intent(f"vision/prod/{name}", 2, **there, **spec)


@contextmanager
def agent_of(subject: Platform, folder: Path, key: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Killed at the end, as by a power cut; its jobs are not."""
    command = [sys.executable, "-m", "windlass.experience.cli", "agent", "--site", "fra1"]
    command += ["--server", f"http://{subject.address}", "--key-file", str(key)]
    command += ["--data", str(folder / "fra1"), "--gpus", "h100-80gx4", "--nodes", "1"]
    with (folder / "agent.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)


def lose(subject: Platform) -> int:
    return subject.call("POST", "/v1/sites/fra1/lost", {"reason": "a power cut"})[0]


@pytest.mark.slow
def test_work_of_a_site_that_was_given_up_ends_once_and_an_agent_that_returns_lets_go_of_it(
    tmp_path: Path,
) -> None:
    out, key = tmp_path / "out", tmp_path / "agent.key"
    out.mkdir()
    there = LocalWorld(tmp_path / "fra1")
    with platform(tmp_path) as subject:
        subject.preface = SOON
        subject.key = subject.start()
        submit(subject, *CATALOG_JSON)
        submit(subject, site("fra1"))
        _, made = subject.call("POST", "/v1/keys", {"name": "fra1", "role": "agent", "site": "fra1"})
        key.write_text(made["secret"])
        try:
            with agent_of(subject, tmp_path, key):
                submit(subject, job("plain", out), job("again", out, retries=1))
                eventually(lambda: phase(subject, "plain") == "Running", "the first job")
                eventually(lambda: phase(subject, "again") == "Running", "the second job")
                assert lose(subject) == 409, "its agent is there"
            eventually(lambda: lose(subject) == 200, "a site that is away, and given up")
            assert (phase(subject, "plain"), phase(subject, "again")) == ("Failed", "Pending")
            assert [seen.gone for seen in there.observe()] == [False, False], "they run on, unheard"
            cost = subject.get("/v1/costs?by=component")

            with agent_of(subject, tmp_path, key):
                eventually(lambda: runs(out, "again") == 2, "a second attempt of what may start again")
                eventually(lambda: phase(subject, "again") == "Running", "the second attempt")
                eventually(lambda: len([one for one in there.observe() if not one.gone]) == 1, "the end")
                assert phase(subject, "plain") == "Failed" and runs(out, "plain") == 1
                (before,) = [one for one in cost["lines"] if one["component"].endswith("plain")]
                (after,) = [
                    one
                    for one in subject.get("/v1/costs?by=component")["lines"]
                    if one["component"].endswith("plain")
                ]
                assert after == before, "the agent's return bills nothing"
                subject.call("POST", f"{url('vision/prod/again')}/actions/cancel")
                eventually(lambda: phase(subject, "again") in ("Cancelled", "Succeeded"), "its end")
            assert runs(out, "again") == 2
            subject.stop()
            asyncio.run(books(tmp_path / "data"))
        finally:
            there.end_everything()
