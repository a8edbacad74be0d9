"""The catalog grows by whole revisions: one per accepted change, none for a change of nothing, and each
stays readable for ever. What is in use cannot be deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.control.documents import CATALOG, envelope, intent, price_book, project, quota
from tests.control.worlds import World, play, url


async def revision(world: World) -> int:
    return int((await world.get("/v1/revision"))["revision"])


def test_the_revision_grows_by_one_per_accepted_change_and_by_none_otherwise(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert await revision(world) == 1
        changes = [
            (await world.apply(project("p1"), project("p2")), 200, 2),
            (await world.apply(project("p1"), project("p2")), 200, 2),
            (await world.apply(project("p1"), project("p3")), 200, 3),
            (await world.apply(project("p4"), project("p5", defaultProfile="none")), 400, 3),
            (await world.apply(project("chat")), 409, 3),
            (await world.apply(intent("p1/prod/job")), 200, 3),
            (await world.call("POST", "/v1/apply?dryRun=true", project("p9")), 200, 3),
            (await world.call("DELETE", "/v1/projects/p3"), 204, 4),
            (await world.call("DELETE", "/v1/projects/p3"), 404, 4),
        ]
        for number, (reply, status, grown) in enumerate(changes):
            assert reply.status == status, f"{number}: {reply.body!r}"
            if status == 200:
                assert reply.json["revision"] == grown, number
        assert await revision(world) == 4
        stored = [row["revision"] for row in world.rows("SELECT revision FROM revisions ORDER BY revision")]
        assert stored == [1, 2, 3, 4]

    play(tmp_path, story)


def test_all_documents_of_one_request_are_accepted_or_none(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        before = world.dump()
        good, bad = (
            project("fine"),
            envelope("too-much", {"tenant": "acme", "project": "nlp"}, gpus=quota(9, 9)),
        )
        assert (await world.apply(good, bad)).status == 400
        assert world.dump() == before

    play(tmp_path, story)


def test_an_old_revision_stays_as_it_was(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        path = "/v1/projects/vision"
        seen = {1: await world.get(path)}
        for number in (2, 3):
            await world.apply(project("vision", environments=["prod", f"env{number}"]))
            seen[number] = await world.get(path)
        assert (await world.call("DELETE", path)).status == 204
        await world.restart()
        for number, document in seen.items():
            assert await world.get(f"{path}?revision={number}") == document
            names = {
                item["metadata"]["name"]
                for item in (await world.get(f"/v1/projects?revision={number}"))["items"]
            }
            assert names == {"nlp", "vision", "chat", "cheap"}
        assert (await world.call("GET", path)).status == 404
        assert (await world.call("GET", f"{path}?revision=4")).status == 404
        assert (await world.get("/v1/tiers?revision=0"))["items"] == []

    play(tmp_path, story)


def test_the_whole_catalog_applied_again_changes_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        before = world.dump()
        again = await world.apply(CATALOG)
        assert {result["outcome"] for result in again.json["results"]} == {"unchanged"}
        assert world.dump() == before
        await world.restart()
        assert {r["outcome"] for r in (await world.apply(CATALOG)).json["results"]} == {"unchanged"}

    play(tmp_path, story)


def test_a_change_to_a_version_that_moved_on_is_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        wide = project("vision", environments=["prod", "dev"])
        stale = await world.apply(wide, if_match='"2"')
        assert (stale.status, stale.json["code"]) == (412, "version.stale")
        assert (await world.apply(wide, if_match='"1"')).json["results"][0]["version"] == 2
        assert (await world.apply(project("vision"), if_match="1")).status == 412
        assert (await world.call("DELETE", "/v1/projects/vision", headers={"if-match": "1"})).status == 412
        both = await world.apply(project("a"), project("b"), if_match="0")
        assert both.status == 400
        assert (await world.apply(project("new"), if_match="1")).status == 412
        assert (await world.apply(project("new"), if_match="0")).status == 200
        assert (await world.call("DELETE", "/v1/projects/vision", headers={"if-match": "2"})).status == 204

    play(tmp_path, story)


def test_a_component_has_a_version_of_its_own(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        job = "nlp/prod/job"
        assert (await world.apply(intent(job), by="acme", if_match="1")).status == 412
        assert (await world.apply(intent(job), by="acme", if_match="0")).json["results"][0]["version"] == 1
        before = world.dump()
        assert (await world.apply(intent(job), by="acme", if_match="7")).status == 412
        assert world.dump() == before, "also when nothing would have changed"
        await world.settle()
        world.finish(job)
        await world.settle()
        changed = await world.apply(intent(job, 2), by="acme", if_match="1")
        assert changed.json["results"][0]["version"] == 2
        assert (await world.get(url(job)))["metadata"]["version"] == 2

    play(tmp_path, story)


def test_the_version_in_a_component_that_was_got_and_edited_counts(tmp_path: Path) -> None:
    def got(version: int, gpus: int = 1) -> dict[str, Any]:
        wire = intent("nlp/prod/job", gpus)
        return {**wire, "metadata": {**wire["metadata"], "version": version}}

    async def story(world: World) -> None:
        assert (await world.apply(got(3), by="acme")).status == 412
        await world.apply(intent("nlp/prod/job"), by="acme")
        await world.settle()
        world.finish("nlp/prod/job")
        await world.settle()
        before = world.dump()
        stale = await world.apply(got(7, 2), by="acme")
        assert (stale.status, stale.json["code"]) == (412, "version.stale")
        planned = await world.call("POST", "/v1/apply?dryRun=true", got(7, 2), by="acme")
        assert planned.status == 412
        again = await world.apply(got(7), by="acme")
        assert again.json["results"][0]["outcome"] == "unchanged"
        assert world.dump() == before
        assert (await world.apply(got(1, 2), by="acme")).json["results"][0]["version"] == 2

    play(tmp_path, story)


def test_changes_at_the_same_time_take_turns(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        replies = await asyncio.gather(*(world.apply(project(f"p{n}")) for n in range(20)))
        assert sorted(reply.json["revision"] for reply in replies) == list(range(2, 22))
        claims = await asyncio.gather(
            world.apply(project("wanted", "acme")), world.apply(project("wanted", "globex"))
        )
        assert sorted(reply.status for reply in claims) == [200, 409]

    play(tmp_path, story)


def test_what_is_in_use_cannot_be_deleted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("vision/prod/job"), by="acme")
        for path, user in {
            "/v1/tiers/gold": "globex",
            "/v1/tenants/acme": "nlp",
            "/v1/projects/nlp": "nlp-prod",
            "/v1/projects/vision": "vision/prod/job",
            "/v1/hardwareprofiles/h100-80g": "vision",
        }.items():
            before = world.dump()
            refused = await world.call("DELETE", path)
            assert refused.status == 409 and user in refused.json["detail"], refused.body
            assert world.dump() == before
        await world.act("vision/prod/job", "cancel")
        assert (await world.call("DELETE", "/v1/projects/vision")).status == 409, "a finished one still shows"
        assert (await world.call("DELETE", url("vision/prod/job"))).status == 204
        assert (await world.call("DELETE", "/v1/projects/vision")).status == 204

    play(tmp_path, story)


def test_running_work_is_not_deleted_and_its_cost_outlives_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        job = "nlp/prod/job"
        await world.apply(intent(job, 4), by="acme")
        await world.settle()
        assert (await world.call("DELETE", url(job), by="acme")).status == 409
        world.advance(1800)
        world.finish(job)
        await world.settle()
        assert (await world.call("DELETE", url(job), by="acme")).status == 204
        assert (await world.call("GET", url(job), by="acme")).status == 404
        (line,) = (await world.get("/v1/costs", by="acme"))["lines"]
        assert (line["component"], line["cost"], line["gpuHours"]) == ("job", "4.98", "2")
        assert len((await world.get("/v1/decisions", by="acme"))["items"]) == 1

    play(tmp_path, story)


def test_every_decision_names_the_revision_it_was_made_under(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/prod/one"), by="acme")
        await world.apply(price_book("spring", "2.00", "2026-04-01T00:00:00Z"))
        await world.apply(intent("nlp/prod/two"), by="acme")
        found = (await world.get("/v1/decisions", by="acme"))["items"]
        assert [(item["component"], item["catalogRevision"]) for item in found] == [
            ("nlp/prod/two", 2),
            ("nlp/prod/one", 1),
        ]

    play(tmp_path, story)
