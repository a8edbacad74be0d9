"""The policy says what the plain sets say, to every question there is; and what it cannot say is a no."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

import cedarpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.rights import (
    DEEDS,
    EVERYWHERE,
    PROJECT_ACTIONS,
    ROLE_ACTIONS,
    TOKEN_ACTIONS,
    expected,
)

from windlass.control.identity.authorize import (
    ACTIONS,
    Action,
    Deed,
    Thing,
    actions_of,
    authorize,
    may,
    role_actions,
)
from windlass.control.identity.judge import (
    POLICY,
    SCHEMA,
    Asker,
    Judge,
    PolicyInvalid,
    Question,
    Target,
    askers,
    judge,
    targets,
)
from windlass.control.identity.scopes import PLATFORM_ROLES, ROLES, Limits, Principal, Role, Via
from windlass.core.errors import NotPermitted

ANYBODY = Asker("platform-admin", "key", for_project=False, leaves_out=False)
TEXT, FORM = POLICY.read_text(), SCHEMA.read_text()


def questions() -> Iterator[tuple[Asker, Deed, Target]]:
    for asker in askers():
        for target in targets():
            for action in DEEDS:
                yield asker, action, target


def test_the_policy_answers_every_question_as_the_plain_sets_do() -> None:
    asked = list(questions())
    assert len(asked) == 6 * 3 * 2 * 2 * 11 * 18
    for asker, action, target in asked:
        wanted = expected(asker, action, target)
        assert judge().allows(Question(asker, action, target)) == wanted, f"{asker} {action} {target}"


def test_a_role_without_limits_may_what_its_row_of_the_table_says() -> None:
    assert {role: role_actions(role) for role in ROLES} == ROLE_ACTIONS


# --- from names to questions ------------------------------------------------------------------

names = st.sampled_from(["acme", "globex"])
projects = st.sampled_from(["nlp", "vision"])
limited = st.builds(
    Limits,
    actions=st.none() | st.frozensets(st.sampled_from(ACTIONS), min_size=1),
    project=st.none() | projects,
)


@st.composite
def principals(draw: st.DrawFn) -> Principal:
    role: Role = draw(st.sampled_from(ROLES))
    tenant = None if role in PLATFORM_ROLES else draw(names if role != "agent" else st.none() | names)
    via: Via = draw(st.sampled_from(get_args(Via)))
    return Principal("n", role, tenant, "key_1", via=via, limits=draw(limited))


def left(principal: Principal) -> frozenset[Action]:
    found = ROLE_ACTIONS[principal.role]
    if principal.via == "token":
        found &= TOKEN_ACTIONS
    if principal.limits.project is not None:
        found &= PROJECT_ACTIONS
    if principal.limits.actions is not None:
        found &= principal.limits.actions | {"self.read"}
    return found


@settings(max_examples=400)
@given(principals())
def test_whatever_a_credential_is_narrowed_to_the_rest_is_what_the_sets_leave(principal: Principal) -> None:
    assert actions_of(principal) == left(principal)
    for action in ACTIONS:
        if action in left(principal):
            scope = authorize(principal, action)
            assert scope.tenant == ("" if principal.role == "agent" else principal.tenant)
        else:
            with pytest.raises(NotPermitted):
                authorize(principal, action)


@settings(max_examples=400)
@given(principals(), st.sampled_from(ACTIONS), names, projects)
def test_names_decide_what_is_ones_own(
    principal: Principal, action: Action, tenant: str, project: str
) -> None:
    own = principal.role in PLATFORM_ROLES or (principal.tenant == tenant and principal.role != "agent")
    rest = left(principal) if own else frozenset()
    narrowed = principal.limits.project
    outside = rest if narrowed is None else rest & EVERYWHERE
    inside = rest if narrowed in (None, project) else frozenset()
    assert may(principal, action, Thing("Tenant", tenant)) == (action in outside)
    assert may(principal, action, Thing("Project", tenant, project)) == (action in inside)


@settings(max_examples=200)
@given(principals(), names)
def test_somebodys_own_token_can_always_be_ended_and_another_only_by_right_of_keys(
    principal: Principal, tenant: str
) -> None:
    there = principal.role in PLATFORM_ROLES or (principal.tenant == tenant and principal.role != "agent")
    own, another = Thing("Token", tenant, own=True), Thing("Token", tenant)
    assert may(principal, "token.revoke", own) == there
    assert not may(principal, "token.revoke", another)
    by_right = "key.write" in left(principal) and principal.limits.project is None
    assert may(principal, "key.write", another) == (there and by_right)


def test_a_tenants_role_without_a_tenant_may_nothing() -> None:
    for role in set(ROLES) - PLATFORM_ROLES - {"agent"}:
        lost = Principal("n", role, None, "key_1")
        assert actions_of(lost) == frozenset()
        with pytest.raises(NotPermitted, match="belongs to no tenant"):
            authorize(lost, "catalog.read")


# --- what the policy cannot say ---------------------------------------------------------------


@pytest.mark.parametrize(
    "question",
    [
        Question(ANYBODY._replace(role="root"), "self.read", Target("Platform")),  # type: ignore[arg-type]
        Question(ANYBODY._replace(via="post"), "self.read", Target("Platform")),  # type: ignore[arg-type]
        Question(ANYBODY, "everything.write", Target("Platform")),
        Question(ANYBODY, "reading", Target("Platform")),
        Question(ANYBODY, "self.read", Target("Moon")),  # type: ignore[arg-type]
        Question(ANYBODY, "self.read", Target("Tenant", own=True)),
        Question(ANYBODY, "component.write", Target("Token")),
        Question(ANYBODY, "token.revoke", Target("Platform")),
    ],
    ids=str,
)
def test_a_question_that_does_not_fit_the_schema_is_answered_with_no(question: Question) -> None:
    assert not judge().allows(question)


def test_a_forbid_that_fails_is_a_no_although_the_engine_says_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = 'forbid (principal, action, resource) when { principal.via.contains("x") };'
    with pytest.raises(PolicyInvalid, match="Set"):
        Judge(f"{TEXT}\n{failing}", FORM)
    real = cedarpy.validate_policies(TEXT, FORM)
    monkeypatch.setattr(cedarpy, "validate_policies", lambda *_: real)  # as if it had been overlooked
    unchecked = Judge(f"{TEXT}\n{failing}", FORM)
    question = Question(ANYBODY, "self.read", Target("Platform"))
    assert judge().allows(question)
    assert not unchecked.allows(question)


def test_an_engine_that_breaks_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no engine today")

    fresh = Judge(TEXT, FORM)
    monkeypatch.setattr(cedarpy, "is_authorized", broken)
    assert not fresh.allows(Question(ANYBODY, "self.read", Target("Platform")))


@pytest.mark.parametrize(
    ("policy", "schema"),
    [
        ("permit (principal, action, resource", FORM),
        (TEXT.replace("resource.own", "resource.owm"), FORM),
        (TEXT.replace('Role::"viewer"', 'Role::"viever"'), FORM),
        (TEXT.replace('Action::"audit.read"', 'Action::"audit.reed"'), FORM),
        (TEXT, FORM.replace("forProject: Bool", "forProject: String")),
        (TEXT, FORM.replace('"agent"', '"robot"')),
        (TEXT, "entity"),
    ],
)
def test_a_policy_that_is_not_in_order_is_not_served_with(policy: str, schema: str) -> None:
    assert (policy, schema) != (TEXT, FORM)
    with pytest.raises(PolicyInvalid):
        Judge(policy, schema)


# --- the file that people read ----------------------------------------------------------------


def policies() -> list[str]:
    return [f'@id("{part}' for part in TEXT.split('@id("')[1:]]


def test_every_policy_has_a_name_of_its_own() -> None:
    named = re.findall(r'^@id\("([a-z-]+)"\)$', TEXT, re.MULTILINE)
    starts = re.findall(r"^(?:permit|forbid) \(", TEXT, re.MULTILINE)
    assert len(set(named)) == len(named) == len(starts) == len(policies())


@pytest.mark.parametrize("number", range(len(policies())))
def test_without_any_one_policy_some_answer_would_be_another(number: int) -> None:
    rest = policies()
    removed = rest.pop(number)
    poorer = Judge("\n".join(rest), FORM)
    changed = next(
        (one for one in questions() if poorer.allows(Question(*one)) != judge().allows(Question(*one))), None
    )
    assert changed is not None, f"nothing depends on {removed}"


def test_the_schema_knows_the_actions_and_roles_of_the_code_and_no_others() -> None:
    assert set(re.findall(r'^action "([a-z.]+\.[a-z]+)"', FORM, re.MULTILINE)) == set(DEEDS)
    (roles,) = re.findall(r"entity Role enum \[(.+?)\]", FORM, re.DOTALL)
    assert tuple(re.findall(r'"([a-z-]+)"', roles)) == ROLES
