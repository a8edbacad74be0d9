"""An identity provider in memory: keys, discovery, tokens good and bad; and how often it was asked."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from tests.control.worlds import START, World

from windlass.runtime.fetch import FetchFailed

ISSUER = "https://login.example.com"
AUDIENCE = "https://windlass.example.com"
NOW_S = START // 1000

MAPPINGS = [
    {"group": "acme-admins", "role": "tenant-admin", "tenant": "acme"},
    {"group": "acme-devs", "role": "developer", "tenant": "acme"},
    {"group": "everybody", "role": "viewer", "tenant": "acme"},
    {"group": "globex-devs", "role": "developer", "tenant": "globex"},
    {"group": "auditors", "role": "platform-viewer"},
    {"group": "operators", "role": "platform-admin"},
    {"group": "Übergrößen-团队", "role": "developer", "tenant": "acme"},
]


@cache
def rsa(name: str, bits: int = 2048) -> RSAKey:
    """Slow to make, so made once by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # a short one is made on purpose
        return RSAKey.generate_key(bits)


@cache
def elliptic(name: str) -> ECKey:
    return ECKey.generate_key("P-256")


@cache
def edwards(name: str) -> OKPKey:
    return OKPKey.generate_key("Ed25519")


def provider_document(name: str = "corp", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "windlass.dev/v1",
        "kind": "IdentityProvider",
        "metadata": {"name": name},
        "spec": {
            "issuer": ISSUER,
            "audience": AUDIENCE,
            "clientId": "windlass-cli",
            "nameClaim": "email",
            "algorithms": ["ES256", "RS256", "PS256", "EdDSA"],
            "mappings": MAPPINGS,
            **spec,
        },
    }


class FakeProvider:
    def __init__(self, issuer: str = ISSUER, *, seed: int = 1) -> None:
        self.issuer = issuer
        self.published: dict[str, Any] = {"one": elliptic(f"{issuer}/{seed}")}
        self.down = ""
        self.answers: dict[str, bytes] = {}
        self.asked: list[str] = []

    async def reach(self, url: str) -> bytes:
        self.asked.append(url)
        if self.down:
            raise FetchFailed(self.down)
        if url in self.answers:
            return self.answers[url]
        if url == f"{self.issuer.rstrip('/')}/.well-known/openid-configuration":
            return json.dumps({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}).encode()
        if url == f"{self.issuer}/keys":
            keys = [{**key.as_dict(private=False), "kid": kid} for kid, key in self.published.items()]
            return json.dumps({"keys": keys}).encode()
        raise FetchFailed(f"nobody is at {url}")

    @property
    def key_reads(self) -> int:
        return sum(url.endswith("/keys") for url in self.asked)

    def token(self, *groups: str, kid: str | None = "one", alg: str = "ES256", **claims: Any) -> str:
        """A good one for a person in these groups, unless `claims` say otherwise; None leaves one out."""
        return signed(
            {"alg": alg, "kid": kid, "typ": "at+jwt"},
            self.claims(*groups, **claims),
            self.published[kid or "one"],
        )

    def claims(self, *groups: str, **claims: Any) -> dict[str, Any]:
        usual = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "u-1",
            "email": "alice@acme.test",
            "iat": NOW_S,
            "exp": NOW_S + 300,
            "groups": list(groups),
        }
        return {name: value for name, value in {**usual, **claims}.items() if value is not None}


def signed(header: dict[str, Any], claims: object, key: Any) -> str:
    kept = {name: value for name, value in header.items() if value is not None}
    algorithm = JWSRegistry.algorithms[kept["alg"]]
    return forged(kept, claims, lambda message: algorithm.sign(message, key))


def hmacked(secret: bytes) -> Callable[[bytes], bytes]:
    return lambda message: hmac.new(secret, message, hashlib.sha256).digest()


def forged(header: object, claims: object, sign: Callable[[bytes], bytes]) -> str:
    message = f"{encoded(header)}.{encoded(claims)}"
    return f"{message}.{_base64(sign(message.encode()))}"


def encoded(value: object) -> str:
    return _base64(value if isinstance(value, bytes) else json.dumps(value).encode())


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


async def settle_tasks() -> None:
    """Lets what was begun beside a request end: reading keys takes a thread."""
    import asyncio

    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*(task for task in others if task.get_name().startswith("keys of")))


async def with_provider(world: World, **spec: Any) -> None:
    applied = await world.apply(provider_document(**spec))
    assert applied.status == 200, applied.body
