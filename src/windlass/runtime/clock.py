"""Time, as something handed in. Only this file reads the machine's clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from windlass.core.units import Ms

Clock = Callable[[], Ms]


def system_clock() -> Ms:
    """Milliseconds since 1970 UTC."""
    return Ms(time.time_ns() // 1_000_000)
