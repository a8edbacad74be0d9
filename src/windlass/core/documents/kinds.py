"""The kinds of catalog documents, as frozen values.

A class here *is* the shape of its document: `shape.py` reads and writes any of them by their
annotations, refuses what is not declared, and makes the JSON Schema of the reference and of
OpenAPI from them. Field names are snake_case here and camelCase on the wire.

Meaning beyond the shape (references, sums over the quota tree) is checked for a whole catalog at
once in `core/catalog`, because a document alone cannot be wrong about others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from windlass.core.documents.definitions import ComponentType, Policy, Trait
from windlass.core.documents.scalars import (
    Currency,
    Duration,
    Environment,
    Fraction,
    Instant,
    LabelKey,
    LabelValue,
    Name,
    Natural,
    Percent,
    Positive,
    Share,
    Sharing,
    Target,
    Text,
    VersionedName,
    wire,
)
from windlass.core.units import GPU, Micros, MilliGpu, Ms

API_VERSION = "windlass.dev/v1"


@dataclass(frozen=True, slots=True)
class Metadata:
    """What every document says of itself. `version` is the document's own, for If-Match."""

    name: Name
    tenant: Name | None = None
    project: Name | None = None
    labels: Mapping[LabelKey, LabelValue] = field(default_factory=dict)
    annotations: Mapping[LabelKey, Text] = field(default_factory=dict)
    version: Natural | None = None


# --- Tier -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PriorityRange:
    """Offsets an author may ask for."""

    min: int = 0
    max: int = 0


@dataclass(frozen=True, slots=True)
class Objectives:
    admit_within: Duration | None = None
    availability: Fraction | None = None
    p95_latency_ms: Positive | None = field(default=None, metadata=wire("p95LatencyMs"))
    min_tokens_per_second: Positive | None = None


@dataclass(frozen=True, slots=True)
class Credit:
    below: Fraction
    percent: Percent


@dataclass(frozen=True, slots=True)
class Tier:
    priority: int
    preempts: bool
    preemptible: bool
    priority_range: PriorityRange = PriorityRange()
    min_runtime: Duration = Ms(0)
    objectives: Objectives = Objectives()
    credits: tuple[Credit, ...] = ()
    degradation_order: Natural = 0


# --- Tenant, Project, Envelope ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tenant:
    tier: Name
    display_name: str = ""
    contacts: tuple[str, ...] = ()
    sites: tuple[Name, ...] = ()
    currency: Currency = "USD"


@dataclass(frozen=True, slots=True)
class Project:
    """`traits`, `volumes` and `secrets` are what its components may use; `types` too, where any is named."""

    environments: tuple[Environment, ...]
    traits: tuple[VersionedName, ...] = ()
    types: tuple[VersionedName, ...] = ()
    default_profile: Name | None = None
    volumes: tuple[Name, ...] = ()
    secrets: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvelopeScope:
    tenant: Name
    project: Name | None = None
    env: Environment | None = None


@dataclass(frozen=True, slots=True)
class GpuQuota:
    """`None` for max: no ceiling of its own. `None` for lend: all that is unused."""

    profile_class: Name
    guaranteed: MilliGpu = MilliGpu(0)
    max: MilliGpu | None = None
    lend: MilliGpu | None = None
    site: Name | None = None


@dataclass(frozen=True, slots=True)
class Burst:
    profile_class: Name
    extra: MilliGpu
    since: Instant = field(metadata=wire("from"))
    until: Instant
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    amount: Micros
    currency: Currency
    period: Literal["day", "month", "quarter", "year"]
    on_exhausted: Literal["stop-admission", "warn"] = "stop-admission"


@dataclass(frozen=True, slots=True)
class Envelope:
    scope: EnvelopeScope
    gpus: tuple[GpuQuota, ...] = ()
    burst: tuple[Burst, ...] = ()
    weight: Positive = 1
    sharing: tuple[Sharing, ...] | None = None
    budget: Budget | None = None


# --- Hardware and prices ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PerGpu:
    cpu: Natural = 0
    memory_gib: Natural = 0


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    gpu_class: Name = field(metadata=wire("class"))
    gpu_model: str
    memory_gib: Positive
    sharing: Sharing = "dedicated"
    share: Share = GPU
    mig_profile: str | None = None
    per_gpu: PerGpu = PerGpu()
    max_per_worker: Positive = 8


@dataclass(frozen=True, slots=True)
class Price:
    profile_class: Name
    per_gpu_hour: Micros
    tier: Name | None = None


@dataclass(frozen=True, slots=True)
class PriceBook:
    currency: Currency
    effective_from: Instant
    prices: tuple[Price, ...]


# --- Sites ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Site:
    orchestrator: Target
    region: str = ""
    queueing: Literal["platform", "site"] = "platform"
    isolation: Literal["namespace", "dedicated-nodes", "sandboxed"] = "namespace"
    tenants: tuple[Name, ...] = ()
    containers: Literal["auto", "never", "podman", "docker"] = "never"


# --- Identity ---------------------------------------------------------------------------------

Algorithm = Literal[
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
]
"""Of signatures whose verifying key is public. One that is shared cannot be among them."""

MappedRole = Literal["platform-admin", "platform-viewer", "tenant-admin", "developer", "viewer"]


@dataclass(frozen=True, slots=True)
class GroupMapping:
    """Whoever is in the group has the role: in the tenant, or, with a platform role, everywhere."""

    group: str
    role: MappedRole
    tenant: Name | None = None


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """Whose tokens are accepted, and what their bearers may do. `audience` is what a token must be for,
    `clientId` and `scopes` are what `windlass login` asks with; `audienceParameter` is how it names the
    audience to a provider that wants to be told. Dots in `groupsClaim` and `nameClaim` lead into objects."""

    issuer: str
    audience: str
    client_id: str
    scopes: tuple[str, ...] = ("openid", "offline_access")
    audience_parameter: Literal["resource", "audience"] | None = None
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256")
    groups_claim: str = "groups"
    name_claim: str = "sub"
    skew: Duration = Ms(30_000)
    mappings: tuple[GroupMapping, ...] = ()


Spec = (
    Tier
    | Tenant
    | Project
    | Envelope
    | HardwareProfile
    | PriceBook
    | ComponentType
    | Trait
    | Policy
    | Site
    | IdentityProvider
)


@dataclass(frozen=True, slots=True)
class Document:
    """A catalog document: one kind, its metadata, its spec."""

    kind: str
    metadata: Metadata
    spec: Spec

    @property
    def key(self) -> DocumentKey:
        """Versions of one type or trait live side by side, so theirs is `name@version`."""
        name = self.metadata.name
        if isinstance(self.spec, (ComponentType, Trait)):
            name = f"{name}@{self.spec.version}"
        return DocumentKey(self.kind, self.metadata.tenant or "", name)


@dataclass(frozen=True, slots=True, order=True)
class DocumentKey:
    """Identity within the catalog. `tenant` is empty for platform documents."""

    kind: str
    tenant: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" (tenant {self.tenant})" if self.tenant else "")


@dataclass(frozen=True, slots=True)
class Kind:
    """What the platform knows of a kind besides its shape."""

    name: str
    plural: str
    scope: Literal["platform", "tenant", "either"]
    spec: type[Any]
    short: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("Tier", "tiers", "platform", Tier),
        Kind("Tenant", "tenants", "platform", Tenant),
        Kind("Project", "projects", "tenant", Project),
        Kind("Envelope", "envelopes", "tenant", Envelope, ("env",)),
        Kind(
            "HardwareProfile", "hardwareprofiles", "platform", HardwareProfile, ("profile", "profiles", "hp")
        ),
        Kind("ComponentType", "componenttypes", "platform", ComponentType, ("type", "types")),
        Kind("Trait", "traits", "platform", Trait),
        Kind("Policy", "policies", "either", Policy),
        Kind("PriceBook", "pricebooks", "platform", PriceBook, ("prices",)),
        Kind("Site", "sites", "platform", Site),
        Kind("IdentityProvider", "identityproviders", "platform", IdentityProvider, ("idp", "idps")),
    )
}
