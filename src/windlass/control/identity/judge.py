"""The policy, asked: policy/windlass.cedar decides, and whatever it cannot decide is a no.

Cedar skips a policy that fails, also one that forbids, so a failure could turn a no into a yes. Against
that, the policy is checked against its schema before the first question; what it looks at is made and
checked then too, and nothing else may be asked about; and an answer that comes with an error is not a yes.

Nothing else knows which engine it is. An answer depends on the question and on a file of this release and
on nothing else, so it is remembered; there are a few thousand questions in all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import cedarpy

from windlass.control.identity.scopes import ROLES, Role, Via
from windlass.runtime.logging import warn

Kind = Literal["Platform", "Tenant", "Project", "Token"]

_FOLDER = Path(__file__).with_name("policy")
POLICY, SCHEMA = _FOLDER / "windlass.cedar", _FOLDER / "windlass.cedarschema"


class Asker(NamedTuple):
    """A credential, as far as the policy looks at it; policy/windlass.cedarschema says what each means."""

    role: Role
    via: Via
    for_project: bool
    leaves_out: bool


class Target(NamedTuple):
    """What it is done to, as it stands to the asker."""

    kind: Kind
    of_the_tenant: bool = False
    the_project: bool = False
    own: bool = False


class Question(NamedTuple):
    asker: Asker
    action: str
    target: Target


def askers() -> Iterator[Asker]:
    for role, via, for_project, leaves_out in product(ROLES, get_args(Via), (False, True), (False, True)):
        yield Asker(role, via, for_project, leaves_out)


def targets() -> Iterator[Target]:
    """All there can be: the platform is in no tenant, and only a token can be one's own."""
    yield Target("Platform")
    for of_the_tenant in (False, True):
        yield Target("Tenant", of_the_tenant)
        for either in (False, True):
            yield Target("Project", of_the_tenant, the_project=either)
            yield Target("Token", of_the_tenant, own=either)


_ASKERS, _TARGETS = frozenset(askers()), frozenset(targets())


class PolicyInvalid(Exception):
    """The policy or its schema is not what it must be; nothing is served with it."""


class Judge:
    def __init__(self, policy: str, schema: str) -> None:
        try:
            self._schema = cedarpy.Schema.from_str(schema)
            self._policies = cedarpy.PolicySet.from_str(policy)
            things = json.dumps([*map(_asker_entity, _ASKERS), *map(_target_entity, _TARGETS)])
            self._entities = cedarpy.Entities.from_json_str(things, self._schema)
        except ValueError as error:
            raise PolicyInvalid(str(error)) from None
        found = cedarpy.validate_policies(policy, self._schema)
        if not found.validation_passed:
            raise PolicyInvalid("; ".join(map(str, found.errors)))
        self._remembered: dict[Question, bool] = {}

    def allows(self, question: Question) -> bool:
        answer = self._remembered.get(question)
        if answer is None:
            answer = self._remembered[question] = self._decide(question)
        return answer

    def _decide(self, question: Question) -> bool:
        request = {
            "principal": _uid("Credential", question.asker),
            "action": {"type": "Action", "id": question.action},
            "resource": _uid(question.target.kind, question.target),
        }
        if question.asker not in _ASKERS or question.target not in _TARGETS:
            warn("the policy was asked about what it does not know, so the answer is no", asked=str(question))
            return False
        try:
            found = cedarpy.is_authorized(request, self._policies, self._entities, self._schema)
            allowed, errors = found.allowed, found.diagnostics.errors
        except Exception as error:  # the engine's own: whatever it is, it is no permission
            allowed, errors = False, [str(error)]
        if errors:
            warn("the policy could not decide, so the answer is no", asked=str(question), why=errors)
        return allowed and not errors


@cache
def judge() -> Judge:
    """The one of this release; the first call checks the policy."""
    return Judge(POLICY.read_text(), SCHEMA.read_text())


def _uid(kind: str, facts: tuple[Any, ...]) -> Mapping[str, str]:
    """As an entity is named: by its facts."""
    return {"type": kind, "id": " ".join(map(str, facts))}


def _asker_entity(asker: Asker) -> Mapping[str, Any]:
    attributes = {"via": asker.via, "forProject": asker.for_project, "leavesOut": asker.leaves_out}
    role = {"type": "Role", "id": asker.role}
    return {"uid": _uid("Credential", asker), "attrs": attributes, "parents": [role]}


def _target_entity(target: Target) -> Mapping[str, Any]:
    attributes = {"ofTheTenant": target.of_the_tenant, "theProject": target.the_project}
    if target.kind == "Token":
        attributes["own"] = target.own
    return {"uid": _uid(target.kind, target), "attrs": attributes, "parents": []}
