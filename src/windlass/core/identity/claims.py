"""What a token says once its signature is verified: whether it is for us, now, and of whom it speaks.

The signature is not looked at here, and says nothing of all this: an expired token, or one for another
audience, is signed just as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.core.documents.kinds import IdentityProvider
from windlass.core.errors import Unauthenticated
from windlass.core.units import Ms

_LAST_SECOND = 253_402_300_799  # of the year 9999
_MAX_SUBJECT = 255  # as OpenID Connect has it
_AGAIN = "log in again with `windlass login`"


@dataclass(frozen=True, slots=True)
class Person:
    """`until` is when the token ends, the allowed difference of clocks included."""

    subject: str
    name: str
    groups: frozenset[str]
    until: Ms


def read_person(provider: IdentityProvider, claims: Mapping[str, Any], now: Ms) -> Person:
    """Every rule in its order; Unauthenticated names the first that is broken."""
    _check_issuer(provider, claims)
    _check_audience(provider, claims)
    until = _check_times(provider, claims, now)
    subject = _subject(claims)
    return Person(subject, _name(provider, claims, subject), _groups(provider, claims), until)


def _check_issuer(provider: IdentityProvider, claims: Mapping[str, Any]) -> None:
    if claims.get("iss") != provider.issuer:
        raise _refused("the token's issuer is not the one whose keys it was checked with")


def _check_audience(provider: IdentityProvider, claims: Mapping[str, Any]) -> None:
    """Exact text, in a list or alone: a prefix or another case is another audience."""
    audience = claims.get("aud")
    stated = audience if isinstance(audience, list) else [audience]
    if provider.audience not in stated:
        raise _refused(
            "the token is for another audience",
            f"ask the provider for a token for {provider.audience}, or correct the provider's document",
        )


def _check_times(provider: IdentityProvider, claims: Mapping[str, Any], now: Ms) -> Ms:
    expires = _instant(claims, "exp")
    if expires is None:
        raise _refused("the token never expires: it has no exp")
    until = Ms(expires + provider.skew)
    if now >= until:
        raise _refused("the token has expired")
    for name, what in (("nbf", "is not valid yet"), ("iat", "was made in the future")):
        instant = _instant(claims, name)
        if instant is not None and now < instant - provider.skew:
            raise _refused(f"the token {what}", "compare this machine's clock with the provider's")
    return until


def _instant(claims: Mapping[str, Any], name: str) -> Ms | None:
    """Seconds, whole or not, as milliseconds."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LAST_SECOND:
        raise _refused(f"the token's {name} is not a time")
    return Ms(int(value * 1000))


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims.get("sub")
    if (
        not isinstance(subject, str)
        or not subject
        or len(subject) > _MAX_SUBJECT
        or not subject.isprintable()
    ):
        raise _refused("the token does not say of whom it speaks: sub is missing or is not text")
    return subject


def _name(provider: IdentityProvider, claims: Mapping[str, Any], subject: str) -> str:
    """For people to read. What is not fit to be read is the subject instead."""
    name = _claim(claims, provider.name_claim)
    fit = (
        isinstance(name, str)
        and 0 < len(name) <= _MAX_SUBJECT
        and name.isprintable()
        and name.strip() == name
    )
    return str(name) if fit else subject


def _groups(provider: IdentityProvider, claims: Mapping[str, Any]) -> frozenset[str]:
    """A list of text, or one text. Anything else is a mistake that must not be half understood."""
    groups = _claim(claims, provider.groups_claim)
    if groups is None:
        _check_not_elsewhere(provider, claims)
        return frozenset()
    stated = groups if isinstance(groups, list) else [groups]
    if not all(isinstance(group, str) for group in stated):
        raise _refused(
            f"the token's {provider.groups_claim} is not a list of text",
            "correct the provider's document: groupsClaim names the claim with the groups",
        )
    return frozenset(stated)


def _check_not_elsewhere(provider: IdentityProvider, claims: Mapping[str, Any]) -> None:
    """Too many for a token, a provider may only say where to ask for them (OpenID Connect Core, 5.6.2)."""
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, Mapping) and provider.groups_claim in elsewhere:
        raise _refused(
            f"the token does not hold your {provider.groups_claim}, only where to ask for them",
            "have the provider put only the groups into the token that are assigned to the application",
        )


def _claim(claims: object, name: str) -> Any:
    """By its whole name; else dots lead into objects, as in `realm_access.roles`. A name that is an
    address has dots of its own, and so may a client's within `resource_access`: the longest name that is
    there comes first."""
    if not isinstance(claims, Mapping):
        return None
    if name in claims:
        return claims[name]
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        found = _claim(claims.get(".".join(parts[:cut])), ".".join(parts[cut:]))
        if found is not None:
            return found
    return None


def _refused(detail: str, remedy: str = _AGAIN) -> Unauthenticated:
    return Unauthenticated(detail, remedy=remedy)
