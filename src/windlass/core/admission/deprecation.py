"""What an author should know of a type that is on its way out: since when, until when, what comes after.

A warning and no rule: work is admitted until the window ends, and refused from then on (`type.retired`).
"""

from __future__ import annotations

from windlass.core.documents.definitions import ComponentType
from windlass.core.documents.kinds import Document
from windlass.core.errors import Reason
from windlass.core.units import Ms, format_timestamp


def deprecations(type: Document | None, now: Ms) -> tuple[Reason, ...]:
    """Of a type within its window; before and after it there is nothing to warn of."""
    if type is None or not isinstance(type.spec, ComponentType) or type.spec.deprecated is None:
        return ()
    window, name = type.spec.deprecated, type.key.name
    if not window.since <= now < window.until:
        return ()
    since, until = (format_timestamp(at)[:10] for at in (window.since, window.until))
    remedy = "use another component type before then"
    if window.replaced_by is not None:
        then = window.replaced_by
        remedy = f"use {then} before then; `windlass type diff {name} {then}` shows what would change"
    return (
        Reason(
            rule="type.deprecated",
            field="spec.type",
            value=name,
            limit=format_timestamp(window.until),
            message=f"the component type {name} is deprecated since {since} and retired on {until}",
            remedy=remedy,
        ),
    )
