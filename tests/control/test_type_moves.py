"""From one type to another: what would differ is shown before, what is not alive moves, each through
admission, and nothing is started, stopped or rendered anew by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.control.documents import intent, policy
from tests.control.test_changes_of_types import type_document
from tests.control.worlds import World, play, url

JOB = "nlp/prod/job"
OLD, NEW = "cruncher@1.0.0", "cruncher@2.0.0"
SECOND = type_document("cruncher", "2.0.0", templates={"local": {"variables": {"LEVEL": "2"}}})


async def diff(world: World, type: str = OLD, other: str = NEW, *, by: str = "admin") -> dict[str, Any]:
    found: dict[str, Any] = await world.get(f"/v1/componenttypes/{type}/diff?to={other}", by=by)
    return found


async def move(world: World, *, by: str = "admin", type: str = OLD, more: str = "") -> dict[str, Any]:
    reply = await world.call("POST", f"/v1/componenttypes/{type}/migrate?to={NEW}{more}", by=by)
    assert reply.status == 200, reply.body
    return {one["component"]: one for one in reply.json["items"]}


def test_the_diff_shows_every_live_component_as_it_would_be(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document(), SECOND)
        await world.apply(intent(JOB, type=OLD), intent("nlp/prod/ended", type=OLD))
        await world.apply(intent("nlp/prod/other", type=NEW))
        await world.settle()
        world.finish("nlp/prod/ended")
        await world.settle()
        before = world.dump()
        found = await diff(world)
        assert world.dump() == before
        assert ([one["component"] for one in found["items"]], found["total"]) == ([JOB], 1)
        lines = found["items"][0]["diff"].splitlines()
        assert lines[:2] == [f"--- {JOB} local {OLD}", f"+++ {JOB} local {NEW}"]
        assert {'-    "DEPTH": "3"', '+    "LEVEL": "2"'} <= set(lines)

    play(tmp_path, story)


def test_a_live_component_is_of_the_version_its_run_was_made_from(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document())
        await world.apply(intent(JOB, type="cruncher"))
        await world.settle()
        await world.apply(SECOND)
        found = await diff(world)
        assert [one["component"] for one in found["items"]] == [JOB]
        assert '+    "LEVEL": "2"' in found["items"][0]["diff"].splitlines()
        assert (await diff(world, NEW, OLD))["items"] == []
        gone = await world.call("DELETE", f"/v1/componenttypes/{OLD}")
        assert gone.status == 409 and JOB in gone.json["detail"]
        world.finish(JOB)
        await world.settle()
        assert (await world.call("DELETE", f"/v1/componenttypes/{OLD}")).status == 204

    play(tmp_path, story)


def test_the_diff_tells_who_would_be_refused_and_is_ones_own(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document(), SECOND)
        await world.apply(intent(JOB, type=OLD), intent("chat/prod/job", type=OLD))
        await world.apply(policy("no-second", "spec.gpus > 1", when="tenant.name == 'acme'"))
        (own,) = (await diff(world, by="acme"))["items"]
        assert (own["component"], own["diff"]) == (JOB, "")
        assert [reason["rule"] for reason in own["reasons"]] == ["policy.no-second"]
        assert (await diff(world))["total"] == 2
        for path in (f"{OLD}/diff?to=none", f"none/diff?to={NEW}"):
            assert (await world.call("GET", f"/v1/componenttypes/{path}")).status == 404
        assert (await world.call("GET", f"/v1/componenttypes/{OLD}/diff")).status == 400

    play(tmp_path, story)


def test_a_move_changes_what_has_ended_and_leaves_what_lives_or_would_be_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document(), SECOND)
        for name, gpus in (("live", 1), ("ended", 1), ("big", 2)):
            await world.apply(intent(f"nlp/prod/{name}", gpus, type=OLD))
        await world.settle()
        for name in ("ended", "big"):
            world.finish(f"nlp/prod/{name}")
        await world.settle()
        await world.apply(policy("small", "spec.gpus < 2"))
        planned = await move(world, more="&dryRun=true")
        assert (await world.get(url("nlp/prod/ended")))["spec"]["type"] == OLD
        before = [tuple(row) for row in world.rows("SELECT * FROM workloads ORDER BY id")]
        found = await move(world)
        assert {path: one["outcome"] for path, one in found.items()} == {
            "nlp/prod/live": "alive",
            "nlp/prod/ended": "moved",
            "nlp/prod/big": "refused",
        }
        assert {path: one["outcome"] for path, one in planned.items()} == {
            path: one["outcome"] for path, one in found.items()
        }
        assert "windlass cancel nlp/prod/live" in found["nlp/prod/live"]["remedy"]
        assert [one["rule"] for one in found["nlp/prod/big"]["reasons"]] == ["policy.small"]
        assert [tuple(row) for row in world.rows("SELECT * FROM workloads ORDER BY id")] == before
        stored = await world.get(url("nlp/prod/ended"))
        assert (stored["spec"]["type"], stored["status"]["phase"]) == (NEW, "Succeeded")
        decision = await world.get(f"/v1/decisions/{found['nlp/prod/ended']['decision']}")
        assert decision["verdict"] == "admitted"
        for name in ("live", "big"):
            assert (await world.get(url(f"nlp/prod/{name}")))["spec"]["type"] == OLD
        assert (await world.act("nlp/prod/ended", "rerun")).status == 200
        assert b'"LEVEL":"2"' in (await world.call("GET", f"{url('nlp/prod/ended')}/manifests")).body

    play(tmp_path, story)


def test_a_move_is_audited_told_as_an_event_and_happens_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document(), SECOND)
        await world.apply(intent(JOB, type=OLD))
        await world.act(JOB, "cancel")
        await world.settle()
        path, once = f"/v1/componenttypes/{OLD}/migrate?to={NEW}", {"Idempotency-Key": "one"}
        first = await world.call("POST", path, by="acme", headers=once)
        again = await world.call("POST", path, by="acme", headers=once)
        assert first.json == again.json and first.json["items"][0]["outcome"] == "moved"
        assert (await move(world)) == {}, "there is nothing left to move"
        told = [
            one for one in (await world.get("/v1/audit"))["items"] if one["action"] == "component.migrate"
        ]
        assert [(one["subject"], one["detail"]["to"]) for one in told] == [(JOB, NEW)]
        events = (await world.get(f"{url(JOB)}/events"))["items"]
        assert [one["type"] for one in events].count("component.migrated") == 1

    play(tmp_path, story)


def test_a_name_alone_means_every_version_and_a_place_narrows(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document(), SECOND)
        for path, type in ((JOB, OLD), ("vision/prod/job", "cruncher"), ("nlp/dev/new", NEW)):
            await world.apply(intent(path, type=type))
            await world.act(path, "cancel")
        await world.settle()
        assert set(await move(world, type="cruncher", more="&project=vision")) == {"vision/prod/job"}
        assert set(await move(world, type="cruncher")) == {JOB}
        assert (await move(world, by="globex", type="cruncher")) == {}

    play(tmp_path, story)


def test_more_than_fit_one_request_are_moved_page_by_page(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document(), SECOND)
        for at in range(203):
            await world.apply(intent(f"nlp/dev/job{at}", 99, type=OLD))  # refused, and kept
        path = f"/v1/componenttypes/{OLD}/migrate?to={NEW}"
        first = (await world.call("POST", path)).json
        assert len(first["items"]) == 200
        rest = (await world.call("POST", f"{path}&cursor={first['cursor']}")).json
        assert (len(rest["items"]), rest["cursor"]) == (3, None)

    play(tmp_path, story)
