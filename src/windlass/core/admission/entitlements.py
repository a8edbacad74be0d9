"""The admission rules about entitlement: class, sharing, ceilings, sites, gangs, priority, budget.

Each judges one request alone against what its path allows. What others hold at the moment is not a
reason to reject: that is what waiting is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass.core.admission.case import Case, NodeSize
from windlass.core.documents.kinds import Envelope
from windlass.core.errors import Reason
from windlass.core.ledger.budgets import Verdict, budget_verdict, hold_amount
from windlass.core.ledger.rating import per_hour
from windlass.core.units import GPU, MilliGpu, format_duration, format_gpus, format_money


def class_entitled(case: Case) -> Iterator[Reason]:
    """Some envelope on the path has the GPU class."""
    assert case.profile is not None and case.project is not None
    wanted = case.profile.gpu_class
    if not any(quota.profile_class == wanted for envelope in case.path for quota in envelope.gpus):
        classes = sorted({quota.profile_class for envelope in case.path for quota in envelope.gpus})
        yield Reason(
            rule="entitlement.class",
            field="spec.profile",
            value=wanted,
            limit=", ".join(classes) or "no class",
            message=f"{case.project.tenant} is not entitled to GPUs of class {wanted}"
            f" in {case.project.name}/{case.intent.spec.env}",
            remedy=(f"use a profile of {', '.join(classes)}, or " if classes else "")
            + "ask a platform-admin to add the class to the envelope",
        )


def allowed_sharing(path: Iterable[Envelope]) -> list[str]:
    """The ways of sharing that every envelope of a path allows; one that says nothing inherits."""
    stated: list[set[str]] = [set(envelope.sharing) for envelope in path if envelope.sharing is not None]
    return sorted(set.intersection(*stated)) if stated else ["dedicated"]


def sharing_entitled(case: Case) -> Iterator[Reason]:
    """Every envelope on the path allows the way the profile shares a GPU."""
    assert case.profile is not None
    allowed = allowed_sharing(case.path)
    if case.profile.sharing not in allowed:
        yield Reason(
            rule="entitlement.sharing",
            field="spec.profile",
            value=case.profile.sharing,
            limit=", ".join(allowed) or "none",
            message=f"the profile {case.profile_name} shares GPUs by {case.profile.sharing},"
            f" which the envelope does not allow here",
            remedy=(f"use a profile whose sharing is {' or '.join(allowed)}, or " if allowed else "")
            + f"ask for {case.profile.sharing} to be added to the envelope",
        )


def within_max(case: Case) -> Iterator[Reason]:
    """One request alone against every ceiling of its path; the tightest is named."""
    assert case.profile is not None
    if not case.replicas_told:
        return
    wanted = case.worker_gpus * case.most_replicas
    ceilings = [
        (quota.max + extra, envelope.scope)
        for envelope in case.path
        for quota in envelope.gpus
        if quota.profile_class == case.profile.gpu_class and quota.max is not None
        for extra in (
            sum(
                burst.extra
                for burst in envelope.burst
                if burst.profile_class == quota.profile_class and burst.since <= case.facts.now < burst.until
            ),
        )
    ]
    if not ceilings:
        return
    ceiling, scope = min(ceilings, key=lambda found: found[0])
    if wanted > ceiling:
        where = "/".join(part for part in (scope.tenant, scope.project, scope.env) if part)
        yield Reason(
            rule="entitlement.max",
            field="spec.gpus",
            value=format_gpus(wanted),
            limit=format_gpus(ceiling),
            message=f"it asks for {format_gpus(wanted)} GPUs of {case.profile.gpu_class};"
            f" {where} may hold {format_gpus(ceiling)} at most",
            remedy=f"ask for {format_gpus(ceiling)} or fewer, or for a larger envelope"
            " (`windlass quota show` tells what is yours)",
        )


def site_entitled(case: Case) -> Iterator[Reason]:
    """The tenant may use some site, and every site the intent names."""
    assert case.project is not None and case.tenant is not None
    if not case.catalog.sites_for(case.project.tenant):
        yield Reason(
            rule="entitlement.site",
            field="metadata.project",
            value=case.project.tenant,
            limit="no site",
            message=f"{case.project.tenant} may not place work on any site",
            remedy="ask a platform-admin to open a site to the tenant",
        )
        return
    for index, name in enumerate(case.intent.spec.placement.sites):
        site = case.catalog.sites.get(name)
        bound = case.tenant.sites and name not in case.tenant.sites
        closed = site is not None and site.tenants and case.project.tenant not in site.tenants
        if site is None or bound or closed:
            usable = case.catalog.sites_for(case.project.tenant)
            yield Reason(
                rule="entitlement.site",
                field=f"spec.placement.sites[{index}]",
                value=name,
                limit=", ".join(usable) or "no site",
                message=f"{case.project.tenant} may not place work on a site {name}",
                remedy=(f"use one of {', '.join(usable)}, or " if usable else "")
                + "leave placement.sites out",
            )


def gang_possible(case: Case) -> Iterator[Reason]:
    """One worker fits the profile, and some declared node of the class."""
    assert case.profile is not None
    units = case.intent.spec.gpus // GPU
    if units > case.profile.max_per_worker:
        yield Reason(
            rule="gang.impossible",
            field="spec.gpus",
            value=str(units),
            limit=str(case.profile.max_per_worker),
            message=f"one worker of {case.profile_name} has at most {case.profile.max_per_worker} units",
            remedy=f"ask for {case.profile.max_per_worker} or fewer per worker, and more workers",
        )
        return
    sizes = case.facts.node_sizes.get(case.profile.gpu_class, ())
    if not sizes or any(_holds(size, case) for size in sizes):
        return
    largest = max(size.gpus for size in sizes)
    if case.worker_gpus > largest * GPU:
        message = f"no node of class {case.profile.gpu_class} has more than {largest} GPUs"
    else:
        needs = f"{case.profile.per_gpu.cpu * units} CPUs and {case.profile.per_gpu.memory_gib * units} GiB"
        message = f"no node of class {case.profile.gpu_class} has the {needs} that {units} units come with"
    yield Reason(
        rule="gang.impossible",
        field="spec.gpus",
        value=format_gpus(case.worker_gpus),
        limit=str(largest),
        message=f"{message}, and a worker cannot span nodes",
        remedy="ask for fewer per worker, and more workers",
    )


def _holds(size: NodeSize, case: Case) -> bool:
    """An empty node of this size has room for one worker."""
    assert case.profile is not None
    units = case.intent.spec.gpus // GPU
    cpu, memory = case.profile.per_gpu.cpu * 1000 * units, case.profile.per_gpu.memory_gib * 1024 * units
    return (
        case.worker_gpus <= size.gpus * GPU
        and (size.cpu_milli is None or cpu <= size.cpu_milli)
        and (size.memory_mib is None or memory <= size.memory_mib)
    )


def priority_in_range(case: Case) -> Iterator[Reason]:
    """The priority offset lies in the tier's range."""
    assert case.tier is not None and case.tenant is not None
    allowed = case.tier.priority_range
    if not allowed.min <= case.intent.spec.priority <= allowed.max:
        yield Reason(
            rule="priority.above-tier",
            field="spec.priority",
            value=str(case.intent.spec.priority),
            limit=f"{allowed.min} to {allowed.max}",
            message=f"the tier {case.tenant.tier} lets an author shift the priority"
            f" by {allowed.min} to {allowed.max}",
            remedy="leave spec.priority out, or ask for a tier with a wider range",
        )


def budget_left(case: Case) -> Iterator[Reason]:
    """Price per hour times the time limit (or one hour) must still fit every budget of the path."""
    yield from _beyond_budgets(case, "exhausted")


def budget_warnings(case: Case) -> Iterator[Reason]:
    """The same of budgets that only warn."""
    yield from _beyond_budgets(case, "warn")


def _beyond_budgets(case: Case, verdict: Verdict) -> Iterator[Reason]:
    if case.profile is None or case.facts.per_gpu_hour is None or not case.replicas_told:
        return
    price = per_hour(case.facts.per_gpu_hour, MilliGpu(case.worker_gpus * case.replicas))
    wanted = hold_amount(price, case.intent.spec.time_limit)
    for envelope in case.path:
        scope = "/".join(
            part for part in (envelope.scope.tenant, envelope.scope.project, envelope.scope.env) if part
        )
        state = case.facts.budgets.get(scope)
        if envelope.budget is None or state is None:
            continue
        if budget_verdict(envelope.budget, state.spent, state.held, wanted) == verdict:
            left = max(0, envelope.budget.amount - state.spent - state.held)
            length = case.intent.spec.time_limit
            yield Reason(
                rule="budget.exhausted",
                field="spec.gpus",
                value=format_money(wanted),
                limit=format_money(left),
                message=f"it may cost {format_money(wanted)} {envelope.budget.currency}"
                f" ({'an hour' if length is None else format_duration(length)} of it);"
                f" {format_money(left)} of {scope}'s budget for the {envelope.budget.period} is left",
                remedy="ask for fewer GPUs or a shorter timeLimit, wait for the next period,"
                " or ask for a larger budget",
            )
