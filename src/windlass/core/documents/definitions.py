"""What platform engineers define as documents: component types, traits and policies.

What their expressions may name and what their templates may hold is core/compiler; here is only the shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from windlass.core.documents.scalars import (
    Action,
    Instant,
    JsonObject,
    Name,
    Target,
    Text,
    Version,
    VersionedName,
    Workload,
)
from windlass.core.units import Ms


@dataclass(frozen=True, slots=True)
class Deprecation:
    since: Instant
    until: Instant
    replaced_by: VersionedName | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """A rule in CEL. Where `when` is true (always, if left out), `require` must be; an expression that
    cannot be evaluated counts as not fulfilled."""

    name: Name
    require: Text
    when: Text = ""
    message: Text = ""
    remedy: Text = ""


@dataclass(frozen=True, slots=True)
class Example:
    """What `tests` of a document consist of. `spec`, `metadata`, `tenant` and `profile` say what differs from
    an ordinary intent, `now` when it is submitted; `rule` names the requirement that must refuse it; `holds`
    are expressions over `rendered`, what the template or patch of `target` gives."""

    name: str
    expect: Literal["admitted", "rejected"] = "admitted"
    spec: JsonObject = field(default_factory=dict)
    metadata: JsonObject = field(default_factory=dict)
    tenant: JsonObject = field(default_factory=dict)
    profile: JsonObject = field(default_factory=dict)
    action: str | None = None
    rule: Name | None = None
    target: Target | None = None
    holds: tuple[Text, ...] = ()
    now: Instant = Ms(0)


@dataclass(frozen=True, slots=True)
class ByTarget:
    """For each orchestrator, structured data whose values may be expressions: `"${parameters.port}"`."""

    kubernetes: JsonObject | None = None
    slurm: JsonObject | None = None
    local: JsonObject | None = None

    def of(self, target: Target) -> JsonObject | None:
        """As it is written for the orchestrator; None: nothing is."""
        match target:
            case "kubernetes":
                return self.kubernetes
            case "slurm":
                return self.slurm
            case "local":
                return self.local


@dataclass(frozen=True, slots=True)
class ComponentType:
    """What can be asked for. It runs where it has a template for the orchestrator; without any template it is
    the author's command, on a local site."""

    version: Version
    workload: Workload
    parameters: JsonObject = field(default_factory=dict)
    rules: tuple[Requirement, ...] = ()
    templates: ByTarget = ByTarget()
    tests: tuple[Example, ...] = ()
    deprecated: Deprecation | None = None


@dataclass(frozen=True, slots=True)
class Trait:
    """What can be put on a component. `constraints` say what it means to the scheduler; `targets` on which
    orchestrators it can be had: where none is named on those that it has patches for, without any on all;
    `repeats` that it can be there several times, with other parameters."""

    version: Version
    parameters: JsonObject = field(default_factory=dict)
    applies_to: tuple[VersionedName, ...] = ()
    conflicts_with: tuple[Name, ...] = ()
    repeats: bool = False
    targets: tuple[Target, ...] = ()
    rules: tuple[Requirement, ...] = ()
    constraints: JsonObject = field(default_factory=dict)
    patches: ByTarget = ByTarget()
    tests: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyScope:
    """Which requests a policy is about; nothing named: all of them."""

    actions: tuple[Action, ...] = ()
    types: tuple[VersionedName, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """Requirements on every request. A policy can refuse and never permit, so a tenant's own can only
    narrow what the platform allows."""

    rules: tuple[Requirement, ...]
    applies_to: PolicyScope = PolicyScope()
    tests: tuple[Example, ...] = ()
