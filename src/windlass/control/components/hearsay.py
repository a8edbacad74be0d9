"""What the engine says of waiting work, as somebody may hear it.

The engine's messages name who is ahead or in the way (`project/env/name`). It knows no tenants, so the
names are taken out here: a tenant reads its own, and of the others only that they are another's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from windlass.control.identity.scopes import Scope

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

SOMEBODY = "another tenant's work"

_PATH = re.compile(r"[a-z0-9][a-z0-9-]*(?:/[a-z0-9][a-z0-9-]*)+")
"""A component (project/env/name) or a scope of the quota tree (tenant/project/env): names with slashes."""


def heard(plane: ControlPlane, scope: Scope, message: str) -> str:
    """`message`, without the names of work and queues that `scope` does not cover."""
    if scope.tenant is None:
        return message
    return _PATH.sub(lambda found: named(plane, scope, found[0]), message)


def named(plane: ControlPlane, scope: Scope, path: str) -> str:
    """A component's path (or a scope's), where the asker may know it."""
    if scope.tenant is None:
        return path
    known = plane.scheduler.known.get(path)
    if known is not None:
        return path if scope.covers(known.tenant) else SOMEBODY
    # Not waiting or running now. As a component's path or as a scope's: every reading must be covered.
    catalog, first = plane.catalog.current, path.partition("/")[0]
    owners = [first] if first in catalog.tenants else []
    if first in catalog.projects:
        owners.append(catalog.projects[first].tenant)
    return path if owners and all(scope.covers(owner) for owner in owners) else SOMEBODY
