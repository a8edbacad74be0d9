"""What a type and its traits say for one orchestrator, evaluated for one case: plain data, not yet work.

A target (kubernetes, slurm, local) puts the parts together and adds what only the platform may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.admission.case import Case, trait_spec
from windlass.core.compiler.definition import Definition, definition
from windlass.core.compiler.names import trait_values, type_values
from windlass.core.documents.scalars import Target


def type_template(case: Case, target: Target, site: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """What the type has for an orchestrator, rendered for this case; empty where it has nothing."""
    return _rendered(definition(case.type_spec), target, {**type_values(case), **(site or {})})


def trait_patches(
    case: Case, target: Target, site: Mapping[str, Any] | None = None
) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """What each trait adds there, by the trait's name and in its order, whatever order the author wrote."""
    found = []
    for use, document in case.traits:
        assert document is not None
        values = {**trait_values(case, document, use.parameters), **(site or {})}
        patch = _rendered(definition(trait_spec(document)), target, values)
        found.append((document.metadata.name, patch))
    return tuple(sorted(found, key=lambda one: one[0]))


def _rendered(defined: Definition, target: Target, values: Mapping[str, Any]) -> Mapping[str, Any]:
    there = defined.template(target)
    if there is None:
        return {}
    names, template = there
    rendered = template(names.bind(values))
    return rendered if isinstance(rendered, Mapping) else {}
