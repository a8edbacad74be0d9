"""Which documents a document names, and whether they are there.

One list of references per kind serves both ways: applying must not leave one dangling, and what
would dangle after a deletion is exactly who still uses the document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from windlass.core.catalog.snapshot import Catalog
from windlass.core.documents.definitions import ComponentType, Trait
from windlass.core.documents.kinds import (
    Document,
    DocumentKey,
    Envelope,
    EnvelopeScope,
    IdentityProvider,
    PriceBook,
    Project,
    Site,
    Tenant,
)
from windlass.core.documents.problems import Path, Problems, meant


@dataclass(frozen=True, slots=True)
class Reference:
    """`within`: for a project the tenant it must belong to, for an environment its project."""

    path: Path
    kind: str
    name: str
    within: str = ""
    tenant: str = ""


def references(document: Document) -> Iterator[Reference]:
    spec = document.spec
    tenant = document.metadata.tenant
    if tenant is not None:
        yield Reference(("metadata", "tenant"), "Tenant", tenant)
    match spec:
        case Tenant():
            yield Reference(("spec", "tier"), "Tier", spec.tier)
            yield from _each("sites", "Site", spec.sites)
        case Project():
            if spec.default_profile is not None:
                yield Reference(("spec", "defaultProfile"), "HardwareProfile", spec.default_profile)
            yield from _each("types", "ComponentType", spec.types)
            yield from _each("traits", "Trait", spec.traits)
        case Envelope():
            yield from _of_scope(spec.scope)
        case PriceBook():
            yield from _of_prices(spec)
        case Site():
            yield from _each("tenants", "Tenant", spec.tenants)
        case IdentityProvider():
            yield from _of_mappings(spec)
        case ComponentType():
            if spec.deprecated is not None and spec.deprecated.replaced_by is not None:
                replacement = spec.deprecated.replaced_by
                yield Reference(("spec", "deprecated", "replacedBy"), "ComponentType", replacement)
        case Trait():
            yield from _each("appliesTo", "ComponentType", spec.applies_to)
            yield from _each("conflictsWith", "Trait", spec.conflicts_with)
        case _:
            pass


def check_references(
    document: Document, catalog: Catalog, problems: Problems, unread: Collection[tuple[str, str]] = ()
) -> None:
    """`unread`: kind and name of documents that are given but malformed, so that they may be meant."""
    for reference in references(document):
        known = _known(reference, catalog)
        if known is None or reference.name in known or _may_be_unread(reference, unread):
            continue
        noun = NOUNS[reference.kind]
        place = f" in {reference.within}" if reference.within else ""
        problems.add(
            reference.path,
            f"there is no {noun} {reference.name}{place}",
            remedy=meant(reference.name, sorted(known))
            or f"apply the {noun} too, in the same invocation or before",
            value=reference.name,
            limit=", ".join(sorted(known)[:30]),
        )


def _may_be_unread(reference: Reference, unread: Collection[tuple[str, str]]) -> bool:
    """An environment is said in its project."""
    within = reference.kind == "environment"
    wanted = "Project" if within else reference.kind
    name = reference.within if within else reference.name.partition("@")[0]
    return any(kind in ("", wanted) and called in ("", name) for kind, called in unread)


NOUNS = {
    "Tier": "tier",
    "Tenant": "tenant",
    "HardwareProfile": "hardware profile",
    "Site": "site",
    "ComponentType": "component type",
    "Trait": "trait",
    "Project": "project",
    "environment": "environment",
}


def _of_scope(scope: EnvelopeScope) -> Iterator[Reference]:
    if scope.project is not None:
        yield Reference(("spec", "scope", "project"), "Project", scope.project, scope.tenant)
        if scope.env is not None:
            where = ("spec", "scope", "env")
            yield Reference(where, "environment", scope.env, scope.project, scope.tenant)


def _of_prices(book: PriceBook) -> Iterator[Reference]:
    for at, price in enumerate(book.prices):
        if price.tier is not None:
            yield Reference(("spec", "prices", at, "tier"), "Tier", price.tier)


def _of_mappings(provider: IdentityProvider) -> Iterator[Reference]:
    for at, mapping in enumerate(provider.mappings):
        if mapping.tenant is not None:
            yield Reference(("spec", "mappings", at, "tenant"), "Tenant", mapping.tenant)


def _each(name: str, kind: str, refs: Iterable[str]) -> Iterator[Reference]:
    for at, ref in enumerate(refs):
        yield Reference(("spec", name, at), kind, ref)


def _known(reference: Reference, catalog: Catalog) -> Iterable[str] | None:
    """The names this reference may have. None: it cannot be said, because what it is within is unknown."""
    match reference.kind:
        case "Tier":
            return catalog.tiers.keys()
        case "Tenant":
            return catalog.tenants.keys()
        case "HardwareProfile":
            return catalog.profiles.keys()
        case "Site":
            return catalog.sites.keys()
        case "ComponentType":
            found = catalog.component_type(reference.name)
            return [reference.name] if found else catalog.known_types()
        case "Trait":
            found = catalog.trait(reference.name)
            return [reference.name] if found else catalog.known_traits()
        case "Project":
            # By its key: where two tenants claim one name, a reference means its own tenant's.
            if DocumentKey("Project", reference.within, reference.name) in catalog.documents:
                return [reference.name]
            own = (key for key in catalog.documents if key.kind == "Project")
            return [key.name for key in own if key.tenant == reference.within]
        case _:
            project = catalog.documents.get(DocumentKey("Project", reference.tenant, reference.within))
            return project.spec.environments if project and isinstance(project.spec, Project) else None
