"""A site that is given up: its work ends once and is billed up to the last word of the site; an agent that
comes back after all stops what it still runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.control.books import audit, holdings
from tests.control.documents import intent
from tests.control.test_sites import HERE, elsewhere, go_silent, why
from tests.control.worlds import Reply, World, play, url

from windlass.control.billing.hourly import post_running
from windlass.control.components.steps import apply_steps
from windlass.control.identity.scopes import Scope
from windlass.control.sites import loss
from windlass.control.sites.presence import LENGTH
from windlass.core.units import Ms, format_timestamp
from windlass.site.agent.loop import AgentLoop

JOB = "nlp/dev/job"
AGAIN = "nlp/dev/again"
GONE = "nlp/dev/gone"


async def lose(world: World, site: str = "fra1", *, by: str = "admin", **headers: str) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await world.call("POST", f"/v1/sites/{site}/lost", {"reason": "a fire"}, by=by, headers=sent)


async def running(world: World, *intents: dict[str, Any]) -> AgentLoop:
    """These, at a site whose agent then falls silent after ten minutes; five hours ago."""
    agent = await elsewhere(world)
    for one in intents:
        assert (await world.apply(one)).status == 200
    await world.plane.scheduler.turn()
    await agent.converge()
    world.advance(600)
    await go_silent(world, heard=world.clock())
    world.advance(5 * 3600)
    return agent


def told(world: World) -> list[tuple[str, str, Any]]:
    found = world.rows("SELECT type, actor, data FROM events WHERE type = 'site.lost' ORDER BY id")
    return [(row["type"], row["actor"], json.loads(row["data"])) for row in found]


def test_what_may_start_again_waits_again_and_the_rest_fails_with_a_remedy(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(
            world, intent(JOB, 1, **HERE), intent(AGAIN, 1, retries=1, **HERE), intent(GONE, 1, **HERE)
        )
        await world.act(GONE, "cancel")
        heard = format_timestamp(Ms(world.clock() - 5 * 3_600_000))
        found = await lose(world)
        assert found.status == 200, found.body
        assert found.json == {
            "site": "fra1", "lastHeard": heard, "waiting": 1, "failed": 1, "cancelled": 1,
        }  # fmt: skip
        await world.settle()
        assert (world.phase(JOB), world.phase(GONE)) == ("Failed", "Cancelled")
        assert (await why(world, AGAIN)) == ("Pending", "site")
        assert world.workload(AGAIN)["failures"] == 0, "the platform's loss"
        explained = await world.get(f"{url(JOB)}/explanation")
        assert "its site fra1 was lost" in explained["message"] and "windlass rerun" in explained["remedy"]
        shown = await world.get(url(JOB))
        assert [one["state"] for one in shown["status"]["placement"]] == ["lost"]
        await audit(world)

    play(tmp_path, story)


def test_nobody_pays_for_time_in_which_nothing_was_heard_of_the_site(tmp_path: Path) -> None:
    """What was posted by the hour is given back; what was never seen to run costs nothing."""

    async def story(world: World) -> None:
        await running(world, intent(JOB, 1, **HERE), intent(AGAIN, 1, retries=1, **HERE))
        await world.apply(intent(GONE, 1, timeLimit="1h", **HERE))
        await world.plane.scheduler.turn()
        assert world.phase(GONE) == "Pending", "nothing new is placed there"
        await post_running(world.plane)
        before = (await world.get("/v1/costs?by=component"))["lines"]
        assert {line["gpuHours"] for line in before} == {"5.166667"}
        assert (await lose(world)).status == 200
        after = (await world.get("/v1/costs?by=component"))["lines"]
        assert [(line["gpuHours"], line["cost"]) for line in after] == [("0.166667", "0.415")] * 2
        assert len(world.rows("SELECT id FROM transfers WHERE micros < 0")) == 2, "two were charged before"
        await audit(world)

    play(tmp_path, story)


def test_work_that_the_site_never_said_it_runs_costs_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await elsewhere(world)
        await world.apply(intent(JOB, 1, **HERE))
        await world.plane.scheduler.turn()
        assert world.phase(JOB) == "Admitted"
        world.advance(60)
        await go_silent(world, heard=world.clock())
        assert (await lose(world)).status == 200
        (held,) = holdings(world)
        assert held.until == held.since
        await audit(world)

    play(tmp_path, story)


def test_a_site_is_given_up_by_a_person_with_a_reason_and_that_is_written_down(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world, intent(JOB, 1, **HERE))
        for by in ("acme-admin", "acme", "auditor", "agent"):
            assert (await lose(world, by=by)).status == 403
        for body in (
            {},
            {"reason": ""},
            {"reason": " \n"},
            {"reason": "x" * 501},
            {"reason": "x", "force": 1},
        ):
            assert (await world.call("POST", "/v1/sites/fra1/lost", body)).status == 400
        assert world.phase(JOB) == "Running" and told(world) == []
        assert (await lose(world)).status == 200
        ((_, actor, data),) = told(world)
        assert actor == "root" and (data["reason"], data["failed"]) == ("a fire", 1)
        (entry,) = [one for one in (await world.get("/v1/audit"))["items"] if one["action"] == "site.lose"]
        assert (entry["actor"], entry["subject"], entry["detail"]["reason"]) == ("root", "fra1", "a fire")

    play(tmp_path, story)


@pytest.mark.parametrize(("site", "status"), [("local", 409), ("fra1", 409), ("nowhere", 404)])
def test_a_site_that_is_not_away_is_not_given_up(tmp_path: Path, site: str, status: int) -> None:
    async def story(world: World) -> None:
        agent = await elsewhere(world)
        await world.apply(intent(JOB, 1, **HERE))
        await world.plane.scheduler.turn()
        await agent.converge()
        before = world.dump()
        refused = await lose(world, site)
        assert refused.status == status and refused.json["remedy"], refused.body
        assert world.dump() == before

    play(tmp_path, story)


def test_an_agent_that_comes_back_stops_what_it_runs_and_nothing_is_billed_or_started_twice(
    tmp_path: Path,
) -> None:
    async def story(world: World) -> None:
        agent = await running(world, intent(JOB, 8, **HERE), intent(AGAIN, 8, retries=1, **HERE))
        fleet = agent._orchestrator.site  # type: ignore[attr-defined]
        first = world.workload(JOB) if world.phase(JOB) == "Running" else world.workload(AGAIN)
        assert (await lose(world)).status == 200
        bills = holdings(world)
        fleet.now_ms = world.clock()
        fleet.slow = True  # it takes its time to stop
        await agent.converge()
        assert fleet.attempts[first["id"], 1].stopping, "told to go at once"
        fleet.settle()
        fleet.slow = False
        for _ in range(4):
            await agent.converge()
            await world.settle()
        assert [one for one in holdings(world) if one.id in {bill.id for bill in bills}] == bills
        assert world.workload(AGAIN)["attempt"] == 2 - (first["path"] != AGAIN)
        assert world.phase(AGAIN) == "Running"
        assert len(fleet.starts) == len(set(fleet.starts)), "no worker of an attempt started twice"
        assert world.phase(JOB) == ("Failed" if first["path"] == JOB else "Pending")
        await audit(world)

    play(tmp_path, story)


def test_a_large_site_is_given_up_in_steps_and_one_that_was_cut_off_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "AT_ONCE", 2)

    async def story(world: World) -> None:
        await running(world, *(intent(f"nlp/dev/j{n}", 1, **HERE) for n in range(5)))
        calls = 0

        async def cut_off(*args: Any) -> bool:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise RuntimeError("the process dies here")
            return await apply_steps(*args)

        monkeypatch.setattr(loss, "apply_steps", cut_off)
        assert (await lose(world, idempotency_key="one")).status == 500
        assert sorted(world.phase(f"nlp/dev/j{n}") for n in range(5)) == ["Failed"] * 2 + ["Running"] * 3
        await world.restart()
        first = await lose(world, idempotency_key="one")
        assert (first.status, first.json["failed"]) == (200, 3)
        again = await lose(world, idempotency_key="one")
        assert again.body == first.body
        assert [data["failed"] for _, _, data in told(world)] == [2, 2, 1]
        await audit(world)

    play(tmp_path, story)


def test_an_agent_that_returns_in_between_keeps_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "AT_ONCE", 1)

    async def story(world: World) -> None:
        agent = await running(world, intent(JOB, 1, **HERE), intent(GONE, 1, **HERE))
        unit, returned = world.plane.store.unit, False

        async def then_back(scope: Scope, work: Any) -> Any:
            nonlocal returned
            done = await unit(scope, work)
            if not returned:
                returned = True
                await world.plane.presence.heard("fra1")
            return done

        monkeypatch.setattr(world.plane.store, "unit", then_back)
        refused = await lose(world)
        assert refused.status == 409 and "not away" in refused.json["detail"]
        await agent.converge()
        await world.settle()
        assert sorted((world.phase(JOB), world.phase(GONE))) == ["Failed", "Running"]
        await audit(world)

    play(tmp_path, story)


def test_a_site_that_was_given_up_can_be_deleted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world, intent(JOB, 1, **HERE))
        refused = await world.call("DELETE", "/v1/sites/fra1")
        assert refused.status == 409 and "windlass site lost fra1" in refused.json["remedy"]
        assert (await lose(world)).status == 200
        assert (await world.call("DELETE", "/v1/sites/fra1")).status == 204

    play(tmp_path, story)


def test_why_tells_that_nothing_is_heard_of_the_site(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        agent = await running(world, intent(JOB, 1, **HERE))
        await world.act(JOB, "cancel", by="acme")
        told = await world.get(f"{url(JOB)}/explanation", by="acme")
        assert "being stopped" in told["message"] and "heard of its site fra1" in told["message"]
        assert "platform-admin" in told["remedy"]
        await agent.converge()
        assert "heard of" not in (await world.get(f"{url(JOB)}/explanation", by="acme"))["message"]

    play(tmp_path, story)


def test_what_is_taken_for_the_last_word_is_never_later_than_it_was(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await elsewhere(world)
        (lease,) = world.rows("SELECT expires_ms FROM leases WHERE name = ?", "site/fra1")
        await go_silent(world, heard=Ms(lease["expires_ms"] - LENGTH))
        world.clock.now = Ms(max(world.clock(), lease["expires_ms"]))
        assert (await lose(world)).json["lastHeard"] == format_timestamp(Ms(lease["expires_ms"] - LENGTH))

    play(tmp_path, story)
