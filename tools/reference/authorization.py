"""authorization.md: the matrix of roles and actions, and what stands behind each action."""

from __future__ import annotations

import inspect
import re

from tools.reference.markdown import code, codes, lines_of, table
from tools.reference.routes import all_routes
from windlass.control.gateway.routes import Route
from windlass.control.identity import authorize
from windlass.control.identity.authorize import ACTIONS, Action, role_actions
from windlass.control.identity.granting import GRANTS
from windlass.control.identity.judge import Asker, Question, Target, judge
from windlass.control.identity.scopes import PLATFORM_ROLES, ROLES

_REMARK = re.compile(r'^\s*"([a-z.]+)",\s*# (.+)$', re.MULTILINE)

_WIDE = Asker("platform-admin", "key", for_project=False, leaves_out=False)
_OF_A_PROJECT = _WIDE._replace(for_project=True)
_NARROWED = {
    "by a short-lived token": (_WIDE._replace(via="token"), Target("Platform")),
    "for a project, within it": (_OF_A_PROJECT, Target("Project", the_project=True)),
    "for a project, in none": (_OF_A_PROJECT, Target("Tenant")),
    "for a project, in another": (_OF_A_PROJECT, Target("Project")),
}


def page() -> str:
    had = {role: role_actions(role) for role in ROLES}
    remarks = dict(_REMARK.findall(inspect.getsource(authorize)))
    matrix = [[code(action), *("yes" if action in had[role] else "" for role in ROLES)] for action in ACTIONS]
    behind = [[code(action), remarks.get(action, ""), _routes(action), _inside(action)] for action in ACTIONS]
    roles = [
        [
            code(role),
            "the whole platform" if role in PLATFORM_ROLES else "the key's tenant",
            codes(one for one in ROLES if one in GRANTS.get(role, ())),
        ]
        for role in ROLES
    ]
    return lines_of(
        "Authorization",
        "the answers of the policy that the gateway asks",
        "A key has one role. A tenant's key sees its tenant and nothing else: what belongs to another tenant"
        " is not found. The rules are in"
        " [windlass.cedar](../../src/windlass/control/identity/policy/windlass.cedar), a Cedar policy;"
        " [the guide](../guides/identity.md#read-the-policy) says how to read it.",
        "",
        *table(["Action", *map(code, ROLES)], matrix),
        "## Roles",
        "",
        *table(["Role", "Acts on", "May make keys with the role"], roles),
        "## Narrowed credentials",
        "",
        "What is left of an action that the role includes. A credential that is narrowed to actions does"
        " those, asks who it is, and ends itself if it is a token; nothing else.",
        "",
        *table(["Action", *_NARROWED], _left()),
        "## Actions",
        "",
        "A route asks for its action first; where that depends on the document, its handler asks for more.",
        "",
        *table(["Action", "Covers", "Asked for by", "And, by document, by"], behind),
    )


def _left() -> list[list[str]]:
    return [
        [code(action), *(_allowed(asker, action, target) for asker, target in _NARROWED.values())]
        for action in ACTIONS
    ]


def _allowed(asker: Asker, action: Action, target: Target) -> str:
    return "yes" if judge().allows(Question(asker, action, target)) else ""


def _routes(action: Action) -> str:
    return "; ".join(code(f"{one.method} {one.pattern}") for one in all_routes() if one.action == action)


def _inside(action: Action) -> str:
    """The writing routes whose handlers' module asks for the action itself."""
    asked = re.compile(rf'(?:authorize|may)\([\w.]+, "{re.escape(action)}"(?:, \w+)?\)')
    found = (
        one
        for one in all_routes()
        if one.action not in (None, action) and one.method != "GET" and asked.search(_source(one))
    )
    return "; ".join(code(f"{one.method} {one.pattern}") for one in found)


def _source(route: Route) -> str:
    handler = route.run if inspect.ismethod(route.run) else type(route.run)
    module = inspect.getmodule(handler)
    assert module is not None
    return inspect.getsource(module)
