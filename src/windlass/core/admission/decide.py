"""The admission decision: every rule over one case, then what the admitted work is made of.

The same function serves submit, plan and tests. It never stops at the first reason: an author gets
the whole list at once, and a rule that could only repeat another's failure is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from windlass.core.admission.case import Case, Facts, open_case
from windlass.core.admission.deprecation import deprecations
from windlass.core.admission.entitlements import budget_warnings
from windlass.core.admission.rules import RULES
from windlass.core.admission.secrets import IN_CLEAR
from windlass.core.admission.traits import usable_sites, with_sharing
from windlass.core.catalog.snapshot import Catalog
from windlass.core.compiler.compile import Uncompilable, compile_admitted
from windlass.core.compiler.local import Manifest, compile_shape
from windlass.core.compiler.work import told_by_platform
from windlass.core.documents.modelspec import unheard
from windlass.core.documents.scalars import Action
from windlass.core.errors import Reason
from windlass.core.expressions import Unevaluable
from windlass.core.intent import Intent
from windlass.core.ledger.budgets import hold_amount
from windlass.core.ledger.rating import per_hour
from windlass.core.scheduling.model import Shape
from windlass.core.units import Micros, MilliGpu


@dataclass(frozen=True, slots=True)
class AdmittedWork:
    """What an admitted intent becomes."""

    tenant: str
    tier: str
    currency: str
    shape: Shape
    manifest: Manifest
    budget_hold: Micros
    type: str  # name@version


@dataclass(frozen=True, slots=True)
class Decided:
    """`tenant` is whose decision it is; `has_place` says that the asker's project and environment are
    there, so that even a rejected intent can be kept and explained under its name; `keepable`, that it is fit
    to be kept."""

    action: Action
    reasons: tuple[Reason, ...]
    tenant: str | None
    currency: str
    per_hour: Micros | None
    work: AdmittedWork | None
    has_place: bool
    warnings: tuple[Reason, ...] = ()
    """What does not stand against it, and its author should know."""

    @property
    def admitted(self) -> bool:
        return self.work is not None

    @property
    def keepable(self) -> bool:
        """One with a secret in clear is not: of it only the decision is stored, which does not repeat it."""
        return self.has_place and not any(reason.rule == IN_CLEAR for reason in self.reasons)


def decide(intent: Intent, catalog: Catalog, facts: Facts, tenant: str | None) -> Decided:
    """Judge `intent`. `tenant` is the asker's, None for the platform's own people."""
    case = with_sharing(open_case(intent, catalog, facts, tenant))
    reasons = judge(case)
    currency = case.tenant.currency if case.tenant else ""
    price = _per_hour(case)
    work = None
    if not reasons:
        try:
            work = _admitted(case, price)
        except (Unevaluable, Uncompilable) as error:
            reasons = (_unrendered(case, error),)
    owner = case.project.tenant if case.project else tenant
    return Decided(
        action=case.action,
        reasons=reasons,
        tenant=owner,
        currency=currency,
        per_hour=price,
        work=work,
        has_place=case.project is not None and intent.spec.env in case.project.spec.environments,
        warnings=_warnings(case) if work is not None else (),
    )


def _warnings(case: Case) -> tuple[Reason, ...]:
    """What is worth knowing about work that is admitted all the same."""
    return (
        *deprecations(case.type, case.facts.now),
        *budget_warnings(case),
        *_unheard(case),
        *_without_effect(case),
    )


def _unheard(case: Case) -> Iterator[Reason]:
    for name in sorted(filter(told_by_platform, case.intent.spec.variables)):
        yield Reason(
            rule="variable.ignored",
            field=f"spec.variables.{name}",
            value=name,
            message=f"the platform sets {name} itself; the value given here has no effect",
            remedy="leave it out",
        )


def _without_effect(case: Case) -> Iterator[Reason]:
    for field, why in unheard(case.intent.annotations):
        yield Reason(
            rule="modelspec.unheard",
            field=field,
            message=f"{field} has no effect: {why}",
            remedy="leave it out, or keep it as a note",
        )


def _unrendered(case: Case, error: Unevaluable | Uncompilable) -> Reason:
    """An author's own objects may reach for what is the platform's; anything else is the type's mistake."""
    owned = isinstance(error, Uncompilable) and error.owned
    return Reason(
        rule="field.platform-owned" if owned else "template.invalid",
        field="spec.type",
        value=case.intent.spec.type,
        message=f"what the type and its traits make of this cannot run: {error}",
        remedy="change the parameters it names, or ask a platform engineer to mend the type",
    )


def judge(case: Case) -> tuple[Reason, ...]:
    """All reasons against it, in the order of the rules; none means admitted."""
    failed: set[str] = set()
    reasons: list[Reason] = []
    for rule in RULES:
        if failed and not failed.isdisjoint(rule.needs):
            continue
        for reason in rule.check(case):
            reasons.append(reason)
            if rule.decides:
                failed.add(rule.code)
    return tuple(reasons)


def priced_class(intent: Intent, catalog: Catalog) -> Mapping[str, str] | None:
    """The class, tier and currency whose price the facts must carry, where they can be known."""
    project = catalog.projects.get(intent.project)
    tenant = catalog.tenants.get(project.tenant) if project else None
    wanted = intent.spec.profile or (project.spec.default_profile if project else None)
    profile = catalog.profiles.get(wanted) if wanted else None
    if tenant is None or profile is None:
        return None
    return {"gpu_class": profile.gpu_class, "tier": tenant.tier, "currency": tenant.currency}


def _per_hour(case: Case) -> Micros | None:
    if case.profile is None or case.facts.per_gpu_hour is None:
        return None
    return per_hour(case.facts.per_gpu_hour, MilliGpu(case.worker_gpus * case.replicas))


def _admitted(case: Case, price: Micros | None) -> AdmittedWork:
    assert case.project is not None and case.tenant is not None and case.type is not None
    hold = hold_amount(price, case.intent.spec.time_limit) if price else Micros(0)
    sites = usable_sites(case)
    return AdmittedWork(
        tenant=case.project.tenant,
        tier=case.tenant.tier,
        currency=case.tenant.currency,
        shape=compile_shape(case, sites),
        manifest=compile_admitted(case, sites),
        budget_hold=hold,
        type=case.type.key.name,
    )
