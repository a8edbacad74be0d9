"""Who may do what, written a second time and in another way: plain sets. The policy must say the same."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.control.identity.authorize import ACTIONS, Action, Deed
from windlass.control.identity.judge import Asker, Target
from windlass.control.identity.scopes import Role

DEEDS: tuple[Deed, ...] = (*ACTIONS, "token.revoke")

_READS: frozenset[Action] = frozenset(
    {
        "catalog.read",
        "component.read",
        "decision.read",
        "cost.read",
        "event.read",
        "token.create",
        "self.read",
    }
)

ROLE_ACTIONS: Mapping[Role, frozenset[Action]] = {
    "platform-admin": frozenset(ACTIONS) - {"site.link"},
    "platform-viewer": _READS | {"audit.read", "node.read", "key.read"},
    "tenant-admin": _READS | {"tenant.write", "component.write", "audit.read", "key.read", "key.write"},
    "developer": _READS | {"component.write"},
    "viewer": _READS,
    "agent": frozenset({"site.link", "self.read"}),
}

PROJECT_ACTIONS: frozenset[Action] = frozenset(
    {
        "catalog.read",
        "component.read",
        "component.write",
        "decision.read",
        "cost.read",
        "token.create",
        "self.read",
    }
)
EVERYWHERE: frozenset[Action] = frozenset({"catalog.read", "token.create", "self.read"})
TOKEN_ACTIONS: frozenset[Action] = frozenset(ACTIONS) - {"key.write", "token.create"}
_TENANT_ROLES = ("tenant-admin", "developer", "viewer")


def expected(asker: Asker, action: Deed, target: Target) -> bool:
    if asker.role in _TENANT_ROLES and not target.of_the_tenant:
        return False
    if asker.role == "agent" and target.kind != "Platform":
        return False
    if action == "token.revoke":
        return target.own
    if target.kind == "Token" and action != "key.write":
        return False
    left = ROLE_ACTIONS[asker.role]
    if asker.via == "token":
        left &= TOKEN_ACTIONS
    if asker.leaves_out:
        left &= {"self.read"}
    if asker.for_project and not target.the_project:
        left &= EVERYWHERE if target.kind != "Project" else frozenset()
    if asker.for_project:
        left &= PROJECT_ACTIONS
    return action in left
