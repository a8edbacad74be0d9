"""A catalog answers by name, newest version first, shipped types and traits included."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest
from tests.core.catalog.worlds import component_type, envelope, project, quota, site, tenant, trait, world

from windlass.core.catalog.changes import apply_documents, delete_document
from windlass.core.catalog.shipped import SHIPPED
from windlass.core.catalog.snapshot import EMPTY, Catalog, version_order
from windlass.core.documents.definitions import ComponentType, Trait
from windlass.core.documents.kinds import Document
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_yaml
from windlass.core.errors import Conflict, Invalid

SHARED = Path(__file__).parents[3].parent / "shared"
RETIRED = {"since": "2020-01-01T00:00:00Z", "until": "2021-01-01T00:00:00Z"}


def version_found(catalog: Catalog, ref: str) -> str | None:
    found = catalog.component_type(ref)
    if found is None:
        return None
    assert isinstance(found.spec, ComponentType)
    return found.spec.version


def test_versions_are_compared_as_numbers() -> None:
    catalog = world(*(component_type("etl", version) for version in ("1.9", "1.10", "1.2.3")))
    assert version_found(catalog, "etl") == "1.10"
    assert version_found(catalog, "etl@1.9") == "1.9"
    assert version_found(catalog, "etl@1.9.0") == "1.9"
    assert version_found(catalog, "etl@2") is None
    assert version_found(catalog, "nope") is None
    assert version_order("1.10") > version_order("1.9.9")


def test_a_bare_name_means_the_newest_version_that_is_not_deprecated() -> None:
    catalog = world(component_type("etl", "1"), component_type("etl", "2", deprecated=RETIRED))
    assert version_found(catalog, "etl") == "1"
    assert version_found(catalog, "etl@2") == "2"
    assert version_found(world(component_type("old", "1", deprecated=RETIRED)), "old") == "1"


def test_what_is_shipped_is_in_every_catalog() -> None:
    types = ("batch-job", "inference-service", "model-service", "notebook", "raw", "sweep", "training-job")
    traits = ("checkpoint", "dedicated", "movable", "nccl", "scratch", "secret", "sharing", "spot-tolerant")
    assert EMPTY.known_types() == list(types)
    assert EMPTY.known_traits() == [*traits, "storage", "topology"]
    assert version_found(EMPTY, "training-job") == "1.0.0"
    assert EMPTY.trait("topology@1.0.0") is not None
    assert not EMPTY.documents
    assert len(EMPTY.listed("ComponentType")) == len(types)
    newer = world(component_type("training-job", "1.1"), trait("mine"))
    assert version_found(newer, "training-job") == "1.1"
    assert version_found(newer, "training-job@1.0.0") == "1.0.0"
    assert newer.known_traits() == sorted([*traits, "mine", "storage", "topology"])


@pytest.mark.parametrize(
    ("ref", "parameters", "valid"),
    [
        ("training-job", {}, True),
        ("training-job", {"x": 1}, False),
        (
            "inference-service",
            {"port": 8000, "minReplicas": 1, "maxReplicas": 4, "targetUtilization": 70},
            True,
        ),
        ("inference-service", {"port": 0}, False),
        ("inference-service", {"maxReplicas": 0}, False),
        ("inference-service", {"targetUtilization": 101}, False),
        ("inference-service", {"batchSize": 0}, False),
        ("inference-service", {"replicas": 1}, False),
        ("notebook", {"idleTimeout": "30m"}, True),
        ("notebook", {"idleTimeout": "soon"}, False),
        ("topology", {"level": "rack"}, True),
        ("topology", {"level": "rack", "mode": "required"}, True),
        ("topology", {"mode": "required"}, False),
        ("topology", {"level": "moon"}, False),
    ],
)
def test_shipped_parameters(ref: str, parameters: dict[str, object], valid: bool) -> None:
    document = EMPTY.component_type(ref) or EMPTY.trait(ref)
    assert document is not None and isinstance(document.spec, (ComponentType, Trait))
    assert jsonschema_rs.validator_for(dict(document.spec.parameters)).is_valid(parameters) is valid


def test_shipped_documents_could_have_been_written_by_hand() -> None:
    for key, document in SHIPPED.items():
        assert key == document.key and document.metadata.version is None


def test_a_path_has_the_envelope_of_each_level() -> None:
    cell = envelope("acme/nlp/prod", quota(2))
    catalog = world(cell)
    top, middle, leaf = catalog.path("acme", "nlp", "prod")
    assert top is not None and top.gpus[0].guaranteed == 16_000
    assert middle is None and leaf == cell.spec
    assert catalog.path("acme", "nlp", "dev")[2] is None
    entry = catalog.projects["nlp"]
    assert (entry.tenant, entry.name, entry.spec) == ("acme", "nlp", project().spec)


def test_budgets_are_found_along_the_path() -> None:
    budget = {"amount": "10", "currency": "USD", "period": "month"}
    catalog = world(envelope("acme/nlp/prod", budget=budget), envelope("acme/nlp"))
    assert catalog.budget_scopes("acme", "nlp", "prod") == ["acme/nlp/prod"]
    assert catalog.budget_scopes("acme", "nlp", "dev") == []
    ((scope, found),) = catalog.budgets("acme", "nlp", "prod")
    assert (scope, found.amount) == ("acme/nlp/prod", 10_000_000)


def test_sites_keep_tenants_out_and_tenants_keep_to_sites() -> None:
    catalog = world(site("fra1"), site("private", tenants=["b"]), tenant("b"), tenant("c", sites=["fra1"]))
    assert catalog.sites_for("acme") == ["fra1", "local"]
    assert catalog.sites_for("b") == ["fra1", "local", "private"]
    assert catalog.sites_for("c") == ["fra1"]
    assert "local" in EMPTY.sites


def test_find_and_listed_know_every_document() -> None:
    catalog = world(tenant("b"))
    assert catalog.find("Project", "nlp", "acme") is not None
    assert catalog.find("Project", "nlp") is None
    assert catalog.find("ComponentType", "raw") is not None
    assert [document.metadata.name for document in catalog.listed("Tenant")] == ["acme", "b"]


# --- the examples -----------------------------------------------------------------------------


def examples(folder: str) -> list[Path]:
    files = sorted((SHARED / "examples" / folder).glob("*.yaml"))
    if not files:
        pytest.skip(f"no examples in {SHARED / 'examples' / folder}")
    return files


def test_the_example_catalog_is_accepted_as_it_is() -> None:
    documents: list[Document] = []
    for file in examples("catalog"):
        parsed = parse_all(read_yaml(file.read_bytes()))
        assert not parsed.problems
        documents += [item.value for item in parsed.documents]
    change = apply_documents(EMPTY, documents)
    assert apply_documents(change.catalog, documents).catalog is change.catalog
    assert change.catalog.projects["chat"].tenant == "globex"


def test_the_example_intents_are_read_and_overreach_as_they_say() -> None:
    for file in examples("intents"):
        text = file.read_text()
        try:
            parsed = parse_all(read_yaml(text))
        except Invalid:
            parsed = None
        expected = text.partition("\n")[0].removeprefix("# refuse: ") if text.startswith("# refuse") else ""
        malformed = expected in ("document.invalid", "name.invalid")
        assert (parsed is None or bool(parsed.problems)) == malformed, file.name
        if parsed is not None and expected in ("field.platform-owned", "label.reserved"):
            assert {one.rule for one in parsed.intents[0].value.overreach} == {expected}, file.name


def test_the_site_that_every_installation_has_is_listed_until_it_is_declared() -> None:
    (implied,) = EMPTY.listed("Site")
    assert (implied.metadata.name, implied.metadata.version) == ("local", None)
    with pytest.raises(Conflict, match="comes with Windlass"):
        delete_document(EMPTY, implied.key)
