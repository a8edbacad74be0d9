"""Whose a document is: the thing that the policy is asked about when somebody writes or deletes it."""

from __future__ import annotations

from windlass.control.identity.authorize import PLATFORM, Thing
from windlass.core.documents.definitions import Policy
from windlass.core.documents.kinds import Document, Envelope


def owned(document: Document) -> Thing:
    """A tenant has its projects, what it divides among them and what it requires of itself; what it was
    given is the platform's."""
    divides = isinstance(document.spec, Envelope) and document.spec.scope.project is not None
    narrows = isinstance(document.spec, Policy) and document.metadata.tenant is not None
    if document.kind == "Project" or divides or narrows:
        return Thing("Tenant", document.metadata.tenant)
    return PLATFORM
