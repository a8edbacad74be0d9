"""How much of the GPU time goes through component types, and how much through the escape hatch.

`raw` is for what no type can express. Much of it is a sign that a type is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.core.compiler.compile import RAW
from windlass.core.units import GpuUs, round_half_even

UNKNOWN = ""
"""The type of time that was held before types were kept with it. It counts for neither side."""


@dataclass(frozen=True, slots=True)
class Held:
    """GPU time of one tenant's components of one type, all versions together."""

    tenant: str
    type: str
    gpu_us: GpuUs


@dataclass(frozen=True, slots=True)
class Coverage:
    through_types: GpuUs
    raw: GpuUs
    unknown: GpuUs

    @property
    def percent(self) -> str | None:
        """Of the time whose type is known, in hundredths; None while there is none."""
        known = self.through_types + self.raw
        if not known:
            return None
        hundredths = round_half_even(self.through_types * 10_000, known)
        return f"{hundredths // 100}.{hundredths % 100:02d}"


def bare(ref: str) -> str:
    """`raw@1.0.0` -> `raw`."""
    return ref.partition("@")[0]


def together(rows: Iterable[Held]) -> tuple[Held, ...]:
    """The versions of a type summed up, in the order of tenants and types."""
    sums: dict[tuple[str, str], int] = {}
    for row in rows:
        key = row.tenant, bare(row.type)
        sums[key] = sums.get(key, 0) + row.gpu_us
    return tuple(Held(tenant, type, GpuUs(gpu_us)) for (tenant, type), gpu_us in sorted(sums.items()))


def coverage(rows: Iterable[Held]) -> Coverage:
    through = raw = unknown = 0
    for row in rows:
        name = bare(row.type)
        if name == RAW:
            raw += row.gpu_us
        elif name == UNKNOWN:
            unknown += row.gpu_us
        else:
            through += row.gpu_us
    return Coverage(GpuUs(through), GpuUs(raw), GpuUs(unknown))
