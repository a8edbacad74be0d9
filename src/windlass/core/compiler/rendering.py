"""What a type and its traits say for one orchestrator, evaluated for one case: plain data, not yet work.

A target (kubernetes, slurm, local) puts the parts together and adds what only the platform may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.core.admission.case import Case, trait_spec
from windlass.core.compiler.definition import Definition, definition
from windlass.core.compiler.forms import Part, misformed
from windlass.core.compiler.names import trait_values, type_values
from windlass.core.documents.definitions import Trait
from windlass.core.documents.scalars import Target
from windlass.core.expressions import Unevaluable


def type_template(case: Case, target: Target, site: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """What the type has for an orchestrator, rendered for this case; empty where it has nothing."""
    return _rendered(definition(case.type_spec), target, {**type_values(case), **(site or {})})


def trait_patches(
    case: Case, target: Target, site: Mapping[str, Any] | None = None
) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """What each trait adds there, by the trait's name and in its order, whatever order they were written in.
    One that is there several times goes by what it adds."""
    found = []
    for use, document in case.traits:
        assert document is not None
        values = {**trait_values(case, document, use.parameters), **(site or {})}
        patch = _rendered(definition(trait_spec(document)), target, values)
        found.append((document.metadata.name, patch))
    if len(found) > len({name for name, _ in found}):
        found.sort(key=lambda one: msgspec.json.encode(one[1], order="sorted"))
    return tuple(sorted(found, key=lambda one: one[0]))


def _rendered(defined: Definition, target: Target, values: Mapping[str, Any]) -> Mapping[str, Any]:
    there = defined.template(target)
    if there is None:
        return {}
    names, template = there
    rendered = template(names.bind(values))
    part: Part = "patches" if isinstance(defined.spec, Trait) else "templates"
    if wrong := list(misformed(part, target, rendered)):
        raise Unevaluable("; ".join(wrong))
    return rendered  # type: ignore[no-any-return]  # a mapping, as was just looked at
