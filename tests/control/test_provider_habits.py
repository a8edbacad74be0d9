"""Providers with other habits: keys without ids, claims in other places. What is common is understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.control.providers import FakeProvider, elliptic, signed, with_provider
from tests.control.worlds import Reply, World, play


async def whoami(world: World, token: str) -> Reply:
    return await world.call("GET", "/v1/whoami", by=token)


def _publishes(provider: FakeProvider, *keys: dict[str, Any]) -> None:
    provider.answers[f"{provider.issuer}/keys"] = json.dumps({"keys": keys}).encode()


def _public(name: str, **more: Any) -> dict[str, Any]:
    return {**elliptic(name).as_dict(private=False), "kid": None, **more}


@pytest.mark.parametrize("kid", [None, "always-the-same"])
def test_a_provider_that_gives_its_keys_no_ids_of_their_own_changes_them_all_the_same(
    tmp_path: Path, kid: str | None
) -> None:
    provider = FakeProvider()
    header = {"alg": "ES256", "kid": kid}

    def token(key: str, number: int) -> str:
        return signed(header, provider.claims("everybody", jti=number), elliptic(key))

    async def story(world: World) -> None:
        await with_provider(world)
        _publishes(provider, _public("old", kid=kid))
        assert (await whoami(world, token("old", 1))).status == 200
        world.advance(10)
        _publishes(provider, _public("old", kid=kid), _public("new", kid=kid))
        assert (await whoami(world, token("new", 2))).status == 200
        assert (await whoami(world, token("old", 3))).status == 200
        assert (await whoami(world, token("nobody's", 4))).status == 401
        world.advance(10)
        _publishes(provider, _public("newest", kid=kid))
        for number in range(5, 10):
            assert (await whoami(world, token("newest", number))).status == 200
            assert (await whoami(world, token("old", 10 + number))).status == 401
        assert provider.key_reads == 3, "wrong signatures do not hammer the provider"

    play(tmp_path, story, reach=provider.reach)


def test_a_key_without_an_id_may_be_the_one_that_a_token_names(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        _publishes(provider, _public("plain"), _public("other", kid="other"))
        claims = provider.claims("everybody")
        for kid, key, status in (("any", "plain", 200), ("other", "plain", 200), ("any", "other", 401)):
            token = signed({"alg": "ES256", "kid": kid}, claims, elliptic(key))
            assert (await whoami(world, token)).status == status

    play(tmp_path, story, reach=provider.reach)


def test_a_token_is_tried_with_a_few_keys_however_many_there_are(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        _publishes(provider, *(_public(f"key {number}") for number in range(12)))
        claims = provider.claims("everybody")
        for number, status in ((3, 200), (4, 401)):
            token = signed({"alg": "ES256"}, claims, elliptic(f"key {number}"))
            assert (await whoami(world, token)).status == status

    play(tmp_path, story, reach=provider.reach)


def test_while_the_provider_is_away_a_token_without_a_key_id_may_be_of_a_new_key(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        assert (await whoami(world, provider.token("everybody"))).status == 200
        provider.down = "timed out"
        world.advance(10)
        for kid, status in ((None, 503), ("one", 401)):
            token = signed({"alg": "ES256", "kid": kid}, provider.claims("everybody"), elliptic("new"))
            assert (await whoami(world, token)).status == status

    play(tmp_path, story, reach=provider.reach)


# --- claims -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "claims"),
    [
        ("groups", {"groups": ["acme-devs"]}),
        ("realm_access.roles", {"realm_access": {"roles": ["acme-devs"]}}),
        ("https://corp.example/groups", {"https://corp.example/groups": "acme-devs"}),
        (
            "resource_access.gpu.corp.example.roles",
            {"resource_access": {"gpu.corp.example": {"roles": ["acme-devs"]}}},
        ),
        ("a.b.c", {"a": {"b": {"d": 1}}, "a.b": {"c": ["acme-devs"]}}),
        ("a.b.c", {"a": {"b": {"c": ["acme-devs"]}}, "a.b": {"d": 1}}),
    ],
)
def test_groups_are_found_where_the_document_says(tmp_path: Path, claim: str, claims: dict[str, Any]) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world, groupsClaim=claim)
        who = await whoami(world, provider.token(**{"groups": None, **claims}))
        assert (who.status, who.json.get("role")) == (200, "developer"), who.body

    play(tmp_path, story, reach=provider.reach)


def test_a_name_may_lie_within_an_object_too(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world, nameClaim="profile.mail")
        who = await whoami(world, provider.token("everybody", profile={"mail": "ada@acme.test"}))
        assert who.json["name"] == "corp:ada@acme.test"

    play(tmp_path, story, reach=provider.reach)


def test_groups_that_did_not_fit_into_the_token_are_missed_and_not_taken_for_none(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        more: dict[str, Any] = {
            "_claim_names": {"groups": "src1"},
            "_claim_sources": {"src1": {"endpoint": "https://g"}},
        }
        refused = await whoami(world, provider.token(groups=None, **more))
        assert refused.status == 401 and "only where to ask" in refused.json["detail"]
        assert "assigned to the application" in refused.json["remedy"]

    play(tmp_path, story, reach=provider.reach)
