"""Every list comes by the page: the pages together are the whole, in one order, nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import envelope, intent, policy, quota
from tests.control.providers import provider_document
from tests.control.worlds import World, play, url

from windlass.core.documents.kinds import KINDS

LISTS = (
    *(f"/v1/{kind.plural}" for kind in KINDS.values()),
    "/v1/components",
    "/v1/components?phase=Rejected",
    "/v1/components?tenant=acme",
    "/v1/decisions",
    "/v1/decisions?component=nlp/prod/a0",
    "/v1/events",
    f"{url('nlp/prod/a0')}/events",
    "/v1/audit",
    "/v1/usage",
    "/v1/keys",
    "/v1/tokens",
    "/v1/serviceaccounts",
    "/v1/nodes",
)


async def a_busy_platform(world: World) -> None:
    """Work of two tenants, finished, running, waiting and refused; two envelopes of one name."""
    for tenant, name in (("acme", "vision"), ("globex", "chat")):
        scope = {"tenant": tenant, "project": name}
        assert (await world.apply(envelope("share", scope, gpus=quota(1, 8)))).status == 200
        assert (await world.apply(policy("modest", "spec.gpus <= 100", tenant))).status == 200
        issuer = f"https://{tenant}.example"
        assert (await world.apply(provider_document(tenant, issuer=issuer))).status == 200
        for account in ("ci", "cron"):
            asked = {"name": account, "role": "viewer", "tenant": tenant}
            assert (await world.call("POST", "/v1/serviceaccounts", asked)).status == 201
            assert (await world.call("POST", "/v1/tokens", {}, by=f"{tenant}-admin")).status == 201
    for number in range(3):
        for path in (f"nlp/prod/a{number}", f"chat/prod/b{number}"):
            await world.apply(intent(path, 4))
        await world.apply(intent(f"nlp/prod/refused{number}", 99))
    await world.settle()
    world.finish("nlp/prod/a0")
    await world.apply(intent("nlp/prod/a0", 99), by="globex")  # in vain: not its project
    await world.settle()
    await world.act("nlp/prod/a0", "rerun")
    await world.settle()


async def pages(world: World, path: str, limit: int, by: str) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    joined = "&" if "?" in path else "?"
    while True:
        more = f"&cursor={cursor}" if cursor is not None else ""
        page = await world.get(f"{path}{joined}limit={limit}{more}", by=by)
        assert len(page["items"]) <= limit
        found += page["items"]
        cursor = page.get("cursor")
        if cursor is None:
            return found
        assert page["items"], f"{path}: a cursor without items"


def test_the_pages_of_every_list_are_the_whole_list(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_busy_platform(world)
        for path in LISTS:
            for by in ("admin", "acme-admin"):
                if by == "acme-admin" and path == "/v1/nodes":
                    continue
                whole = (await world.get(path + ("&" if "?" in path else "?") + "limit=500", by=by))["items"]
                for limit in (1, 2, 7):
                    assert await pages(world, path, limit, by) == whole, f"{path} by {limit} for {by}"
                if by == "admin" and path not in ("/v1/sites", "/v1/pricebooks"):
                    assert len(whole) > 1, f"{path} is too short to prove anything"

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", {"a0", "a1", "a2", "b0", "b1", "b2", "refused0", "refused1", "refused2"}),
        ("?phase=Rejected", {"refused0", "refused1", "refused2"}),
        ("?project=chat", {"b0", "b1", "b2"}),
        ("?tenant=acme&phase=Running", {"a1", "a2"}),
        ("?env=dev", set()),
        ("?tenant=nobody", set()),
    ],
)
def test_a_list_of_components_can_be_narrowed(tmp_path: Path, query: str, names: set[str]) -> None:
    async def story(world: World) -> None:
        await a_busy_platform(world)
        found = (await world.get(f"/v1/components{query}"))["items"]
        assert {item["metadata"]["name"] for item in found} == names

    play(tmp_path, story)


def test_a_list_read_while_it_grows_shows_what_was_there_at_its_start(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_busy_platform(world)
        before = [item["metadata"]["name"] for item in (await world.get("/v1/components"))["items"]]
        seen: list[str] = []
        cursor: str | None = ""
        number = 0
        while cursor is not None:
            page = await world.get(f"/v1/components?limit=2&cursor={cursor}")
            seen += [item["metadata"]["name"] for item in page["items"]]
            cursor, number = page["cursor"], number + 1
            if number < 5:
                await world.apply(intent(f"nlp/dev/late{number}"))
        assert [name for name in seen if not name.startswith("late")] == before
        assert len(seen) == len(set(seen))

    play(tmp_path, story)


def test_asking_for_another_tenants_share_of_a_list_gives_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await a_busy_platform(world)
        world.finish("nlp/prod/a1")
        await world.settle()
        assert (await world.get("/v1/components?tenant=globex", by="acme"))["items"] == []
        costs = await world.get("/v1/costs?tenant=globex", by="acme")
        assert costs["lines"] == [] and costs["totals"] == []
        assert (await world.get("/v1/costs?tenant=acme", by="acme"))["lines"] != []

    play(tmp_path, story)


def test_the_newest_events_come_oldest_first_and_only_ones_own(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for name in ("one", "two", "three"):
            await world.apply(intent(f"nlp/prod/{name}"), by="acme")
        everything = (await world.call("GET", "/v1/events?limit=500", by="acme")).json["items"]
        newest = (await world.call("GET", "/v1/events?last=2", by="acme")).json["items"]
        assert newest == everything[-2:]
        assert {event["tenant"] for event in newest} == {"acme"}

    play(tmp_path, story)


def test_components_can_be_found_by_their_name_alone(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for path in ("nlp/prod/same", "nlp/dev/same", "nlp/prod/other"):
            await world.apply(intent(path), by="acme")
        found = (await world.call("GET", "/v1/components?name=same", by="acme")).json["items"]
        assert sorted(one["metadata"]["env"] for one in found) == ["dev", "prod"]

    play(tmp_path, story)
