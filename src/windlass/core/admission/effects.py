"""What a change of the catalog would do to components that are there, at their next admission.

Nothing happens to them by the change itself: what runs was admitted, and runs on as it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from windlass.core.admission.case import Case, Facts, open_case
from windlass.core.admission.decide import Decided, decide
from windlass.core.admission.traits import with_sharing
from windlass.core.catalog.snapshot import Catalog
from windlass.core.compiler.preview import difference, rendered, targets
from windlass.core.documents.definitions import ComponentType, Policy, Trait
from windlass.core.documents.kinds import Document, Envelope, HardwareProfile, Project, Tenant, Tier
from windlass.core.errors import Reason
from windlass.core.intent import Intent

Effect = Literal["refused", "admitted", "rendered", "scheduled"]


@dataclass(frozen=True, slots=True)
class World:
    """A catalog that is or would be, and the facts as they are under it."""

    catalog: Catalog
    facts: Facts


@dataclass(frozen=True, slots=True)
class Affected:
    """`reasons` are those of a new refusal, or those that would be gone."""

    effect: Effect
    reasons: tuple[Reason, ...] = ()


def effect_of(intent: Intent, before: World, after: World) -> Affected | None:
    """None: its next admission would be as it is now."""
    then, now = (decide(intent, world.catalog, world.facts, None) for world in (before, after))
    if then.work is None or now.work is None:
        return _verdicts(then, now)
    cases = tuple(_case(intent, world) for world in (before, after))
    if any(one != other for one, other in zip(*map(_rendered, cases), strict=True)):
        return Affected("rendered")
    return Affected("scheduled") if then.work.shape != now.work.shape else None


def type_differences(intent: Intent, type: str, world: World) -> tuple[tuple[Reason, ...], str]:
    """What would differ were the intent of another type: why it would be refused then, and a diff of what
    its orchestrators would be told."""
    other = replace(intent, spec=replace(intent.spec, type=type))
    decided = decide(other, world.catalog, world.facts, None)
    if decided.reasons:
        return decided.reasons, ""
    cases = _case(intent, world), _case(other, world)
    if cases[0].type is None:
        return (), ""
    found = []
    for target in targets(cases[1]):
        texts = tuple(rendered(case, target) if target in targets(case) else b"{}" for case in cases)
        names = tuple(f"{intent.path} {target} {_named(case)}" for case in cases)
        found.append(difference(texts[0], texts[1], (names[0], names[1])))
    return (), "\n".join(text for text in found if text)


def _verdicts(then: Decided, now: Decided) -> Affected | None:
    if then.admitted == now.admitted:
        return None
    return Affected("admitted", then.reasons) if now.admitted else Affected("refused", now.reasons)


def _case(intent: Intent, world: World) -> Case:
    return with_sharing(open_case(intent, world.catalog, world.facts, None))


def _rendered(case: Case) -> tuple[tuple[str, bytes], ...]:
    """Padded, so that one that gains an orchestrator differs from the one it was."""
    found = [(target, rendered(case, target)) for target in targets(case)]
    return tuple(found + [("", b"")] * (3 - len(found)))


def _named(case: Case) -> str:
    return case.type.key.name if case.type is not None else case.intent.spec.type


# --- whom a change could concern ----------------------------------------------------------------


class Reach:
    """Whom changed documents could concern: asked of every component before it is judged twice."""

    def __init__(self, changed: Iterable[Document], before: Catalog, after: Catalog) -> None:
        self._everybody = False
        self._types: set[str] = set()
        self._traits: set[str] = set()
        self._profiles: set[str] = set()
        self._tenants: set[str] = set()
        self._projects: set[str] = set()
        self._catalogs = before, after
        for document in changed:
            self._add(document)

    def __bool__(self) -> bool:
        some = self._types, self._traits, self._profiles, self._tenants, self._projects
        return self._everybody or any(some)

    @property
    def tenant(self) -> str | None:
        """The one tenant it is about, if it is about one."""
        wide = self._everybody or self._types or self._traits or self._profiles or self._projects
        return next(iter(self._tenants)) if not wide and len(self._tenants) == 1 else None

    def concerns(self, tenant: str, project: str, spec: Mapping[str, Any]) -> bool:
        if self._everybody or tenant in self._tenants or project in self._projects:
            return True
        if _bare(spec["type"]) in self._types or self._profile(project, spec) in self._profiles:
            return True
        return any(_bare(_trait_name(use)) in self._traits for use in spec.get("traits") or ())

    def _add(self, document: Document) -> None:
        name, tenant = document.metadata.name, document.metadata.tenant
        match document.spec:
            case ComponentType():
                self._types.add(name)
            case Trait():
                self._traits.add(name)
            case HardwareProfile() as profile:
                # A sharing trait may pick it for work that names another of its class.
                self._profiles |= {
                    other
                    for catalog in self._catalogs
                    for other, one in catalog.profiles.items()
                    if one.gpu_class == profile.gpu_class
                }
            case Tenant():
                self._tenants.add(name)
            case Project():
                self._projects.add(name)
            case Envelope() as envelope:
                self._tenants.add(envelope.scope.tenant)
            case Tier():
                self._tenants |= {
                    owner
                    for catalog in self._catalogs
                    for owner, one in catalog.tenants.items()
                    if one.tier == name
                }
            case Policy() if tenant is not None:
                self._tenants.add(tenant)
            case Policy():
                self._everybody = True
            case _:
                pass

    def _profile(self, project: str, spec: Mapping[str, Any]) -> str | None:
        entry = self._catalogs[0].projects.get(project)
        return spec.get("profile") or (entry.spec.default_profile if entry is not None else None)


def _bare(ref: str) -> str:
    return ref.partition("@")[0]


def _trait_name(use: Any) -> str:
    """In a stored intent a trait is its name, or a mapping with one."""
    return str(use if isinstance(use, str) else use["name"])
