"""What is said of a field or label that belongs to the platform: by admission, and of a document that is
malformed besides."""

from __future__ import annotations

from windlass.core.errors import Reason
from windlass.core.intent import PLATFORM_OWNED_FIELDS, RESERVED_LABEL_PREFIXES, Overreach


def told(found: Overreach) -> Reason:
    if found.rule == "label.reserved":
        return Reason(
            rule=found.rule,
            field=found.field,
            value=found.value,
            limit="not " + ", ".join(RESERVED_LABEL_PREFIXES),
            line=found.line,
            message=f"{found.field} uses a prefix that only the platform writes",
            remedy="use a prefix of your own; attribution labels are added by the platform itself",
        )
    return Reason(
        rule=found.rule,
        field=found.field,
        value=found.value,
        limit="set by the platform",
        line=found.line,
        message=f"{found.field} is set by the platform, not by an intent",
        remedy=f"remove it; the platform owns {', '.join(PLATFORM_OWNED_FIELDS[:4])} and their like."
        " A trait granted to the project is the way to ask for such a thing",
    )
