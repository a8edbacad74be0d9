"""What every process of ours does around its work: an event loop, and a tracer where one is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from windlass.runtime.tracing import OFF, Tracer


def run(work: Coroutine[Any, Any, None]) -> None:
    """Until it ends, on the quickest event loop there is."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def tracer_to(otlp: str) -> Tracer:
    """`otlp` is a collector's address; without one nothing is traced and nothing is loaded for it."""
    if not otlp:
        return OFF
    from windlass.runtime.otlp import OtlpTracer

    return OtlpTracer(otlp)
