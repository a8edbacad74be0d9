"""What can be done, and the one function that turns a principal into a scope.

Who may do it is written in policy/windlass.cedar and decided by the judge. Here a principal and a thing
become a question: names are compared, and only how they compare is asked. What the policy says is in
`docs/reference/authorization.md`, generated from its answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from windlass.control.identity.judge import Asker, Kind, Question, Target, judge
from windlass.control.identity.scopes import PLATFORM_ROLES, ROLES, Principal, Role, Scope, _scope
from windlass.core.errors import NotPermitted

Action = Literal[
    "catalog.read",  # tiers, profiles, prices, types, traits, sites; own tenant, projects, envelopes
    "catalog.write",  # platform documents and tenant-scope envelopes
    "tenant.write",  # projects, and envelopes below the tenant's own
    "component.read",
    "component.write",  # apply, plan, cancel, rerun, delete
    "decision.read",
    "cost.read",
    "event.read",
    "audit.read",
    "node.read",
    "workload.move",  # stop work that accepts moving, anybody's, to start it elsewhere
    "key.read",
    "key.write",
    "token.create",  # exchange what one has shown for something narrower and short-lived
    "site.lose",  # give up a site whose agent is away: its work ends as lost
    "site.link",  # an agent's, for its own site: what to run, and what became of it
    "self.read",  # who am I
]

ACTIONS: tuple[Action, ...] = get_args(Action)

Deed = Action | Literal["token.revoke"]
"""What can be asked of the policy: the actions that people name, and what a token may do to itself."""

PHRASES: Mapping[Action, str] = {
    "catalog.read": "read the catalog",
    "catalog.write": "change the platform's documents",
    "tenant.write": "change projects and envelopes",
    "component.read": "read components",
    "component.write": "submit or change components",
    "decision.read": "read decisions",
    "cost.read": "read usage and costs",
    "event.read": "read events",
    "audit.read": "read the audit log",
    "node.read": "read nodes",
    "workload.move": "move running work to make room",
    "key.read": "list API keys",
    "key.write": "make, rotate or revoke API keys and service accounts",
    "token.create": "exchange its credential for a short-lived token",
    "site.lose": "give up a site",
    "site.link": "speak for a site",
    "self.read": "ask who it is",
}
"""After "may not"."""


_SHOWN = {"key": "key", "token": "token", "oidc": "login"}

_NOBODY = ""
"""The tenant of a site's agent: it covers no tenant's things, nor the platform's."""


@dataclass(frozen=True, slots=True)
class Thing:
    """What something is done to: by itself the whole platform, else a tenant or something of it."""

    kind: Kind = "Platform"
    tenant: str | None = None
    project: str | None = None
    own: bool = False  # of a token: it is what was shown, or was exchanged for it


PLATFORM = Thing()


def home(principal: Principal) -> Thing:
    """Where somebody acts who names no place: as far as their credential reaches."""
    project = principal.limits.project
    if project is None or principal.role == "agent":
        return ground(principal)
    return Thing("Project", principal.tenant, project)


def ground(principal: Principal) -> Thing:
    """Where their role is for, whatever the credential is narrowed to."""
    if principal.tenant is None or principal.role in PLATFORM_ROLES or principal.role == "agent":
        return PLATFORM
    return Thing("Tenant", principal.tenant)


def may(principal: Principal, action: Deed, thing: Thing | None = None) -> bool:
    """What policy/windlass.cedar says; without a thing, at home."""
    limits = principal.limits
    leaves_out = limits.actions is not None and action not in limits.actions
    thing = thing or home(principal)
    target = Target(
        thing.kind,
        of_the_tenant=principal.tenant is not None and thing.tenant == principal.tenant,
        the_project=limits.project is not None and thing.project == limits.project,
        own=thing.own,
    )
    asker = Asker(principal.role, principal.via, limits.project is not None, leaves_out)
    return judge().allows(Question(asker, action, target))


def actions_of(principal: Principal) -> frozenset[Action]:
    """What its role may do, less what its credential was narrowed to leave out."""
    return frozenset(action for action in ACTIONS if may(principal, action))


def role_actions(role: Role) -> frozenset[Action]:
    """What a role may do with a credential that is not narrowed."""
    tenant = None if role in PLATFORM_ROLES else "any"
    return actions_of(Principal("anybody", role, tenant, key_id=""))


def authorize(principal: Principal, action: Action) -> Scope:
    """The scope in which `principal` may do `action`, or NotPermitted.

    A tenant's principal gets its tenant's scope whatever it asks for: another tenant's things are
    then simply not there, which is also what the answer says.
    """
    if not may(principal, action):
        raise _refusal(principal, action)
    if principal.role in PLATFORM_ROLES:
        return _scope(principal.name, None)
    if principal.role == "agent":
        return _scope(principal.name, _NOBODY)
    assert principal.tenant is not None, "the policy keeps a tenant's people in their tenant"
    return _scope(principal.name, principal.tenant)


def _refusal(principal: Principal, action: Action) -> NotPermitted:
    if action not in role_actions(principal.role):
        return NotPermitted(
            f"the role {principal.role} may not {PHRASES[action]}",
            remedy=f"ask for a key with one of the roles: {', '.join(_holders(action))}",
        )
    if principal.tenant is None and principal.role not in PLATFORM_ROLES:
        return NotPermitted(
            "this key belongs to no tenant", remedy="ask a platform-admin for a key of your tenant"
        )
    return NotPermitted(
        f"this {_SHOWN[principal.via]} is narrowed and may not {PHRASES[action]}",
        remedy="`windlass whoami` says what it may; use one that is not narrowed",
    )


def _holders(action: Action) -> list[str]:
    return [role for role in ROLES if action in role_actions(role)]
