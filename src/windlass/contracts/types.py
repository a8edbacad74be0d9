"""What the API says of component types: whom a change would affect, what would differ under another type, and
what moved to it. Part of `api`."""

from __future__ import annotations

from typing import Literal

from windlass.contracts.wire import Wire


class Reason(Wire, frozen=True, kw_only=True, omit_defaults=True):
    rule: str
    message: str
    remedy: str = ""
    field: str = ""
    value: str = ""
    limit: str = ""
    line: int | None = None


class AffectedComponent(Wire, frozen=True, kw_only=True):
    """What its next admission would be: `refused` with the reasons, `admitted` where it is refused now,
    `rendered` (its orchestrator would be told something else) or `scheduled` otherwise than now."""

    component: str
    tenant: str
    phase: str
    effect: Literal["refused", "admitted", "rendered", "scheduled"]
    reasons: list[Reason] = []


class Affected(Wire, frozen=True, kw_only=True):
    """Of the components you may see that the change concerns, those it would affect, live ones first. Nothing
    that runs is touched. `items` are the first 100 of `total`; `judged` of `concerned` were looked at."""

    items: list[AffectedComponent]
    total: int
    judged: int
    concerned: int


class TypeDifference(Wire, frozen=True, kw_only=True):
    """One live component, were it of the other type: a unified diff of what its orchestrators would be told
    (empty: the same), or why it would be refused."""

    component: str
    tenant: str
    phase: str
    diff: str = ""
    reasons: list[Reason] = []


class TypeDiff(Wire, frozen=True, kw_only=True):
    """`items` are the first 100 of `total` live components."""

    type: str
    other: str
    items: list[TypeDifference]
    total: int


class Migrated(Wire, frozen=True, kw_only=True):
    """`moved`: its stored intent names the new type, and its next run is of it. `alive`: left as it is until
    its run has ended. `refused`: left as it is, for these reasons."""

    component: str
    tenant: str
    outcome: Literal["moved", "alive", "refused"]
    message: str = ""
    remedy: str = ""
    decision: str | None = None
    reasons: list[Reason] = []


class Migration(Wire, frozen=True, kw_only=True):
    """With a `cursor` there are others behind these: ask again from there."""

    type: str
    other: str
    items: list[Migrated]
    dry_run: bool = False
    cursor: str | None = None


class CoverageLine(Wire, frozen=True, kw_only=True):
    """`type` without a version; None: held before types were kept with GPU time."""

    tenant: str
    type: str | None
    gpu_hours: str


class Coverage(Wire, frozen=True, kw_only=True):
    """GPU time of a window through component types and through `raw`. `percent` is what went through types,
    of the time whose type is known; None while there is none."""

    window: str
    since: str
    at: str
    percent: str | None
    types_gpu_hours: str
    raw_gpu_hours: str
    unknown_gpu_hours: str
    lines: list[CoverageLine]
