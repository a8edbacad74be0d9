"""What a tenant may give out below itself: what it was given, and nothing else.

A class counts as entitled wherever on the path it stands, so an envelope of a project that names one
more class is a grant. Ceilings and guarantees need no look here: every ceiling of the path binds, and
guarantees add up (core/catalog/whole.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.admission.entitlements import allowed_sharing
from windlass.core.catalog.snapshot import Catalog
from windlass.core.documents.kinds import Document, Envelope
from windlass.core.errors import NotPermitted, Reason


def beyond_the_tenant(document: Document, catalog: Catalog) -> Iterator[Reason]:
    """What an envelope gives that its tenant does not have. What a platform-admin has put there before
    may stay."""
    assert isinstance(document.spec, Envelope)
    before = catalog.documents.get(document.key)
    kept = before.spec if before is not None and isinstance(before.spec, Envelope) else None
    tenant = document.spec.scope.tenant
    own = catalog.envelopes.get((tenant, None, None))
    classes = sorted(quota.profile_class for quota in own.gpus) if own else []
    for at, quota in enumerate(document.spec.gpus):
        if quota.profile_class not in classes and (kept is None or quota not in kept.gpus):
            yield _beyond(f"spec.gpus[{at}].profileClass", tenant, quota.profile_class, classes)
    if document.spec.sharing is None or (kept is not None and document.spec.sharing == kept.sharing):
        return
    modes = allowed_sharing([own] if own else [])
    for at, mode in enumerate(document.spec.sharing):
        if mode not in modes:
            yield _beyond(f"spec.sharing[{at}]", tenant, mode, modes)


def _beyond(field: str, tenant: str, value: str, given: list[str]) -> Reason:
    return Reason(
        rule=NotPermitted.code,
        field=field,
        value=value,
        limit=", ".join(given) or "nothing",
        message=f"{tenant} itself was not given {value}",
        remedy=f"use what {tenant} has ({', '.join(given) or 'nothing yet'}), or ask a platform-admin"
        f" to add {value} to the envelope of {tenant}",
    )
