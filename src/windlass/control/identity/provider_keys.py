"""The keys that one identity provider publishes, and how long they are believed.

    fresh   for 10 minutes after they were read; then they are read again beside the next request
    kept    for 24 hours after they were last read, while the provider does not answer
    asked   again for a signature that none of them made, every 10 seconds at most, whoever sends what
    down    a provider that could not be read is left alone for 5 seconds

While no key is known the answer is 503 and not 401: nobody's token is wrong because a provider is away.
Only what the provider's own address names is read; a token's own jku, x5u or jwk is never looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from windlass.control.identity.jose import PublicKey, load_keys
from windlass.core.errors import Unauthenticated, Unavailable
from windlass.core.identity.addresses import discovery_address, is_endpoint
from windlass.core.units import Ms
from windlass.runtime.clock import Clock
from windlass.runtime.fetch import Fetch, FetchFailed
from windlass.runtime.logging import warn
from windlass.runtime.metrics import KEY_FETCHES

FRESH_MS = 600_000
KEPT_MS = 86_400_000
ASK_AGAIN_MS = 10_000
LEAVE_ALONE_MS = 5_000
_MOST_TRIED = 4
"""Keys that one token is tried with: a forger's must not cost as much as the provider has keys."""


@dataclass(frozen=True, slots=True)
class _Read:
    keys: tuple[PublicKey, ...]
    at: Ms


class ProviderKeys:
    def __init__(self, issuer: str, fetch: Fetch, clock: Clock) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._read: _Read | None = None
        self._tried: Ms | None = None
        self._failure = ""
        self._reading: asyncio.Task[None] | None = None

    async def check(self, kid: str | None, algorithm: str, made: Callable[[PublicKey], bool]) -> None:
        """Passes when a key that the token can mean `made` its signature. Unavailable when that cannot be
        known now."""
        await self._have_keys()
        if self._any_made(kid, algorithm, made):
            return
        if self._may_try(ASK_AGAIN_MS):  # a new key, perhaps under an old id, or without one
            await self._read_again()
            if self._any_made(kid, algorithm, made):
                return
        named = kid is not None and bool(self._meant(kid, algorithm))
        if self._failure and not named:  # it may well be a new key of a provider that is away
            raise self._away()
        raise Unauthenticated(
            "the token's signature is wrong"
            if named
            else "the token was not signed with a key that its issuer publishes",
            remedy="log in again with `windlass login`",
        )

    def _any_made(self, kid: str | None, algorithm: str, made: Callable[[PublicKey], bool]) -> bool:
        return any(made(key) for key in self._meant(kid, algorithm))

    async def _have_keys(self) -> None:
        age = self._clock() - self._read.at if self._read is not None else KEPT_MS
        if age >= KEPT_MS:
            self._read = None
            if self._may_try(LEAVE_ALONE_MS):
                await self._read_again()
            if self._read is None:
                raise self._away()
        elif age >= FRESH_MS and self._may_try(ASK_AGAIN_MS):
            self._begin()  # and go on with what is known

    def _meant(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """Those of its id, then those without one; a token without an id can mean any. While keys change
        there are two of them for a while, also where nobody gives them ids."""
        keys = self._read.keys if self._read is not None else ()
        fit = [key for key in keys if key.serves(algorithm) and (kid is None or key.kid in (kid, None))]
        return sorted(fit, key=lambda key: key.kid != kid)[:_MOST_TRIED]

    def _may_try(self, pause: int) -> bool:
        """Also while a try is under way: it is joined, not repeated."""
        under_way = self._reading is not None and not self._reading.done()
        return under_way or self._tried is None or self._clock() - self._tried >= pause

    def _begin(self) -> asyncio.Task[None]:
        if self._reading is None or self._reading.done():
            self._tried = self._clock()
            self._reading = asyncio.create_task(self._read_now(), name=f"keys of {self._issuer}")
        return self._reading

    async def _read_again(self) -> None:
        """Shielded: who asked may go away, the others who wait for the same keys may not suffer."""
        await asyncio.shield(self._begin())

    async def _read_now(self) -> None:
        try:
            keys = await self._published()
        except (FetchFailed, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._failure = str(error)
            KEY_FETCHES.labels("failed").inc()
            warn("the keys of an identity provider could not be read", issuer=self._issuer, why=str(error))
        else:
            self._failure = ""
            self._read = _Read(keys, self._clock())
            KEY_FETCHES.labels("read").inc()

    async def _published(self) -> tuple[PublicKey, ...]:
        about = msgspec.json.decode(await self._fetch(discovery_address(self._issuer)))
        if not isinstance(about, dict) or about.get("issuer") != self._issuer:
            raise FetchFailed("its discovery document is of another issuer, or of the same written otherwise")
        address = about.get("jwks_uri")
        if not is_endpoint(address, self._issuer):
            raise FetchFailed("its discovery document names no address for its keys that is safe to read")
        published = msgspec.json.decode(await self._fetch(str(address)))
        keys = await asyncio.to_thread(load_keys, published)
        if not keys:
            raise FetchFailed("it publishes no key that can verify a signature")
        return keys

    def _away(self) -> Unavailable:
        return Unavailable(
            f"the keys of {self._issuer} could not be read: {self._failure or 'it did not answer'}",
            remedy="try again soon, or use an API key; see that the server can reach the issuer",
        )
