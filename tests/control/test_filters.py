"""A filter that is given narrows, everywhere and in every sum; another tenant's place is an empty one."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent
from tests.control.worlds import World, play

PLACES = {
    "": ("nlp/dev/d", "nlp/prod/a", "vision/prod/v", "chat/prod/c"),
    "tenant=acme": ("nlp/dev/d", "nlp/prod/a", "vision/prod/v"),
    "project=nlp": ("nlp/dev/d", "nlp/prod/a"),
    "project=nlp&env=prod": ("nlp/prod/a",),
    "env=prod": ("nlp/prod/a", "vision/prod/v", "chat/prod/c"),
    "tenant=globex&project=nlp": (),
    "tenant=nobody": (),
    "project=n": (),
}


async def work_everywhere(world: World) -> None:
    """One finished, one running and one waiting component in each of four cells; two are refused."""
    for path in PLACES[""]:
        await world.apply(intent(path, 1))
    await world.settle()
    world.advance(1800)
    for path in PLACES[""]:
        world.finish(path)
    await world.settle()
    for path in PLACES[""]:
        await world.apply(intent(f"{path}-runs", 2))
    await world.settle()
    for path in PLACES[""]:
        await world.apply(intent(f"{path}-waits", 4, workers=2))
        await world.apply(intent(f"{path}-refused", 99))
    world.advance(1800)


def cells(paths: tuple[str, ...]) -> set[str]:
    return {path.rpartition("/")[0] for path in paths}


@pytest.mark.parametrize("query", PLACES)
def test_queue_usage_and_costs_are_of_the_place_asked_for(tmp_path: Path, query: str) -> None:
    async def story(world: World) -> None:
        await work_everywhere(world)
        await world.plane.scheduler.turn()
        wanted = cells(PLACES[query])
        queue = await world.get(f"/v1/queue?{query}")
        for part in ("waiting", "running"):
            assert cells(tuple(entry["component"] for entry in queue[part])) <= wanted
            assert queue[f"{part}Total"] == len(queue[part])
        assert queue["runningTotal"] >= len(wanted)
        usage = (await world.get(f"/v1/usage?{query}"))["items"]
        assert {f"{one['project']}/{one['env']}" for one in usage} == wanted

    play(tmp_path, story)


@pytest.mark.parametrize("query", PLACES)
@pytest.mark.parametrize("by", ["tenant", "project", "component"])
def test_the_total_is_the_sum_of_the_place(tmp_path: Path, query: str, by: str) -> None:
    async def story(world: World) -> None:
        await work_everywhere(world)
        everything = (await world.get("/v1/costs?by=component"))["lines"]
        wanted = [one for one in everything if f"{one['project']}/{one['env']}" in cells(PLACES[query])]
        expected = sum(Decimal(one["total"]) for one in wanted)
        for asker in ("admin", "acme"):
            found = await world.get(f"/v1/costs?by={by}&{query}", by=asker)
            mine = [one for one in wanted if asker == "admin" or one["tenant"] == "acme"]
            assert _sum(found["lines"]) == _sum(found["totals"]) == _sum(mine)
        assert expected > 0 or not wanted

    play(tmp_path, story)


def _sum(lines: list[dict[str, Any]]) -> tuple[Decimal, Decimal]:
    return (
        sum((Decimal(one["total"]) for one in lines), Decimal(0)),
        sum((Decimal(one["gpuHours"]) for one in lines), Decimal(0)),
    )


def test_decisions_audit_and_keys_by_tenant(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await work_everywhere(world)
        decisions = (await world.get("/v1/decisions?tenant=acme&limit=500"))["items"]
        assert {one["tenant"] for one in decisions} == {"acme"}
        of_project = (await world.get("/v1/decisions?project=vision"))["items"]
        assert {one["component"].split("/")[0] for one in of_project} == {"vision"}
        assert of_project == [one for one in decisions if one["component"].startswith("vision/")]
        for path in ("/v1/audit", "/v1/keys"):
            found = (await world.get(f"{path}?tenant=globex"))["items"]
            assert found and {one["tenant"] for one in found} == {"globex"}

    play(tmp_path, story)


@pytest.mark.parametrize("path", ["decisions", "audit", "keys", "usage", "components"])
def test_another_tenants_is_empty_like_one_that_is_not_there(tmp_path: Path, path: str) -> None:
    async def story(world: World) -> None:
        await work_everywhere(world)
        other = await world.get(f"/v1/{path}?tenant=globex", by="acme-admin")
        assert other == await world.get(f"/v1/{path}?tenant=nobody", by="acme-admin")
        assert other["items"] == []
        queue = await world.get("/v1/queue?tenant=globex", by="acme-admin")
        assert (queue["waitingTotal"], queue["runningTotal"]) == (0, 0)

    play(tmp_path, story)
