"""Tokens of identity providers (OpenID Connect access tokens, as JWTs): from text to a principal.

In this order, and nothing before what it stands on:

    1. size and form: three parts, a header and claims that are JSON objects
    2. the header: an algorithm that the provider's document allows, nothing we must understand and do not
    3. the issuer, which picks the provider; it is not believed yet
    4. the keys it can mean, by its key's id, among those the provider publishes (provider_keys.py)
    5. the signature, which one of them must have made (jose.py)
    6. the claims: issuer, audience, times, subject, groups (core/identity/claims.py)
    7. the role, from the groups and the tenant the request names (core/identity/mapping.py)

1 to 6 are remembered by the token's SHA-256 for a minute at most, and never past the token's end; 7 is
decided for each request, so that a changed mapping counts at once.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.control.identity.jose import PublicKey, made_by
from windlass.control.identity.provider_keys import ProviderKeys
from windlass.control.identity.scopes import Principal
from windlass.core.catalog.snapshot import Catalog
from windlass.core.documents.kinds import IdentityProvider
from windlass.core.errors import Unauthenticated
from windlass.core.identity.claims import Person, read_person
from windlass.core.identity.mapping import Grant, chosen, granted
from windlass.core.units import Ms
from windlass.runtime.clock import Clock
from windlass.runtime.fetch import Fetch

MAX_TOKEN = 16 * 1024
REMEMBER_MS = 60_000
_MAX_REMEMBERED = 10_000
_FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_TYPES = ("at+jwt", "application/at+jwt", "jwt")
_MAX_KID = 500


@dataclass(frozen=True, slots=True)
class _Parts:
    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class _Seen:
    person: Person
    name: str
    provider: IdentityProvider
    until: Ms


class Logins:
    def __init__(self, catalog: Callable[[], Catalog], fetch: Fetch, clock: Clock) -> None:
        self._catalog = catalog
        self._fetch = fetch
        self._clock = clock
        self._keys: dict[str, ProviderKeys] = {}
        self._seen: dict[str, _Seen] = {}

    async def authenticate(self, token: str, tenant: str | None) -> Principal:
        if len(token) > MAX_TOKEN:
            raise _refused(f"the token is larger than {MAX_TOKEN // 1024} KiB", "ask for fewer groups in it")
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
        seen = self._remembered(digest) or await self._verify(token)
        self._remember(digest, seen)
        return _principal(seen, chosen(granted(seen.provider, seen.person.groups), tenant))

    def holds(self, principal: Principal) -> bool:
        """Whether it has not ended, and somebody is still given that role by its provider."""
        over = principal.expires is not None and self._clock() >= principal.expires
        return not over and self._gives(principal.provider or "", principal)

    def still_gives(self, principal: Principal) -> bool:
        """Whether what a token was exchanged for still counts, if it was a login: its provider is there,
        and gives that role."""
        name, slash, _ = (principal.parent or "").partition("/")
        return not slash or self._gives(name, principal)

    def _gives(self, name: str, principal: Principal) -> bool:
        provider = self._catalog().identity_providers.get(name)
        mappings = provider.mappings if provider is not None else ()
        return any((one.role, one.tenant) == (principal.role, principal.tenant) for one in mappings)

    async def _verify(self, token: str) -> _Seen:
        parts = _split(token)
        name, provider = self._provider(parts.claims.get("iss"))
        algorithm, kid = _read_header(parts.header, provider)

        def made(key: PublicKey) -> bool:
            return made_by(key, algorithm, parts.signed, parts.signature)

        await self._keys_of(provider.issuer).check(kid, algorithm, made)
        now = self._clock()
        person = read_person(provider, parts.claims, now)
        return _Seen(person, name, provider, Ms(min(person.until, now + REMEMBER_MS)))

    def _provider(self, issuer: object) -> tuple[str, IdentityProvider]:
        for name, provider in self._catalog().identity_providers.items():
            if provider.issuer == issuer:
                return name, provider
        raise _refused(
            "the token is of an issuer that is not known here",
            "log in with `windlass login`, or ask a platform-admin for an IdentityProvider document",
        )

    def _keys_of(self, issuer: str) -> ProviderKeys:
        if issuer not in self._keys:
            current = {provider.issuer for provider in self._catalog().identity_providers.values()}
            self._keys = {known: keys for known, keys in self._keys.items() if known in current}
            self._keys[issuer] = ProviderKeys(issuer, self._fetch, self._clock)
        return self._keys[issuer]

    def _remembered(self, digest: str) -> _Seen | None:
        """Unless its time is over, or its provider's document is not the one it was checked with."""
        seen = self._seen.get(digest)
        if seen is None:
            return None
        provider = self._catalog().identity_providers.get(seen.name)
        if self._clock() >= seen.until or provider is not seen.provider:
            del self._seen[digest]
            return None
        return seen

    def _remember(self, digest: str, seen: _Seen) -> None:
        if len(self._seen) >= _MAX_REMEMBERED:
            self._seen.clear()
        self._seen[digest] = seen


def _split(token: str) -> _Parts:
    if not _FORM.fullmatch(token):
        raise _refused("the token is not a signed JWT")
    header, claims, signature = token.split(".")
    return _Parts(_object(header), _object(claims), f"{header}.{claims}".encode("ascii"), _decoded(signature))


def _object(part: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(_decoded(part))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _refused("the token is not a signed JWT") from None
    if not isinstance(found, dict):
        raise _refused("the token is not a signed JWT")
    return found


def _decoded(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise _refused("the token is not a signed JWT") from None


def _read_header(header: dict[str, Any], provider: IdentityProvider) -> tuple[str, str | None]:
    """The algorithm and the key's id. Everything else a header may hold is not looked at, but for what
    would change the meaning of the whole."""
    algorithm, kid, kind = (header.get(name) for name in ("alg", "kid", "typ"))
    if algorithm not in provider.algorithms:
        raise _refused(
            "the token's algorithm is not one that is allowed for its issuer",
            f"the provider's document allows {', '.join(provider.algorithms)}",
        )
    if "crit" in header or header.get("b64", True) is not True:
        raise _refused("the token demands something that is not understood here")
    if kind is not None and (not isinstance(kind, str) or kind.lower() not in _TYPES):
        raise _refused("the token is not an access token")
    if kid is not None and (not isinstance(kid, str) or len(kid) > _MAX_KID):
        raise _refused("the token's key id is not text")
    return str(algorithm), kid


def _principal(seen: _Seen, grant: Grant) -> Principal:
    """Its name begins with the provider's: what a person may call themselves elsewhere is not unique. In
    its id the subject comes last, which may be any text; a provider's and a tenant's name may not."""
    return Principal(
        f"{seen.name}:{seen.person.name}",
        grant.role,
        grant.tenant,
        f"{seen.name}/{grant.tenant or '-'}/{seen.person.subject}",
        seen.person.until,
        via="oidc",
        provider=seen.name,
    )


def _refused(detail: str, remedy: str = "log in again with `windlass login`") -> Unauthenticated:
    return Unauthenticated(detail, remedy=remedy)
