"""What a holding costs: exact quantity times price, rounded half-even once per segment.

The total of a segment is always rated from its beginning, never from the last posting: a posting is
the rounded total so far minus what was already posted. However often one posts, the sum is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.core.ledger.prices import PriceTimeline, Segment
from windlass.core.metering import Holding, end_at, quantity
from windlass.core.units import GPU, GPU_US_PER_HOUR, GpuUs, Micros, MilliGpu, Ms, round_half_even


@dataclass(frozen=True, slots=True)
class Charge:
    """One segment of a holding, so far: how much was held, what that costs in all."""

    segment: Segment
    gpu_us: GpuUs
    micros: Micros


def rate(holding: Holding, timeline: PriceTimeline, until: Ms) -> tuple[Charge, ...]:
    """The holding up to `until` or its release, whichever is earlier, one charge per price."""
    segments = timeline.segments(
        holding.gpu_class, holding.tier, holding.currency, holding.since, end_at(holding, until)
    )
    return tuple(_charge(holding, segment) for segment in segments)


def owed(holding: Holding, timeline: PriceTimeline, until: Ms) -> tuple[tuple[Ms, Micros], ...]:
    """The rounded total of each segment, by the instant it begins: its key within the holding."""
    return tuple((charge.segment.since, charge.micros) for charge in rate(holding, timeline, until))


def total(charges: Iterable[Charge]) -> Micros:
    return Micros(sum(charge.micros for charge in charges))


def per_hour(per_gpu_hour: Micros, gpu_milli: MilliGpu) -> Micros:
    """What so many GPUs cost an hour, for plans and budgets; up to the next micro-unit, so that
    what was announced is never less than what is charged."""
    return Micros(-(-per_gpu_hour * gpu_milli // GPU))


def _charge(holding: Holding, segment: Segment) -> Charge:
    amount = quantity(holding.gpu_milli, Ms(segment.until - segment.since))
    micros = round_half_even(amount * (segment.per_gpu_hour or 0), GPU_US_PER_HOUR)
    return Charge(segment, amount, Micros(micros))
