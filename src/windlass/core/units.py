"""Amounts that must never drift: GPUs in thousandths, money in micro-units, time in milliseconds.

Everything here is an integer. Text comes in and goes out exactly; a value that does not fit
(four decimals of a GPU, seven of a dollar) is refused, never rounded. The one place that rounds
is rating (`core/ledger`), and it names its rounding.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NewType

MilliGpu = NewType("MilliGpu", int)
"""Thousandths of one GPU."""

Micros = NewType("Micros", int)
"""Millionths of a unit of some currency."""

Ms = NewType("Ms", int)
"""Milliseconds: since 1970 UTC for an instant, else a length of time."""

GpuUs = NewType("GpuUs", int)
"""GPU-microseconds: thousandths of a GPU times milliseconds, exact also for shares of a GPU."""

GPU = 1000
MICROS = 1_000_000
HOUR_MS = 3_600_000
GPU_US_PER_HOUR = GPU * HOUR_MS

# Far above any real fleet or bill, and each alone fits a 64-bit column. Products of them need not:
# rating multiplies in Python's integers, which have no limit, and stores only rounded results.
MAX_MILLI_GPU = 10**9
MAX_MICROS = 10**18
MAX_DURATION_S = 10 * 366 * 86_400

_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_gpus(value: str | int | Decimal) -> MilliGpu:
    """`4`, `"0.25"` -> thousandths. Raises ValueError with a sentence a person can act on."""
    thousandths = _scaled(value, 3, "a GPU amount")
    if thousandths > MAX_MILLI_GPU:
        raise ValueError(f"a GPU amount is at most {MAX_MILLI_GPU // GPU}")
    return MilliGpu(thousandths)


def format_gpus(amount: int) -> str:
    """`250` -> `"0.25"`, `4000` -> `"4"`."""
    sign = "-" if amount < 0 else ""
    whole, rest = divmod(abs(amount), GPU)
    if not rest:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{rest:03d}".rstrip("0")


def parse_money(value: str | int | Decimal) -> Micros:
    """`"2.49"` -> 2490000 micro-units."""
    micros = _scaled(value, 6, "an amount of money")
    if micros > MAX_MICROS:
        raise ValueError(f"an amount of money is at most {MAX_MICROS // MICROS}")
    return Micros(micros)


def format_money(micros: int, *, decimals: int = 2) -> str:
    """Exact, with at least `decimals` decimals: `19920000` -> `"19.92"`, `1` -> `"0.000001"`."""
    sign = "-" if micros < 0 else ""
    whole, rest = divmod(abs(micros), MICROS)
    fraction = f"{rest:06d}".rstrip("0").ljust(decimals, "0")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def round_half_even(numerator: int, denominator: int) -> int:
    """numerator / denominator to the nearest integer, ties to the even one: banker's rounding."""
    if denominator <= 0:
        raise ValueError("a denominator is above zero")
    quotient, rest = divmod(numerator, denominator)
    twice = 2 * rest
    if twice > denominator or (twice == denominator and quotient % 2):
        quotient += 1
    return quotient


def format_cents(micros: int) -> str:
    """For people: rounded half-even to the cent."""
    return format_money(round_half_even(micros, 10_000) * 10_000)


def parse_duration(text: str) -> Ms:
    """`90s`, `10m`, `4h`, `30d` -> milliseconds."""
    match = _DURATION.fullmatch(text)
    if match is None or match[2] == "ms":
        raise ValueError("a duration is a whole number and a unit, such as 90s, 10m, 4h or 30d")
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds > MAX_DURATION_S:
        raise ValueError("a duration is at most ten years")
    return Ms(seconds * 1000)


def format_duration(length: int) -> str:
    """The shortest exact form: `600000` -> `"10m"`, and `1500` -> `"1500ms"`, which documents do not use."""
    for unit, seconds in (("d", 86_400), ("h", 3600), ("m", 60)):
        if length and length % (seconds * 1000) == 0:
            return f"{length // (seconds * 1000)}{unit}"
    return f"{length}ms" if length % 1000 else f"{length // 1000}s"


def parse_timestamp(text: str) -> Ms:
    """RFC 3339 with an offset -> milliseconds since 1970 UTC. What is finer than that is cut off:
    other programs write microseconds and nanoseconds, and no meaning of ours hangs on them."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a time looks like 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("a time needs an offset, such as the Z in 2026-01-31T12:00:00Z")
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time is in the years 1 to 9999, in UTC") from None
    return Ms((moment - _EPOCH) // timedelta(milliseconds=1))


def format_timestamp(at: int) -> str:
    """Milliseconds since 1970 UTC -> RFC 3339 UTC with milliseconds."""
    second, milliseconds = divmod(at, 1000)
    return f"{_format_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=4096)
def _format_second(second: int) -> str:
    """Kept, because a list repeats the same few instants and formatting one is most of its cost."""
    return (_EPOCH + timedelta(seconds=second)).replace(tzinfo=None).isoformat()


def _scaled(value: str | int | Decimal, decimals: int, what: str) -> int:
    if isinstance(value, bool):
        raise ValueError(f"{what} is a number, not true or false")
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", value):
        raise ValueError(f"{what} is a plain decimal number such as 4 or 0.25")
    try:
        exact = Decimal(value)
    except InvalidOperation:
        raise ValueError(f"{what} is a plain decimal number such as 4 or 0.25") from None
    if not exact.is_finite() or exact < 0 or exact > 10**15:
        raise ValueError(f"{what} is zero or more, and finite")
    # By its digits: Decimal's own arithmetic rounds to the 28 digits of its context without a word.
    _, digits, exponent = exact.as_tuple()
    shift = int(exponent) + decimals
    if shift >= 0:
        return int("".join(map(str, digits))) * 10**shift if any(digits) else 0
    if any(digits[shift:]):
        raise ValueError(f"{what} has at most {decimals} decimals")
    return int("".join(map(str, digits[:shift])) or "0")
