"""More of the small print of HTTP: cursors, content types, versions, names of keys, where a watch may
begin, who may read the file, and whether the description of the API is true."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent
from tests.control.engines import SqliteDatabase
from tests.control.test_gateway_refusals import assert_problem
from tests.control.worlds import World, cursor, make_key, play, url

from windlass.contracts import api
from windlass.control.identity.scopes import ROLES


def test_a_cursor_opens_only_the_list_it_came_from(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for name in ("a", "b"):
            await world.apply(intent(f"nlp/prod/{name}"))
        lists = [f"/v1/{one}" for one in ("components", "decisions", "events", "audit", "keys", "nodes")]
        lists += ["/v1/tiers", f"{url('nlp/prod/a')}/events", f"{url('nlp/prod/b')}/events"]
        await world.act("nlp/prod/a", "cancel")
        await world.act("nlp/prod/b", "cancel")
        cursors = {path: (await world.get(f"{path}?limit=1"))["cursor"] for path in lists}
        assert None not in cursors.values()
        for path in lists:
            assert (await world.call("GET", f"{path}/?cursor={cursors[path]}")).status == 200
            for other in [*(cursors[one] for one in lists if one != path), "zzz", "-1", "%F0%9F%98%80"]:
                refused = await world.call("GET", f"{path}?cursor={other}")
                assert_problem(refused, 400, "request.invalid")
                assert "is not one of this list" in refused.json["detail"]

    play(tmp_path, story)


@pytest.mark.parametrize("position", ["x", "-1", "", "a\x00b", "9" * 30, "٣"])
def test_a_forged_cursor_is_refused_or_harmless(tmp_path: Path, position: str) -> None:
    async def story(world: World) -> None:
        for path in ("/v1/events", "/v1/audit", "/v1/components", "/v1/usage"):
            reply = await world.call("GET", f"{path}?cursor={cursor(path, position)}")
            assert reply.status in (200, 400)

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("content-type", "image/png"),
        ("content-type", "multipart/form-data; boundary=x"),
        ("content-type", "application/json; charset=utf-16"),
        ("content-encoding", "gzip"),
    ],
)
def test_a_body_of_another_kind_is_refused_as_such(tmp_path: Path, header: str, value: str) -> None:
    async def story(world: World) -> None:
        for path in ("/v1/apply", "/v1/keys"):
            reply = await world.call("POST", path, b"{}", headers={header: value})
            assert_problem(reply, 415, "media.unsupported")
            assert "is not understood" in reply.json["detail"]
            assert reply.json["remedy"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "application/json",
        "application/json; charset=UTF-8",
        "application/windlass+json",
        "application/yaml",
        "text/x-yaml",
        "application/x-www-form-urlencoded",
        "text/plain",
    ],
)
def test_json_and_yaml_are_read_under_all_their_names(tmp_path: Path, kind: str) -> None:
    async def story(world: World) -> None:
        reply = await world.call("POST", "/v1/apply", intent("nlp/prod/a"), headers={"content-type": kind})
        assert reply.status == 200, reply.body

    play(tmp_path, story)


def test_what_is_read_carries_its_version_for_if_match(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/prod/a"))
        tier = await world.call("GET", "/v1/tiers/gold")
        component = await world.call("GET", url("nlp/prod/a"))
        assert tier.headers["etag"] == '"1"' == component.headers["etag"]
        for method, path in (
            ("POST", f"{url('nlp/prod/a')}/actions/cancel"),
            ("POST", f"{url('nlp/prod/a')}/actions/rerun"),
            ("DELETE", url("nlp/prod/a")),
        ):
            before = world.dump()
            stale = await world.call(method, path, headers={"if-match": '"7"'})
            assert_problem(stale, 412, "version.stale")
            assert world.dump() == before
            done = await world.call(method, path, headers={"if-match": component.headers["etag"]})
            assert done.status in (200, 204), done.body
            await world.settle()
            if path.endswith("rerun"):
                await world.act("nlp/prod/a", "cancel")
                await world.settle()
                component = await world.call("GET", url("nlp/prod/a"))
            elif method == "POST":
                component = await world.call("GET", url("nlp/prod/a"))

    play(tmp_path, story)


@pytest.mark.parametrize("name", ["a\u001b[31mb", "a\u0000b", "a\nb", "\u202eevil", " "])
def test_a_key_has_a_name_that_a_terminal_can_show(tmp_path: Path, name: str) -> None:
    async def story(world: World) -> None:
        asked = {"name": name, "role": "viewer", "tenant": "acme"}
        assert_problem(await world.call("POST", "/v1/keys", asked), 400, "request.invalid")

    play(tmp_path, story)


def test_a_key_request_that_says_a_thing_twice_makes_no_key(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for body in (b'{"name": "x", "role": "viewer", "role": "platform-admin"}', b"[]", b"[{}, {}]"):
            assert_problem(await world.call("POST", "/v1/keys", body), 400, "request.invalid")

    play(tmp_path, story)


def test_a_watch_begins_after_an_event_that_was(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        newest = world.newest_event()
        for query in (f"since={newest + 1}", "cursor=0", "last=3", "limit=5"):
            assert_problem(await world.call("GET", f"/v1/events?watch=true&{query}"), 400, "request.invalid")
        async with world.stream(f"/v1/events?watch=true&since={newest}") as stream:
            await stream.next()
            assert stream.started["status"] == 200

    play(tmp_path, story)


def test_a_watch_ends_with_its_tenant_and_does_not_see_the_next_of_that_name(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        tenant = {
            "apiVersion": "windlass.dev/v1",
            "kind": "Tenant",
            "metadata": {"name": "brief"},
            "spec": {"tier": "gold"},
        }
        await world.apply(tenant)
        await make_key(world, "brief", "tenant-admin", "brief")
        async with world.stream("/v1/events?watch=true", by="brief") as stream:
            await stream.next()
            assert (await world.call("DELETE", "/v1/tenants/brief")).status == 204
            await world.apply(tenant)
            async with asyncio.timeout(10):
                await stream.ended.wait()
            assert stream.chunks.empty()
        assert (await world.call("GET", "/v1/whoami", by="brief")).status == 401
        told = [one["type"] for one in (await world.get("/v1/events?last=20"))["items"]]
        assert "key.revoked" in told

    play(tmp_path, story)


def test_the_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)

    async def story(world: World) -> None:
        other = World(SqliteDatabase(folder))
        await other.open()
        try:
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
            assert set(modes.values()) == {0o600}, modes
        finally:
            await other.close()

    play(tmp_path, story)


def test_the_description_says_what_each_parameter_may_be(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        described = await world.get("/openapi.json")
        wrong: list[str] = []
        for path, methods in described["paths"].items():
            parameters: list[dict[str, Any]] = methods.get("get", {}).get("parameters", [])
            for one in parameters:
                if one["in"] != "query" or one["schema"] == {"type": "string"}:
                    continue
                where = path.replace("{project}/components/{env}", "nlp/components/prod")
                where = where.replace("{name}", "a").replace("{id}", "none")
                reply = await world.call("GET", f"{where}?{one['name']}=neither")
                if reply.status not in (400, 404):
                    wrong.append(f"{path} {one['name']}")
        assert wrong == []
        role = described["components"]["schemas"]["KeyRequest"]["properties"]["role"]
        assert role["enum"] == [*ROLES, None] == [*api.KEY_ROLES, None]

    play(tmp_path, story)


def test_a_log_of_an_attempt_that_never_was_is_told_by_the_name_of_the_work(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/dev/job", 1))
        await world.settle()
        reply = await world.call("GET", f"{url('nlp/dev/job')}/logs?attempt=7")
        assert reply.status == 404 and reply.json["detail"] == "nlp/dev/job has no attempt 7"
        assert reply.json["remedy"] == "its last one is attempt 1"

    play(tmp_path, story)
