"""What a scope sees of the catalog. The platform sees everything; a tenant its own documents and the
platform's offer (tiers, profiles, prices, types, traits, the sites open to it, who vouches for its
people), without other tenants' names. The platform's policies it meets in decisions: their text may name
other tenants."""

from __future__ import annotations

from dataclasses import replace

from windlass.control.identity.scopes import Scope
from windlass.core.documents.definitions import Policy
from windlass.core.documents.kinds import Document, IdentityProvider, Site


def visible(document: Document, scope: Scope) -> Document | None:
    if scope.tenant is None:
        return document
    if document.kind == "Tenant":
        return document if document.metadata.name == scope.tenant else None
    if document.metadata.tenant is not None:
        return document if document.metadata.tenant == scope.tenant else None
    if isinstance(document.spec, Policy):
        return None
    if isinstance(document.spec, Site):
        if document.spec.tenants and scope.tenant not in document.spec.tenants:
            return None
        mine = (scope.tenant,) if document.spec.tenants else ()
        return replace(document, spec=replace(document.spec, tenants=mine))
    if isinstance(document.spec, IdentityProvider):
        own = tuple(one for one in document.spec.mappings if one.tenant == scope.tenant)
        return replace(document, spec=replace(document.spec, mappings=own))
    return document
