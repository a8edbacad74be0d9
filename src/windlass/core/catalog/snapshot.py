"""The catalog at one revision: every document, indexed the ways admission asks for them.

Immutable and small, so it is shared as it is: a decision names its revision and can be judged again
under it. `changes.py` makes the next one; nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from windlass.core.catalog.shipped import SHIPPED
from windlass.core.documents.definitions import ComponentType, Policy, Trait
from windlass.core.documents.kinds import (
    Budget,
    Document,
    DocumentKey,
    Envelope,
    HardwareProfile,
    IdentityProvider,
    Metadata,
    PriceBook,
    Project,
    Site,
    Tenant,
    Tier,
)

T = TypeVar("T")

Scope = tuple[str, str | None, str | None]
"""Tenant, project, env: where an envelope stands in the quota tree."""

LOCAL_SITE = "local"
"""The site every installation has: the machine the platform runs on."""
_LOCAL = Site("local")
IMPLIED_SITE = Document("Site", Metadata(LOCAL_SITE), _LOCAL)
"""Until somebody declares it otherwise."""


@dataclass(frozen=True, slots=True)
class ProjectEntry:
    """A project, found by its name alone: names of projects are unique on the platform."""

    tenant: str
    name: str
    spec: Project


@dataclass(frozen=True, slots=True)
class Catalog:
    revision: int
    documents: Mapping[DocumentKey, Document]
    tiers: Mapping[str, Tier] = field(default_factory=dict)
    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    projects: Mapping[str, ProjectEntry] = field(default_factory=dict)
    envelopes: Mapping[Scope, Envelope] = field(default_factory=dict)
    profiles: Mapping[str, HardwareProfile] = field(default_factory=dict)
    price_books: Mapping[str, PriceBook] = field(default_factory=dict)
    sites: Mapping[str, Site] = field(default_factory=dict)
    identity_providers: Mapping[str, IdentityProvider] = field(default_factory=dict)
    versions: Mapping[tuple[str, str], tuple[Document, ...]] = field(default_factory=dict)
    """By kind and name, of types and traits: every version, the newest first."""
    policies: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)
    """By tenant, "" for the platform's own, in the order of their names."""

    @classmethod
    def build(cls, revision: int, documents: Iterable[Document]) -> Catalog:
        by_key = {document.key: document for document in documents}
        return cls(
            revision=revision,
            documents=by_key,
            tiers=_named(by_key, Tier),
            tenants=_named(by_key, Tenant),
            projects=_projects(by_key),
            envelopes={scope_of(envelope): envelope for _, envelope in _specs(by_key, Envelope)},
            profiles=_named(by_key, HardwareProfile),
            price_books=_named(by_key, PriceBook),
            sites={LOCAL_SITE: _LOCAL, **_named(by_key, Site)},
            identity_providers=_named(by_key, IdentityProvider),
            versions=_versions(by_key),
            policies=_policies(by_key),
        )

    def component_type(self, ref: str) -> Document | None:
        """`name@version`, or `name`: then the newest version that is not deprecated, if there is one."""
        return self._version("ComponentType", ref)

    def trait(self, ref: str) -> Document | None:
        return self._version("Trait", ref)

    def known_types(self) -> list[str]:
        return sorted(name for kind, name in self.versions if kind == "ComponentType")

    def known_traits(self) -> list[str]:
        return sorted(name for kind, name in self.versions if kind == "Trait")

    def policies_for(self, tenant: str) -> tuple[Document, ...]:
        """The platform's, then the tenant's own."""
        return (*self.policies.get("", ()), *self.policies.get(tenant, ()))

    @staticmethod
    def is_named(refs: Iterable[str], document: Document) -> bool:
        """Whether a list of `name` and `name@version` names this type or trait; `1.0` is `1.0.0`."""
        name, own = document.metadata.name, _version_of(document)
        return any(
            ref == name or (ref.startswith(f"{name}@") and version_order(ref.partition("@")[2]) == own)
            for ref in refs
        )

    def find(self, kind: str, name: str, tenant: str = "") -> Document | None:
        """Shipped ones too. Types and traits may be named without a version."""
        if kind in ("ComponentType", "Trait"):
            return self._version(kind, name)
        return self.documents.get(DocumentKey(kind, tenant, name))

    def listed(self, kind: str) -> tuple[Document, ...]:
        """Every document of a kind in the order of their names, those included that nobody declared."""
        there = {**SHIPPED, IMPLIED_SITE.key: IMPLIED_SITE, **self.documents}
        found = [document for key, document in there.items() if key.kind == kind]
        return tuple(sorted(found, key=lambda document: document.key))

    def path(
        self, tenant: str, project: str, env: str
    ) -> tuple[Envelope | None, Envelope | None, Envelope | None]:
        """The envelopes of the tenant, of the project, and of the cell."""
        get = self.envelopes.get
        return get((tenant, None, None)), get((tenant, project, None)), get((tenant, project, env))

    def budgets(self, tenant: str, project: str, env: str) -> list[tuple[str, Budget]]:
        """Each budget that applies to the cell, with its scope, outermost first."""
        names = (tenant, f"{tenant}/{project}", f"{tenant}/{project}/{env}")
        path = zip(names, self.path(tenant, project, env), strict=True)
        return [(name, envelope.budget) for name, envelope in path if envelope and envelope.budget]

    def budget_scopes(self, tenant: str, project: str, env: str) -> list[str]:
        return [scope for scope, _ in self.budgets(tenant, project, env)]

    def sites_for(self, tenant: str) -> list[str]:
        """The sites a tenant may place work on: those it is not kept from, by itself or by the site."""
        owner = self.tenants.get(tenant)
        own = owner.sites if owner else ()
        return sorted(
            name
            for name, site in self.sites.items()
            if (not own or name in own) and (not site.tenants or tenant in site.tenants)
        )

    def _version(self, kind: str, ref: str) -> Document | None:
        name, _, version = ref.partition("@")
        known = self.versions.get((kind, name), ())
        if version:
            wanted = version_order(version)
            return next((one for one in known if _version_of(one) == wanted), None)
        return next((one for one in known if not _deprecated(one)), known[0] if known else None)


def scope_of(envelope: Envelope) -> Scope:
    return envelope.scope.tenant, envelope.scope.project, envelope.scope.env


def scope_name(scope: Scope) -> str:
    """`tenant`, `tenant/project`, `tenant/project/env`."""
    return "/".join(part for part in scope if part is not None)


def version_order(version: str) -> tuple[int, ...]:
    """As numbers, so that 1.10 comes after 1.9; what is not written is zero, so that 1.0 is 1.0.0."""
    numbers = [int(part) if part.isdecimal() and len(part) <= 9 else -1 for part in version.split(".")[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))


def _version_of(document: Document) -> tuple[int, ...]:
    assert isinstance(document.spec, (ComponentType, Trait))
    return version_order(document.spec.version)


def _deprecated(document: Document) -> bool:
    return isinstance(document.spec, ComponentType) and document.spec.deprecated is not None


def _specs(documents: Mapping[DocumentKey, Document], kind: type[T]) -> list[tuple[Document, T]]:
    return [(document, document.spec) for document in documents.values() if isinstance(document.spec, kind)]


def _named(documents: Mapping[DocumentKey, Document], kind: type[T]) -> dict[str, T]:
    return {document.metadata.name: spec for document, spec in _specs(documents, kind)}


def _projects(documents: Mapping[DocumentKey, Document]) -> dict[str, ProjectEntry]:
    entries = (
        ProjectEntry(document.metadata.tenant or "", document.metadata.name, spec)
        for document, spec in _specs(documents, Project)
    )
    return {entry.name: entry for entry in entries}


def _policies(documents: Mapping[DocumentKey, Document]) -> dict[str, tuple[Document, ...]]:
    found: dict[str, list[Document]] = {}
    for key, document in sorted(documents.items()):
        if isinstance(document.spec, Policy):
            found.setdefault(key.tenant, []).append(document)
    return {tenant: tuple(all_of) for tenant, all_of in found.items()}


def _versions(documents: Mapping[DocumentKey, Document]) -> dict[tuple[str, str], tuple[Document, ...]]:
    found: dict[tuple[str, str], list[Document]] = {}
    everything: dict[DocumentKey, Any] = {**SHIPPED, **documents}
    for key, document in everything.items():
        if isinstance(document.spec, (ComponentType, Trait)):
            found.setdefault((key.kind, document.metadata.name), []).append(document)
    return {name: tuple(sorted(all_of, key=_version_of, reverse=True)) for name, all_of in found.items()}


EMPTY = Catalog.build(0, ())
