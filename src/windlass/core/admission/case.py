"""A case: one intent, with everything in the catalog it refers to looked up once.

Rules read the case; they look nothing up themselves, so that a name is resolved in one place and
two rules can never disagree about what it meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from windlass.core.catalog.snapshot import Catalog, ProjectEntry
from windlass.core.documents.definitions import ComponentType, Trait
from windlass.core.documents.kinds import Document, Envelope, HardwareProfile, Tenant, Tier
from windlass.core.documents.scalars import MAX_WORKERS, Action
from windlass.core.intent import Intent, TraitUse
from windlass.core.units import GPU, Micros, MilliGpu, Ms

REPLICAS = ("minReplicas", "maxReplicas")
"""The parameters by which a service says how many replicas it has, whatever its type."""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """What a budget on the path has spent in its period and holds for admitted work."""

    scope: str
    spent: Micros
    held: Micros


@dataclass(frozen=True, slots=True)
class NodeSize:
    """One size that nodes of a class come in, ready or not. None: not counted."""

    gpus: int
    cpu_milli: int | None = None
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules need from records; loaded once, before they run."""

    now: Ms
    node_sizes: Mapping[str, tuple[NodeSize, ...]] = field(default_factory=dict)  # by class
    budgets: Mapping[str, BudgetState] = field(default_factory=dict)
    suspended: frozenset[str] = frozenset()
    per_gpu_hour: Micros | None = None


@dataclass(frozen=True, slots=True)
class Case:
    intent: Intent
    catalog: Catalog
    facts: Facts
    project: ProjectEntry | None
    tenant: Tenant | None
    tier: Tier | None
    type: Document | None
    traits: tuple[tuple[TraitUse, Document | None], ...]
    profile_name: str | None
    profile: HardwareProfile | None
    path: tuple[Envelope, ...]  # the envelopes above this cell, outermost first

    @property
    def type_spec(self) -> ComponentType:
        assert self.type is not None and isinstance(self.type.spec, ComponentType)
        return self.type.spec

    @property
    def is_service(self) -> bool:
        return self.type is not None and self.type_spec.workload == "service"

    @property
    def action(self) -> Action:
        """What is asked for. A service that serves a model is a deployment of one."""
        if not self.is_service:
            return "submit-job"
        declared = self.type_spec.parameters.get("properties")
        models = isinstance(declared, Mapping) and "model" in declared
        return "deploy-model" if models else "create-service"

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.intent.spec.parameters

    def parameter(self, name: str) -> Any:
        """As it is in force: what was given, else the default that its type declares, else None."""
        if name in self.parameters:
            return self.parameters[name]
        declared = self.type_spec.parameters.get("properties")
        body = declared.get(name) if isinstance(declared, Mapping) else None
        return body.get("default") if isinstance(body, Mapping) else None

    @property
    def replicas(self) -> int:
        """How many workers it starts with."""
        if not self.is_service:
            return self.intent.spec.workers
        return self.intent.spec.workers * _whole(self.parameter("minReplicas"), 1)

    @property
    def most_replicas(self) -> int:
        """How many workers it may grow to: what the entitlement is judged by."""
        if not self.is_service:
            return self.intent.spec.workers
        least = _whole(self.parameter("minReplicas"), 1)
        return self.intent.spec.workers * _whole(self.parameter("maxReplicas"), least)

    @property
    def replicas_told(self) -> bool:
        """Whether the parameters tell how many workers there will be; wrong ones are another rule's."""
        if not self.is_service:
            return True
        stated = (self.parameter(name) for name in REPLICAS)
        return all(value is None or 1 <= _whole(value, 0) <= MAX_WORKERS for value in stated)

    @property
    def worker_gpus(self) -> MilliGpu:
        """Thousandths of a GPU of the class that one worker holds."""
        assert self.profile is not None
        return MilliGpu(self.intent.spec.gpus * self.profile.share // GPU)


def open_case(intent: Intent, catalog: Catalog, facts: Facts, tenant: str | None) -> Case:
    """Resolve every name. With a `tenant`, other tenants' projects are not there."""
    entry = catalog.projects.get(intent.project)
    if entry is not None and tenant is not None and entry.tenant != tenant:
        entry = None
    owner = catalog.tenants.get(entry.tenant) if entry else None
    wanted = intent.spec.profile or (entry.spec.default_profile if entry else None)
    path = catalog.path(entry.tenant, entry.name, intent.spec.env) if entry else ()
    return Case(
        intent=intent,
        catalog=catalog,
        facts=facts,
        project=entry,
        tenant=owner,
        tier=catalog.tiers.get(owner.tier) if owner else None,
        type=catalog.component_type(intent.spec.type),
        traits=tuple((use, catalog.trait(use.name)) for use in intent.spec.traits),
        profile_name=wanted,
        profile=catalog.profiles.get(wanted) if wanted else None,
        path=tuple(envelope for envelope in path if envelope is not None),
    )


def trait_spec(document: Document) -> Trait:
    assert isinstance(document.spec, Trait)
    return document.spec


def _whole(value: object, default: int) -> int:
    """JSON Schema takes 4.0 for an integer, and so do we."""
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
