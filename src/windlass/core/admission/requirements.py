"""Requirements that documents make of an intent: the rules of its type and traits, and the policies of the
platform and of its tenant. Each that is not met is a reason; one that cannot be evaluated is not met."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.admission.case import Case, trait_spec
from windlass.core.compiler.definition import Broken, broken, definition
from windlass.core.compiler.names import policy_values, trait_values, type_values
from windlass.core.documents.definitions import Policy
from windlass.core.documents.kinds import Document
from windlass.core.errors import Reason
from windlass.core.expressions import Budget
from windlass.core.intent import TraitUse

Found = tuple[str, Reason]
"""The name of a requirement that is not met, and the reason to tell."""


def type_requirements(case: Case) -> Iterator[Reason]:
    """The rules of the component type hold."""
    return (reason for _, reason in _of_type(case))


def trait_requirements(case: Case) -> Iterator[Reason]:
    """The rules of every trait hold."""
    for index, (use, document) in enumerate(case.traits):
        if document is not None:
            yield from (reason for _, reason in _of_trait(case, index, use, document))


def policies_hold(case: Case) -> Iterator[Reason]:
    """Every policy of the platform and of the tenant that is about this request holds."""
    assert case.project is not None
    # A tenant's have a budget of their own: they cannot use up what the platform's need.
    budgets = {True: Budget(), False: Budget()}
    for document in case.catalog.policies_for(case.project.tenant):
        budget = budgets[document.metadata.tenant is None]
        yield from (reason for _, reason in _of_policy(case, document, case.action, budget))


def requirements_of(document: Document, case: Case, action: str, budget: Budget) -> Iterator[Found]:
    """What one document of any of these kinds has against the case."""
    if document is case.type:
        yield from _of_type(case, budget)
    for index, (use, trait) in enumerate(case.traits):
        if trait is document:
            yield from _of_trait(case, index, use, document, budget)
    if isinstance(document.spec, Policy):
        yield from _of_policy(case, document, action, budget)


def _of_type(case: Case, budget: Budget | None = None) -> Iterator[Found]:
    if case.type_spec.rules:
        defined = definition(case.type_spec)
        for one in broken(defined, defined.names.bind(type_values(case), budget)):
            yield one.name, _reason("parameter.invalid", "spec.parameters", one)


def _of_trait(
    case: Case, index: int, use: TraitUse, document: Document, budget: Budget | None = None
) -> Iterator[Found]:
    if trait_spec(document).rules:
        defined = definition(trait_spec(document))
        values = trait_values(case, document, use.parameters)
        for one in broken(defined, defined.names.bind(values, budget)):
            yield one.name, _reason("parameter.invalid", f"spec.traits[{index}].parameters", one)


def _of_policy(case: Case, document: Document, action: str, budget: Budget) -> Iterator[Found]:
    assert isinstance(document.spec, Policy) and case.type is not None
    scope = document.spec.applies_to
    about = not scope.types or case.catalog.is_named(scope.types, case.type)
    if not about or (scope.actions and action not in scope.actions):
        return
    defined = definition(document.spec)
    for one in broken(defined, defined.names.bind(policy_values(case, action), budget)):
        yield one.name, _reason(f"policy.{one.name}", "spec", one)


def _reason(rule: str, field: str, one: Broken) -> Reason:
    return Reason(rule=rule, field=field, limit=one.limit, message=one.message, remedy=one.remedy)
