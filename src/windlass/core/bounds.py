"""What one asker, one tenant and one address may ask, and how much a process holds at once: the platform's
settings. docs/guides/operating.md explains them to who sets them."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.core.errors import Invalid
from windlass.core.rates import Rate

_MIB = 1024 * 1024
_MOST_PER_S = 10**9
_BURST_S = 10

PRINCIPAL, TENANT, ADDRESS = Rate(2000, 20_000), Rate(4000, 40_000), Rate(200, 2000)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The defaults let one principal take half of what one process can answer, and a tenant all of it."""

    principal: Rate = PRINCIPAL
    tenant: Rate = TENANT
    address: Rate = ADDRESS
    connections: int = 10_000
    streams: int = 2000
    streams_each: int = 100
    body_bytes: int = 128 * _MIB
    body_bytes_each: int = 32 * _MIB
    head_s: float = 10.0
    stalled_s: float = 30.0
    refusal_s: float = 0.1
    """How long who asked too much waits for that word. Who asks again at once would else cost the others
    a thousand refusals a second."""


def parse_rate(text: str) -> Rate:
    """`RATE` or `RATE:BURST`, both whole units; a burst that is not said is ten seconds of the rate."""
    first, colon, second = text.partition(":")
    digits = (first, second) if colon else (first,)
    if not all(one.isascii() and one.isdigit() and int(one) <= _MOST_PER_S for one in digits):
        raise Invalid(
            f"{text[:50]}: this is not RATE or RATE:BURST", remedy="such as 2000:20000; 0: no limit"
        )
    per_s = int(first)
    burst = int(second) if colon else per_s * _BURST_S
    if per_s and not burst:
        raise Invalid(
            f"{text[:50]}: with a burst of 0 nothing would pass", remedy="give a burst of at least 1"
        )
    return Rate(per_s, burst)
