"""A write happens at most once per Idempotency-Key: the same request again gets the same answer, another
request under the same key is a conflict that changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import envelope, intent, project, quota
from tests.control.worlds import Reply, World, play, url

Write = Callable[[World, str], Awaitable[Reply]]
JOB = "nlp/prod/job"
BY = "acme-admin"


def applying(*documents: object) -> Write:
    return lambda world, key: world.apply(*documents, by=BY, idempotency_key=key)


def acting(action: str) -> Write:
    return lambda world, key: world.act(JOB, action, by=BY, idempotency_key=key)


def deleting(path: str) -> Write:
    return lambda world, key: world.call("DELETE", path, by=BY, headers={"idempotency-key": key})


async def nothing(world: World) -> None: ...


async def a_running_job(world: World) -> None:
    assert (await world.apply(intent(JOB), by="acme")).status == 200
    await world.settle()


async def a_finished_job(world: World) -> None:
    await a_running_job(world)
    world.finish(JOB)
    await world.settle()


async def a_job_that_would_be_refused_now(world: World) -> None:
    await a_finished_job(world)
    narrow = envelope("nlp-prod", {"tenant": "acme", "project": "nlp", "env": "prod"}, gpus=quota(0, 0))
    assert (await world.apply(narrow)).status == 200


WRITES: dict[str, tuple[Callable[[World], Awaitable[None]], Write, int]] = {
    "apply documents": (nothing, applying(project("new"), project("newer")), 200),
    "apply a component": (nothing, applying(intent(JOB)), 200),
    "apply a component that is refused": (nothing, applying(intent(JOB, 99)), 422),
    "apply two components": (nothing, applying(intent(JOB), intent("nlp/prod/two")), 200),
    "apply both kinds": (nothing, applying(project("new"), intent("new/prod/job"), intent(JOB)), 200),
    "cancel": (a_running_job, acting("cancel"), 200),
    "rerun": (a_finished_job, acting("rerun"), 200),
    "a rerun that is refused": (a_job_that_would_be_refused_now, acting("rerun"), 422),
    "delete a component": (a_finished_job, deleting(url(JOB)), 204),
    "delete a document": (nothing, deleting("/v1/projects/vision"), 204),
}


def without_request_id(reply: Reply) -> Any:
    return {key: value for key, value in reply.json.items() if key != "requestId"} if reply.body else None


@pytest.mark.parametrize("write", WRITES)
def test_the_same_request_again_gets_the_same_answer_and_changes_nothing(tmp_path: Path, write: str) -> None:
    prepare, send, status = WRITES[write]

    async def story(world: World) -> None:
        await prepare(world)
        first = await send(world, "k1")
        assert first.status == status, first.body
        before = world.dump()
        again = await send(world, "k1")
        assert (again.status, without_request_id(again)) == (status, without_request_id(first))
        assert world.dump() == before
        world.advance(5)
        await world.settle()
        await world.restart()
        moved_on = world.dump()
        later = await send(world, "k1")
        assert (later.status, without_request_id(later)) == (status, without_request_id(first))
        assert world.dump() == moved_on, "nothing happens twice, after a restart neither"

    play(tmp_path, story)


@pytest.mark.parametrize("first", WRITES)
@pytest.mark.parametrize(
    "second",
    [
        [intent("nlp/prod/other")],
        [intent("nlp/prod/other"), intent("nlp/prod/third")],
        [project("other")],
        [project("other"), intent("nlp/prod/other")],
    ],
    ids=["a component", "two components", "a document", "both kinds"],
)
def test_another_request_under_the_same_key_is_a_conflict_and_changes_nothing(
    tmp_path: Path, first: str, second: list[object]
) -> None:
    prepare, send, status = WRITES[first]

    async def story(world: World) -> None:
        await prepare(world)
        assert (await send(world, "k1")).status == status
        before = world.dump()
        reply = await world.apply(*second, by=BY, idempotency_key="k1")
        assert reply.status == 409, reply.body
        assert "Idempotency-Key" in reply.json["detail"]
        assert world.dump() == before

    play(tmp_path, story)


def test_a_key_belongs_to_who_used_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.apply(intent(JOB), by="acme", idempotency_key="k")).status == 200
        other = await world.apply(intent("chat/prod/job"), by="globex", idempotency_key="k")
        assert other.status == 200, "another principal's key tells nothing and blocks nothing"
        assert other.json["results"][0]["project"] == "chat"

    play(tmp_path, story)


def test_a_part_of_one_request_is_no_key_of_another(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        two = (intent("nlp/prod/one"), intent("nlp/prod/two"))
        assert (await world.apply(*two, idempotency_key="k")).status == 200
        for key in ("k/0", "k/1", "k0", "k1"):
            reply = await world.apply(intent(f"nlp/prod/{key.replace('/', 'x')}"), idempotency_key=key)
            assert reply.status == 200

    play(tmp_path, story)


def test_what_failed_can_be_tried_again_under_its_key(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_running_job(world)
        busy = await world.apply(intent(JOB, 3), by="acme", idempotency_key="k")
        assert busy.status == 409 and "running" in busy.json["detail"]
        world.finish(JOB)
        await world.settle()
        assert (await world.apply(intent(JOB, 3), by="acme", idempotency_key="k")).status == 200

    play(tmp_path, story)


def test_a_plan_keeps_no_key(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        headers = {"idempotency-key": "k"}
        planned = await world.call("POST", "/v1/apply?dryRun=true", intent(JOB), by="acme", headers=headers)
        assert planned.status == 200
        assert (await world.apply(intent(JOB), by="acme", idempotency_key="k")).status == 200

    play(tmp_path, story)


def test_a_key_is_made_once_and_its_secret_is_never_stored(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        asked = {"name": "robot", "role": "viewer", "tenant": "acme"}
        headers = {"idempotency-key": "k"}
        made = await world.call("POST", "/v1/keys", asked, headers=headers)
        assert made.status == 201
        before = world.dump()
        again = await world.call("POST", "/v1/keys", asked, headers=headers)
        assert again.status == 409 and made.json["key"]["id"] in again.json["detail"]
        assert "revoke" in again.json["remedy"]
        assert world.dump() == before
        secret = made.json["secret"]
        assert secret not in repr(before) and secret.rpartition("_")[2] not in repr(before)
        for file in tmp_path.glob("windlass.db*"):
            assert secret.encode() not in file.read_bytes()

    play(tmp_path, story)


def test_revoking_a_key_twice_is_revoking_it_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        key = (await world.get("/v1/keys?limit=1"))["items"][0]["id"]
        other = await world.plane.keyring.bootstrap("spare", "platform-admin")
        world.keys["spare"] = other.secret
        headers = {"idempotency-key": "k"}
        path = f"/v1/keys/{key}"
        assert (await world.call("DELETE", path, by="spare", headers=headers)).status == 204
        before = world.dump()
        assert (await world.call("DELETE", path, by="spare", headers=headers)).status == 204
        assert (await world.call("DELETE", path, by="spare")).status == 204
        assert world.dump() == before

    play(tmp_path, story)


def test_cancelling_twice_is_cancelling_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_running_job(world)
        world.site.slow = True
        assert (await world.act(JOB, "cancel", by="acme")).status == 200
        before = world.dump()
        assert (await world.act(JOB, "cancel", by="acme")).status == 200
        assert world.dump() == before
        world.site.slow = False
        world.site.settle()
        await world.settle()
        assert world.phase(JOB) == "Cancelled"
        before = world.dump()
        assert (await world.act(JOB, "cancel", by="acme")).status == 200
        assert world.dump() == before

    play(tmp_path, story)
