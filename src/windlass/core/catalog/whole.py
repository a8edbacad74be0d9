"""What a catalog as a whole can be wrong about: things two documents say together.

The sum over the quota tree is the important one. An envelope's guarantee includes its children's;
were their sum larger, the platform would have promised the same GPUs twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from windlass.core.catalog.shipped import SHIPPED
from windlass.core.catalog.snapshot import Catalog, Scope, scope_name, scope_of, version_order
from windlass.core.documents.definitions import ComponentType, Trait
from windlass.core.documents.kinds import (
    Document,
    DocumentKey,
    Envelope,
    IdentityProvider,
    PriceBook,
    Project,
)
from windlass.core.documents.problems import Path, Problems
from windlass.core.units import format_gpus

CONFLICT = "conflict"
"""The rule of a problem that is nobody's mistake: two documents want the same place."""

Collected = Mapping[DocumentKey, Problems]


class _Share(NamedTuple):
    key: DocumentKey
    path: Path
    milli: int


def check_whole(catalog: Catalog, problems: Collected, unread: Collection[str] = ()) -> None:
    """Report to the problems of each document what it is wrong about together with others. `unread`: the
    kinds of documents that are given but malformed; what they may still put right is not reported."""
    documents = catalog.documents.values()
    if not _among(unread, "Project", "Envelope"):
        _places_taken_once(documents, problems)
    if not _among(unread, "ComponentType", "Trait"):
        _versions_distinct(documents, problems)
        _replacements_end(catalog, problems)
    if not _among(unread, "PriceBook"):
        _prices_unambiguous(documents, problems)
    if not _among(unread, "IdentityProvider"):
        _issuers_once(documents, problems)
    if not _among(unread, "Tenant"):
        _budgets_in_the_tenants_currency(catalog, problems)
    if not _among(unread, "Envelope"):
        _guarantees_add_up(catalog, problems)


def _among(unread: Collection[str], *kinds: str) -> bool:
    """A document without a kind may be of any."""
    return any(kind in ("", *kinds) for kind in unread)


# --- one place, one document ------------------------------------------------------------------


def _places_taken_once(documents: Iterable[Document], problems: Collected) -> None:
    """Project names are unique on the platform; a scope has one envelope."""
    taken: dict[object, list[Document]] = defaultdict(list)
    for document in documents:
        match document.spec:
            case Project():
                taken["project", document.metadata.name].append(document)
            case Envelope() as envelope:
                taken["scope", scope_of(envelope)].append(document)
            case _:
                pass
    for document, other in _rivals(taken.values()):
        _report_taken(document, other, problems[document.key])


def _rivals(groups: Iterable[list[Document]]) -> Iterator[tuple[Document, Document]]:
    """Each that shares its place, with one it shares it with: which of them is new, the caller knows."""
    for group in groups:
        for document in group:
            other = next((one for one in group if one is not document), None)
            if other is not None:
                yield document, other


def _report_taken(document: Document, other: Document, problems: Problems) -> None:
    if isinstance(document.spec, Envelope):
        scope = scope_name(scope_of(document.spec))
        problems.add(
            ("spec", "scope"),
            f"the scope {scope} has another envelope: {other.metadata.name}",
            remedy=f"change the envelope {other.metadata.name}, or delete it first",
            value=scope,
            rule=CONFLICT,
        )
        return
    # Whose it is stays unsaid: tenants do not learn of each other from a name that is taken.
    problems.add(
        ("metadata", "name"),
        f"the project name {document.metadata.name} is taken: names of projects are unique on the platform",
        remedy="choose another name, perhaps with the tenant's name before it",
        value=document.metadata.name,
        rule=CONFLICT,
    )


def _versions_distinct(documents: Iterable[Document], problems: Collected) -> None:
    """Versions that are equal as numbers would be two answers to one question."""
    taken: dict[object, list[Document]] = defaultdict(list)
    for document in (*SHIPPED.values(), *documents):
        if isinstance(document.spec, (ComponentType, Trait)):
            version = version_order(document.spec.version)
            taken[document.kind, document.metadata.name, version].append(document)
    for document, other in _rivals(taken.values()):
        if document is SHIPPED.get(document.key):
            continue
        shipped = " and comes with Windlass" if other is SHIPPED.get(other.key) else ""
        problems[document.key].add(
            ("spec", "version"),
            f"{other.key.name} exists already{shipped}",
            remedy="choose another version",
            value=other.key.name.partition("@")[2],
            rule=CONFLICT,
        )


def _replacements_end(catalog: Catalog, problems: Collected) -> None:
    """Who follows what replaces a deprecated type arrives somewhere."""
    for key, document in catalog.documents.items():
        seen = {key}
        at: Document | None = document
        while at is not None and isinstance(at.spec, ComponentType) and at.spec.deprecated is not None:
            following = at.spec.deprecated.replaced_by
            at = catalog.component_type(following) if following is not None else None
            if at is not None and at.key in seen:
                problems[key].add(
                    ("spec", "deprecated", "replacedBy"),
                    f"what replaces {key.name} leads back to {at.key.name}",
                    remedy="name a type that is not deprecated",
                    value=at.key.name,
                )
                break
            if at is not None:
                seen.add(at.key)


def _prices_unambiguous(documents: Iterable[Document], problems: Collected) -> None:
    """Two books of the same moment and currency may not price the same thing."""
    taken: dict[tuple[object, ...], list[Document]] = defaultdict(list)
    for document in documents:
        if isinstance(document.spec, PriceBook):
            book = document.spec
            # A set: a book that repeats itself is told so by its own rule.
            for gpu_class, tier in {(price.profile_class, price.tier) for price in book.prices}:
                taken[gpu_class, tier, book.currency, book.effective_from].append(document)
    for place, group in taken.items():
        for document, other in _rivals([group]):
            problems[document.key].add(
                ("spec", "prices"),
                f"{place[0]} has another price from the same moment on, in {other.metadata.name}",
                remedy="change that price book, or take another effectiveFrom",
                value=str(place[0]),
                rule=CONFLICT,
            )


def _issuers_once(documents: Iterable[Document], problems: Collected) -> None:
    """A token names its issuer; two providers of one issuer would be two answers to who its bearer is."""
    taken: dict[object, list[Document]] = defaultdict(list)
    for document in documents:
        if isinstance(document.spec, IdentityProvider):
            taken[document.spec.issuer].append(document)
    for document, other in _rivals(taken.values()):
        problems[document.key].add(
            ("spec", "issuer"),
            f"the issuer has another identity provider: {other.metadata.name}",
            remedy=f"change {other.metadata.name}: one provider may map any number of groups",
            rule=CONFLICT,
        )


def _budgets_in_the_tenants_currency(catalog: Catalog, problems: Collected) -> None:
    """A budget in a currency nothing is charged in would never be exhausted."""
    for key, document in catalog.documents.items():
        if not isinstance(document.spec, Envelope) or document.spec.budget is None:
            continue
        tenant = catalog.tenants.get(document.spec.scope.tenant)
        budget = document.spec.budget
        if tenant is not None and tenant.currency != budget.currency:
            problems[key].add(
                ("spec", "budget", "currency"),
                f"the budget is in {budget.currency}, and {document.spec.scope.tenant} is billed in"
                f" {tenant.currency}",
                remedy=f"write currency: {tenant.currency}",
                value=budget.currency,
                limit=tenant.currency,
            )


# --- the quota tree ---------------------------------------------------------------------------


def _guarantees_add_up(catalog: Catalog, problems: Collected) -> None:
    """Of each class, the children's guarantees fit into their parent's."""
    shares: dict[tuple[Scope, str], list[_Share]] = defaultdict(list)
    keys: dict[Scope, DocumentKey] = {}
    for key, document in catalog.documents.items():
        if not isinstance(document.spec, Envelope):
            continue
        keys[scope_of(document.spec)] = key
        if document.spec.scope.project is None:
            continue
        parent = _parent(catalog, scope_of(document.spec))
        for at, quota in enumerate(document.spec.gpus):
            if quota.guaranteed:
                path = ("spec", "gpus", at, "guaranteed")
                shares[parent, quota.profile_class].append(_Share(key, path, quota.guaranteed))
    for (parent, gpu_class), children in shares.items():
        total = sum(child.milli for child in children)
        if total > _guaranteed(catalog, parent, gpu_class):
            above = [_Share(keys[parent], ("spec", "gpus"), 0)] if parent in keys else []
            _report_sum(catalog, parent, gpu_class, children, above, problems)


def _parent(catalog: Catalog, scope: Scope) -> Scope:
    """The nearest scope above that has an envelope. A tenant always counts, with zero if it has none:
    else whoever may write below a tenant could promise what the tenant was never given."""
    tenant, project, env = scope
    if env is not None and (tenant, project, None) in catalog.envelopes:
        return (tenant, project, None)
    return (tenant, None, None)


def _guaranteed(catalog: Catalog, scope: Scope, gpu_class: str) -> int:
    envelope = catalog.envelopes.get(scope)
    return sum(q.guaranteed for q in envelope.gpus if q.profile_class == gpu_class) if envelope else 0


def _report_sum(
    catalog: Catalog,
    parent: Scope,
    gpu_class: str,
    children: list[_Share],
    above: list[_Share],
    problems: Collected,
) -> None:
    """To the parent and to every child: any of them could give way."""
    own = format_gpus(_guaranteed(catalog, parent, gpu_class))
    total = format_gpus(sum(child.milli for child in children))
    parts = ", ".join(f"{child.key.name} {format_gpus(child.milli)}" for child in children[:10])
    name = scope_name(parent)
    lacks = "" if parent in catalog.envelopes else ", having no envelope"
    for share in (*above, *children):
        problems[share.key].add(
            share.path,
            f"below {name}, {total} of {gpu_class} are guaranteed in sum ({parts});"
            f" {name} itself is guaranteed {own}{lacks}",
            remedy=f"guarantee less there, or raise the guarantee of {name}",
            value=total,
            limit=own,
        )
