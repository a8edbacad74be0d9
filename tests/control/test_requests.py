"""The small print of HTTP: HEAD, cursors, words for what is not permitted, keys and their last use, and
what the description of the API says of headers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent
from tests.control.worlds import World, play, url


def test_head_is_get_without_a_body(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for path in ("/v1/tiers", "/healthz", "/v1/tiers/none"):
            got, head = await world.call("GET", path), await world.call("HEAD", path)
            assert (head.status, head.body) == (got.status, b"")
            assert head.headers["content-length"] == str(len(got.body))
        head = await world.call("HEAD", "/v1/events?watch=true")
        assert (head.status, head.body, head.headers["content-type"]) == (200, b"", "text/event-stream")
        assert (await world.call("HEAD", "/v1/tiers", by=None)).status == 401
        assert (await world.call("HEAD", "/v1/apply")).status == 405

    play(tmp_path, story)


@pytest.mark.parametrize("path", ["components", "audit", "events", "decisions", "usage", "keys", "tiers"])
def test_an_empty_cursor_is_none(tmp_path: Path, path: str) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/prod/a"))
        assert await world.get(f"/v1/{path}?cursor=") == await world.get(f"/v1/{path}")

    play(tmp_path, story)


def test_a_phase_is_understood_in_any_case(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/prod/a"))
        for phase in ("Pending", "pending", "PENDING", ""):
            assert len((await world.get(f"/v1/components?phase={phase}"))["items"]) == 1
        wrong = await world.call("GET", "/v1/components?phase=asleep")
        assert wrong.json["detail"].startswith("the query parameter phase is not one of Rejected, Pending")
        assert (wrong.json["code"], wrong.json["title"]) == ("request.invalid", "The request is not valid")

    play(tmp_path, story)


def test_what_is_not_permitted_is_said_in_words(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        refused = await world.call("GET", "/v1/audit", by="acme")
        assert refused.json["detail"] == "the role developer may not read the audit log"

    play(tmp_path, story)


def test_a_keys_last_use_is_shown_and_stored(tmp_path: Path) -> None:
    async def last_use(world: World, name: str) -> Any:
        (found,) = [one for one in (await world.get("/v1/keys"))["items"] if one["name"] == name]
        return found["lastUsedAt"]

    async def story(world: World) -> None:
        assert await last_use(world, "acme") is None
        await world.get("/v1/whoami", by="acme")
        seen = await last_use(world, "acme")
        assert seen == "2026-03-02T09:00:00.000Z"
        await world.plane.keyring.store_use()
        world.advance(3600)
        assert await last_use(world, "acme") == seen
        await world.restart()
        assert await last_use(world, "acme") == seen
        await world.get("/v1/whoami", by="acme")
        assert await last_use(world, "acme") == "2026-03-02T10:00:00.000Z"

    play(tmp_path, story)


def test_a_list_has_position_and_estimate_like_one(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for number in range(6):
            await world.apply(intent(f"nlp/prod/a{number}", 4, timeLimit="1h"))
            await world.apply(intent(f"cheap/dev/b{number}", 8, timeLimit="1h"))
        await world.settle()
        world.advance(10)
        items = (await world.get("/v1/components?phase=pending"))["items"]
        assert len(items) > 3
        for item in items:
            name = item["metadata"]
            alone = await world.get(url(f"{name['project']}/{name['env']}/{name['name']}"))
            for field in ("position", "estimatedStart", "reason"):
                assert item["status"][field] == alone["status"][field], field
            assert item["status"]["position"] is not None

    play(tmp_path, story)


def test_components_of_one_plan_are_planned_alone_and_say_so(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        both = [intent("nlp/prod/a", 8), intent("nlp/prod/b", 8)]
        told = (await world.call("POST", "/v1/apply?dryRun=true", both)).json["results"]
        assert all("planned alone" in one["plan"]["message"] for one in told)
        told = (await world.call("POST", "/v1/apply?dryRun=true", both[0])).json["results"]
        assert told[0]["plan"]["message"] == ""

    play(tmp_path, story)


def test_the_description_names_the_headers(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        paths = (await world.get("/openapi.json"))["paths"]

        def headers(path: str, method: str) -> set[str]:
            return {one["name"] for one in paths[path][method]["parameters"] if one["in"] == "header"}

        assert headers("/v1/apply", "post") == {"Idempotency-Key", "If-Match"}
        assert headers("/v1/tiers/{name}", "delete") == {"Idempotency-Key", "If-Match"}
        assert headers("/v1/events", "get") == {"Last-Event-ID"}
        answers = paths["/v1/events"]["get"]["responses"]
        assert set(answers["200"]["content"]) == {"application/json", "text/event-stream"}
        assert "Retry-After" in answers["default"]["headers"]

    play(tmp_path, story)
