"""Tokens that must not open the door: forged, swapped, stale, foreign, malformed. Each is refused with 401,
says why, and changes nothing; the honest token beside them is accepted, so the refusals mean something."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.control.providers import (
    AUDIENCE,
    ISSUER,
    NOW_S,
    FakeProvider,
    edwards,
    elliptic,
    encoded,
    forged,
    hmacked,
    rsa,
    signed,
    with_provider,
)
from tests.control.worlds import World, play

WHOAMI = "/v1/whoami"
ATTACKER = "the attacker's own"

Forge = Callable[[FakeProvider], str]


def _claims(provider: FakeProvider, **claims: Any) -> dict[str, Any]:
    return provider.claims("operators", **claims)


def _public_pem(provider: FakeProvider) -> bytes:
    return bytes(provider.published["rsa"].as_pem(private=False))


def _header(**header: Any) -> dict[str, Any]:
    return {"alg": "ES256", "kid": "one", "typ": "at+jwt", **header}


def _by_attacker(provider: FakeProvider, **header: Any) -> str:
    return signed(_header(**header), _claims(provider), elliptic(ATTACKER))


def _own_key() -> dict[str, Any]:
    return elliptic(ATTACKER).as_dict(private=False)


def _swapped(provider: FakeProvider) -> str:
    honest = provider.token("everybody").split(".")
    return f"{honest[0]}.{encoded(_claims(provider))}.{honest[2]}"


SIGNATURES: dict[str, Forge] = {
    "signed by another key under the same kid": _by_attacker,
    "signed by another key without a kid": lambda p: _by_attacker(p, kid=None),
    "a kid that nobody publishes": lambda p: _by_attacker(p, kid="nobody"),
    "a kid that is a path": lambda p: _by_attacker(p, kid="../../../../dev/null"),
    "a kid that is a query": lambda p: _by_attacker(p, kid="x' UNION SELECT 'key"),
    "its own key in the header": lambda p: _by_attacker(p, jwk=_own_key()),
    "an address of its own keys": lambda p: _by_attacker(p, jku="https://evil.example/keys", kid="evil"),
    "an address of its own certificate": lambda p: _by_attacker(
        p, x5u="https://evil.example/cert", kid="evil"
    ),
    "its own certificate in the header": lambda p: _by_attacker(p, x5c=["MIIB"]),
    "no algorithm and no signature": lambda p: f"{encoded(_header(alg='none'))}.{encoded(_claims(p))}.",
    "no algorithm and some signature": lambda p: forged(_header(alg="none"), _claims(p), lambda _: b"x"),
    "no algorithm in capitals": lambda p: forged(_header(alg="NONE"), _claims(p), lambda _: b"x"),
    "the public key as a shared secret": lambda p: forged(
        _header(alg="HS256", kid="rsa"), _claims(p), hmacked(_public_pem(p))
    ),
    "the published text as a shared secret": lambda p: forged(
        _header(alg="HS256"), _claims(p), hmacked(json.dumps(_own_key()).encode())
    ),
    "an empty shared secret": lambda p: forged(_header(alg="HS256"), _claims(p), hmacked(b"")),
    "a signature of another algorithm's key": lambda p: forged(
        _header(alg="RS256"), _claims(p), lambda _: b"x" * 256
    ),
    "an algorithm that the document leaves out": lambda p: signed(
        _header(alg="RS512", kid="rsa"), _claims(p), p.published["rsa"]
    ),
    "a key that is for another algorithm": lambda p: signed(
        _header(alg="PS256", kid="rs-only"), _claims(p), rsa("rs-only")
    ),
    "a key that is for encryption": lambda p: signed(_header(kid="enc"), _claims(p), elliptic("enc")),
    "a key that is too short": lambda p: signed(
        _header(alg="RS256", kid="short"), _claims(p), rsa("short", 1024)
    ),
    "the claims of another token": _swapped,
    "a signature cut off": lambda p: p.token("operators")[:-10],
    "an empty elliptic signature": lambda p: forged(_header(), _claims(p), lambda _: b"\x00" * 64),
    "a demand that is not understood": lambda p: signed(
        _header(crit=["exp"]), _claims(p), p.published["one"]
    ),
    "claims that are not encoded": lambda p: signed(_header(b64=False), _claims(p), p.published["one"]),
    "an encrypted token": lambda p: f"{p.token('operators')}.a.b",
    "a logout token": lambda p: signed(_header(typ="logout+jwt"), _claims(p), p.published["one"]),
    "a proof of possession": lambda p: signed(_header(typ="dpop+jwt"), _claims(p), p.published["one"]),
    "a kid that is a number": lambda p: signed(_header(kid=1), _claims(p), p.published["one"]),
    "an algorithm that is a list": lambda p: forged(_header(alg=["ES256"]), _claims(p), lambda _: b"x"),
}


CLAIMS: dict[str, dict[str, Any]] = {
    "expired": {"exp": NOW_S - 31},
    "expired this second": {"exp": NOW_S - 30},
    "never expires": {"exp": None},
    "expires as text": {"exp": str(NOW_S + 300)},
    "expires as true": {"exp": True},
    "expires in a list": {"exp": [NOW_S + 300]},
    "expires after the year 9999": {"exp": 10**15},
    "expires before time began": {"exp": -1},
    "not valid yet": {"nbf": NOW_S + 31},
    "valid from some text": {"nbf": "soon"},
    "made in the future": {"iat": NOW_S + 31},
    "for another audience": {"aud": "https://other.example.com"},
    "for another audience that begins alike": {"aud": f"{AUDIENCE}.evil.example"},
    "for our audience in capitals": {"aud": AUDIENCE.upper()},
    "for several other audiences": {"aud": ["a", "b"]},
    "for no audience": {"aud": None},
    "for an audience that is a mapping": {"aud": {AUDIENCE: True}},
    "for the client, as an ID token is": {"aud": "windlass-cli"},
    "of another issuer": {"iss": "https://evil.example"},
    "of an issuer with a slash more": {"iss": f"{ISSUER}/"},
    "of no issuer": {"iss": None},
    "of an issuer that is a list": {"iss": [ISSUER]},
    "of nobody": {"sub": None},
    "of somebody without a name": {"sub": ""},
    "of a number": {"sub": 1},
    "of somebody with a line break": {"sub": "u-1\nactor=root"},
    "of somebody with a very long name": {"sub": "u" * 256},
    "with a group that is a number": {"groups": ["operators", 1]},
    "with a group that is a list": {"groups": [["operators"]]},
    "with groups that are a mapping": {"groups": {"operators": True}},
}

FORMS: dict[str, str] = {
    "two dots": "..",
    "three words": "a.b.c",
    "other letters": "ä.ö.ü",
    "spaces": "a b.c d.e f",
    "padding": f"{encoded({'alg': 'ES256'})}=.e30=.AAAA",
    "a header that is a list": f"{encoded(['alg'])}.e30.AAAA",
    "a header that is no JSON": f"{encoded(b'not json')}.e30.AAAA",
    "a header that is no UTF-8": encoded(b'{"alg": "\xff"}') + ".e30.AAAA",
    "claims that are a text": f"{encoded({'alg': 'ES256'})}.{encoded('claims')}.AAAA",
    "claims that are too deep": f"{encoded({'alg': 'ES256'})}.{encoded(b'[' * 9000)}.AAAA",
    "claims with a number that is none": ".".join((encoded(_header()), encoded(b'{"exp": NaN}'), "AAAA")),
}


def dangerous(provider: FakeProvider) -> None:
    """Publishes what a careless verifier could be led astray by."""
    provider.published |= {"rsa": rsa("rsa")}
    own = f"{ISSUER}/keys"
    entries: list[Any] = [
        {**key.as_dict(private=False), "kid": kid} for kid, key in provider.published.items()
    ]
    entries += [
        {**rsa("rs-only").as_dict(private=False), "kid": "rs-only", "alg": "RS256"},
        {**elliptic("enc").as_dict(private=False), "kid": "enc", "use": "enc"},
        {**rsa("short", 1024).as_dict(private=False), "kid": "short"},
        {"kty": "oct", "kid": "oct", "k": encoded(b"a shared secret, published")},
        {"kty": "RSA", "kid": "broken", "n": "AQAB", "e": "AQAB"},
        {"kty": "EC", "kid": "off-curve", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
        {"kty": ["RSA"]},
        "not a key",
        None,
    ]
    provider.answers[own] = json.dumps({"keys": entries}).encode()


async def refused(world: World, provider: FakeProvider, token: str) -> None:
    honest = await world.get(WHOAMI, by=provider.token("everybody"))
    assert honest["role"] == "viewer"
    before = world.dump()
    reply = await world.call("GET", WHOAMI, by=token)
    assert reply.status == 401, reply.body
    assert reply.json["detail"] and reply.json["remedy"]
    assert reply.headers["www-authenticate"].startswith("Bearer")
    assert world.dump() == before
    assert not [url for url in provider.asked if not url.startswith(ISSUER)], "it went where a token sent it"


@pytest.mark.parametrize("attack", SIGNATURES)
def test_a_token_is_refused_whose_signature_is(tmp_path: Path, attack: str) -> None:
    provider = FakeProvider()
    dangerous(provider)

    async def story(world: World) -> None:
        await with_provider(world)
        await refused(world, provider, SIGNATURES[attack](provider))

    play(tmp_path, story, reach=provider.reach)


@pytest.mark.parametrize("attack", CLAIMS)
def test_a_well_signed_token_is_refused_that_is(tmp_path: Path, attack: str) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        claims = provider.claims("operators", **CLAIMS[attack])
        await refused(world, provider, signed(_header(), claims, provider.published["one"]))

    play(tmp_path, story, reach=provider.reach)


@pytest.mark.parametrize("form", FORMS)
def test_something_is_refused_that_has(tmp_path: Path, form: str) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        token = FORMS[form]
        if not token.isascii():
            token = token.encode().decode("latin-1")
        await refused(world, provider, token)

    play(tmp_path, story, reach=provider.reach)


def test_a_token_that_is_too_large_is_not_even_read(tmp_path: Path) -> None:
    provider = FakeProvider()

    async def story(world: World) -> None:
        await with_provider(world)
        fits, too_large = (provider.token("everybody", padding="x" * size) for size in (8_000, 20_000))
        assert (await world.call("GET", WHOAMI, by=fits)).status == 200
        reply = await world.call("GET", WHOAMI, by=too_large)
        assert reply.status == 401 and "larger than 16 KiB" in reply.json["detail"]

    play(tmp_path, story, reach=provider.reach)


def test_another_issuers_key_with_the_same_kid_does_not_sign_for_this_one(tmp_path: Path) -> None:
    corp, other = FakeProvider(), FakeProvider("https://other.example.com", seed=2)

    async def reach(url: str) -> bytes:
        return await (corp if url.startswith(ISSUER) else other).reach(url)

    async def story(world: World) -> None:
        await with_provider(world)
        mapping = [{"group": "operators", "role": "viewer", "tenant": "globex"}]
        await with_provider(world, name="other", issuer=other.issuer, mappings=mapping)
        theirs = await world.get(WHOAMI, by=other.token("operators"))
        assert (theirs["role"], theirs["tenant"], theirs["provider"]) == ("viewer", "globex", "other")
        pretended = signed(_header(), corp.claims("operators"), other.published["one"])
        assert (await world.call("GET", WHOAMI, by=pretended)).status == 401
        ours = await world.get(WHOAMI, by=corp.token("operators"))
        assert (ours["role"], ours["provider"]) == ("platform-admin", "corp")

    play(tmp_path, story, reach=reach)


@pytest.mark.parametrize(("algorithm", "key"), [("RS256", rsa), ("PS256", rsa), ("EdDSA", edwards)])
def test_every_allowed_algorithm_is_honoured(
    tmp_path: Path, algorithm: str, key: Callable[[str], Any]
) -> None:
    provider = FakeProvider()
    provider.published["other"] = key("other")

    async def story(world: World) -> None:
        await with_provider(world)
        token = provider.token("everybody", kid="other", alg=algorithm)
        assert (await world.get(WHOAMI, by=token))["role"] == "viewer"
        header, claims, signature = token.split(".")
        flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
        assert (await world.call("GET", WHOAMI, by=f"{header}.{claims}.{flipped}")).status == 401

    play(tmp_path, story, reach=provider.reach)
