"""Logins by a provider of another kind, over TLS as a server really reaches it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.control.providers import provider_document
from tests.control.tls_provider import Authority, TlsProvider
from tests.control.worlds import Reply, World, play

from windlass.core.units import Ms

Story = Callable[[World, TlsProvider], Awaitable[None]]
GROUP = "Platform Team / NLP (prod)"


def told(folder: Path, authority: Authority, story: Story, host: str = "localhost", days: int = 1) -> None:
    async def main(world: World) -> None:
        provider = TlsProvider()
        async with provider.serving(authority.serving(host, days)):
            mapped = [{"group": GROUP, "role": "developer", "tenant": "acme"}]
            document = provider_document(
                issuer=provider.issuer,
                groupsClaim="resource_access.windlass.roles",
                nameClaim="preferred_username",
                algorithms=["ES256"],
                mappings=mapped,
            )
            assert (await world.apply(document)).status == 200
            world.clock.now = Ms(time.time_ns() // 1_000_000)
            await story(world, provider)

    play(folder, main)


async def whoami(world: World, token: str) -> Reply:
    return await world.call("GET", "/v1/whoami", by=token)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """One that this machine trusts."""
    made = Authority(tmp_path, "ours")
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    return made


def test_a_provider_of_another_kind_is_understood(tmp_path: Path, authority: Authority) -> None:
    async def story(world: World, provider: TlsProvider) -> None:
        who = await whoami(world, provider.token(GROUP, "another"))
        assert who.status == 200, who.body
        assert (who.json["name"], who.json["role"], who.json["tenant"]) == ("corp:ada", "developer", "acme")
        for token in (
            provider.token("platform team / nlp (prod)"),
            provider.token(GROUP, resource_access={"other": {"roles": [GROUP]}}),
            provider.token(resource_access={"windlass": GROUP}),
        ):
            assert (await whoami(world, token)).status == 403
        elsewhere = await whoami(world, provider.token(GROUP, aud=["account"]))
        assert elsewhere.status == 401 and "another audience" in elsewhere.json["detail"]

    told(tmp_path, authority, story)


def test_a_new_key_of_the_provider_counts_without_a_word_to_anybody(
    tmp_path: Path, authority: Authority
) -> None:
    async def story(world: World, provider: TlsProvider) -> None:
        old = provider.token(GROUP)
        assert (await whoami(world, old)).status == 200
        provider.rotate()
        world.advance(11)
        assert (await whoami(world, provider.token(GROUP))).status == 200
        world.advance(61)
        assert (await whoami(world, old)).status == 200, "published for a while yet"

    told(tmp_path, authority, story)


@pytest.mark.parametrize(
    ("host", "days", "why"),
    [("elsewhere.example", 1, "Hostname mismatch"), ("localhost", -1, "certificate has expired")],
)
def test_a_certificate_that_does_not_fit_lets_nobody_in(
    tmp_path: Path, authority: Authority, host: str, days: int, why: str
) -> None:
    async def story(world: World, provider: TlsProvider) -> None:
        reply = await whoami(world, provider.token(GROUP))
        assert reply.status == 503 and why in reply.json["detail"], reply.body

    told(tmp_path, authority, story, host, days)


@pytest.mark.usefixtures("authority")
def test_a_certificate_of_an_authority_nobody_trusts_lets_nobody_in(tmp_path: Path) -> None:
    async def story(world: World, provider: TlsProvider) -> None:
        reply = await whoami(world, provider.token(GROUP))
        assert reply.status == 503 and "certificate verify failed" in reply.json["detail"], reply.body

    told(tmp_path, Authority(tmp_path, "theirs"), story)
