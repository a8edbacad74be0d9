"""Identifiers. Different things have different types, and each id says what it names.

An id is a prefix and 32 characters that sort by the millisecond they were made in. Time and
chance are arguments, so this module is pure; `runtime/ids.py` supplies both.
"""

from __future__ import annotations

from typing import NewType

DecisionId = NewType("DecisionId", str)
ComponentId = NewType("ComponentId", str)
WorkloadId = NewType("WorkloadId", str)
KeyId = NewType("KeyId", str)
RequestId = NewType("RequestId", str)

_TIME = (1 << 48) - 1
_CHANCE = (1 << 80) - 1


def make_id(prefix: str, at_ms: int, chance: int) -> str:
    """`dec_` + 48 bits of time and 80 of chance, in hexadecimal: sorts by time, and is quick to make."""
    return f"{prefix}_{at_ms & _TIME:012x}{chance & _CHANCE:020x}"
