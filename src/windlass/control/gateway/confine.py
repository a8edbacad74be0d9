"""A credential for one project asks within it, or is refused.

What such a credential may do, and where, the policy says; here it is found out which project a request is
about. A route is within a project when its path names one, or when its list can be narrowed to one: then
it is. Any other, also one that comes later, is about more than the project, and the policy is asked about
that. POST /v1/apply looks at each component.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.control.gateway.routes import Route
from windlass.control.identity.authorize import Action, Thing, ground, may
from windlass.control.identity.scopes import Principal
from windlass.core.errors import NotPermitted

_LOOKS_ITSELF = ("POST", "/v1/apply")


def confined(
    principal: Principal, route: Route, parameters: Mapping[str, str], query: Mapping[str, str]
) -> Mapping[str, str]:
    """The query as this credential may ask it."""
    project = principal.limits.project
    if project is None or (route.method, route.pattern) == _LOOKS_ITSELF:
        return query
    assert route.action is not None
    if "{project}" in route.pattern:
        check_project(principal, route.action, parameters["project"])
        return query
    if "project" in route.query:
        check_project(principal, route.action, query.get("project", project))
        return {**query, "project": project}
    _check(principal, route.action, ground(principal))
    return query


def check_project(principal: Principal, action: Action, asked: str) -> None:
    if principal.limits.project is not None:
        _check(principal, action, Thing("Project", principal.tenant, asked))


def _check(principal: Principal, action: Action, thing: Thing) -> None:
    if not may(principal, action, thing):
        raise _outside(str(principal.limits.project))


def _outside(project: str) -> NotPermitted:
    return NotPermitted(
        f"this credential is for the project {project} only",
        remedy=f"ask within {project}, or use a credential that is not narrowed to a project",
    )
