"""What traits ask of the catalog: that they can be evaluated, a profile that shares a GPU as they wish,
storage and secrets the project was granted, and a site where type and traits can be had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windlass.core.admission.case import Case, trait_spec
from windlass.core.compiler.names import site_values
from windlass.core.compiler.rendering import type_template
from windlass.core.compiler.wishes import stated, wishes
from windlass.core.documents.definitions import ByTarget, ComponentType, Trait
from windlass.core.documents.kinds import Site
from windlass.core.documents.scalars import Sharing, Target
from windlass.core.errors import Reason
from windlass.core.expressions import Unevaluable


def with_sharing(case: Case) -> Case:
    """The case with the profile that a sharing trait picks: of the same class, shared so, the smallest
    share. Where there is none it stays as it is, and a rule says so."""
    wanted = _sharing(case)
    if wanted is None or case.profile is None or case.profile.sharing == wanted:
        return case
    found = sorted(
        (profile.share, name)
        for name, profile in case.catalog.profiles.items()
        if profile.gpu_class == case.profile.gpu_class and profile.sharing == wanted
    )
    if not found:
        return case
    name = found[0][1]
    return replace(case, profile_name=name, profile=case.catalog.profiles[name])


def _sharing(case: Case) -> Sharing | None:
    stating = any(document and "sharing" in trait_spec(document).constraints for _, document in case.traits)
    if (
        not stating
        or case.type is None
        or case.project is None
        or case.tenant is None
        or case.profile is None
    ):
        return None
    try:
        return wishes(case).sharing
    except Unevaluable:
        return None  # the rule below tells it


def constraints_evaluate(case: Case) -> Iterator[Reason]:
    """What every trait means to the scheduler can be told from its parameters."""
    for index, (use, document) in enumerate(case.traits):
        if document is None:
            continue
        try:
            stated(case, use, document)
        except Unevaluable as error:
            yield Reason(
                rule="parameter.invalid",
                field=f"spec.traits[{index}].parameters",
                value=use.name,
                message=f"the trait {use.name} does not make sense here: {error}",
                remedy="correct its parameters, or ask a platform engineer to mend the trait",
            )


def constraints_agree(case: Case) -> Iterator[Reason]:
    """No two traits tell the scheduler different things."""
    told: dict[str, tuple[str, object]] = {}
    for index, (use, document) in enumerate(case.traits):
        if document is None:
            continue
        found = stated(case, use, document)
        for wish in ("topology", "checkpoint", "sharing"):
            value = getattr(found, wish)
            first, other = told.setdefault(wish, (document.metadata.name, value)) if value else ("", None)
            if value and other != value and first != document.metadata.name:
                yield Reason(
                    rule="trait.conflict",
                    field=f"spec.traits[{index}]",
                    value=use.name,
                    message=f"the traits {first} and {use.name} want different things of {wish}",
                    remedy="leave one of them out",
                )


def sharing_available(case: Case) -> Iterator[Reason]:
    """A sharing trait finds a profile of the same class that shares so."""
    assert case.profile is not None
    wanted = _sharing(case)
    if wanted is not None and case.profile.sharing != wanted:
        yield Reason(
            rule="profile.unknown",
            field="spec.traits",
            value=wanted,
            limit=case.profile.gpu_class,
            message=f"no hardware profile of class {case.profile.gpu_class} is shared by {wanted}",
            remedy="leave the sharing trait out, or pick a profile of another class",
        )


def storage_granted(case: Case) -> Iterator[Reason]:
    """The project was granted every volume its traits mount."""
    assert case.project is not None
    granted = list(case.project.spec.volumes)
    for name in wishes(case).volumes:
        if name not in granted:
            yield _not_granted(case, "volume", name, granted)


def secrets_granted(case: Case) -> Iterator[Reason]:
    """The project was granted every secret its traits show."""
    assert case.project is not None
    granted = list(case.project.spec.secrets)
    for name in wishes(case).secrets:
        if name not in granted:
            yield _not_granted(case, "secret", name, granted)


def _not_granted(case: Case, what: str, name: str, granted: list[str]) -> Reason:
    assert case.project is not None
    return Reason(
        rule=f"{what}.not-granted",
        field="spec.traits",
        value=name,
        limit=", ".join(granted) or f"no {what}s",
        message=f"the project {case.project.name} has no {what} {name}",
        remedy=(f"use one of {', '.join(granted)}, or " if granted else "")
        + f"ask a tenant-admin to add it to the project's {what}s",
    )


def usable_sites(case: Case) -> tuple[str, ...]:
    """Where it may be placed: sites it may use whose orchestrator type and traits have something for."""
    assert case.project is not None
    allowed = case.intent.spec.placement.sites or tuple(case.catalog.sites_for(case.project.tenant))
    return tuple(name for name in allowed if not missing_at(case, name))


def site_possible(case: Case) -> Iterator[Reason]:
    """The type and every trait can be had on some site that the intent may use."""
    assert case.project is not None
    if usable_sites(case):
        return
    allowed = case.intent.spec.placement.sites or tuple(case.catalog.sites_for(case.project.tenant))
    reasons = sorted({why for name in allowed for why in missing_at(case, name)})
    yield Reason(
        rule="target.unsupported",
        field="spec.type",
        value=case.intent.spec.type,
        limit=", ".join(allowed),
        message=f"no site that {case.project.tenant} may use can run it: {'; '.join(reasons)}",
        remedy="use another type or leave the trait out, or place it on a site of another orchestrator",
    )


def runs_on(spec: ComponentType, target: Target) -> bool:
    """It has something for the orchestrator, or nothing for any: then it is the author's command, which a
    local site can run."""
    return spec.templates.of(target) is not None or (target == "local" and spec.templates == ByTarget())


def to_be_had_on(spec: Trait, target: Target) -> bool:
    """One that has patches is to be had where it has one, be it empty: work must not start without its data
    because nobody thought of an orchestrator."""
    if spec.targets:
        return target in spec.targets
    return spec.patches == ByTarget() or spec.patches.of(target) is not None


def missing_at(case: Case, name: str) -> list[str]:
    """What stands against running it on a site, in words."""
    site = case.catalog.sites.get(name)
    if site is None:
        return []
    target = site.orchestrator
    found = []
    if not runs_on(case.type_spec, target):
        found.append(f"the type {case.intent.spec.type} has no template for {target}")
    elif target == "slurm" and not _starts_something(case, name, site):
        found.append(f"there is no command, and {target} knows nothing of what an image would start")
    for use, document in case.traits:
        if document is not None and not to_be_had_on(trait_spec(document), target):
            found.append(f"the trait {use.name} is not to be had on {target}")
    return found


def _starts_something(case: Case, name: str, site: Site) -> bool:
    """The author or the type says what to run, where the image does not."""
    if case.intent.spec.command or case.profile is None or case.tenant is None:
        return True
    try:
        return bool(type_template(case, site.orchestrator, site_values(name, site)).get("command"))
    except Unevaluable:
        return True  # told when it is compiled
