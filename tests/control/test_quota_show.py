"""`quota show`: what is mine, in the very place I ask about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import envelope, intent, quota
from tests.control.worlds import World, play

H100, L40S = "h100-80g", "l40s-48g"


async def lines(world: World, query: str, by: str = "admin") -> dict[tuple[str, str], dict[str, Any]]:
    found = (await world.get(f"/v1/quota?{query}", by=by))["quotas"]
    assert len({(one["scope"], one["class"]) for one in found}) == len(found)
    return {(one["scope"], one["class"]): one for one in found}


def test_a_place_without_an_envelope_shows_what_it_inherits(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("vision/prod/x", 2))
        await world.settle()
        found = await lines(world, "project=vision")
        assert set(found) == {("acme/vision", H100), ("acme/vision", L40S)}
        line = found["acme/vision", H100]
        assert (line["guaranteed"], line["max"], line["used"]) == ("0", "16", "2")
        assert line["available"] == "14"
        cell = await lines(world, "project=vision&env=prod", by="acme")
        assert cell["acme/vision/prod", H100]["used"] == "2"

    play(tmp_path, story)


def test_a_place_with_an_envelope_shows_its_own_and_the_rest(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        cell = await lines(world, "project=nlp&env=prod")
        assert (cell["acme/nlp/prod", H100]["guaranteed"], cell["acme/nlp/prod", H100]["max"]) == ("4", "8")
        assert (cell["acme/nlp/prod", L40S]["guaranteed"], cell["acme/nlp/prod", L40S]["max"]) == ("0", "4")
        project = await lines(world, "project=nlp")
        assert set(project) == {("acme/nlp", H100), ("acme/nlp", L40S), ("acme/nlp/prod", H100)}
        tenant = await lines(world, "tenant=acme")
        assert set(tenant) == {("acme", H100), ("acme", L40S), ("acme/nlp/prod", H100)}

    play(tmp_path, story)


def test_what_quota_would_lend_but_no_node_has_is_not_available(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        # 16 of the class are there; guarantees may add up to more than that.
        await world.apply(envelope("globex", {"tenant": "globex"}, gpus=quota(24, 32)))
        await world.settle()
        assert (await lines(world, "tenant=globex"))["globex", H100]["available"] == "16"
        await world.apply(intent("nlp/prod/x", 4))
        await world.settle()
        line = (await lines(world, "tenant=globex"))["globex", H100]
        assert (line["guaranteed"], line["used"], line["available"]) == ("24", "0", "12")

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("query", "entitled"),
    [
        ("tenant=acme", {"h100-80g", "h100-mig-1g", "l40s-48g"}),
        ("project=nlp&env=prod", {"h100-80g", "l40s-48g"}),  # the cell allows no MIG
        ("project=nlp&env=dev", {"h100-80g", "h100-mig-1g", "l40s-48g"}),
        ("tenant=globex", {"h100-80g"}),
    ],
)
def test_entitled_is_class_and_sharing_along_the_path(tmp_path: Path, query: str, entitled: set[str]) -> None:
    async def story(world: World) -> None:
        found = (await world.get(f"/v1/quota?{query}"))["profiles"]
        assert len({one["tenant"] for one in found}) == 1
        assert {one["profile"] for one in found if one["entitled"]} == entitled

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("mine", "none"), [("tenant=globex", "tenant=nobody"), ("project=chat", "project=nil")]
)
def test_another_tenants_place_is_none(tmp_path: Path, mine: str, none: str) -> None:
    async def story(world: World) -> None:
        other = await world.call("GET", f"/v1/quota?{mine}", by="acme")
        nobody = await world.call("GET", f"/v1/quota?{none}", by="acme")
        assert (
            (other.status, other.json["code"]) == (nobody.status, nobody.json["code"]) == (404, "not-found")
        )

    play(tmp_path, story)


def test_a_tenants_budgets_bind_its_projects(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for query in ("tenant=acme", "project=nlp&env=prod"):
            assert [one["scope"] for one in (await world.get(f"/v1/quota?{query}"))["budgets"]] == ["acme"]

    play(tmp_path, story)


def test_a_burst_raises_the_ceiling_that_is_shown_while_it_lasts(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        burst = {"profileClass": H100, "extra": 4, "reason": "launch"}
        hour = {"from": "2026-03-02T09:00:00Z", "until": "2026-03-02T10:00:00Z"}
        await world.apply(envelope("umbra", {"tenant": "umbra"}, gpus=quota(0, 8), burst=[{**burst, **hour}]))
        await world.settle()
        assert (await lines(world, "tenant=umbra"))["umbra", H100]["max"] == "12"
        assert (await lines(world, "project=cheap"))["umbra/cheap", H100]["max"] == "12"
        world.advance(3600)
        await world.settle()
        assert (await lines(world, "tenant=umbra"))["umbra", H100]["max"] == "8"

    play(tmp_path, story)


def test_what_one_project_borrows_from_another_its_tenant_has_not_borrowed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(envelope("nlp-prod", {"tenant": "acme", "project": "nlp"}, gpus=quota(6, 8)))
        await world.apply(intent("vision/prod/x", 5))
        await world.settle()
        assert (await lines(world, "project=vision"))["acme/vision", H100]["borrowed"] == "3"
        line = (await lines(world, "tenant=acme"))["acme", H100]
        assert (line["guaranteed"], line["used"], line["borrowed"]) == ("8", "5", "0")

    play(tmp_path, story)
