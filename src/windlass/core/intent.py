"""The intent: what an author asks for, as a frozen value.

`parse` (core/documents) makes one from a document. What an author may not say at all
(platform-owned fields, reserved labels) does not make the document malformed: it is kept here in
`overreach` so that admission can refuse it by rule, with a stored decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from windlass.core.documents.scalars import (
    Duration,
    Environment,
    Image,
    Name,
    Natural,
    Text,
    VariableName,
    VersionedName,
    Workers,
)
from windlass.core.units import MilliGpu

RESERVED_LABEL_PREFIXES = (
    "windlass.dev/",
    "kueue.x-k8s.io/",
    "cost/",
    "kubernetes.io/",
    "k8s.io/",
)
"""A label key is reserved when its prefix is one of these or a subdomain of one."""

PLATFORM_OWNED_FIELDS = (
    "namespace",
    "tolerations",
    "priorityClassName",
    "hostNetwork",
    "labels",
    "annotations",
    "nodeSelector",
    "affinity",
    "schedulerName",
    "serviceAccountName",
    "securityContext",
    "volumes",
    "queue",
)


@dataclass(frozen=True, slots=True)
class TraitUse:
    """One trait an author puts on a component; on the wire its bare name when that is all."""

    SHORTHAND: ClassVar[str] = "name"

    name: VersionedName
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacementWish:
    sites: tuple[Name, ...] = ()
    avoid: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class IntentSpec:
    """`spec` of a Component, as contract §4 writes it. `gpus` are units of the profile, per worker."""

    type: VersionedName
    env: Environment
    image: Image
    gpus: MilliGpu
    workers: Workers = 1
    profile: Name | None = None
    command: tuple[Text, ...] = ()
    variables: Mapping[VariableName, Text] = field(default_factory=dict, repr=False)  # may hold a secret
    traits: tuple[TraitUse, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    preemptible: bool | None = None
    placement: PlacementWish = PlacementWish()
    time_limit: Duration | None = None
    retries: Natural = 0


@dataclass(frozen=True, slots=True)
class Overreach:
    """A field or label that belongs to the platform, found in what an author sent."""

    rule: str  # field.platform-owned or label.reserved
    field: str
    value: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """`tenant` only when the author wrote it: admission compares it with the project's. `version` is that
    of the component as its author got it, if the document still carries it."""

    name: str
    project: str
    spec: IntentSpec
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    overreach: tuple[Overreach, ...] = ()
    tenant: str | None = None
    version: int | None = None

    @property
    def path(self) -> str:
        """`project/env/name`: the identity of the component."""
        return f"{self.project}/{self.spec.env}/{self.name}"
