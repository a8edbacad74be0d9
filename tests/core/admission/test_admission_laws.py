"""What admission can be relied on for, whatever it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.documents import intent
from tests.core.admission.cases import NOW, budget, catalog, codes, document, facts, granting, judged, trait

from windlass.core.admission.case import NodeSize, open_case
from windlass.core.admission.decide import Decided, decide, judge
from windlass.core.admission.rules import RULES
from windlass.core.catalog.snapshot import Catalog
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_json
from windlass.core.intent import Intent
from windlass.core.units import Micros, Ms

the_catalog: Callable[[], Catalog] = cache(catalog)

names = st.sampled_from(["nlp", "vision", "chat", "cheap", "none"])
envs = st.sampled_from(["prod", "dev", "none"])
TEXT = st.text("abé /", max_size=5)
json_values = st.recursive(
    st.one_of(st.booleans(), st.integers(-10, 10**6), TEXT, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=5,
)
traits = st.one_of(
    st.sampled_from(["spot-tolerant", "topology", "none", "topology@1.0.0", "spot-tolerant@9"]),
    st.fixed_dictionaries(
        {
            "name": st.just("topology"),
            "parameters": st.dictionaries(st.sampled_from(["level", "mode"]), json_values),
        }
    ),
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["training-job", "inference-service", "notebook", "raw", "none", "training-job@9"]
        ),
        "workers": st.integers(1, 100_000),
        "profile": st.sampled_from(["h100-80g", "h100-mig-1g", "l40s-48g", "none"]),
        "traits": st.lists(traits, max_size=3),
        "parameters": st.dictionaries(
            st.sampled_from(["port", "minReplicas", "maxReplicas", "x"]), json_values
        ),
        "priority": st.integers(-100, 100),
        "preemptible": st.booleans(),
        "placement": st.fixed_dictionaries({"sites": st.lists(names, max_size=2)}),
        "timeLimit": st.sampled_from(["1s", "4h", "30d"]),
        "retries": st.integers(0, 5),
        "image": st.one_of(st.just("ghcr.io/a/b:c"), st.text("aA/:@-_. ", min_size=1, max_size=30)),
        "hostNetwork": st.just(True),
        "labels": st.dictionaries(st.sampled_from(["cost/x", "team"]), st.just("y"), max_size=2),
    },
)
gpus = st.one_of(st.integers(0, 100), st.sampled_from(["0.5", "0.001", "1000000"]))


@st.composite
def intents(draw: st.DrawFn) -> dict[str, Any]:
    fields = dict(draw(specs))
    image = fields.pop("image", "ghcr.io/a/b:c")
    return intent(f"{draw(names)}/{draw(envs)}/job", draw(gpus), image=image, **fields)


known = st.builds(
    lambda now, nodes, price, spent, suspended: facts(
        now=Ms(NOW + now),
        node_sizes={gpu_class: (NodeSize(gpus),) for gpu_class, gpus in nodes.items()},
        per_gpu_hour=price,
        budgets=budget("acme", spent),
        suspended=suspended,
    ),
    st.integers(-(10**9), 10**9),
    st.dictionaries(st.sampled_from(["h100-80g", "l40s-48g"]), st.integers(0, 16)),
    st.one_of(st.none(), st.integers(0, 10**12).map(Micros)),
    st.integers(0, 10**12),
    st.sampled_from([frozenset[str](), frozenset({"acme"})]),
)
askers = st.sampled_from([None, "acme", "globex", "nobody"])


def asked(wanted: dict[str, Any], what: Any, tenant: str | None) -> Decided | None:
    """None where it is no intent at all: then admission is never asked."""
    found = understood(wanted)
    return None if found is None else decide(found, the_catalog(), what, tenant)


def understood(wanted: dict[str, Any]) -> Intent | None:
    found = parse_all(read_json(json.dumps(wanted).encode()))
    return None if found.problems else found.intents[0].value


@settings(deadline=None)
@given(intents(), known, askers)
def test_it_never_raises_and_is_admitted_exactly_without_a_reason(
    wanted: dict[str, Any], what: Any, tenant: str | None
) -> None:
    decided = asked(wanted, what, tenant)
    if decided is None:
        return
    assert decided.admitted == (decided.reasons == ())
    rules = {rule.code for rule in RULES}
    for reason in decided.reasons:
        assert reason.rule in rules and reason.message and reason.remedy and reason.field
    assert decided == asked(wanted, what, tenant), "the same question has the same answer"


@settings(deadline=None)
@given(intents(), known, askers)
def test_what_is_admitted_is_within_every_ceiling_and_owned_by_the_asker(
    wanted: dict[str, Any], what: Any, tenant: str | None
) -> None:
    decided = asked(wanted, what, tenant)
    if decided is None or decided.work is None:
        return
    shape, owner = decided.work.shape, decided.work.tenant
    assert tenant in (None, owner) and shape.queue.startswith(f"{owner}/")
    for envelope in the_catalog().envelopes.values():
        scope = envelope.scope
        inside = "/".join(part for part in (scope.tenant, scope.project, scope.env) if part)
        if f"{shape.queue}/".startswith(f"{inside}/"):
            for quota in envelope.gpus:
                if quota.profile_class == shape.gpu_class and quota.max is not None:
                    assert shape.total <= quota.max


@settings(deadline=None)
@given(intents(), known)
def test_one_more_mistake_takes_no_reason_away(wanted: dict[str, Any], what: Any) -> None:
    """Of the mistakes on which nothing depends: what is wrong stays wrong, and the new one is told."""
    before = asked(wanted, what, None)
    worse = {**wanted, "spec": {**wanted["spec"], "volumes": [], "priority": 99}}
    after = asked(worse, what, None)
    if before is None or after is None:
        return
    told = [reason.rule for reason in after.reasons]
    assert "field.platform-owned" in told
    assert {reason.rule for reason in before.reasons} <= set(told)


@settings(deadline=None)
@given(intents(), known, askers)
def test_a_rule_is_silent_exactly_when_one_it_depends_on_has_spoken(
    wanted: dict[str, Any], what: Any, tenant: str | None
) -> None:
    found = understood(wanted)
    if found is None:
        return
    case = open_case(found, the_catalog(), what, tenant)
    told = {reason.rule for reason in judge(case)}
    for rule in RULES:
        if told.isdisjoint(rule.needs):
            own = [reason.rule for reason in rule.check(case)]
            assert set(own) <= told, f"{rule.code} had something to say and was not asked"


@settings(deadline=None)
@given(intents(), known)
def test_another_tenants_project_is_judged_as_one_that_does_not_exist(
    wanted: dict[str, Any], what: Any
) -> None:
    theirs = asked({**wanted, "metadata": {**wanted["metadata"], "project": "chat"}}, what, "acme")
    nothing = asked({**wanted, "metadata": {**wanted["metadata"], "project": "none"}}, what, "acme")
    if theirs is None or nothing is None:
        return
    assert [reason.rule for reason in theirs.reasons] == [reason.rule for reason in nothing.reasons]
    assert theirs.work is None and not theirs.has_place
    assert (theirs.tenant, theirs.per_hour, theirs.currency) == (
        nothing.tenant,
        nothing.per_hour,
        nothing.currency,
    )


def test_the_same_intent_under_the_same_catalog_compiles_to_the_same_bytes() -> None:
    wanted = intent("nlp/prod/job", 2, variables={"B": "2", "A": "1"}, traits=["spot-tolerant"])
    turned = {**wanted, "spec": {**wanted["spec"], "variables": {"A": "1", "B": "2"}}}
    one, other = asked(wanted, facts(), "acme"), asked(turned, facts(), "acme")
    assert one is not None and other is not None and one.work is not None
    assert repr(one.work) == repr(other.work)
    assert codes(wanted) == []


def test_the_policies_of_a_tenant_share_a_budget_and_use_up_none_of_the_platforms() -> None:
    heavy = "spec.variables.all(a, spec.variables.all(b, spec.variables[a].startsWith('V') || a == b))"
    own = [
        document("Policy", f"own-{at}", {"rules": [{"name": f"heavy-{at}", "require": heavy}]}, tenant="acme")
        for at in range(8)
    ]
    ours = document("Policy", "ours", {"rules": [{"name": "ours", "require": heavy}]})
    wanted = intent("nlp/prod/w", variables={f"V{at}": "V" * 1500 for at in range(60)})
    found = judged(wanted, *own, ours).reasons
    untold = [reason.rule for reason in found if "could come to more than" in reason.message]
    assert untold and set(untold) < {f"policy.heavy-{at}" for at in range(8)}, (
        "the first are judged, and ours"
    )


@pytest.mark.parametrize("order", [("near", "far"), ("far", "near")])
def test_traits_that_tell_the_scheduler_different_things_conflict_in_any_order(
    order: tuple[str, str],
) -> None:
    near, far = ({"topology": {"level": level, "mode": "required"}} for level in ("rack", "zone"))
    known = [
        trait("near", constraints=near),
        trait("far", constraints=far),
        trait("alike", constraints=near),
        granting("near", "far", "alike"),
    ]
    assert codes(intent("nlp/prod/w", traits=list(order)), *known) == ["trait.conflict"]
    assert codes(intent("nlp/prod/w", traits=["near", "alike"]), *known) == []
