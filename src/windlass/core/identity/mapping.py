"""From groups to a role: what somebody's groups grant, and as what they act in one request.

The rules, all of them:

1. Each mapping whose group the person is in grants its role: in its tenant, or on the platform.
   Groups are compared as they are written, character by character.
2. In one tenant the highest role counts: tenant-admin, developer, viewer. On the platform too.
3. A platform-admin acts as that, whatever else is granted: it includes everything.
4. A request may name a tenant. It is then made with the role in that tenant, if there is one; else with
   the role on the platform, if there is one; else it is refused.
5. A request that names none is made with the role on the platform, if there is one; else in the one
   tenant that grants a role; with several it is refused, and the answer names them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from windlass.core.documents.kinds import IdentityProvider, MappedRole
from windlass.core.errors import NotPermitted

_RISING: tuple[MappedRole, ...] = ("viewer", "developer", "tenant-admin", "platform-viewer", "platform-admin")


@dataclass(frozen=True, slots=True)
class Grant:
    role: MappedRole
    tenant: str | None


def granted(provider: IdentityProvider, groups: Collection[str]) -> dict[str | None, Grant]:
    """The highest role by tenant; None is the platform."""
    found: dict[str | None, Grant] = {}
    for mapping in provider.mappings:
        known = found.get(mapping.tenant)
        if mapping.group in groups and (
            known is None or _RISING.index(mapping.role) > _RISING.index(known.role)
        ):
            found[mapping.tenant] = Grant(mapping.role, mapping.tenant)
    return found


def chosen(grants: dict[str | None, Grant], tenant: str | None) -> Grant:
    """As what a request is made that names this tenant, or none."""
    platform = grants.get(None)
    if platform is not None and platform.role == "platform-admin":
        return platform
    if tenant is not None:
        found = grants.get(tenant, platform)
        if found is None:
            raise NotPermitted(
                f"you have no role in the tenant {tenant[:100]}",
                remedy=f"name one of yours: {_listed(grants)}" if grants else _ASK,
            )
        return found
    if platform is not None:
        return platform
    if not grants:
        raise NotPermitted("you are known, but none of your groups has a role here", remedy=_ASK)
    if len(grants) > 1:
        raise NotPermitted(
            f"you have roles in several tenants: {_listed(grants)}",
            remedy="say which: --tenant on the command line, Windlass-Tenant in a request",
        )
    return next(iter(grants.values()))


_ASK = "ask a platform-admin to map one of your groups in the IdentityProvider document"


def _listed(grants: dict[str | None, Grant]) -> str:
    return ", ".join(sorted(name for name in grants if name is not None))
