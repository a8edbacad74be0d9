"""A plan says what would happen, and nothing happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.control.documents import envelope, intent, project, quota
from tests.control.worlds import Reply, World, play

JOB = "nlp/prod/job"


async def plan(world: World, *documents: object, by: str = "acme-admin") -> Reply:
    before = world.dump()
    body = documents[0] if len(documents) == 1 else list(documents)
    reply = await world.call("POST", "/v1/apply?dryRun=true", body, by=by)
    assert world.dump() == before, "a plan commits nothing"
    return reply


async def planned(world: World, document: object) -> Any:
    reply = await plan(world, document)
    assert reply.status == 200 and reply.json["dryRun"], reply.body
    return reply.json["results"][0]


def test_a_plan_tells_the_decision_the_place_and_the_price(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        told = await planned(world, intent(JOB, 4, workers=2))
        assert told["outcome"] == "created" and told["decision"]["verdict"] == "admitted"
        assert told["decision"]["estimate"]["perHour"] == "19.92"
        assert told["decision"]["estimate"]["startsAt"] == "2026-03-02T09:00:00.000Z"
        assert [worker["gpus"] for worker in told["plan"]["placement"]] == [[0, 1, 2, 3], [4, 5, 6, 7]]

    play(tmp_path, story)


def test_a_plan_tells_why_it_would_wait_or_be_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/prod/full", 8))
        await world.settle()
        told = await planned(world, intent(JOB, 1))
        assert (told["plan"]["cause"], told["plan"]["placement"]) == ("quota", [])
        refused = await plan(world, intent(JOB, 99))
        assert refused.status == 422 and refused.codes == ["entitlement.max", "gang.impossible"]

    play(tmp_path, story)


def test_a_plan_tells_what_would_become_of_what_is_there(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent(JOB))
        await world.settle()
        same = await planned(world, intent(JOB))
        assert (same["outcome"], same["message"]) == ("unchanged", "nothing would change; it is running")
        busy = await plan(world, intent(JOB, 2))
        assert busy.status == 409 and busy.json["results"][0]["outcome"] == "conflict"
        world.finish(JOB)
        await world.settle()
        assert (await planned(world, intent(JOB, 2)))["outcome"] == "changed"

    play(tmp_path, story)


def test_components_are_planned_under_the_catalog_their_own_request_would_make(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        both = (project("new"), intent("new/prod/job", 4))
        told = await plan(world, *both)
        assert [result["outcome"] for result in told.json["results"]] == ["created", "created"]
        narrow = envelope("share", {"tenant": "acme", "project": "new"}, gpus=quota(0, 2))
        assert (await plan(world, *both, narrow)).codes == ["entitlement.max"]
        assert (await world.apply(*both, narrow, by="acme-admin")).codes == ["entitlement.max"]
        broken = await plan(world, project("new2", defaultProfile="none"), intent("new2/prod/job"))
        assert broken.status == 400

    play(tmp_path, story)
