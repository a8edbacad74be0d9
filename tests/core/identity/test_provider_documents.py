"""An IdentityProvider document: what it takes, what it refuses, and that every error comes at once."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from windlass.core.catalog.changes import apply_documents
from windlass.core.catalog.snapshot import EMPTY, Catalog
from windlass.core.documents.kinds import IdentityProvider
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_yaml
from windlass.core.documents.wire import write_document
from windlass.core.errors import Conflict, Invalid
from windlass.core.identity.addresses import is_endpoint, is_issuer

TENANT = """
apiVersion: windlass.dev/v1
kind: Tier
metadata: {name: gold}
spec: {priority: 1, preempts: false, preemptible: false}
---
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: acme}
spec: {tier: gold}
"""


def provider(name: str = "corp", **spec: Any) -> str:
    body = {
        "issuer": "https://login.example.com",
        "audience": "https://windlass.example.com",
        "clientId": "cli",
        **spec,
    }
    return yaml.safe_dump(
        {
            "apiVersion": "windlass.dev/v1",
            "kind": "IdentityProvider",
            "metadata": {"name": name},
            "spec": body,
        }
    )


def applied(*texts: str) -> Catalog:
    parsed = parse_all(read_yaml("\n---\n".join((TENANT, *texts))))
    assert parsed.problems == ()
    return apply_documents(EMPTY, [item.value for item in parsed.documents]).catalog


def refusal(*texts: str, error: type[Exception] = Invalid) -> dict[str, str]:
    with pytest.raises(error) as refused:
        applied(*texts)
    return {reason.field: reason.message for reason in refused.value.reasons}  # type: ignore[attr-defined]


def test_the_least_document_has_careful_defaults() -> None:
    found = applied(provider()).identity_providers["corp"]
    assert found == IdentityProvider(
        "https://login.example.com", "https://windlass.example.com", "cli", skew=found.skew
    )
    assert (found.algorithms, found.name_claim, found.groups_claim) == (("RS256", "ES256"), "sub", "groups")
    assert (found.skew, found.mappings) == (30_000, ())


def test_what_is_written_reads_back_equal() -> None:
    mappings = [{"group": "Über", "role": "developer", "tenant": "acme"}]
    (item,) = parse_all(read_yaml(provider(skew="2m", algorithms=["PS256"], mappings=mappings))).documents
    again = parse_all(read_yaml(yaml.safe_dump(write_document(item.value)))).documents[0].value
    assert again == item.value


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS512", "ES256K", "rs256", "RS1"])
def test_an_algorithm_with_a_shared_secret_or_none_cannot_be_allowed(algorithm: str) -> None:
    (problem,) = parse_all(read_yaml(provider(algorithms=["ES256", algorithm]))).problems
    assert problem.reason.field == "spec.algorithms[1]"


@pytest.mark.parametrize("role", ["agent", "root", "owner"])
def test_only_roles_of_people_are_mapped(role: str) -> None:
    mapping = {"group": "g", "role": role, "tenant": "acme"}
    (problem,) = parse_all(read_yaml(provider(mappings=[mapping]))).problems
    assert problem.reason.field == "spec.mappings[0].role"


def test_every_mistake_of_a_provider_is_told_at_once() -> None:
    found = refusal(
        provider(
            issuer="http://login.example.com",
            audience=" ",
            clientId="",
            scopes=["openid", "openid", "two words"],
            algorithms=[],
            skew="6m",
            mappings=[
                {"group": "ops", "role": "platform-admin", "tenant": "acme"},
                {"group": "devs", "role": "developer"},
                {"group": "devs", "role": "developer", "tenant": "nobody"},
                {"group": " ", "role": "viewer", "tenant": "acme"},
                {"group": "same", "role": "viewer", "tenant": "acme"},
                {"group": "same", "role": "viewer", "tenant": "acme"},
            ],
        )
    )
    assert set(found) == {
        "spec.issuer",
        "spec.audience",
        "spec.clientId",
        "spec.scopes[1]",
        "spec.scopes[2]",
        "spec.algorithms",
        "spec.skew",
        "spec.mappings[0].tenant",
        "spec.mappings[1].tenant",
        "spec.mappings[2].tenant",
        "spec.mappings[3].group",
        "spec.mappings[5]",
    }


def test_several_providers_live_side_by_side_but_not_of_one_issuer() -> None:
    both = applied(provider(), provider("partner", issuer="https://partner.example"))
    assert set(both.identity_providers) == {"corp", "partner"}
    found = refusal(provider(), provider("twin"), error=Conflict)
    assert "has another identity provider" in found["spec.issuer"]


@pytest.mark.parametrize(
    "text",
    [
        "https://login.example.com",
        "https://login.example.com/",
        "https://login.example.com:8443/realms/acme",
        "https://[2001:db8::1]/x",
        "http://127.0.0.1:14000",
        "http://localhost:14000/realms/a",
        "http://[::1]:14000",
    ],
)
def test_an_issuer_is_an_address_over_tls_or_on_this_machine(text: str) -> None:
    assert is_issuer(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "login.example.com",
        "http://login.example.com",
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "https://user:secret@login.example.com",
        "https://login.example.com?x=1",
        "https://login.example.com#x",
        "https://login.example.com/ ",
        "https://login.example.com/\r\nx",
        "https://löschen.example",
        "file:///etc/passwd",
        "https://" + "a" * 2000,
    ],
)
def test_an_issuer_is_nothing_else(text: str) -> None:
    assert not is_issuer(text)


def test_an_endpoint_may_have_a_query_and_stays_on_tls() -> None:
    issuer = "https://login.example.com"
    assert is_endpoint("https://keys.example.com/jwks?tenant=1", issuer)
    assert not is_endpoint("http://127.0.0.1/jwks", issuer)
    assert is_endpoint("http://127.0.0.1:14000/jwks", "http://127.0.0.1:14000")
    for wrong in (None, 1, ["https://x"], "https://x/#fragment"):
        assert not is_endpoint(wrong, issuer)
