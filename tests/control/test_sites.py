"""Sites elsewhere: nothing new goes where nobody would start it; one that is deleted leaves nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.control.documents import intent, site
from tests.control.test_agents import GatewayLink
from tests.control.worlds import World, make_key, play, url

from windlass.contracts.agent import NodeReport, SiteReport
from windlass.control.db import leases
from windlass.control.db.port import Tx
from windlass.control.identity.scopes import system_scope
from windlass.control.sites.presence import LENGTH
from windlass.core.units import Ms
from windlass.site.agent.loop import AgentLoop
from windlass.site.orchestrators.fake import FakeOrchestrator, FakeSite

JOB = "nlp/dev/job"
HERE = {"placement": {"sites": ["fra1"]}}


async def elsewhere(world: World) -> AgentLoop:
    """A second site with one node, whose agent speaks over HTTP."""
    await world.apply(site("fra1"))
    await make_key(world, "agent", "agent", None, site="fra1")
    fleet = FakeSite((NodeReport(name="f1", gpu_class="h100-80g", gpus=8),))
    fleet.now_ms = world.clock.now
    agent = AgentLoop("fra1", FakeOrchestrator(fleet), GatewayLink(world), jitter=lambda: 0.0)
    await agent.converge()
    await world.settle()
    return agent


async def go_silent(world: World, heard: Ms | None = None) -> None:
    """The agent has not asked for longer than its lease; at `heard` it did for the last time."""

    async def unit(tx: Tx) -> None:
        await leases.release(tx, "site/fra1", "fra1")

    await world.plane.store.unit(system_scope("test"), unit)
    await world.plane.presence.look()
    if heard is not None:
        world.rows("UPDATE leases SET expires_ms = ? WHERE name = 'site/fra1' RETURNING name", heard + LENGTH)
    await world.plane.scheduler.turn()


async def states(world: World) -> dict[str, str]:
    return {one["name"]: one["state"] for one in (await world.get("/v1/nodes"))["items"]}


async def why(world: World, path: str) -> tuple[str, str | None]:
    project, env, name = path.split("/")
    found = await world.get(f"/v1/projects/{project}/components/{env}/{name}/explanation")
    return found["phase"], found["cause"]


def events(world: World) -> list[str]:
    found = world.rows("SELECT type FROM events WHERE subject = ? ORDER BY id", "fra1")
    return [row["type"] for row in found if row["type"] != "site.nodes"]


def test_new_work_waits_for_a_site_whose_agent_is_away_and_starts_when_it_is_back(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        agent = await elsewhere(world)
        await go_silent(world)
        assert (await states(world))["f1"] == "down" and (await states(world))["h1"] == "ready"
        await world.apply(intent(JOB, 4, **HERE))
        await world.settle()
        assert await why(world, JOB) == ("Pending", "site")
        await world.plane.presence.look()
        assert events(world) == ["site.away"], "told once"

        world.advance(60)
        await agent.converge()
        await world.plane.scheduler.turn()
        await agent.converge()
        assert events(world) == ["site.away", "site.back"]
        assert await why(world, JOB) == ("Running", None)

    play(tmp_path, story)


def test_work_of_a_site_that_is_away_runs_on_and_ends_as_its_agent_saw_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        agent = await elsewhere(world)
        await world.apply(intent(JOB, 4, **HERE))
        await world.plane.scheduler.turn()
        await agent.converge()
        await go_silent(world)
        assert await why(world, JOB) == ("Running", None)
        assert (await world.get("/v1/quota?tenant=acme"))["quotas"][0]["used"] == "4"
        found = world.workload(JOB)
        agent._orchestrator.site.finish(found["id"], found["attempt"], 0, 0)  # type: ignore[attr-defined]
        world.advance(60)
        await agent.converge()
        await world.plane.scheduler.turn()
        assert world.phase(JOB) == "Succeeded"

    play(tmp_path, story)


def test_a_log_is_read_where_its_work_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside an embedded site, which has never heard of it."""
    monkeypatch.setattr("windlass.control.sites.remote_logs._PATIENCE_S", 0.01)

    async def story(world: World) -> None:
        agent = await elsewhere(world)
        await world.apply(intent(JOB, 4, **HERE))
        await world.apply(intent("nlp/dev/near", 1, placement={"sites": ["local"]}))
        await world.settle()
        await agent.converge()
        reply = await world.call("GET", f"{url(JOB)}/logs")
        assert reply.status == 503 and "does not answer" in reply.json["detail"], "the agent was asked"
        assert (await world.call("GET", f"{url('nlp/dev/near')}/logs")).status == 200

    play(tmp_path, story)


def test_an_agent_that_asks_again_and_again_is_written_down_now_and_then(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        agent = await elsewhere(world)
        before = world.rows("SELECT expires_ms FROM leases WHERE name = ?", "site/fra1")
        for _ in range(3):
            await agent.converge()
        assert world.rows("SELECT expires_ms FROM leases WHERE name = ?", "site/fra1") == before
        await world.plane.presence.look()
        assert events(world) == []

    play(tmp_path, story)


def test_an_agent_does_not_run_the_work_of_a_cluster_on_its_own_machine(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(site("fra1", orchestrator="kubernetes"))
        await make_key(world, "agent", "agent", None, site="fra1")
        assert (await world.call("GET", "/v1/sites/fra1/desired", by="agent")).status == 409
        report = msgspec.json.encode(
            SiteReport(site="fra1", nodes=(NodeReport(name="f1", gpu_class="h100-80g", gpus=8),))
        )
        reply = await world.call("POST", "/v1/sites/fra1/reports", report, by="agent")
        assert reply.status == 409 and "kubernetes" in reply.json["detail"]
        await world.plane.scheduler.turn()
        assert "f1" not in await states(world)

    play(tmp_path, story)


def test_the_embedded_site_is_never_away(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.settle()
        world.advance(86_400)
        await world.plane.presence.look()
        await world.plane.scheduler.turn()
        assert set((await states(world)).values()) == {"ready"}

    play(tmp_path, story)


def test_a_site_is_not_deleted_under_its_work(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        agent = await elsewhere(world)
        await world.apply(intent(JOB, 4, **HERE))
        await world.plane.scheduler.turn()
        await agent.converge()
        reply = await world.call("DELETE", "/v1/sites/fra1")
        assert reply.status == 409 and JOB in reply.json["detail"]
        await agent.converge()  # its key is still good

    play(tmp_path, story)


def test_a_site_that_is_deleted_leaves_no_node_and_no_key(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await elsewhere(world)
        assert b'timestamp_seconds{site="fra1"}' in (await world.call("GET", "/metrics")).body
        assert (await world.call("DELETE", "/v1/sites/fra1")).status == 204
        await world.plane.scheduler.turn()
        assert "f1" not in await states(world)
        assert (await world.call("GET", "/v1/sites/fra1/desired", by="agent")).status == 401
        assert world.rows("SELECT name FROM leases WHERE name = ?", "site/fra1") == []
        assert b'timestamp_seconds{site="fra1"}' not in (await world.call("GET", "/metrics")).body, (
            "no alert tells of it"
        )
        report = msgspec.json.encode(SiteReport(site="fra1", nodes=()))
        assert (await world.call("POST", "/v1/sites/fra1/reports", report, by="agent")).status == 401

    play(tmp_path, story)


def test_the_embedded_site_keeps_its_machines_when_its_document_is_deleted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.settle()
        await world.apply(site("local", region="here"))
        assert (await world.call("DELETE", "/v1/sites/local")).status == 204
        await world.settle()
        assert {"h1", "h2", "l1"} <= set(await states(world))

    play(tmp_path, story)
