"""Defragmentation on a running platform: who may, what is proposed, what carrying it out does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.control.documents import intent
from tests.control.worlds import World, make_key, play

MOVED, STAYS, WANTS = "nlp/dev/roamer", "nlp/dev/settled", "cheap/dev/wide"


async def fragmented(world: World) -> None:
    """Four GPUs in use on each of two nodes, by `roamer`, which accepts moving, and `settled`, which does
    not. `wide` of another tenant needs eight together."""
    await world.apply(intent(MOVED, 4, traits=["spot-tolerant"]))
    await world.apply(intent("nlp/dev/short", 4))
    await world.settle()
    await world.apply(intent(STAYS, 4))
    await world.settle()
    world.finish("nlp/dev/short")
    await world.settle()
    world.advance(3600)
    await world.apply(intent(WANTS, 8))
    await world.settle()
    assert world.phase(WANTS) == "Pending"


async def proposed(world: World, query: str = f"?component={WANTS}") -> Any:
    (found,) = (await world.get(f"/v1/defrag{query}"))["items"]
    return found


async def carry_out(world: World, plan: Any, **headers: str) -> Any:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"component": plan["for"], "digest": plan["digest"]}
    return await world.call("POST", "/v1/defrag", body, headers=sent)


def nodes(workers: list[Any]) -> list[str]:
    return [worker["node"] for worker in workers]


def test_a_plan_tells_the_moves_the_hole_and_the_cost(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await fragmented(world)
        plan = await proposed(world)
        (move,) = plan["moves"]
        assert (plan["for"], move["workload"], plan["why"]) == (WANTS, MOVED, "")
        assert plan["wanted"] == {"class": "h100-80g", "gpus": "8", "workers": 1, "topology": None}
        assert nodes(plan["hole"]) == nodes(move["from"])
        assert nodes(move["to"]) != nodes(move["from"])
        assert (plan["lostGpuHours"], plan["restartedWorkers"]) == ("4", 1)
        assert await proposed(world, "") == plan
        assert "windlass defrag --plan" in (await world.get(f"{url_of(WANTS)}/explanation"))["remedy"]

    play(tmp_path, story)


def url_of(path: str) -> str:
    project, env, name = path.split("/")
    return f"/v1/projects/{project}/components/{env}/{name}"


def test_carried_out_the_moved_and_the_one_it_was_for_both_run(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await fragmented(world)
        submitted = world.workload(MOVED)["submitted_ms"]
        plan = await proposed(world)
        assert (await carry_out(world, plan)).json == plan
        told = await world.get(f"{url_of(MOVED)}/explanation")
        assert "defragmentation" in told["message"]
        await world.settle()
        for path, where in ((MOVED, plan["moves"][0]["to"]), (WANTS, plan["hole"]), (STAYS, None)):
            assert world.phase(path) == "Running", path
            if where is not None:
                shown = await world.get(url_of(path))
                assert [at["node"] for at in shown["status"]["placement"]] == nodes(where)
        row = world.workload(MOVED)
        assert (row["attempt"], row["preemptions"], row["submitted_ms"]) == (2, 1, submitted)
        (entry,) = [
            one for one in (await world.get("/v1/audit"))["items"] if one["action"] == "workload.move"
        ]
        assert (entry["subject"], entry["detail"]["moved"]) == (WANTS, [MOVED])

    play(tmp_path, story)


def test_the_moved_pay_for_what_they_held_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await fragmented(world)
        await carry_out(world, await proposed(world))
        await world.settle()
        world.advance(3600)
        for path in (MOVED, WANTS, STAYS):
            world.finish(path)
        await world.settle()
        (line,) = [one for one in (await world.get("/v1/costs"))["lines"] if one["component"] == "roamer"]
        assert line["gpuHours"] == "8"
        held = world.rows("SELECT * FROM holdings WHERE component = 'roamer'")
        assert len(held) == 2
        assert (await world.get("/v1/costs"))["ledgerSum"] == {"USD": "0.00"}

    play(tmp_path, story)


def test_nobody_steals_the_hole_or_the_place_of_the_moved(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await fragmented(world)
        await carry_out(world, await proposed(world))
        await world.apply(intent("cheap/dev/thief", 4), intent("cheap/dev/other", 8))
        await world.settle()
        assert [world.phase(path) for path in (MOVED, WANTS)] == ["Running", "Running"]
        assert world.phase("cheap/dev/thief") == "Pending"

    play(tmp_path, story)


@pytest.mark.parametrize(
    "happens", ["the moved is cancelled", "it starts", "its next node drains", "nothing planned"]
)
def test_a_plan_of_another_world_is_a_conflict_and_moves_nobody(tmp_path: Path, happens: str) -> None:
    async def story(world: World) -> None:
        await fragmented(world)
        plan = await proposed(world)
        if happens == "the moved is cancelled":
            await world.act(MOVED, "cancel")
        elif happens == "it starts":
            world.finish(STAYS)
            await world.settle()
        elif happens == "its next node drains":
            gone = plan["moves"][0]["to"][0]["node"]
            world.site.nodes = tuple(
                msgspec.structs.replace(node, state="draining") if node.name == gone else node
                for node in world.site.nodes
            )
            await world.agent.converge()
        else:
            plan = {**plan, "digest": "another"}
        before = world.workload(MOVED)["want"]
        refused = await carry_out(world, plan)
        assert refused.status in (404, 409), refused.body
        assert refused.json["remedy"] or refused.json["detail"]
        assert world.workload(MOVED)["want"] == before

    play(tmp_path, story)


def test_carried_out_twice_under_one_key_it_happens_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await fragmented(world)
        plan = await proposed(world)
        first = await carry_out(world, plan, Idempotency_Key="once")
        await world.settle()
        again = await carry_out(world, plan, Idempotency_Key="once")
        assert (again.status, again.json) == (200, first.json)
        assert world.workload(MOVED)["attempt"] == 2
        assert (await carry_out(world, plan)).status == 404

    play(tmp_path, story)


def test_after_a_restart_in_between_nobody_is_lost(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await fragmented(world)
        await carry_out(world, await proposed(world))
        await world.restart()
        await world.settle()
        assert {world.phase(path) for path in (MOVED, STAYS, WANTS)} == {"Running"}

    play(tmp_path, story)


def test_a_replica_that_does_not_lead_moves_nobody(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await fragmented(world)
        plan = await proposed(world)
        other = await world.another("second")
        refused = await carry_out(other, plan)
        assert (refused.status, "another replica leads" in refused.json["detail"]) == (503, True)
        assert world.workload(MOVED)["want"] == "run"
        await other.close()

    play(tmp_path, story)


def test_a_hole_can_be_named_by_class_or_profile(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await fragmented(world)
        by_class = await proposed(world, "?class=h100-80g&gpus=8")
        by_profile = await proposed(world, "?profile=h100-80g&gpus=8")
        assert by_class["for"] is None
        assert by_class["moves"] == by_profile["moves"] == (await proposed(world))["moves"]
        assert (await proposed(world, "?class=h100-80g&gpus=4"))["moves"] == []
        assert "waits" in (await world.call("GET", "/v1/defrag?component=nlp/dev/nobody")).json["detail"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    "query",
    [
        "component=a/b/c&class=h100-80g",
        "class=h100-80g&profile=h100-80g",
        "gpus=4",
        "class=h100-80g&gpus=1.5",
        "class=h100-80g&gpus=x",
        "class=h100-80g&gpus=0",
        "class=h100-80g&workers=0",
        "profile=unknown",
        "profile=h100-80g&gpus=0.5",
    ],
)
def test_a_hole_that_makes_no_sense_is_refused(tmp_path: Path, query: str) -> None:
    async def story(world: World) -> None:
        refused = await world.call("GET", f"/v1/defrag?{query}")
        told = refused.json
        assert (refused.status, bool(told["remedy"] or told["reasons"])) == (400, True)

    play(tmp_path, story)


def test_only_the_platforms_people_plan_and_only_its_admins_move(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await fragmented(world)
        plan = await proposed(world)
        body = {"component": plan["for"], "digest": plan["digest"]}
        await make_key(world, "narrow", "platform-admin", None, actions=["node.read"])
        for by, may_plan in (("acme-admin", 403), ("umbra", 403), ("auditor", 200), ("narrow", 200)):
            assert (await world.call("GET", "/v1/defrag", by=by)).status == may_plan
            assert (await world.call("POST", "/v1/defrag", body, by=by)).status == 403
        assert world.workload(MOVED)["want"] == "run"

    play(tmp_path, story)
