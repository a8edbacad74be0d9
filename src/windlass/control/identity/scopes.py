"""Who acts, and the proof of what they may touch.

A `Scope` is the only ticket into the store. It can be made in two places: `authorize`
(control/identity/authorize.py) after it has checked a principal's right, and `system_scope` for the
platform's own loops. Its constructor wants a `_Proof`, which nothing outside this package can
name, so a store call without a checked scope does not type-check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.core.units import Ms

Role = Literal["platform-admin", "platform-viewer", "tenant-admin", "developer", "viewer", "agent"]
ROLES: tuple[Role, ...] = (
    "platform-admin",
    "platform-viewer",
    "tenant-admin",
    "developer",
    "viewer",
    "agent",
)
PLATFORM_ROLES: frozenset[Role] = frozenset({"platform-admin", "platform-viewer"})

Via = Literal["key", "token", "oidc"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a credential is narrowed to within its role; None does not narrow."""

    actions: frozenset[str] | None = None
    project: str | None = None
    site: str | None = None  # of an agent: the only site it speaks for


UNLIMITED = Limits()


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who has shown a valid credential. Having one proves who, not what they may do.

    `via` is what was shown: a key, a short-lived token of ours, or a provider's token. `key_id` names
    it: the id of the key or token, or `provider/tenant/subject` (`-` for the platform).
    """

    name: str
    role: Role
    tenant: str | None
    key_id: str
    expires: Ms | None = None
    via: Via = "key"
    provider: str | None = None
    account: str | None = None  # the service account
    parent: str | None = None  # of a token: what it was exchanged for
    limits: Limits = UNLIMITED


class _Proof:
    """Made once, here; see the module's docstring."""

    __slots__ = ()


_PROOF = _Proof()


@dataclass(frozen=True, slots=True)
class Scope:
    """Proof that `actor` may do what was asked within `tenant` (None: the whole platform)."""

    actor: str
    tenant: str | None
    proof: _Proof

    def covers(self, tenant: str | None) -> bool:
        return self.tenant is None or self.tenant == tenant


def _scope(actor: str, tenant: str | None) -> Scope:
    return Scope(actor, tenant, _PROOF)


def system_scope(loop: str) -> Scope:
    """For the platform's own loops (scheduler, sites, billing): everything, under their own name."""
    return _scope(f"windlass/{loop}", None)
