"""The admission rules: small functions, each with one code. Their order and what each depends on is
the table `RULES` at the end; a first look at it tells what admission does.

A rule yields every reason it finds. It is skipped when a rule it needs has failed, because then it
could only guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from windlass.core.admission.case import REPLICAS, Case, trait_spec
from windlass.core.admission.entitlements import (
    budget_left,
    class_entitled,
    gang_possible,
    priority_in_range,
    sharing_entitled,
    site_entitled,
    within_max,
)
from windlass.core.admission.parameters import parameter_problems
from windlass.core.admission.requirements import policies_hold, trait_requirements, type_requirements
from windlass.core.admission.secrets import IN_CLEAR, no_secret_in_clear
from windlass.core.admission.traits import (
    constraints_agree,
    constraints_evaluate,
    secrets_granted,
    sharing_available,
    site_possible,
    storage_granted,
)
from windlass.core.documents.overreach import told
from windlass.core.documents.scalars import MAX_WORKERS
from windlass.core.errors import Reason
from windlass.core.units import GPU, format_gpus

Check = Callable[[Case], Iterator[Reason]]

# A registry host with an optional port, path components, and a tag or digest; as the OCI distribution
# specification writes a reference. Bounded parts, so matching is linear.
_PART = r"[a-z0-9]+(?:(?:[._]|__|-{1,20})[a-z0-9]+){0,20}"
_IMAGE = re.compile(
    r"(?:[a-zA-Z0-9][a-zA-Z0-9.-]{0,252}(?::[0-9]{1,5})?/)?"
    rf"{_PART}(?:/{_PART}){{0,20}}"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


def platform_owned(case: Case) -> Iterator[Reason]:
    """What only the platform sets (namespace, tolerations, volumes, …) is not in an intent."""
    yield from _overreach(case, "field.platform-owned")


def reserved_labels(case: Case) -> Iterator[Reason]:
    """Labels and annotations under the platform's prefixes are the platform's own."""
    yield from _overreach(case, "label.reserved")


def _overreach(case: Case, rule: str) -> Iterator[Reason]:
    return (told(found) for found in case.intent.overreach if found.rule == rule)


def project_known(case: Case) -> Iterator[Reason]:
    """The project exists and belongs to the asker's tenant."""
    if case.project is None:
        yield Reason(
            rule="project.unknown",
            field="metadata.project",
            value=case.intent.project,
            message=f"there is no project {case.intent.project} that you can use",
            remedy="`windlass get projects` lists yours; a tenant-admin can create one",
        )
    elif case.intent.tenant not in (None, case.project.tenant):
        yield Reason(
            rule="project.unknown",
            field="metadata.tenant",
            value=case.intent.tenant or "",
            limit=case.project.tenant,
            message=f"the project {case.project.name} belongs to {case.project.tenant}",
            remedy="leave metadata.tenant out, or correct it",
        )


def tenant_known(case: Case) -> Iterator[Reason]:
    """The project's tenant and its tier are in the catalog."""
    assert case.project is not None
    if case.tenant is None or case.tier is None:
        yield Reason(
            rule="tenant.unknown",
            field="metadata.project",
            value=case.project.tenant,
            message=f"the project's tenant {case.project.tenant} is not in the catalog",
            remedy="a platform-admin has to create the tenant first",
        )


def tenant_active(case: Case) -> Iterator[Reason]:
    """The tenant is not suspended."""
    assert case.project is not None
    if case.project.tenant in case.facts.suspended:
        yield Reason(
            rule="tenant.suspended",
            field="metadata.project",
            value=case.project.tenant,
            message=f"the tenant {case.project.tenant} is suspended:"
            " running work goes on, new work is refused",
            remedy="ask the platform's operators why, and to resume the tenant",
        )


def environment_known(case: Case) -> Iterator[Reason]:
    """The project has the environment."""
    assert case.project is not None
    known = case.project.spec.environments
    if case.intent.spec.env not in known:
        yield Reason(
            rule="environment.unknown",
            field="spec.env",
            value=case.intent.spec.env,
            limit=", ".join(known),
            message=f"the project {case.project.name} has no environment {case.intent.spec.env}",
            remedy=f"use one of {', '.join(known)}{_nearest(case.intent.spec.env, known)},"
            " or let a tenant-admin add it to the project",
        )


def type_known(case: Case) -> Iterator[Reason]:
    """The component type exists, in the version asked for."""
    if case.type is None:
        known = _usable_types(case)
        yield Reason(
            rule="type.unknown",
            field="spec.type",
            value=case.intent.spec.type,
            limit=", ".join(known),
            message=f"there is no component type {case.intent.spec.type}",
            remedy=f"use one of {', '.join(known)}{_nearest(case.intent.spec.type, known)}",
        )


def _usable_types(case: Case) -> list[str]:
    """What the project may use; of a project that is not there, what any may."""
    granted = case.project.spec.types if case.project else ()
    return sorted(granted) if granted else [name for name in case.catalog.known_types() if name != "raw"]


def type_in_service(case: Case) -> Iterator[Reason]:
    """The component type is not past its retirement."""
    deprecated = case.type_spec.deprecated
    if deprecated is not None and case.facts.now >= deprecated.until:
        yield Reason(
            rule="type.retired",
            field="spec.type",
            value=case.intent.spec.type,
            message=f"the component type {case.intent.spec.type} is retired",
            remedy=f"use {deprecated.replaced_by}"
            if deprecated.replaced_by
            else "use another component type",
        )


def type_granted(case: Case) -> Iterator[Reason]:
    """The project may use the type; without a list, every type but raw."""
    assert case.project is not None and case.type is not None
    name = case.type.metadata.name
    granted = case.project.spec.types
    allowed = case.catalog.is_named(granted, case.type) if granted else name != "raw"
    if not allowed:
        yield Reason(
            rule="type.not-granted",
            field="spec.type",
            value=case.intent.spec.type,
            limit=", ".join(granted) or "every type but raw",
            message=f"the project {case.project.name} may not use the component type {name}",
            remedy="use a type the project has, or ask a tenant-admin to add it to the project's types",
        )


def traits_known(case: Case) -> Iterator[Reason]:
    """Every trait exists, in the version asked for."""
    for index, (use, document) in enumerate(case.traits):
        if document is None:
            known = case.catalog.known_traits()
            yield Reason(
                rule="trait.unknown",
                field=f"spec.traits[{index}]",
                value=use.name,
                limit=", ".join(known),
                message=f"there is no trait {use.name}",
                remedy=f"use one of {', '.join(known)}{_nearest(use.name, known)}, or leave it out",
            )


def traits_granted(case: Case) -> Iterator[Reason]:
    """The project was granted every trait."""
    assert case.project is not None
    granted = case.project.spec.traits
    for index, (use, document) in enumerate(case.traits):
        if document is None:
            continue
        if not case.catalog.is_named(granted, document):
            yield Reason(
                rule="trait.not-granted",
                field=f"spec.traits[{index}]",
                value=use.name,
                limit=", ".join(granted) or "no traits",
                message=f"the project {case.project.name} may not use the trait {use.name}",
                remedy=f"leave it out, or ask a tenant-admin to grant the project {document.metadata.name}",
            )


def traits_compatible(case: Case) -> Iterator[Reason]:
    """No trait is there twice, conflicts with another, or does not apply to the type."""
    names = [document.metadata.name if document else use.name for use, document in case.traits]
    for index, (use, document) in enumerate(case.traits):
        repeats = document is not None and trait_spec(document).repeats
        if names[index] in names[:index] and not repeats:
            yield _trait_conflict(index, use.name, "itself: it is there twice", "name it once")
        if document is None:
            continue
        spec = trait_spec(document)
        for other in names[:index] + names[index + 1 :]:
            if other in spec.conflicts_with:
                yield _trait_conflict(index, use.name, other, f"leave out {use.name} or {other}")
        if (
            spec.applies_to
            and case.type is not None
            and not case.catalog.is_named(spec.applies_to, case.type)
        ):
            wanted = ", ".join(spec.applies_to)
            yield _trait_conflict(
                index, use.name, f"the type {case.type.metadata.name}", f"it applies to {wanted}"
            )


def parameters_valid(case: Case) -> Iterator[Reason]:
    """The parameters fit the schema of the type, and a service can have the replicas it asks for."""
    wrong = list(parameter_problems(case.type_spec.parameters, case.parameters, "spec.parameters"))
    yield from wrong
    if not wrong and case.is_service:
        yield from _replicas_possible(case)


def _replicas_possible(case: Case) -> Iterator[Reason]:
    """What holds for every service, also of a type whose schema would take anything."""
    least, most = (case.parameter(name) or 1 for name in REPLICAS)
    if not case.replicas_told or case.most_replicas > MAX_WORKERS:
        yield Reason(
            rule="parameter.invalid",
            field="spec.parameters.maxReplicas",
            value=f"{least}..{most}",
            limit=f"1 to {MAX_WORKERS} workers",
            message=f"a service has whole replicas, at least one and with all their workers {MAX_WORKERS}"
            " at most",
            remedy="correct minReplicas or maxReplicas",
        )
    elif case.replicas > case.most_replicas:
        yield Reason(
            rule="parameter.invalid",
            field="spec.parameters.maxReplicas",
            value=str(most),
            limit=f"at least minReplicas, {least}",
            message="maxReplicas is below minReplicas",
            remedy="raise maxReplicas, or lower minReplicas",
        )


def trait_parameters_valid(case: Case) -> Iterator[Reason]:
    """The parameters of each trait fit its schema."""
    for index, (use, document) in enumerate(case.traits):
        if document is not None:
            field = f"spec.traits[{index}].parameters"
            yield from parameter_problems(trait_spec(document).parameters, use.parameters, field)


def image_valid(case: Case) -> Iterator[Reason]:
    """The image is a reference that a container runtime could pull."""
    if not _IMAGE.fullmatch(case.intent.spec.image):
        yield Reason(
            rule="image.invalid",
            field="spec.image",
            value=case.intent.spec.image[:200],
            message="the image is not a reference that a container runtime could pull",
            remedy="write it like ghcr.io/acme/sft:v3 (lower case, an optional tag or sha256 digest)",
        )


def profile_known(case: Case) -> Iterator[Reason]:
    """The hardware profile, the intent's or the project's default, exists."""
    if case.profile is not None:
        return
    known = sorted(case.catalog.profiles)
    if case.profile_name is None:
        yield Reason(
            rule="profile.unknown",
            field="spec.profile",
            limit=", ".join(known),
            message="the intent names no hardware profile and the project has no default",
            remedy=f"set spec.profile to one of {', '.join(known)}",
        )
    else:
        yield Reason(
            rule="profile.unknown",
            field="spec.profile",
            value=case.profile_name,
            limit=", ".join(known),
            message=f"there is no hardware profile {case.profile_name}",
            remedy=f"use one of {', '.join(known)}{_nearest(case.profile_name, known)}",
        )


def whole_units(case: Case) -> Iterator[Reason]:
    """GPUs are counted in whole units of the profile."""
    if case.intent.spec.gpus % GPU:
        yield Reason(
            rule="profile.indivisible",
            field="spec.gpus",
            value=format_gpus(case.intent.spec.gpus),
            limit="a whole number of units",
            message=f"gpus counts whole units of the profile {case.profile_name}",
            remedy=_in_units(case),
        )


def _in_units(case: Case) -> str:
    """What to write for the part of a GPU that was asked for, if the profile has such parts."""
    assert case.profile is not None
    if case.profile.share == GPU:
        return "ask for whole units, or pick a profile that shares a GPU"
    units = max(1, -(-case.intent.spec.gpus // case.profile.share))
    return (
        f"one unit of {case.profile_name} is {format_gpus(case.profile.share)} of a GPU; write gpus: {units}"
    )


def _nearest(wanted: str, known: tuple[str, ...] | list[str]) -> str:
    found = get_close_matches(wanted, known, n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def _trait_conflict(index: int, name: str, other: str, remedy: str) -> Reason:
    return Reason(
        rule="trait.conflict",
        field=f"spec.traits[{index}]",
        value=name,
        message=f"the trait {name} does not go with {other}",
        remedy=remedy,
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """`decides`: rules that need this code are skipped when it refuses."""

    code: str
    check: Check
    needs: tuple[str, ...] = ()
    decides: bool = True


_PLACE = ("project.unknown", "tenant.unknown", "environment.unknown", "profile.unknown")

_EVALUATED = (*_PLACE, "type.unknown", IN_CLEAR, "parameter.invalid", "profile.indivisible")
"""What an expression names must be there and have its type. Where an author wrote a secret, nobody is asked
whose words could repeat it."""

RULES: tuple[Rule, ...] = (
    Rule(IN_CLEAR, no_secret_in_clear),
    Rule("field.platform-owned", platform_owned, needs=(IN_CLEAR,)),
    Rule("label.reserved", reserved_labels, needs=(IN_CLEAR,)),
    Rule("project.unknown", project_known),
    Rule("tenant.unknown", tenant_known, needs=("project.unknown",)),
    Rule("tenant.suspended", tenant_active, needs=("project.unknown",)),
    Rule("environment.unknown", environment_known, needs=("project.unknown",)),
    Rule("type.unknown", type_known),
    Rule("type.retired", type_in_service, needs=("type.unknown",)),
    Rule("type.not-granted", type_granted, needs=("project.unknown", "type.unknown")),
    Rule("trait.unknown", traits_known),
    Rule("trait.not-granted", traits_granted, needs=("project.unknown",)),
    Rule("trait.conflict", traits_compatible),
    Rule("parameter.invalid", parameters_valid, needs=("type.unknown", IN_CLEAR)),
    Rule("parameter.invalid", trait_parameters_valid, needs=(IN_CLEAR,)),
    Rule("image.invalid", image_valid),
    Rule("profile.unknown", profile_known, needs=("project.unknown",)),
    Rule("profile.indivisible", whole_units, needs=("project.unknown", "profile.unknown")),
    Rule("parameter.invalid", constraints_evaluate, needs=(*_EVALUATED, "trait.unknown")),
    Rule("trait.conflict", constraints_agree, needs=(*_EVALUATED, "trait.unknown")),
    Rule("parameter.invalid", type_requirements, needs=_EVALUATED, decides=False),
    Rule("parameter.invalid", trait_requirements, needs=(*_EVALUATED, "trait.unknown"), decides=False),
    Rule("profile.unknown", sharing_available, needs=_EVALUATED),
    Rule("volume.not-granted", storage_granted, needs=_EVALUATED),
    Rule("secret.not-granted", secrets_granted, needs=_EVALUATED),
    Rule("entitlement.class", class_entitled, needs=_PLACE),
    Rule("entitlement.sharing", sharing_entitled, needs=(*_PLACE, "entitlement.class")),
    Rule("entitlement.max", within_max, needs=(*_PLACE, "entitlement.class")),
    Rule("entitlement.site", site_entitled, needs=("project.unknown", "tenant.unknown")),
    Rule("target.unsupported", site_possible, needs=("project.unknown", "type.unknown", "entitlement.site")),
    Rule("gang.impossible", gang_possible, needs=_PLACE),
    Rule("priority.above-tier", priority_in_range, needs=("project.unknown", "tenant.unknown")),
    Rule("budget.exhausted", budget_left, needs=(*_PLACE, "entitlement.class")),
    Rule("policy.<name>", policies_hold, needs=_EVALUATED),
)
"""In the order they run and are reported. A code may stand for more than one check."""
