"""Documents in, the next catalog out; or every reason why not, whatever the order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.catalog.worlds import (
    BASE,
    component_type,
    document,
    envelope,
    key,
    prices,
    profile,
    project,
    quota,
    site,
    tenant,
    tier,
    trait,
    world,
)

from windlass.core.catalog.changes import apply_documents, delete_document
from windlass.core.catalog.shipped import SHIPPED
from windlass.core.catalog.snapshot import EMPTY
from windlass.core.documents.kinds import Document, DocumentKey
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_yaml
from windlass.core.documents.wire import write_document
from windlass.core.errors import Conflict, Invalid, NotFound, StaleVersion, WindlassError

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def refusal(*documents: Document, of: type[WindlassError] = Invalid) -> WindlassError:
    with pytest.raises(of) as caught:
        apply_documents(world(), documents)
    assert type(caught.value) is of
    assert all(reason.message and reason.remedy for reason in caught.value.reasons)
    return caught.value


def test_a_change_makes_the_next_revision_and_versions_documents() -> None:
    first = world()
    change = apply_documents(first, [tier(priority=5), tier("silver"), tenant()])
    assert [(one.key.name, one.result, one.document.metadata.version) for one in change.outcomes] == [
        ("gold", "changed", 2),
        ("silver", "created", 1),
        ("acme", "unchanged", 1),
    ]
    assert [one.metadata.name for one in change.written] == ["gold", "silver"]
    assert (first.revision, change.catalog.revision) == (1, 2)
    assert first.tiers["gold"].priority == 1 and change.catalog.tiers["gold"].priority == 5


def test_what_changes_nothing_is_no_revision() -> None:
    catalog = world()
    change = apply_documents(catalog, BASE)
    assert change.catalog is catalog and not change.written
    assert {one.result for one in change.outcomes} == {"unchanged"}


def test_true_and_one_are_different_contents() -> None:
    catalog = world(component_type(parameters={"default": {"a": True}}))
    change = apply_documents(catalog, [component_type(parameters={"default": {"a": 1}})])
    assert [one.result for one in change.outcomes] == ["changed"]


@given(st.permutations(BASE))
@RELAXED
def test_the_order_of_documents_does_not_matter(documents: list[Document]) -> None:
    assert apply_documents(EMPTY, documents).catalog.documents == world().documents


# --- references -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        (tenant("b", tier="goldd"), "spec.tier", "there is no tier goldd; did you mean gold?"),
        (tenant("b", sites=["fra1"]), "spec.sites[0]", "there is no site fra1"),
        (project("p", of="acmee"), "metadata.tenant", "there is no tenant acmee; did you mean acme?"),
        (project("p", defaultProfile="a100"), "spec.defaultProfile", "there is no hardware profile a100"),
        (project("p", types=["training"]), "spec.types[0]", "there is no component type training"),
        (project("p", types=["training-job@2.0"]), "spec.types[0]", "training-job"),
        (project("p", traits=["spot"]), "spec.traits[0]", "there is no trait spot"),
        (envelope("acme/nlpp"), "spec.scope.project", "there is no project nlpp in acme; did you mean nlp?"),
        (envelope("acme/nlp/test"), "spec.scope.env", "there is no environment test in nlp"),
        (
            prices("p", {"profileClass": "h100", "tier": "silver", "perGpuHour": "1"}),
            "spec.prices[0].tier",
            "there is no tier silver",
        ),
        (site(tenants=["globex"]), "spec.tenants[0]", "there is no tenant globex"),
        (trait(appliesTo=["etl"]), "spec.appliesTo[0]", "there is no component type etl"),
        (trait(conflictsWith=["spotty"]), "spec.conflictsWith[0]", "there is no trait spotty"),
        (
            component_type(
                deprecated={
                    "since": "2026-01-01T00:00:00Z",
                    "until": "2027-01-01T00:00:00Z",
                    "replacedBy": "etl@9",
                }
            ),
            "spec.deprecated.replacedBy",
            "there is no component type etl@9",
        ),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(wrong: Document, field: str, words: str) -> None:
    error = refusal(wrong)
    (reason,) = error.reasons
    assert reason.field == field and reason.rule == "document.invalid"
    assert words in f"{reason.message}; {reason.remedy}"
    assert reason.message.startswith(f"{wrong.kind} ")


def test_the_site_local_is_always_there() -> None:
    assert apply_documents(world(), [tenant("b", sites=["local"])]).written


def test_an_envelope_of_another_tenants_project_is_refused() -> None:
    error = refusal(tenant("b"), envelope("b/nlp"))
    assert error.reasons[0].field == "spec.scope.project"


def test_a_change_may_not_leave_others_behind() -> None:
    catalog = world(envelope("acme/nlp/prod"))
    with pytest.raises(Invalid) as caught:
        apply_documents(catalog, [project(environments=["dev"])])
    assert "Envelope acme-nlp-prod: there is no environment prod in nlp" in caught.value.detail


def test_every_reason_is_told_with_its_line() -> None:
    text = """\
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: b}
spec:
  tier: nope
  sites: [nowhere]
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: nlp, tenant: nobody}
spec: {environments: []}
"""
    items = parse_all(read_yaml(text)).documents
    with pytest.raises(Invalid) as caught:
        apply_documents(
            world(),
            [item.value for item in items],
            sources={item.value.key: item.tree for item in items},
        )
    assert [(reason.field, reason.line) for reason in caught.value.reasons] == [
        ("spec.tier", 5),
        ("spec.sites[0]", 6),
        ("spec.environments", 11),
        ("metadata.tenant", 10),
        ("metadata.name", 10),
    ]


def test_what_was_wrong_before_does_not_lock_everything() -> None:
    """A stricter release meets an old catalog: other documents can still be changed."""
    old = world()
    documents = {**old.documents, key("Tenant", "old"): tenant("old", tier="gone")}
    broken = type(old).build(7, documents.values())
    assert apply_documents(broken, [tier("silver")]).catalog.revision == 8
    with pytest.raises(Invalid):
        apply_documents(broken, [tenant("old", tier="gone", displayName="touched")])


# --- one place, one document ------------------------------------------------------------------


def test_project_names_are_unique_on_the_platform() -> None:
    error = refusal(tenant("b"), project("nlp", of="b"), of=Conflict)
    (reason,) = error.reasons
    assert "nlp is taken" in reason.message and "acme" not in reason.message


def test_a_name_that_is_taken_tells_nothing_of_whose_it_is() -> None:
    catalog = world(envelope("acme/nlp", quota(1)), envelope("acme/nlp/prod", quota(1)))
    with pytest.raises(Conflict) as caught:
        apply_documents(catalog, [tenant("b"), project("nlp", of="b", environments=["other"])])
    (reason,) = caught.value.reasons
    assert "nlp is taken" in reason.message and "acme" not in reason.message


def test_a_scope_has_one_envelope() -> None:
    error = refusal(envelope("acme", name="second"), of=Conflict)
    assert "the scope acme has another envelope: acme" in error.detail


def test_a_shipped_type_cannot_be_replaced() -> None:
    for version in ("1.0.0", "1.0", "1"):
        error = refusal(component_type("training-job", version), of=Conflict)
        assert "comes with Windlass" in error.detail and error.remedy == "choose another version"
    assert apply_documents(world(), [component_type("training-job", "1.0.1")]).written


def test_a_shipped_document_that_was_got_can_be_applied_as_it_is() -> None:
    change = apply_documents(world(), list(SHIPPED.values()))
    assert {one.result for one in change.outcomes} == {"unchanged"} and not change.written


def test_versions_that_are_equal_as_numbers_are_one_version() -> None:
    with pytest.raises(Conflict):
        apply_documents(world(trait("a", "1.1")), [trait("a", "1.1.0")])


def test_two_price_books_may_not_price_the_same_from_the_same_moment() -> None:
    catalog = world(prices("a"))
    with pytest.raises(Conflict, match="another price from the same moment on, in a"):
        apply_documents(catalog, [prices("b")])
    assert apply_documents(catalog, [prices("b", effectiveFrom="2026-02-01T00:00:00Z")]).written
    assert apply_documents(catalog, [prices("b", currency="EUR")]).written


def test_a_document_is_given_once() -> None:
    refusal(tier(priority=2), tier(priority=3))


def test_a_change_that_is_wrong_and_in_conflict_is_wrong() -> None:
    refusal(tenant("b", tier="nope"), project("nlp", of="b"))


def test_a_budget_is_in_the_currency_of_the_tenant() -> None:
    budget = {"amount": "1", "currency": "EUR", "period": "month"}
    error = refusal(envelope("acme/nlp", budget=budget))
    assert error.reasons[0].field == "spec.budget.currency"


# --- the quota tree ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "children",
    [
        (envelope("acme/nlp", quota(16)),),
        (envelope("acme/nlp", quota(8)), envelope("acme/vision", quota(8))),
        (
            envelope("acme/nlp", quota(8)),
            envelope("acme/nlp/prod", quota(8)),
            envelope("acme/vision", quota(8)),
        ),
        (envelope("acme/nlp/prod", quota(8)), envelope("acme/vision/prod", quota(8))),
        (envelope("acme/nlp/prod", quota(8, max=100)),),
        (envelope("acme/nlp", quota(0, "other", max=3)),),
    ],
)
def test_guarantees_that_fit_are_accepted(children: tuple[Document, ...]) -> None:
    assert apply_documents(world(), children).written


@pytest.mark.parametrize(
    ("children", "words"),
    [
        ((envelope("acme/nlp", quota(17)),), "acme itself is guaranteed 16"),
        ((envelope("acme/nlp", quota(9)), envelope("acme/vision", quota(8))), "17 of h100"),
        ((envelope("acme/nlp/prod", quota(9)), envelope("acme/vision", quota(8))), "17 of h100"),
        ((envelope("acme/nlp/prod", quota(9)), envelope("acme/nlp/dev", quota(8))), "17 of h100"),
        (
            (envelope("acme/nlp", quota(4)), envelope("acme/nlp/prod", quota(5))),
            "acme/nlp itself is guaranteed 4",
        ),
        ((envelope("acme/nlp"), envelope("acme/nlp/prod", quota(5))), "acme/nlp itself is guaranteed 0"),
        ((envelope("acme/nlp", quota(1, "a100")),), "acme itself is guaranteed 0"),
        (
            (tenant("b"), project("p", of="b"), envelope("b/p/prod", quota(1))),
            "b itself is guaranteed 0, having no envelope",
        ),
    ],
)
def test_guarantees_that_do_not_fit_are_refused(children: tuple[Document, ...], words: str) -> None:
    error = refusal(*children)
    assert any(words in reason.message for reason in error.reasons)


def test_a_guarantee_may_not_shrink_below_its_children() -> None:
    catalog = world(envelope("acme/nlp", quota(10)))
    with pytest.raises(Invalid, match=r"Envelope acme: below acme, 10 of h100 .* \(acme-nlp 10\)") as caught:
        apply_documents(catalog, [envelope("acme", quota(9))])
    assert len(caught.value.reasons) == 1


def test_a_broken_sum_is_told_of_what_was_given() -> None:
    catalog = world(envelope("acme/nlp", quota(10)))
    with pytest.raises(Invalid) as caught:
        apply_documents(catalog, [envelope("acme/vision", quota(10))])
    (reason,) = caught.value.reasons
    assert reason.message.startswith("Envelope acme-vision: ") and reason.field == "spec.gpus[0].guaranteed"


amounts = st.integers(0, 8)


@given(st.integers(0, 20), st.none() | amounts, amounts, amounts, st.none() | amounts, amounts)
@RELAXED
def test_a_tree_is_accepted_exactly_when_every_sum_fits(
    top: int, nlp: int | None, nlp_dev: int, nlp_prod: int, vision: int | None, vision_prod: int
) -> None:
    """Law: children's guarantees, or grandchildren's where the middle has no envelope, fit the parent's."""
    documents = [envelope("acme", quota(top))]
    documents += [envelope("acme/nlp/dev", quota(nlp_dev)), envelope("acme/nlp/prod", quota(nlp_prod))]
    documents += [envelope("acme/vision/prod", quota(vision_prod))]
    documents += [envelope("acme/nlp", quota(nlp))] if nlp is not None else []
    documents += [envelope("acme/vision", quota(vision))] if vision is not None else []
    below_nlp = nlp_dev + nlp_prod
    fits = (nlp is None or below_nlp <= nlp) and (vision is None or vision_prod <= vision)
    fits = fits and (below_nlp if nlp is None else nlp) + (vision_prod if vision is None else vision) <= top
    try:
        apply_documents(world(), documents)
    except Invalid:
        assert not fits
    else:
        assert fits


# --- versions ---------------------------------------------------------------------------------


def test_a_version_that_was_not_seen_is_stale() -> None:
    catalog = apply_documents(world(), [tier(priority=2)]).catalog
    gold = key("Tier", "gold")
    assert apply_documents(catalog, [tier(priority=3)], expected={gold: 2}).written
    for seen in (0, 1, 3):
        with pytest.raises(StaleVersion, match="it is at version 2 now"):
            apply_documents(catalog, [tier(priority=3)], expected={gold: seen})
    with pytest.raises(StaleVersion, match="does not exist now"):
        apply_documents(catalog, [tier("new")], expected={key("Tier", "new"): 1})
    assert apply_documents(catalog, [tier("new")], expected={key("Tier", "new"): 0}).written


def test_a_version_in_the_document_counts_unless_nothing_changes() -> None:
    def at(version: int, priority: int) -> Document:
        spec = {"priority": priority, "preempts": True, "preemptible": True}
        return document("Tier", "gold", spec, version=version)

    catalog = apply_documents(world(), [at(1, 2)]).catalog
    assert apply_documents(catalog, [at(1, 2)]).catalog is catalog
    with pytest.raises(StaleVersion):
        apply_documents(catalog, [at(1, 3)])
    assert apply_documents(catalog, [at(2, 3)]).catalog.tiers["gold"].priority == 3


# --- deletion ---------------------------------------------------------------------------------


def full_world() -> Any:
    return world(
        tier("silver"),
        site("fra1"),
        tenant("b", tier="silver", sites=["fra1"]),
        profile("spare"),
        component_type("etl", "1.0.0"),
        component_type("etl", "1.1.0"),
        component_type("once"),
        trait("pinned"),
        project("p", of="b", types=["etl", "once"], traits=["pinned"], defaultProfile="h100"),
        envelope("b", quota(4)),
        envelope("b/p", quota(4)),
        prices("list", {"profileClass": "h100", "tier": "silver", "perGpuHour": "1"}),
    )


@pytest.mark.parametrize(
    ("used", "users"),
    [
        (key("Tier", "silver"), {"Tenant b", "PriceBook list"}),
        (key("Tenant", "b"), {"Project p", "Envelope b", "Envelope b-p"}),
        (key("HardwareProfile", "h100"), {"Project p"}),
        (key("ComponentType", "once@1.0.0"), {"Project p"}),
        (key("Trait", "pinned@1.0.0"), {"Project p"}),
        (key("Project", "p", "b"), {"Envelope b-p"}),
        (key("Site", "fra1"), {"Tenant b"}),
        (key("Envelope", "b", "b"), {"Envelope b-p"}),
    ],
)
def test_what_is_in_use_cannot_be_deleted_and_says_by_whom(used: DocumentKey, users: set[str]) -> None:
    with pytest.raises(Conflict) as caught:
        delete_document(full_world(), used)
    _, _, named = caught.value.detail.partition(" is in use by ")
    assert set(named.split(", ")) == users
    for reason in caught.value.reasons:
        assert reason.rule == "conflict"
        assert "nearest" not in reason.remedy and "there is no" not in reason.message


def test_what_belongs_to_a_tenant_is_to_be_deleted_first() -> None:
    with pytest.raises(Conflict) as caught:
        delete_document(full_world(), key("Tenant", "b"))
    told = {(reason.message, reason.remedy) for reason in caught.value.reasons}
    assert ("Project p belongs to it", "delete Project p first") in told
    with pytest.raises(Conflict) as caught:
        delete_document(full_world(), key("Site", "fra1"))
    (reason,) = caught.value.reasons
    assert reason.message == "Tenant b uses it in spec.sites[0]"


@pytest.mark.parametrize(
    "unused",
    [
        key("HardwareProfile", "spare"),
        key("PriceBook", "list"),
        key("Envelope", "b-p", "b"),
        key("ComponentType", "etl@1.0.0"),
        key("ComponentType", "etl@1.1.0"),
    ],
)
def test_what_is_not_in_use_can_be_deleted(unused: DocumentKey) -> None:
    catalog = full_world()
    change = delete_document(catalog, unused)
    assert change.catalog.revision == catalog.revision + 1
    assert unused not in change.catalog.documents
    assert [one.result for one in change.outcomes] == ["deleted"]


def test_deletion_of_what_is_not_there_or_has_moved_on() -> None:
    with pytest.raises(NotFound):
        delete_document(world(), key("Tier", "nope"))
    with pytest.raises(StaleVersion):
        delete_document(full_world(), key("HardwareProfile", "spare"), expected=2)
    for shipped in SHIPPED:
        with pytest.raises(Conflict, match="comes with Windlass"):
            delete_document(world(), shipped)


def test_a_stored_document_reads_back_the_same() -> None:
    for kept in full_world().documents.values():
        wire = write_document(kept)
        metadata = {name: value for name, value in wire["metadata"].items() if name != "name"}
        assert document(wire["kind"], wire["metadata"]["name"], wire["spec"], **metadata) == kept
