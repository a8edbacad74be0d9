"""Whether a change of types and traits would break components that are stored: they could not be read as
what they are any more. What a changed rule refuses is not broken; it is refused at the next admission.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.core.admission.parameters import parameter_problems
from windlass.core.catalog.snapshot import Catalog
from windlass.core.documents.definitions import ComponentType, Trait
from windlass.core.documents.kinds import Document, DocumentKey
from windlass.core.intent import Intent


def names_changed(before: Catalog, after: Catalog) -> set[tuple[str, str]]:
    """Kind and name of each type and trait of which some version changed or went."""
    return {
        name
        for name, known in before.versions.items()
        if any(after.documents.get(one.key, one) is not one or _gone(one, after) for one in known)
    }


def broken_by(
    intent: Intent, made_of: str, before: Catalog, after: Catalog, *, alive: bool
) -> Iterator[tuple[DocumentKey, str]]:
    """What of the change the component could not live with, and why. `made_of` is the type of a run that
    lives, else the one it names."""
    was, becomes = before.component_type(made_of), after.component_type(intent.spec.type)
    yield from _lost(was, becomes, after, alive=alive)
    if was is not None and becomes is not None and was.key == becomes.key and was is not becomes:
        assert isinstance(was.spec, ComponentType) and isinstance(becomes.spec, ComponentType)
        if was.spec.workload != becomes.spec.workload:
            yield was.key, f"it was admitted as a {was.spec.workload}"
        given = intent.spec.parameters
        if _fits(was.spec, given) and not _fits(becomes.spec, given):
            yield was.key, "its parameters would not fit"
    for use in intent.spec.traits:
        had, has = before.trait(use.name), after.trait(use.name)
        yield from _lost(had, has, after, alive=alive)
        if had is not None and has is not None and had.key == has.key and had is not has:
            assert isinstance(had.spec, Trait) and isinstance(has.spec, Trait)
            if _fits(had.spec, use.parameters) and not _fits(has.spec, use.parameters):
                yield had.key, "its parameters would not fit"


def _lost(
    was: Document | None, becomes: Document | None, after: Catalog, *, alive: bool
) -> Iterator[tuple[DocumentKey, str]]:
    """Gone, and nothing else answers to the name; or gone while work of it is alive."""
    if was is not None and (becomes is None or (alive and _gone(was, after))):
        yield was.key, "it is alive" if alive else "it names it"


def _gone(document: Document, after: Catalog) -> bool:
    known: Iterable[Document] = after.versions.get((document.kind, document.metadata.name), ())
    return all(one.key != document.key for one in known)


def _fits(spec: ComponentType | Trait, given: Mapping[str, Any]) -> bool:
    return not any(parameter_problems(spec.parameters, given, "spec.parameters"))
