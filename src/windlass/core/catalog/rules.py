"""What one catalog document alone can be wrong about, beyond its shape.

One function per concern, one table of them per kind; types, traits and policies have a file of their own.
What this release does not evaluate (quotas of one site) is refused: a rule that is accepted and then
ignored is worse than none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from windlass.core.catalog.definitions import check_defined
from windlass.core.catalog.snapshot import LOCAL_SITE
from windlass.core.documents.definitions import ComponentType, Policy, Trait
from windlass.core.documents.kinds import (
    Document,
    Envelope,
    HardwareProfile,
    IdentityProvider,
    Price,
    PriceBook,
    Project,
    Site,
    Tier,
)
from windlass.core.documents.problems import Path, Problems, dotted, shown
from windlass.core.identity.addresses import is_issuer
from windlass.core.units import GPU, format_duration, format_gpus

Rule = Callable[[Any, Problems], None]

# Of a GPU with seven compute slices (A100, H100, H200, B200): how many instances of each size fit.
_MIG_UNITS = {1: 7, 2: 3, 3: 2, 4: 1, 7: 1}
# With twice the memory of their slice, or of a GPU with four slices (A30).
_MIG_UNITS_BY_NAME = {
    **dict.fromkeys(("1g.20gb", "1g.24gb", "1g.35gb", "1g.45gb", "1g.6gb"), 4),
    "2g.12gb": 2,
}
_MIG_PROFILE = re.compile(r"([12347])g\.[0-9]{1,4}gb(\+me)?", re.ASCII)


def check_document(document: Document, problems: Problems) -> None:
    for rule in RULES.get(document.kind, ()):
        rule(document.spec, problems)
    if isinstance(document.spec, Site) and document.metadata.name == LOCAL_SITE:
        _is_this_machine(document.spec, problems)
    if isinstance(document.spec, ComponentType | Trait | Policy):
        check_defined(document, document.spec, problems)


# --- tiers, projects, prices ------------------------------------------------------------------


def _range_holds_zero(tier: Tier, problems: Problems) -> None:
    offsets = tier.priority_range
    if not offsets.min <= 0 <= offsets.max:
        problems.add(
            ("spec", "priorityRange"),
            f"the priority range {offsets.min}..{offsets.max} does not hold 0, which is what authors get"
            " when they ask for nothing",
            remedy="make min zero or less, and max zero or more",
            value=f"{offsets.min}..{offsets.max}",
        )


def _has_environments(project: Project, problems: Problems) -> None:
    if not project.environments:
        problems.add(
            ("spec", "environments"),
            "a project has at least one environment",
            remedy="add one, such as environments: [prod]",
        )


def _names_once(project: Project, problems: Problems) -> None:
    for name in ("environments", "traits", "types"):
        _once(((item, ("spec", name, at)) for at, item in enumerate(getattr(project, name))), problems)


def _prices_once(book: PriceBook, problems: Problems) -> None:
    if not book.prices:
        problems.add(("spec", "prices"), "a price book has at least one price", remedy="add a price")
    _once(((_priced(price), ("spec", "prices", at)) for at, price in enumerate(book.prices)), problems)


def _priced(price: Price) -> str:
    return f"{price.profile_class} for {f'tier {price.tier}' if price.tier else 'every tier'}"


def _once(items: Iterable[tuple[str, Path]], problems: Problems) -> None:
    counted: Counter[str] = Counter()
    for name, path in items:
        counted[name] += 1
        if counted[name] == 2:
            problems.add(path, f"{dotted(path)} repeats {name}", remedy="keep one of them", value=name)


# --- envelopes --------------------------------------------------------------------------------


def _classes_once(envelope: Envelope, problems: Problems) -> None:
    _once(((quota.profile_class, ("spec", "gpus", at)) for at, quota in enumerate(envelope.gpus)), problems)


def _guaranteed_below_max(envelope: Envelope, problems: Problems) -> None:
    for at, quota in enumerate(envelope.gpus):
        if quota.max is not None and quota.guaranteed > quota.max:
            problems.add(
                ("spec", "gpus", at, "guaranteed"),
                f"{quota.profile_class}: guaranteed {format_gpus(quota.guaranteed)} is more than"
                f" max {format_gpus(quota.max)}",
                remedy="raise max, or guarantee less",
                value=format_gpus(quota.guaranteed),
                limit=format_gpus(quota.max),
            )


def _no_site_quota(envelope: Envelope, problems: Problems) -> None:
    for at, quota in enumerate(envelope.gpus):
        if quota.site is not None:
            problems.add(
                ("spec", "gpus", at, "site"),
                "a quota of one site is not supported by this release",
                remedy="leave site out: the quota then holds for all sites together",
                value=quota.site,
            )


def _bursts(envelope: Envelope, problems: Problems) -> None:
    classes = {quota.profile_class for quota in envelope.gpus}
    for at, burst in enumerate(envelope.burst):
        path: Path = ("spec", "burst", at)
        if burst.since >= burst.until:
            problems.add((*path, "until"), "the burst ends before it begins", remedy="set until after from")
        if burst.profile_class not in classes:
            problems.add(
                (*path, "profileClass"),
                f"there is no {burst.profile_class} in spec.gpus whose max the burst could raise",
                remedy=f"add {burst.profile_class} to spec.gpus",
                value=burst.profile_class,
                limit=", ".join(sorted(classes)),
            )


# --- hardware ---------------------------------------------------------------------------------


def _shares_fit(profile: HardwareProfile, problems: Problems) -> None:
    if profile.sharing != "mig" and profile.mig_profile is not None:
        problems.add(
            ("spec", "migProfile"),
            f"migProfile is for sharing: mig, and this profile is {profile.sharing}",
            remedy="leave migProfile out, or write sharing: mig",
            value=shown(profile.mig_profile),
        )
    if profile.sharing == "dedicated" and profile.share != GPU:
        problems.add(
            ("spec", "share"),
            f"a dedicated GPU is all of it, so share is {GPU} and not {profile.share}",
            remedy="leave share out, or write sharing: mig or time-slice",
            value=str(profile.share),
            limit=str(GPU),
        )
    if profile.sharing == "mig":
        _mig_fits(profile, problems)


def _mig_fits(profile: HardwareProfile, problems: Problems) -> None:
    found = _MIG_PROFILE.fullmatch(profile.mig_profile or "")
    if found is None:
        said = f"{shown(profile.mig_profile)} is not one" if profile.mig_profile else "it is missing"
        problems.add(
            ("spec", "migProfile"),
            f"sharing: mig needs a migProfile; {said}",
            remedy="write the name NVIDIA gives it, such as 1g.10gb",
            value=shown(profile.mig_profile or ""),
        )
        return
    units = _MIG_UNITS_BY_NAME.get(found[0], _MIG_UNITS[int(found[1])])
    if units * profile.share > GPU:
        problems.add(
            ("spec", "share"),
            f"{units} units of {profile.mig_profile} fit one GPU; at {profile.share} thousandths each they"
            f" would use {units * profile.share} of {GPU}",
            remedy=f"write share: {GPU // units}, or less",
            value=str(profile.share),
            limit=str(GPU // units),
        )


def _is_this_machine(site: Site, problems: Problems) -> None:
    """The site every installation has runs processes. To promise more of it would be a lie."""
    said = {"orchestrator": site.orchestrator, "queueing": site.queueing, "isolation": site.isolation}
    for name, value in said.items():
        is_so = _LOCAL[name]
        if value != is_so:
            problems.add(
                ("spec", name),
                f"the site {LOCAL_SITE} is the machine the platform runs on; its {name} is {is_so}",
                remedy=f"write {name}: {is_so}, or give the site another name",
                value=value,
                limit=is_so,
            )


_LOCAL = {"orchestrator": "local", "queueing": "platform", "isolation": "namespace"}


# --- identity ---------------------------------------------------------------------------------

_MAX_SKEW_MS = 300_000
_PLATFORM_ROLES = ("platform-admin", "platform-viewer")


def _issuer_reachable(provider: IdentityProvider, problems: Problems) -> None:
    if not is_issuer(provider.issuer):
        problems.add(
            ("spec", "issuer"),
            "spec.issuer is not an address that keys can safely be fetched from",
            remedy="write it exactly as the provider's tokens have it in iss: https://…, without ? and #"
            " (http:// only for this machine)",
            value=shown(provider.issuer),
        )


def _said(provider: IdentityProvider, problems: Problems) -> None:
    texts = {
        "audience": provider.audience,
        "clientId": provider.client_id,
        "groupsClaim": provider.groups_claim,
        "nameClaim": provider.name_claim,
    }
    for name, text in texts.items():
        if not text.strip():
            problems.add(("spec", name), f"spec.{name} is empty", remedy=f"write a {name}, or leave it out")
    for name in ("scopes", "algorithms"):
        _once(((item, ("spec", name, at)) for at, item in enumerate(getattr(provider, name))), problems)
    for at, scope in enumerate(provider.scopes):
        if not re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]+", scope):
            problems.add(
                ("spec", "scopes", at),
                f"{shown(scope) or 'nothing'} is not a scope: it is one word of ASCII",
                remedy="write one scope per entry",
                value=shown(scope),
            )
    if not provider.algorithms:
        problems.add(
            ("spec", "algorithms"), "no algorithm is allowed", remedy="leave algorithms out, or add one"
        )
    if provider.skew > _MAX_SKEW_MS:
        problems.add(
            ("spec", "skew"),
            "clocks that differ by more than 5m are wrong, not skewed",
            remedy="write at most 5m, and set the clocks",
            value=format_duration(provider.skew),
            limit="5m",
        )


def _mappings_hold(provider: IdentityProvider, problems: Problems) -> None:
    for at, mapping in enumerate(provider.mappings):
        path: Path = ("spec", "mappings", at)
        if not mapping.group.strip():
            problems.add((*path, "group"), "the group is empty", remedy="write the group as tokens have it")
        platform = mapping.role in _PLATFORM_ROLES
        if platform and mapping.tenant is not None:
            problems.add(
                (*path, "tenant"),
                f"{mapping.role} is a role on the whole platform and takes no tenant",
                remedy="leave tenant out, or map a role of a tenant",
                value=mapping.tenant,
            )
        if not platform and mapping.tenant is None:
            problems.add(
                (*path, "tenant"),
                f"{mapping.role} is a role in a tenant, and none is named",
                remedy="add tenant",
            )
    said = ((f"{one.group} as {one.role} of {one.tenant}", at) for at, one in enumerate(provider.mappings))
    _once(((text, ("spec", "mappings", at)) for text, at in said), problems)


RULES: Mapping[str, tuple[Rule, ...]] = {
    "Tier": (_range_holds_zero,),
    "Project": (_has_environments, _names_once),
    "Envelope": (_classes_once, _guaranteed_below_max, _no_site_quota, _bursts),
    "HardwareProfile": (_shares_fit,),
    "PriceBook": (_prices_once,),
    "IdentityProvider": (_issuer_reachable, _said, _mappings_hold),
}
