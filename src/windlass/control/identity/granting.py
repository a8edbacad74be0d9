"""What somebody may hand on: never more than they have.

One function per thing that can be handed on; each gives the wish as it may be granted, or says why not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from windlass.control.identity.authorize import Action, actions_of, role_actions
from windlass.control.identity.scopes import PLATFORM_ROLES, UNLIMITED, Limits, Principal, Role
from windlass.core.documents.problems import meant
from windlass.core.errors import BadRequest, NotPermitted

GRANTS: Mapping[Role, frozenset[Role]] = {
    "platform-admin": frozenset(get_args(Role)),
    "tenant-admin": frozenset({"tenant-admin", "developer", "viewer"}),
}
"""Which roles a role may give out, in keys and to service accounts."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A key as somebody asks for it."""

    name: str
    role: Role
    tenant: str | None
    limits: Limits = UNLIMITED
    account: str | None = None


def grant_key(principal: Principal, wish: Wish) -> Wish:
    """A key of a role that the asker may give out, narrowed at least as much as the asker is."""
    grant_role(principal, wish.role, wish.tenant)
    _check_site(wish)
    own, asked = principal.limits, wish.limits
    if asked.actions is not None:
        _refuse_beyond(asked.actions, role_actions(wish.role), f"the role {wish.role} does not include")
    if own.actions is not None and (asked.actions is None or not asked.actions <= own.actions):
        raise NotPermitted(
            "a narrowed credential makes only keys that are narrowed as much",
            remedy=f"ask for actions among: {', '.join(sorted(own.actions))}",
        )
    return wish


def grant_role(principal: Principal, role: Role, tenant: str | None) -> None:
    if role not in GRANTS.get(principal.role, frozenset()):
        raise NotPermitted(f"the role {principal.role} may not give out the role {role}")
    if (role in PLATFORM_ROLES) != (tenant is None) and role != "agent":
        raise BadRequest(
            f"the role {role} {'takes no' if role in PLATFORM_ROLES else 'needs a'} tenant",
            remedy="platform roles act for the whole platform, the others for one tenant",
        )


def _check_site(wish: Wish) -> None:
    """An agent speaks for one site and acts for nobody."""
    if wish.role == "agent" and (wish.limits.site is None or wish.tenant is not None):
        raise BadRequest("an agent's key names its site, and no tenant", remedy="send site, and no tenant")
    if wish.role != "agent" and wish.limits.site is not None:
        raise BadRequest(f"a key of the role {wish.role} names no site", remedy="leave site out")


def exchange(principal: Principal, asked: Limits) -> Limits:
    """The limits of a token: the asker's own, made narrower by what it asks for."""
    if principal.via == "token":
        raise NotPermitted("a short-lived token is not exchanged for another", remedy="use the key itself")
    own = principal.limits
    actions = own.actions
    if asked.actions is not None:
        _refuse_beyond(asked.actions, actions_of(principal), "you may not do:")
        actions = asked.actions
    if own.project is not None and asked.project not in (None, own.project):
        raise NotPermitted(
            f"this credential is for the project {own.project}", remedy="ask for that project, or for none"
        )
    granted = replace(own, actions=actions, project=own.project or asked.project)
    if asked.project is not None and actions is not None:
        left = actions_of(replace(principal, limits=granted))
        if not actions & left:
            raise BadRequest(
                "nothing is left of these actions within a project", remedy="ask for other actions"
            )
    return granted


def checked_role(role: str) -> Role:
    for known in get_args(Role):
        if known == role:
            found: Role = known
            return found
    raise BadRequest(f"there is no role {role[:100]}", remedy=f"use one of {', '.join(get_args(Role))}")


def checked_actions(actions: Iterable[str] | None) -> frozenset[str] | None:
    """None does not narrow; an empty list would be a key that does nothing, which is a mistake."""
    if actions is None:
        return None
    wanted = frozenset(actions)
    if not wanted:
        raise BadRequest("a key that may do nothing is of no use", remedy="leave actions out, or name some")
    for action in sorted(wanted - frozenset(get_args(Action))):
        raise BadRequest(f"there is no action {action[:100]}", remedy=meant(action, get_args(Action)))
    return wanted


def _refuse_beyond(wanted: frozenset[str], had: Iterable[str], why: str) -> None:
    beyond = sorted(wanted - frozenset(had))
    if beyond:
        raise NotPermitted(f"{why} {', '.join(beyond)}", remedy=f"ask for some of: {', '.join(sorted(had))}")
