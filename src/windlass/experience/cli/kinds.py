"""What `get`, `describe`, `delete` and `edit` take as KIND: any case, singular, plural or short.

A table of its own rather than `core.documents.kinds`, whose classes would cost each command line
10 ms; a test holds the two together.
"""

from __future__ import annotations

from typing import NamedTuple

from windlass.core.errors import Invalid
from windlass.experience.cli.lazy import did_you_mean
from windlass.experience.cli.session import SCOPE, Session


class KindName(NamedTuple):
    """`document`: a catalog document, stored under /v1/{plural}."""

    kind: str
    plural: str
    short: tuple[str, ...] = ()
    document: bool = True
    scope: tuple[str, ...] = ()
    """Which of -t, -p and -e mean something for it."""

    def tenant_of(self, session: Session) -> str | None:
        """The tenant to ask for, where documents of the kind have one."""
        return session.tenant if "tenant" in self.scope else None


KINDS = (
    KindName("Component", "components", ("comp", "comps", "c"), document=False, scope=SCOPE),
    KindName("Tier", "tiers"),
    KindName("Tenant", "tenants"),
    KindName("Project", "projects", ("proj",), scope=("tenant",)),
    KindName("Envelope", "envelopes", ("env",), scope=("tenant",)),
    KindName("HardwareProfile", "hardwareprofiles", ("profile", "profiles", "hp")),
    KindName("ComponentType", "componenttypes", ("type", "types")),
    KindName("Trait", "traits"),
    KindName("Policy", "policies", scope=("tenant",)),
    KindName("PriceBook", "pricebooks", ("prices",)),
    KindName("Site", "sites"),
    KindName("IdentityProvider", "identityproviders", ("idp", "idps")),
    KindName("Decision", "decisions", ("dec",), document=False, scope=("tenant", "project")),
    KindName("Event", "events", document=False),
    KindName("Node", "nodes", document=False),
    KindName("Key", "keys", document=False, scope=("tenant",)),
    KindName("Revision", "revision", ("revisions",), document=False),
    KindName("Queue", "queue", document=False, scope=SCOPE),
)

_BY_WORD = {word: kind for kind in KINDS for word in (kind.kind.lower(), kind.plural, *kind.short)}


def find_kind(word: str) -> KindName:
    found = _BY_WORD.get(word.lower().replace("-", "").replace("_", ""))
    if found is None:
        known = ", ".join(kind.plural for kind in KINDS)
        raise Invalid(f"there is no kind {word!r}{did_you_mean(word, _BY_WORD)}", remedy=f"kinds: {known}")
    return found


def find_document_kind(word: str, verb: str) -> KindName:
    """Also components; not the records that the platform writes."""
    found = find_kind(word)
    if found.kind == "Key":
        remedy = "use `windlass key revoke ID`" if verb == "delete" else "create another and revoke this one"
        raise Invalid(f"a key is not something to {verb}", remedy=remedy)
    if not found.document and found.kind != "Component":
        raise Invalid(f"{found.plural} are written by the platform; there is nothing to {verb}")
    return found
