"""A document is read whole: what it is, whose it is, what it asks; everything wrong is told at once."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.core.documents.component import is_reserved
from windlass.core.documents.kinds import KINDS, Document, DocumentKey
from windlass.core.documents.parse import MAX_SHOWN, Parsed, parse, parse_all
from windlass.core.documents.problems import MAX_PROBLEMS, Problems, invalid
from windlass.core.documents.tree import Tree, read_json, read_yaml
from windlass.core.documents.wire import canonical, document_schema, write_document, write_intent
from windlass.core.errors import Invalid, Reason
from windlass.core.intent import PLATFORM_OWNED_FIELDS, Intent

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

TRAIN = """\
apiVersion: windlass.dev/v1
kind: Component
metadata: {name: sft-run, project: nlp}
spec:
  type: training-job
  env: prod
  image: ghcr.io/acme/sft:v3
  gpus: 4
  traits:
  - spot-tolerant
"""

CATALOG = """\
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: acme}
spec: {displayName: Acme Research, tier: standard, contacts: [gpu-admins@acme.example]}
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: nlp, tenant: acme}
spec: {environments: [dev, prod], traits: [spot-tolerant, topology], defaultProfile: h100-80g}
---
apiVersion: windlass.dev/v1
kind: Envelope
metadata: {name: acme, tenant: acme}
spec:
  scope: {tenant: acme}
  gpus:
  - {profileClass: h100-80g, guaranteed: 14, max: 24, lend: 8}
  sharing: [dedicated, mig, time-slice]
  budget: {amount: "5000.00", currency: USD, period: month}
"""


def train(**parts: Any) -> dict[str, Any]:
    """The training job with changes: `spec={"gpus": 1}` changes one field, None takes one out."""
    (tree,) = read_yaml(TRAIN)
    document: dict[str, Any] = copy.deepcopy(tree.data)
    for part, changes in parts.items():
        if isinstance(changes, dict) and isinstance(document.get(part), dict):
            document[part] = {k: v for k, v in {**document[part], **changes}.items() if v is not None}
        else:
            document[part] = changes
    return document


def reasons_of(document: Any) -> list[Reason]:
    problems = Problems()
    value = parse(Tree(document), problems)
    assert (value is None) == bool(problems)
    return list(problems.reasons())


def intent_of(document: Any) -> Intent:
    problems = Problems()
    value = parse(Tree(document), problems)
    assert isinstance(value, Intent), problems.reasons()
    return value


def test_an_intent_is_read() -> None:
    parsed = parse_all(read_yaml(TRAIN))
    (item,) = parsed.intents
    assert item.index == 0 and item.tree.data["kind"] == "Component"
    assert (item.value.path, item.value.spec.gpus, item.value.overreach) == ("nlp/prod/sft-run", 4000, ())


def test_catalog_documents_are_read_in_order_and_written_as_they_were() -> None:
    parsed = parse_all(read_yaml(CATALOG))
    assert not parsed.problems
    assert [item.value.key for item in parsed.documents] == [
        DocumentKey("Tenant", "", "acme"),
        DocumentKey("Project", "acme", "nlp"),
        DocumentKey("Envelope", "acme", "acme"),
    ]
    for item in parsed.documents:
        assert write_document(item.value) == item.tree.data


def test_an_intent_is_written_as_it_was() -> None:
    document = train(metadata={"labels": {"team": "x"}, "annotations": {"why": "because"}, "tenant": "acme"})
    assert write_intent(intent_of(document)) == document


def test_versions_of_a_type_are_documents_of_their_own() -> None:
    wire = {
        "apiVersion": "windlass.dev/v1",
        "kind": "ComponentType",
        "metadata": {"name": "etl"},
        "spec": {"version": "1.10.0", "workload": "job"},
    }
    value = parse(Tree(wire), Problems())
    assert isinstance(value, Document)
    assert value.key == DocumentKey("ComponentType", "", "etl@1.10.0")


@pytest.mark.parametrize(
    ("document", "field", "rule", "words"),
    [
        (
            train(apiVersion="windlass.dev/v2"),
            "apiVersion",
            "document.invalid",
            "write apiVersion: windlass.dev/v1",
        ),
        (train(apiVersion=None), "apiVersion", "document.invalid", "is missing"),
        (train(kind="component"), "kind", "document.invalid", "did you mean Component?"),
        (train(kind="Projekt"), "kind", "document.invalid", "did you mean Project?"),
        (train(kind=None), "kind", "document.invalid", "kind is missing"),
        (train(kind=["Component"]), "kind", "document.invalid", "is not a kind"),
        (train(kind="NodePool"), "kind", "document.invalid", "not supported by this release"),
        (train(gpus=1), "gpus", "document.invalid", "below spec"),
        (train(metadat={}), "metadat", "document.invalid", "did you mean metadata?"),
        (train(metadata={"name": None}), "metadata.name", "document.invalid", "is missing"),
        (train(metadata={"project": None}), "metadata.project", "document.invalid", "is missing"),
        (train(metadata={"name": "../../etc"}), "metadata.name", "name.invalid", "for example etc"),
        (train(metadata={"name": "Sft Run"}), "metadata.name", "name.invalid", "for example sft-run"),
        (train(metadata={"name": ""}), "metadata.name", "name.invalid", "is empty"),
        (train(metadata={"name": "naïve"}), "metadata.name", "name.invalid", "lowercase"),
        (train(metadata={"name": "a" * 54}), "metadata.name", "name.invalid", "at most 53"),
        (train(metadata={"name": 7}), "metadata.name", "document.invalid", 'in quotes: "7"'),
        (train(metadata={"nmae": "x"}), "metadata.nmae", "document.invalid", "did you mean name?"),
        (train(metadata={"env": "dev"}), "metadata.env", "document.invalid", "spec.env is prod"),
        (train(metadata={"labels": {"a b": "c"}}), 'metadata.labels["a b"]', "document.invalid", "label key"),
        (train(spec={"gpus": 0}), "spec.gpus", "document.invalid", "at least one unit"),
        (train(spec={"gpus": "0.000"}), "spec.gpus", "document.invalid", "at least one unit"),
        (train(spec={"overrides": {"image": "y"}}), "spec.overrides", "document.invalid", "is not a field"),
        (train(spec={"HostNetwork": True}), "spec.HostNetwork", "document.invalid", "is not a field"),
        (train(metadata={"project": "p" * 53}, spec={"env": "e" * 10}), "spec.env", "name.invalid", "62"),
        (
            train(spec={"command": ["x" * 65_000] * 17}),
            "spec.variables",
            "document.invalid",
            "1048576 are allowed",
        ),
        ("text", "", "document.invalid", "a document is a mapping, not text"),
        (None, "", "document.invalid", "a document is a mapping"),
        (train(metadata=[]), "metadata", "document.invalid", "a mapping of fields, not a list"),
        (train(spec="x"), "spec", "document.invalid", "a mapping of fields, not text"),
    ],
)
def test_a_component_that_is_wrong_is_refused(document: Any, field: str, rule: str, words: str) -> None:
    (reason,) = reasons_of(document)
    assert (reason.field, reason.rule) == (field, rule)
    assert words in f"{reason.message}; {reason.remedy}"


def test_a_missing_spec_names_what_it_needs() -> None:
    assert [reason.field for reason in reasons_of(train(spec=None))] == [
        "spec.type",
        "spec.env",
        "spec.image",
        "spec.gpus",
    ]


def test_what_the_platform_wrote_may_be_sent_back() -> None:
    document = train(
        metadata={
            "version": 3,
            "createdAt": "2026-01-01T00:00:00Z",
            "id": "cmp_1",
            "revision": 7,
            "env": "prod",
        },
        status={"phase": "Running", "anything": [1]},
    )
    assert intent_of(document) == replace(intent_of(train()), version=3)


# --- what is the platform's -------------------------------------------------------------------


@pytest.mark.parametrize("name", PLATFORM_OWNED_FIELDS)
def test_a_platform_owned_field_is_overreach_and_not_unknown(name: str) -> None:
    (found,) = intent_of(train(spec={name: {"a": 1}})).overreach
    assert (found.rule, found.field, found.value) == ("field.platform-owned", f"spec.{name}", '{"a": 1}')


def test_overrides_are_searched_at_any_depth() -> None:
    overrides = {
        "template": [{"spec": {"tolerations": [{"operator": "Exists"}]}}, {"queue": "x"}],
        "image": "y",
    }
    found = intent_of(train(spec={"overrides": overrides, "hostNetwork": True})).overreach
    assert [one.field for one in found] == [
        "spec.hostNetwork",
        "spec.overrides.template[0].spec.tolerations",
        "spec.overrides.template[1].queue",
    ]


@pytest.mark.parametrize("part", ["labels", "annotations"])
@pytest.mark.parametrize(
    "key",
    [
        "cost/project",
        "windlass.dev/tenant",
        "app.windlass.dev/x",
        "kueue.x-k8s.io/queue-name",
        "Cost/x",
        "cost/",
        "app.kubernetes.io/name",
        "kubernetes.io/hostname",
        "KUBERNETES.IO/x",
        "jobset.sigs.k8s.io/x",
    ],
)
def test_a_reserved_label_is_overreach(part: str, key: str) -> None:
    intent = intent_of(train(metadata={part: {key: "x", "mine": "y"}}))
    assert [(one.rule, one.field) for one in intent.overreach] == [
        ("label.reserved", f'metadata.{part}["{key}"]')
    ]
    assert getattr(intent, part) == {"mine": "y"}


@pytest.mark.parametrize(
    "key", ["notcost/x", "cost", "mywindlass.dev/x", "x-k8s.io/y", "windlass.dev.example/x"]
)
def test_other_labels_are_the_authors_own(key: str) -> None:
    assert not is_reserved(key)
    assert intent_of(train(metadata={"labels": {key: "x"}})).labels == {key: "x"}


def test_a_document_that_is_malformed_and_overreaches_is_malformed() -> None:
    """And its author hears of both at once."""
    forged = train(metadata={"labels": {"cost/x": "y"}}, spec={"namespace": "x", "foo": 1, "workers": 0})
    found = [(one.rule, one.field) for one in reasons_of(forged)]
    assert sorted(found) == [
        ("document.invalid", "spec.foo"),
        ("document.invalid", "spec.workers"),
        ("field.platform-owned", "spec.namespace"),
        ("label.reserved", 'metadata.labels["cost/x"]'),
    ]


def test_no_time_at_all_is_no_time_limit() -> None:
    (reason,) = reasons_of(train(spec={"timeLimit": "0s"}))
    assert (reason.rule, reason.field) == ("document.invalid", "spec.timeLimit")
    assert intent_of(train(spec={"timeLimit": "1s"})).spec.time_limit == 1000


def test_overreach_knows_its_line() -> None:
    (item,) = parse_all(read_yaml(f"{TRAIN}  hostNetwork: true\n")).intents
    assert [one.line for one in item.value.overreach] == [11]


# --- catalog documents ------------------------------------------------------------------------


def document(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "windlass.dev/v1", "kind": kind, "metadata": metadata, "spec": spec}


SCOPED = {"name": "a", "tenant": "acme"}


@pytest.mark.parametrize(
    ("wire", "field", "rule", "words"),
    [
        (
            document("Project", {"name": "a"}, {"environments": ["x"]}),
            "metadata.tenant",
            "document.invalid",
            "tenant",
        ),
        (document("Tenant", SCOPED, {"tier": "x"}), "metadata.tenant", "document.invalid", "the platform"),
        (
            document("Tenant", {"name": "a", "project": "p"}, {"tier": "x"}),
            "metadata.project",
            "document.invalid",
            "leave metadata.project out",
        ),
        (
            document("Project", SCOPED, {"environments": ["a-b"]}),
            "spec.environments[0]",
            "name.invalid",
            "no hyphen",
        ),
        (
            document("Project", {**SCOPED, "name": "p" * 50}, {"environments": ["dev", "e" * 13]}),
            "spec.environments[1]",
            "name.invalid",
            "63 characters together",
        ),
        (
            document("Envelope", SCOPED, {"scope": {"tenant": "other"}}),
            "spec.scope.tenant",
            "document.invalid",
            "make metadata.tenant and spec.scope.tenant the same",
        ),
        (
            document("Envelope", SCOPED, {"scope": {"tenant": "acme", "env": "prod"}}),
            "spec.scope.env",
            "document.invalid",
            "needs the project",
        ),
        (document("Tier", {"name": "a"}, {"priority": 1}), "spec.preempts", "document.invalid", "missing"),
    ],
)
def test_a_catalog_document_that_is_wrong_is_refused(wire: Any, field: str, rule: str, words: str) -> None:
    reason = reasons_of(wire)[0]
    assert (reason.field, reason.rule) == (field, rule)
    assert words in f"{reason.message}; {reason.remedy}"


def test_a_document_keeps_the_version_that_was_sent() -> None:
    value = parse(Tree(document("Tenant", {"name": "a", "version": 3}, {"tier": "x"})), Problems())
    assert isinstance(value, Document) and value.metadata.version == 3
    assert '"version"' not in canonical(value)


# --- several at once --------------------------------------------------------------------------


def test_problems_name_their_document_and_line() -> None:
    text = CATALOG.replace("tier: standard", "teir: standard").replace("lend: 8", "lend: -8")
    parsed = parse_all(read_yaml(text))
    assert [(one.index, one.document, one.reason.field, one.reason.line) for one in parsed.problems] == [
        (0, "Tenant acme", "spec.teir", 4),
        (0, "Tenant acme", "spec.tier", 4),
        (2, "Envelope acme", "spec.gpus[0].lend", 17),
    ]
    assert [item.index for item in parsed.documents] == [1]
    error = invalid(parsed.problems)
    assert error.detail == "2 documents: 3 problems"
    assert error.reasons[0].message.startswith("Tenant acme: spec.teir is not a field")


def test_lines_are_known_for_json_too() -> None:
    parsed = parse_all(
        read_json('[\n{"apiVersion": "windlass.dev/v1",\n "kind": "Tier", "metadata":\n {"nam": 1}}]')
    )
    lines = {one.reason.field: one.reason.line for one in parsed.problems}
    assert lines["metadata.nam"] == 4 and lines["metadata.name"] == 3 and lines["spec.priority"] == 2


def test_one_problem_is_the_message_itself() -> None:
    error = invalid(parse_all(read_yaml(TRAIN.replace("gpus: 4", "gpus: x"))).problems)
    assert error.detail.startswith("Component sft-run: spec.gpus is x; ")
    assert error.remedy


def test_a_flood_of_bad_documents_is_cut_short() -> None:
    parsed = parse_all([Tree({"x": 1}, index) for index in range(50_000)])
    assert MAX_SHOWN <= len(parsed.problems) < MAX_SHOWN + MAX_PROBLEMS


@pytest.mark.parametrize("kind", [*KINDS, "Component"])
def test_every_kind_has_a_schema_for_the_whole_document(kind: str) -> None:
    jsonschema_rs.validator_for(document_schema(kind))


def test_the_schema_accepts_what_the_reader_accepts() -> None:
    for text in (TRAIN, CATALOG):
        for tree in read_yaml(text):
            jsonschema_rs.validator_for(document_schema(tree.data["kind"])).validate(tree.data)


# --- laws -------------------------------------------------------------------------------------

around = ["apiVersion", "kind", "metadata", "spec", "windlass.dev/v1", "Component", "Envelope", "", "é"]
inside = ["name", "labels", "cost/x", "overrides", "hostNetwork", "scope", "tenant", "env", "type", "gpus"]
words = st.sampled_from([*around, *inside])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=6),
    max_leaves=25,
)


@given(values, st.sampled_from([*KINDS, "Component"]))
@RELAXED
def test_any_data_is_parsed_or_refused(value: Any, kind: str) -> None:
    reasons_of(value)
    if isinstance(value, dict):
        reasons_of({**value, "apiVersion": "windlass.dev/v1", "kind": kind})


@given(st.integers(0, len(TRAIN) - 1), st.sampled_from([*"\n:-{}[]'\"#&*!%@, x0", ""]))
@RELAXED
def test_any_damaged_text_is_parsed_or_refused(at: int, character: str) -> None:
    parsed = Parsed()
    with suppress(Invalid):
        parsed = parse_all(read_yaml(TRAIN[:at] + character + TRAIN[at + 1 :]))
    for problem in parsed.problems:
        assert problem.reason.rule in ("document.invalid", "name.invalid")
        assert problem.reason.message and problem.reason.line
