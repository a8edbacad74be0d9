"""Logins by an identity provider: who one is, until when, as what; and what a provider's troubles do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent
from tests.control.providers import (
    AUDIENCE,
    ISSUER,
    MAPPINGS,
    NOW_S,
    FakeProvider,
    elliptic,
    provider_document,
    settle_tasks,
    with_provider,
)
from tests.control.worlds import Reply, World, play

WHOAMI = "/v1/whoami"


async def whoami(world: World, token: str, tenant: str | None = None) -> Reply:
    return await world.call(
        "GET", WHOAMI, by=token, headers={"Windlass-Tenant": tenant} if tenant is not None else {}
    )


def test_whoever_logs_in_acts_under_the_providers_name_for_them(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        token = provider.token("acme-devs")
        who = (await whoami(world, token)).json
        assert who["name"] == "corp:alice@acme.test"
        assert (who["via"], who["provider"], who["keyId"]) == ("oidc", "corp", "corp/acme/u-1")
        assert (who["role"], who["tenant"]) == ("developer", "acme")
        assert who["expiresAt"] == "2026-03-02T09:05:30.000Z", "the token's end and the skew"
        assert (await world.apply(intent("nlp/prod/x"), by=token)).status == 200
        assert (await world.get("/v1/decisions"))["items"][0]["actor"] == "corp:alice@acme.test"

    play(tmp_path, story, reach=provider.reach)


@pytest.mark.parametrize("name", [None, 7, "", "  padded", "two\nlines", "n" * 256, ["a"]])
def test_a_name_that_nobody_could_read_is_the_subject_instead(tmp_path: Path, name: Any) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        assert (await whoami(world, provider.token("everybody", email=name))).json["name"] == "corp:u-1"

    play(tmp_path, story, reach=provider.reach)


@pytest.mark.parametrize(
    ("groups", "tenant", "expected"),
    [
        (["everybody"], None, ("viewer", "acme")),
        (["everybody", "acme-devs"], None, ("developer", "acme")),
        (["acme-devs", "acme-admins", "everybody"], None, ("tenant-admin", "acme")),
        (["acme-devs", "globex-devs"], "globex", ("developer", "globex")),
        (["acme-admins", "globex-devs"], "acme", ("tenant-admin", "acme")),
        (["acme-devs", "globex-devs"], None, 403),
        (["acme-devs"], "globex", 403),
        (["acme-devs"], "nowhere", 403),
        ([], None, 403),
        (["strangers"], None, 403),
        (["auditors", "acme-admins"], None, ("platform-viewer", None)),
        (["auditors", "acme-admins"], "acme", ("tenant-admin", "acme")),
        (["auditors", "acme-admins"], "globex", ("platform-viewer", None)),
        (["operators", "auditors", "everybody"], None, ("platform-admin", None)),
        (["operators", "everybody"], "acme", ("platform-admin", None)),
        (["Übergrößen-团队"], None, ("developer", "acme")),
        (["U\u0308bergrößen-团队"], None, 403),
        (["EVERYBODY"], None, 403),
        (["everybody "], None, 403),
    ],
)
def test_groups_become_a_role_by_the_stated_rules(
    tmp_path: Path, groups: list[str], tenant: str | None, expected: Any
) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        reply = await whoami(world, provider.token(*groups), tenant)
        if isinstance(expected, int):
            assert reply.status == expected and reply.json["remedy"]
        else:
            assert (reply.json["role"], reply.json["tenant"]) == expected

    play(tmp_path, story, reach=provider.reach)


def test_who_has_several_tenants_is_told_which_and_how_to_say_so(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        reply = await whoami(world, provider.token("acme-devs", "globex-devs"))
        assert "acme, globex" in reply.json["detail"] and "--tenant" in reply.json["remedy"]

    play(tmp_path, story, reach=provider.reach)


def test_a_tenant_that_is_not_yours_and_one_that_is_not_there_cannot_be_told_apart(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        token = provider.token("acme-devs")
        answers = [(await whoami(world, token, tenant)).json for tenant in ("globex", "glubex")]
        assert answers[0]["detail"].replace("globex", "glubex") == answers[1]["detail"]
        assert answers[0]["remedy"] == answers[1]["remedy"]
        key = [(await whoami(world, world.keys["acme"], tenant)) for tenant in ("globex", "glubex")]
        assert [reply.status for reply in key] == [403, 403]
        assert key[0].json["detail"] == key[1].json["detail"]
        assert (await whoami(world, world.keys["acme"], "acme")).status == 200

    play(tmp_path, story, reach=provider.reach)


def test_one_group_may_be_a_text_instead_of_a_list(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world, groupsClaim="https://example.com/roles")
        token = provider.token(**{"https://example.com/roles": "acme-devs"})
        assert (await whoami(world, token)).json["role"] == "developer"

    play(tmp_path, story, reach=provider.reach)


# --- what is remembered -----------------------------------------------------------------------


def test_a_token_that_is_remembered_still_ends_when_it_ends(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        token = provider.token("everybody", exp=NOW_S + 10)
        assert (await whoami(world, token)).status == 200
        world.advance(39)
        assert (await whoami(world, token)).status == 200, "within the skew of 30 s"
        world.advance(1)
        assert (await whoami(world, token)).status == 401

    play(tmp_path, story, reach=provider.reach)


def test_a_changed_mapping_counts_for_tokens_that_were_seen(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        token = provider.token("acme-devs")
        assert (await whoami(world, token)).json["role"] == "developer"
        await with_provider(world, mappings=[{**MAPPINGS[1], "role": "viewer"}])
        assert (await whoami(world, token)).json["role"] == "viewer"
        await with_provider(world, audience="https://another.example.com")
        assert (await whoami(world, token)).status == 401
        assert (await world.call("DELETE", "/v1/identityproviders/corp")).status == 204
        gone = await whoami(world, token)
        assert gone.status == 401 and "not known here" in gone.json["detail"]

    play(tmp_path, story, reach=provider.reach)


def test_a_key_that_is_withdrawn_stops_working_within_minutes(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        token = provider.token("everybody", exp=NOW_S + 3600)
        assert (await whoami(world, token)).status == 200
        provider.published = {"two": elliptic("two")}
        world.advance(600)
        assert (await whoami(world, token)).status == 200, "the new keys are read beside this request"
        await settle_tasks()
        world.advance(60)
        assert (await whoami(world, token)).status == 401

    play(tmp_path, story, reach=provider.reach)


def test_a_stream_ends_with_the_mapping_that_opened_it(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        token = provider.token("acme-devs")
        async with world.stream("/v1/events?watch=true&since=0", by=token) as stream:
            await stream.next()
            await with_provider(world, mappings=[MAPPINGS[3]])
            assert (await world.apply(intent("nlp/prod/x"), by="acme")).status == 200
            await stream.ended.wait()

    play(tmp_path, story, reach=provider.reach)


def test_a_login_is_exchanged_for_a_token_that_ends_with_it(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        asked = {"lifetimeS": 3600, "actions": ["component.read"]}
        made = await world.call("POST", "/v1/tokens", asked, by=provider.token("acme-devs"))
        assert made.status == 201, made.body
        assert made.json["token"]["parent"] == "corp/acme/u-1"
        assert made.json["token"]["expiresAt"] == "2026-03-02T09:05:30.000Z"
        who = (await whoami(world, made.json["secret"])).json
        assert (who["name"], who["may"]) == ("corp:alice@acme.test", ["component.read", "self.read"])

    play(tmp_path, story, reach=provider.reach)


@pytest.mark.parametrize("how", ["deleted", "mapped otherwise"])
def test_a_token_ends_with_the_provider_whose_login_it_was_exchanged_for(tmp_path: Path, how: str) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        made = await world.call("POST", "/v1/tokens", {"lifetimeS": 3600}, by=provider.token("acme-devs"))
        token = made.json["secret"]
        other = (await world.call("POST", "/v1/tokens", {"lifetimeS": 3600}, by="acme")).json["secret"]
        assert (await whoami(world, token)).status == 200
        if how == "deleted":
            gone = await world.call("DELETE", "/v1/identityproviders/corp")
            assert gone.status == 204, gone.body
        else:
            await with_provider(world, mappings=[one for one in MAPPINGS if one["role"] != "developer"])
        refused = await whoami(world, token)
        assert refused.status == 401, refused.body
        if how == "deleted":
            await with_provider(world)
            assert (await whoami(world, token)).status == 401, "the new one is another"
        assert (await whoami(world, other)).status == 200, "exchanged for a key"

    play(tmp_path, story, reach=provider.reach)


def test_the_same_idempotency_key_in_two_tenants_is_two_requests(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        token = provider.token("acme-devs", "globex-devs")
        statuses = []
        for tenant, path in (("acme", "nlp/prod/x"), ("globex", "nlp/prod/x")):
            sent = {"Windlass-Tenant": tenant, "Idempotency-Key": "k"}
            reply = await world.call("POST", "/v1/apply", intent(path), by=token, headers=sent)
            statuses.append(reply.status)
        assert statuses == [200, 422], "globex has no project nlp"

    play(tmp_path, story, reach=provider.reach)


# --- the provider's keys ----------------------------------------------------------------------


def test_keys_are_read_once_for_many_tokens_and_many_at_once(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        tokens = [provider.token("everybody", jti=str(number)) for number in range(20)]
        replies = await asyncio.gather(*(whoami(world, token) for token in tokens))
        assert {reply.status for reply in replies} == {200}
        assert provider.key_reads == 1

    play(tmp_path, story, reach=provider.reach)


def test_a_new_key_is_found_at_once_and_made_up_ones_do_not_hammer_the_provider(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        assert (await whoami(world, provider.token("everybody"))).status == 200
        world.advance(10)
        provider.published["two"] = elliptic("two")
        assert (await whoami(world, provider.token("everybody", kid="two"))).status == 200
        assert provider.key_reads == 2
        provider.published["three"] = elliptic("three")
        for _ in range(50):
            assert (await whoami(world, provider.token("everybody", kid="three"))).status == 401
        assert provider.key_reads == 2, "ten seconds have not passed"
        world.advance(10)
        assert (await whoami(world, provider.token("everybody", kid="three"))).status == 200
        assert provider.key_reads == 3

    play(tmp_path, story, reach=provider.reach)


def test_while_the_provider_is_away_known_keys_are_good_for_a_day(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        assert (await whoami(world, provider.token("everybody"))).status == 200
        provider.down = "connection refused"
        for hours in (1, 12, 23):
            world.clock.now = type(world.clock.now)((NOW_S + hours * 3600) * 1000)
            fresh = provider.token("everybody", iat=NOW_S, exp=NOW_S + hours * 3600 + 60)
            assert (await whoami(world, fresh)).status == 200
            await settle_tasks()
        world.advance(3600)
        late = provider.token("everybody", exp=NOW_S + 25 * 3600)
        refused = await whoami(world, late)
        assert refused.status == 503 and "retry-after" in refused.headers
        assert "connection refused" in refused.json["detail"] and refused.json["remedy"]
        provider.down = ""
        world.advance(5)
        assert (await whoami(world, late)).status == 200

    play(tmp_path, story, reach=provider.reach)


def test_while_no_key_is_known_everybodys_token_waits_and_nobody_is_let_in(tmp_path: Path) -> None:
    provider = FakeProvider()
    provider.down = "timed out"

    async def story(world: World) -> None:
        await with_provider(world)
        for _ in range(5):
            assert (await whoami(world, provider.token("operators"))).status == 503
        assert len(provider.asked) == 1, "it is left alone for a while"
        assert (await whoami(world, world.keys["acme"])).status == 200, "keys do not need it"
        provider.down = ""
        world.advance(5)
        assert (await whoami(world, provider.token("operators"))).status == 200

    play(tmp_path, story, reach=provider.reach)


def test_an_unknown_key_of_a_provider_that_is_away_may_be_a_new_one(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        assert (await whoami(world, provider.token("everybody"))).status == 200
        provider.down, provider.published["two"] = "timed out", elliptic("two")
        world.advance(10)
        assert (await whoami(world, provider.token("everybody", kid="two"))).status == 503
        assert (await whoami(world, provider.token("everybody"))).status == 200

    play(tmp_path, story, reach=provider.reach)


def test_a_provider_that_hangs_holds_up_nobody_but_those_who_need_it(tmp_path: Path) -> None:
    provider, released = FakeProvider(), asyncio.Event()

    async def reach(url: str) -> bytes:
        await released.wait()
        return await provider.reach(url)

    async def story(world: World) -> None:
        await with_provider(world)
        waiting = [
            asyncio.create_task(whoami(world, provider.token("acme-devs", jti=str(n)))) for n in range(3)
        ]
        assert (await world.apply(intent("nlp/prod/x"), by="acme")).status == 200, "nor the store"
        assert not any(task.done() for task in waiting)
        waiting.pop().cancel()  # one gives up; the others still get their answer
        released.set()
        assert [(await task).status for task in waiting] == [200, 200]
        assert provider.key_reads == 1

    play(tmp_path, story, reach=reach)


DISCOVERY, KEYS = f"{ISSUER}/.well-known/openid-configuration", f"{ISSUER}/keys"


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        (DISCOVERY, b"<html>Sign in</html>"),
        (DISCOVERY, b""),
        (DISCOVERY, b"[]"),
        (DISCOVERY, b"\xff\xfe"),
        (DISCOVERY, b"[" * 100_000),
        (DISCOVERY, json.dumps({"issuer": "https://evil.example", "jwks_uri": KEYS}).encode()),
        (DISCOVERY, json.dumps({"issuer": ISSUER}).encode()),
        (DISCOVERY, json.dumps({"issuer": ISSUER, "jwks_uri": ["x"]}).encode()),
        (DISCOVERY, json.dumps({"issuer": ISSUER, "jwks_uri": "http://login.example.com/keys"}).encode()),
        (DISCOVERY, json.dumps({"issuer": ISSUER, "jwks_uri": "http://127.0.0.1:7420/keys"}).encode()),
        (DISCOVERY, json.dumps({"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"}).encode()),
        (DISCOVERY, json.dumps({"issuer": ISSUER, "jwks_uri": "https://a b/\r\nx: y"}).encode()),
        (KEYS, b"not json"),
        (KEYS, b"{}"),
        (KEYS, b'{"keys": {}}'),
        (KEYS, b'{"keys": []}'),
        (KEYS, b'{"keys": [{"kty": "oct", "k": "AAAA", "kid": "one"}]}'),
    ],
)
def test_a_provider_that_answers_nonsense_is_a_provider_that_is_away(
    tmp_path: Path, where: str, answer: bytes
) -> None:
    provider = FakeProvider()
    provider.answers[where] = answer

    async def story(world: World) -> None:
        await with_provider(world)
        reply = await whoami(world, provider.token("operators"))
        assert reply.status == 503, reply.body
        assert set(provider.asked) <= {DISCOVERY, KEYS}

    play(tmp_path, story, reach=provider.reach)


# --- what everybody may know ------------------------------------------------------------------


def test_how_to_log_in_is_open_to_everybody_and_tells_no_more_than_that(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.call("GET", "/v1/identity", by=None)).json == {"providers": []}
        await with_provider(world, scopes=["openid", "groups"])
        told = (await world.call("GET", "/v1/identity", by=None)).json
        assert told == {
            "providers": [
                {
                    "name": "corp",
                    "issuer": ISSUER,
                    "clientId": "windlass-cli",
                    "scopes": ["openid", "groups"],
                    "audienceParameter": None,
                    "audience": None,
                }
            ]
        }
        await with_provider(world, audienceParameter="resource")
        told = (await world.call("GET", "/v1/identity", by=None)).json["providers"][0]
        assert (told["audienceParameter"], told["audience"]) == ("resource", AUDIENCE)

    play(tmp_path, story)


def test_a_tenant_sees_whom_it_is_vouched_for_by_and_only_its_own_mappings(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await with_provider(world)
        seen = await world.get("/v1/identityproviders/corp", by="acme")
        assert {one["tenant"] for one in seen["spec"]["mappings"]} == {"acme"}
        assert len((await world.get("/v1/identityproviders/corp"))["spec"]["mappings"]) == len(MAPPINGS)
        assert (await world.apply(provider_document("mine"), by="acme-admin")).status == 403

    play(tmp_path, story)


def test_a_tenant_that_a_provider_maps_to_is_in_use(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await with_provider(world, mappings=[{"group": "g", "role": "viewer", "tenant": "umbra"}])
        for path in ("/v1/envelopes/umbra", "/v1/projects/cheap"):
            assert (await world.call("DELETE", path)).status == 204
        reply = await world.call("DELETE", "/v1/tenants/umbra")
        assert reply.status == 409 and "IdentityProvider corp" in reply.json["detail"]

    play(tmp_path, story)
