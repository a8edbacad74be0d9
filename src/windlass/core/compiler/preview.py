"""What an orchestrator would be told of a case, as canonical JSON, and what differs between two of them.

For people who are about to change a document: nothing made here leaves for a site.
"""

from __future__ import annotations

from difflib import unified_diff

import msgspec

from windlass.core.admission.case import Case
from windlass.core.admission.traits import usable_sites
from windlass.core.compiler.compile import Uncompilable, compile_component
from windlass.core.documents.scalars import Target


def targets(case: Case) -> tuple[Target, ...]:
    """The orchestrators it could run on."""
    found = {
        case.catalog.sites[name].orchestrator for name in usable_sites(case) if name in case.catalog.sites
    }
    return tuple(sorted(found))


def rendered(case: Case, target: Target) -> bytes:
    """Of an admitted case, at the first of its sites that has this orchestrator. What cannot be compiled
    is told in its place: that, too, is something a change can bring about."""
    sites = case.catalog.sites
    site = next(name for name in usable_sites(case) if sites[name].orchestrator == target)
    try:
        return compile_component(case, site).canonical()
    except Uncompilable as error:
        return msgspec.json.encode({"error": str(error)})


def difference(before: bytes, after: bytes, names: tuple[str, str]) -> str:
    """A unified diff, as people read it; empty where nothing differs."""
    old, new = names
    return "\n".join(unified_diff(_lines(before), _lines(after), old, new, lineterm="", n=2))


def _lines(text: bytes) -> list[str]:
    return msgspec.json.format(text, indent=2).decode().splitlines()
