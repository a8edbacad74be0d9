"""A site's agent over HTTP: it speaks for its own site, with a key that can do nothing else."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from tests.control.documents import intent
from tests.control.worlds import World, make_key, play, url

from windlass.agent import measured_at
from windlass.contracts.agent import Desired, SiteReport
from windlass.core.errors import Invalid
from windlass.site.agent.loop import AgentLoop
from windlass.site.orchestrators.fake import FakeOrchestrator

JOB = "nlp/prod/job"


class GatewayLink:
    """As windlass/agent.py asks, but into this process."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def desired(self, site: str) -> Desired:
        reply = await self._world.call("GET", f"/v1/sites/{site}/desired", by="agent")
        assert reply.status == 200, reply.body
        return msgspec.json.decode(reply.body, type=Desired)

    async def report(self, report: SiteReport) -> None:
        body = msgspec.json.encode(report)
        reply = await self._world.call("POST", f"/v1/sites/{report.site}/reports", body, by="agent")
        assert reply.status == 204, reply.body

    async def changed(self, site: str, generation: int) -> None:
        path = f"/v1/sites/{site}/desired?generation={generation}&wait=20"
        assert (await self._world.call("GET", path, by="agent")).status == 200


async def furnished(world: World) -> None:
    await make_key(world, "agent", "agent", None, site="local")
    orchestrator = FakeOrchestrator(world.site)
    world.agent = AgentLoop("local", orchestrator, GatewayLink(world), jitter=lambda: 0.0)
    world.plane.logs = None


def test_work_runs_and_is_billed_through_an_agent_that_only_speaks_http(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await furnished(world)
        await world.apply(intent(JOB, 4))
        await world.settle()
        assert world.phase(JOB) == "Running"
        world.advance(60)
        world.finish(JOB)
        await world.settle()
        assert world.phase(JOB) == "Succeeded"
        (line,) = (await world.get("/v1/costs?by=component"))["lines"]
        assert line["gpuHours"] == "0.066667"

    play(tmp_path, story)


def test_a_waiting_question_is_answered_when_there_is_something_to_do(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await furnished(world)
        await world.settle()
        known = (await world.agent._link.desired("local")).generation
        waiting = asyncio.create_task(world.agent._link.changed("local", known))
        await asyncio.sleep(0)
        await world.apply(intent(JOB, 4))
        await world.plane.scheduler.turn()
        async with asyncio.timeout(10):
            await waiting

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/sites/elsewhere/desired"),
        ("POST", "/v1/sites/elsewhere/reports"),
        ("GET", "/v1/sites/elsewhere/questions?wait=0"),
        ("POST", "/v1/sites/elsewhere/answers"),
        ("GET", "/v1/components"),
        ("GET", "/v1/nodes"),
        ("GET", "/v1/sites"),
        ("GET", "/v1/events"),
        ("POST", "/v1/keys"),
    ],
)
def test_an_agents_key_opens_its_own_site_and_nothing_else(tmp_path: Path, method: str, path: str) -> None:
    async def story(world: World) -> None:
        await furnished(world)
        before = world.dump()
        assert (await world.call(method, path, {}, by="agent")).status == (
            404 if "elsewhere" in path else 403
        )
        assert world.dump() == before

    play(tmp_path, story)


@pytest.mark.parametrize("by", ["admin", "acme-admin", "acme", "acme-viewer", "auditor"])
def test_nobody_else_speaks_for_a_site(tmp_path: Path, by: str) -> None:
    async def story(world: World) -> None:
        for method, path in (
            ("GET", "desired"),
            ("POST", "reports"),
            ("GET", "questions"),
            ("POST", "answers"),
        ):
            assert (await world.call(method, f"/v1/sites/local/{path}", {}, by=by)).status == 403

    play(tmp_path, story)


def test_a_report_of_another_site_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await furnished(world)
        before = world.dump()
        body = msgspec.json.encode(SiteReport(site="elsewhere", nodes=()))
        reply = await world.call("POST", "/v1/sites/local/reports", body, by="agent")
        assert reply.status == 400 and world.dump() == before
        reply = await world.call("POST", "/v1/sites/local/reports", b'{"site": 7}', by="agent")
        assert reply.status == 400 and world.dump() == before

    play(tmp_path, story)


@pytest.mark.parametrize(
    "asked",
    [
        {"name": "a", "role": "agent"},
        {"name": "a", "role": "agent", "site": "nowhere"},
        {"name": "a", "role": "agent", "site": "local", "tenant": "acme"},
        {"name": "a", "role": "developer", "site": "local", "tenant": "acme"},
    ],
)
def test_an_agents_key_names_one_site_and_only_an_agents_key_does(tmp_path: Path, asked: Any) -> None:
    async def story(world: World) -> None:
        assert (await world.call("POST", "/v1/keys", asked)).status == 400

    play(tmp_path, story)


@asynccontextmanager
async def answering(world: World, lines: list[bytes]) -> AsyncIterator[None]:
    """An agent that has these bytes as the log of everything."""

    async def forever() -> None:
        while True:
            reply = await world.call("GET", "/v1/sites/local/questions?wait=20", by="agent")
            for asked in reply.json["questions"]:
                data = b"".join(lines)[asked["offset"] :][: asked["limit"]]
                told = {"id": asked["id"], "offset": asked["offset"], "data": base64.b64encode(data).decode()}
                await world.call("POST", "/v1/sites/local/answers", told, by="agent")

    task = asyncio.create_task(forever())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_logs_are_read_and_followed_through_the_agent(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await furnished(world)
        await world.apply(intent(JOB, 1))
        await world.settle()
        lines = [b"one\n"]
        async with answering(world, lines):
            whole = await world.call("GET", f"{url(JOB)}/logs")
            assert whole.body == b"one\n"
            async with world.stream(f"{url(JOB)}/logs?follow=true") as stream:
                assert await stream.next() == b"one\n"
                lines.append(b"two\n")
                assert await stream.next() == b"two\n"
                world.finish(JOB)
                await world.settle()
                async with asyncio.timeout(10):
                    await stream.ended.wait()

    play(tmp_path, story)


def test_a_log_nobody_answers_for_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.control.sites.remote_logs._PATIENCE_S", 0.01)

    async def story(world: World) -> None:
        await furnished(world)
        await world.apply(intent(JOB, 1))
        await world.settle()
        reply = await world.call("GET", f"{url(JOB)}/logs")
        assert reply.status == 503 and "does not answer" in reply.json["detail"]

    play(tmp_path, story)


def test_an_agent_elsewhere_is_measured_where_it_is_told_to_listen() -> None:
    address = measured_at(("127.0.0.1", 0))
    with urlopen(address, timeout=10) as answer:  # noqa: S310
        text = answer.read().decode()
    assert 'windlass_agent_reconcile_seconds_count{result="done"}' in text
    taken = int(address.rpartition(":")[2].partition("/")[0])
    with pytest.raises(Invalid, match="cannot listen"):
        measured_at(("127.0.0.1", taken))
