"""Keys, tokens and service accounts: narrowed, rotated, exchanged, revoked; nobody gets wider."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent
from tests.control.rights import EVERYWHERE, PROJECT_ACTIONS, ROLE_ACTIONS
from tests.control.worlds import Reply, World, make_key, play, url

from windlass.control.db import migrations
from windlass.control.gateway.table import routes

WHOAMI = "/v1/whoami"


async def rotate(world: World, id: str, overlap_s: int, *, by: str = "admin") -> Reply:
    return await world.call("POST", f"/v1/keys/{id}/rotate", {"overlapS": overlap_s}, by=by)


async def exchange(world: World, *, by: str, as_name: str = "token", **asked: Any) -> Reply:
    reply = await world.call("POST", "/v1/tokens", asked, by=by)
    if reply.status == 201:
        world.keys[as_name] = reply.json["secret"]
    return reply


async def status(world: World, by: str) -> int:
    return (await world.call("GET", WHOAMI, by=by)).status


# --- rotation ---------------------------------------------------------------------------------


def test_a_rotated_key_and_its_successor_both_work_until_the_overlap_ends(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await make_key(world, "ci", "developer", "acme", expiresInS=86_400, actions=["component.read"])
        world.advance(3600)
        made = await rotate(world, id, 600, by="acme-admin")
        assert made.status == 201
        successor = made.json["key"]
        world.keys["new"] = made.json["secret"]
        assert (successor["name"], successor["role"], successor["tenant"]) == ("ci", "developer", "acme")
        assert successor["actions"] == ["component.read"]
        assert successor["expiresAt"] == "2026-03-03T10:00:00.000Z", "a day from now, as the first had"
        assert (await status(world, "ci"), await status(world, "new")) == (200, 200)
        world.advance(599)
        assert (await status(world, "ci"), await status(world, "new")) == (200, 200)
        world.advance(1)
        assert (await status(world, "ci"), await status(world, "new")) == (401, 200)
        listed = {one["id"]: one for one in (await world.get("/v1/keys"))["items"]}
        assert listed[id]["replacedBy"] == successor["id"]

    play(tmp_path, story)


def test_rotating_without_an_overlap_ends_the_old_key_and_its_tokens_at_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await make_key(world, "ci", "developer", "acme")
        assert (await exchange(world, by="ci")).status == 201
        assert (await status(world, "ci"), await status(world, "token")) == (200, 200)
        assert (await rotate(world, id, 0)).status == 201
        assert (await status(world, "ci"), await status(world, "token")) == (401, 401)

    play(tmp_path, story)


def test_a_stream_ends_with_the_overlap_of_the_key_that_opened_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await make_key(world, "ci", "developer", "acme")
        async with world.stream("/v1/events?watch=true&since=0", by="ci") as stream:
            await stream.next()
            await rotate(world, id, 60)
            world.advance(60)
            assert (await world.apply(intent("nlp/prod/x"), by="acme")).status == 200
            await stream.ended.wait()

    play(tmp_path, story)


def test_a_key_is_rotated_once_and_only_while_it_works(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await make_key(world, "ci", "developer", "acme")
        first = (await rotate(world, id, 60)).json["key"]["id"]
        again = await rotate(world, id, 60)
        assert again.status == 409 and first in again.json["detail"]
        assert (await world.call("DELETE", f"/v1/keys/{first}")).status == 204
        assert (await rotate(world, first, 60)).status == 409
        assert (await rotate(world, "key_none", 60)).status == 404
        for wrong in (-1, 31 * 86_400):
            assert (await rotate(world, id, wrong)).status == 400

    play(tmp_path, story)


def test_rotation_with_an_idempotency_key_makes_one_successor(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await make_key(world, "ci", "developer", "acme")
        path, sent = f"/v1/keys/{id}/rotate", {"idempotency-key": "k"}
        assert (await world.call("POST", path, {}, headers=sent)).status == 201
        before = world.dump()
        again = await world.call("POST", path, {}, headers=sent)
        assert again.status == 409 and "shown only once" in again.json["detail"]
        assert world.dump() == before

    play(tmp_path, story)


def test_nobody_rotates_a_key_they_could_not_have_made(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        theirs = await make_key(world, "theirs", "developer", "globex")
        agent = await make_key(world, "robot", "agent", None, site="local")
        plain = await make_key(world, "plain", "developer", "acme")
        await make_key(world, "keeper", "tenant-admin", "acme", actions=["key.write", "component.read"])
        before = world.dump()
        assert (await rotate(world, theirs, 60, by="acme-admin")).status == 404
        assert (await rotate(world, agent, 60, by="acme-admin")).status == 404
        assert (await rotate(world, plain, 60, by="keeper")).status == 403, "it would get a wider secret"
        assert (await rotate(world, plain, 60, by="acme")).status == 403
        assert world.dump() == before

    play(tmp_path, story)


# --- narrowed keys ----------------------------------------------------------------------------


def test_a_key_narrowed_to_actions_does_those_and_says_so(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await make_key(world, "reader", "developer", "acme", actions=["component.read"])
        assert (await world.call("GET", "/v1/components", by="reader")).status == 200
        refused = await world.call("GET", "/v1/costs", by="reader")
        assert refused.status == 403 and "narrowed" in refused.json["detail"]
        assert (await world.apply(intent("nlp/prod/x"), by="reader")).status == 403
        who = await world.get(WHOAMI, by="reader")
        assert who["may"] == ["component.read", "self.read"]
        assert who["can"] == ["read components", "ask who it is"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"actions": []}, 400),
        ({"actions": ["component.reed"]}, 400),
        ({"actions": ["catalog.write"]}, 403),
        ({"project": "nowhere"}, 400),
        ({"project": "chat"}, 400),
        ({"name": "windlass/scheduler"}, 400),
        ({"name": "corp:alice"}, 400),
        ({"name": "a\nb"}, 400),
        ({"role": None}, 400),
        ({"serviceAccount": "none"}, 404),
        ({"surprise": 1}, 400),
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(tmp_path: Path, asked: dict[str, Any], expected: int) -> None:
    async def story(world: World) -> None:
        before = world.dump()
        wanted = {"name": "n", "role": "developer", **asked}
        if "serviceAccount" in asked:
            del wanted["role"]
        reply = await world.call("POST", "/v1/keys", wanted, by="acme-admin")
        assert reply.status == expected, reply.body
        assert world.dump() == before

    play(tmp_path, story)


def test_a_key_for_one_project_reaches_nothing_outside_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(
            {
                "apiVersion": "windlass.dev/v1",
                "kind": "Project",
                "metadata": {"name": "vision", "tenant": "acme"},
                "spec": {"environments": ["prod"], "defaultProfile": "h100-80g"},
            },
            by="acme-admin",
        )
        for path in ("nlp/prod/a", "vision/prod/b"):
            assert (await world.apply(intent(path), by="acme")).status == 200
        await world.settle()
        await make_key(world, "one", "tenant-admin", "acme", project="nlp")
        assert (await world.call("GET", url("nlp/prod/a"), by="one")).status == 200
        assert (await world.call("GET", url("vision/prod/b"), by="one")).status == 403
        listed = await world.get("/v1/components", by="one")
        assert [item["metadata"]["project"] for item in listed["items"]] == ["nlp"]
        assert (await world.call("GET", "/v1/components?project=vision", by="one")).status == 403
        assert (await world.apply(intent("nlp/prod/c"), by="one")).status == 200
        for refused in (intent("vision/prod/d"), [intent("nlp/prod/e"), intent("vision/prod/e")]):
            assert (await world.call("POST", "/v1/apply", refused, by="one")).status == 403
        assert (await world.call("POST", f"{url('vision/prod/b')}/actions/cancel", by="one")).status == 403
        assert not world.rows("SELECT 1 FROM components WHERE name IN ('d', 'e')")

    play(tmp_path, story)


def test_every_route_keeps_a_projects_key_within_its_project_or_refuses_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for role, tenant in (("platform-admin", None), ("tenant-admin", "acme")):
            await make_key(world, role, role, tenant, project="nlp")
            for route in routes(world.plane):
                if route.action is None or route.pattern == "/v1/apply":
                    continue
                path = route.pattern.replace("{project}", "vision").replace("{action}", "cancel")
                path = path.replace("{env}", "prod").replace("{name}", "none").replace("{id}", "none")
                asked = f"{path}?project=vision" if "project" in route.query else path
                reply = await world.call(route.method, asked, by=role)
                free = route.action in EVERYWHERE and "project" not in route.query
                assert (reply.status != 403) == free, f"{route.method} {asked}: {reply.body!r}"

    play(tmp_path, story)


def test_what_is_open_to_a_projects_key_is_also_open_to_the_role(tmp_path: Path) -> None:
    assert EVERYWHERE <= PROJECT_ACTIONS <= ROLE_ACTIONS["developer"]


def test_a_narrowed_credential_makes_nothing_wider_than_itself(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        own = ["key.write", "key.read", "component.read"]
        await make_key(world, "keeper", "tenant-admin", "acme", actions=own)
        before = world.dump()
        for asked in (
            {"name": "n", "role": "developer"},
            {"name": "n", "role": "developer", "actions": ["component.write"]},
            {"name": "n", "role": "tenant-admin", "actions": ["component.read", "tenant.write"]},
        ):
            assert (await world.call("POST", "/v1/keys", asked, by="keeper")).status == 403
        account = {"name": "ci", "role": "developer"}
        assert (await world.call("POST", "/v1/serviceaccounts", account, by="keeper")).status == 403
        assert world.dump() == before
        fine = {"name": "n", "role": "developer", "actions": ["component.read"]}
        assert (await world.call("POST", "/v1/keys", fine, by="keeper")).status == 201

    play(tmp_path, story)


# --- short-lived tokens -----------------------------------------------------------------------


def test_a_token_is_its_owner_for_a_while_and_never_longer_than_the_key(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        key = await make_key(world, "short", "developer", "acme", expiresInS=100)
        made = await exchange(world, by="short", lifetimeS=3600)
        assert made.status == 201 and made.json["secret"].startswith("wdt_")
        assert made.json["token"]["expiresAt"] == "2026-03-02T09:01:40.000Z"
        who = await world.get(WHOAMI, by="token")
        assert (who["name"], who["role"], who["tenant"], who["via"]) == (
            "short",
            "developer",
            "acme",
            "token",
        )
        assert (await world.get("/v1/tokens", by="acme-admin"))["items"][0]["parent"] == key
        world.advance(100)
        assert await status(world, "token") == 401

    play(tmp_path, story)


def test_a_token_makes_nothing_that_could_outlive_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await exchange(world, by="admin")
        before = world.dump()
        for path, body in (
            ("/v1/keys", {"name": "n", "role": "platform-admin"}),
            ("/v1/tokens", {}),
            ("/v1/serviceaccounts", {"name": "n", "role": "platform-admin"}),
        ):
            assert (await world.call("POST", path, body, by="token")).status == 403
        assert world.dump() == before

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"lifetimeS": 0}, 400),
        ({"lifetimeS": 3601}, 400),
        ({"actions": ["key.write"]}, 403),
        ({"actions": ["nonsense"]}, 400),
        ({"project": "chat"}, 400),
        ({"lifetimeS": "900"}, 400),
    ],
)
def test_a_token_is_never_wider(tmp_path: Path, asked: dict[str, Any], expected: int) -> None:
    async def story(world: World) -> None:
        assert (await exchange(world, by="acme", **asked)).status == expected

    play(tmp_path, story)


def test_a_token_of_a_narrowed_key_is_narrowed_as_much(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        actions = ["component.read", "component.write", "token.create"]
        await make_key(world, "one", "developer", "acme", project="nlp", actions=actions)
        assert (await exchange(world, by="one")).json["token"]["project"] == "nlp"
        assert (await world.get(WHOAMI, by="token"))["may"] == [
            "component.read",
            "component.write",
            "self.read",
        ]
        narrower = await exchange(world, by="one", actions=["component.read"], as_name="narrow")
        assert narrower.json["token"]["actions"] == ["component.read"]
        assert (await world.call("GET", "/v1/components?project=vision", by="narrow")).status == 403
        assert (await exchange(world, by="one", actions=["cost.read"])).status == 403

    play(tmp_path, story)


def test_revoking_a_key_ends_its_tokens_and_the_streams_they_opened(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await make_key(world, "ci", "developer", "acme")
        await exchange(world, by="ci")
        async with world.stream("/v1/events?watch=true&since=0", by="token") as stream:
            await stream.next()
            assert (await world.call("DELETE", f"/v1/keys/{id}")).status == 204
            assert (await world.apply(intent("nlp/prod/x"), by="acme")).status == 200
            await stream.ended.wait()
        assert (await status(world, "ci"), await status(world, "token")) == (401, 401)
        await world.restart()
        assert await status(world, "token") == 401

    play(tmp_path, story)


def test_one_ends_ones_own_token_and_nobody_elses(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        mine = (await exchange(world, by="acme", as_name="mine")).json["token"]["id"]
        theirs = (await exchange(world, by="globex", as_name="theirs")).json["token"]["id"]
        assert (await world.call("DELETE", f"/v1/tokens/{theirs}", by="acme")).status == 404
        assert (await world.call("DELETE", f"/v1/tokens/{mine}", by="acme-viewer")).status == 404
        assert (await world.call("DELETE", f"/v1/tokens/{mine}", by="mine")).status == 204
        assert (await status(world, "mine"), await status(world, "theirs")) == (401, 200)
        assert (await world.call("DELETE", f"/v1/tokens/{theirs}", by="globex-admin")).status == 204

    play(tmp_path, story)


def test_expired_tokens_are_forgotten_after_a_day(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await exchange(world, by="acme", lifetimeS=60)
        world.advance(60 + 86_400)
        assert await status(world, "token") == 401
        await status(world, "acme")
        await world.plane.keyring.store_use()
        assert len(world.rows("SELECT id FROM api_keys WHERE kind = 'token'")) == 1
        world.advance(1)
        await status(world, "acme")
        await world.plane.keyring.store_use()
        assert world.rows("SELECT id FROM api_keys WHERE kind = 'token'") == []

    play(tmp_path, story)


# --- service accounts -------------------------------------------------------------------------


def test_a_service_account_acts_under_its_own_name_whichever_key_was_shown(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        account = {"name": "deployer", "role": "developer", "note": "the pipeline"}
        assert (await world.call("POST", "/v1/serviceaccounts", account, by="acme-admin")).status == 201
        for name in ("first", "second"):
            asked = {"serviceAccount": "deployer", "name": name}
            made = await world.call("POST", "/v1/keys", asked, by="acme-admin")
            assert made.status == 201
            world.keys[name] = made.json["secret"]
            assert (await world.apply(intent(f"nlp/prod/{name}"), by=name)).status == 200
        who = await world.get(WHOAMI, by="first")
        assert (who["serviceAccount"], who["role"], who["tenant"]) == ("deployer", "developer", "acme")
        actors = {
            row["actor"] for row in world.rows("SELECT actor FROM events WHERE type = 'component.submitted'")
        }
        assert actors == {"service-account:deployer"}

    play(tmp_path, story)


def test_deleting_a_service_account_ends_its_keys_and_their_tokens(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for tenant in ("acme", "globex"):
            account = {"name": "ci", "role": "developer", "tenant": tenant}
            assert (await world.call("POST", "/v1/serviceaccounts", account)).status == 201
            made = await world.call("POST", "/v1/keys", {"serviceAccount": "ci", "tenant": tenant})
            world.keys[f"{tenant}-ci"] = made.json["secret"]
            await exchange(world, by=f"{tenant}-ci", as_name=f"{tenant}-token")
        assert (await world.call("DELETE", "/v1/serviceaccounts/ci", by="acme-admin")).status == 204
        assert [await status(world, name) for name in ("acme-ci", "acme-token")] == [401, 401]
        assert [await status(world, name) for name in ("globex-ci", "globex-token")] == [200, 200]
        assert (await world.call("DELETE", "/v1/serviceaccounts/ci", by="acme-admin")).status == 404
        assert (await world.call("DELETE", "/v1/serviceaccounts/ci?tenant=globex")).status == 204

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"name": "Bad Name"}, 400),
        ({"role": "platform-admin"}, 403),
        ({"role": "agent"}, 403),
        ({"tenant": "globex"}, 400),
        ({"note": "x" * 501}, 400),
        ({"name": "taken"}, 409),
    ],
)
def test_a_service_account_that_may_not_be_is_not_made(
    tmp_path: Path, asked: dict[str, Any], expected: int
) -> None:
    async def story(world: World) -> None:
        taken = {"name": "taken", "role": "viewer"}
        assert (await world.call("POST", "/v1/serviceaccounts", taken, by="acme-admin")).status == 201
        before = world.dump()
        wanted = {"name": "ci", "role": "developer", **asked}
        reply = await world.call("POST", "/v1/serviceaccounts", wanted, by="acme-admin")
        assert reply.status == expected, reply.body
        assert world.dump() == before

    play(tmp_path, story)


def test_a_tenants_service_accounts_go_with_the_tenant(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        account = {"name": "ci", "role": "developer", "tenant": "umbra"}
        assert (await world.call("POST", "/v1/serviceaccounts", account)).status == 201
        principal = await world.plane.door.authenticate(world.keys["umbra"], None)
        assert world.plane.door.holds(principal)
        for path in ("/v1/envelopes/umbra", "/v1/projects/cheap", "/v1/tenants/umbra"):
            assert (await world.call("DELETE", path)).status == 204
        assert world.rows("SELECT 1 FROM service_accounts") == []
        assert not world.plane.door.holds(principal), "nor does a stream go on for it"

    play(tmp_path, story)


# --- what was there before --------------------------------------------------------------------


def test_a_key_made_before_the_checksum_stays_valid(tmp_path: Path) -> None:
    old = f"wdl_{'0' * 31}7_{'k' * 43}"

    async def story(world: World) -> None:
        digest = hashlib.sha256(old.encode()).hexdigest()
        world.rows(
            "INSERT INTO api_keys (id, name, role, tenant, hash, created_ms)"
            " VALUES ('key_old', 'old', 'developer', 'acme', ?, 0)",
            digest,
        )
        assert (await world.get(WHOAMI, by=old))["keyId"] == "key_old"

    play(tmp_path, story)


def test_a_database_of_the_first_schema_keeps_its_keys(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "old.db", isolation_level=None) as connection:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(migrations, "STEPS", migrations.STEPS[:1])
            migrations.migrate(connection)
        row = ("key_1", "ci", "developer", "acme", "hash", 7)
        columns = "id, name, role, tenant, hash, created_ms"
        connection.execute(f"INSERT INTO api_keys ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)  # noqa: S608
        migrations.migrate(connection)
        found = connection.execute(f"SELECT {columns}, kind, actions, project, parent FROM api_keys")  # noqa: S608
        assert found.fetchall() == [(*row, "key", "", None, None)]
    connection.close()


def test_a_mistyped_key_is_told_from_a_revoked_one(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        mistyped = world.keys["acme"][:-1] + ("0" if world.keys["acme"][-1] != "0" else "1")
        reply = await world.call("GET", WHOAMI, by=mistyped)
        assert reply.status == 401 and "mistyped" in reply.json["detail"]

    play(tmp_path, story)
