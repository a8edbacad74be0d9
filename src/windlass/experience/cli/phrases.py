"""Times and amounts as a person says them. Exact values are in the JSON."""

from __future__ import annotations

from windlass.core.units import parse_timestamp

_UNITS = (("d", 86_400), ("h", 3600), ("m", 60))


def length(seconds: float) -> str:
    """`45 s`, `12 m`, `3 h 5 m`, `2 d 4 h`: at most two units."""
    whole = max(0, round(seconds))
    if whole >= 60:  # seconds no longer matter, but 59 m 59 s is an hour to a person
        whole = round(whole / 60) * 60
    for index, (unit, size) in enumerate(_UNITS):
        if whole < size:
            continue
        count, rest = divmod(whole, size)
        if index + 1 < len(_UNITS):
            smaller, smaller_size = _UNITS[index + 1]
            if rest // smaller_size and count < 10:
                return f"{count} {unit} {rest // smaller_size} {smaller}"
        return f"{count} {unit}"
    return f"{whole} s"


def when(timestamp: str | None, now_ms: int) -> str:
    """`in about 12 m`, `3 h ago`, `now`; empty for no time."""
    if not timestamp:
        return ""
    seconds = (parse_timestamp(timestamp) - now_ms) / 1000
    if abs(seconds) < 1:
        return "now"
    return f"in about {length(seconds)}" if seconds > 0 else f"{length(-seconds)} ago"


def between(low: str, high: str, now_ms: int) -> str:
    """`29 m to 2 h from now`."""
    first, last = ((parse_timestamp(one) - now_ms) / 1000 for one in (low, high))
    return f"{length(first)} to {length(last)} from now"


def age(timestamp: str | None, now_ms: int) -> str:
    """`12 m`; empty for no time."""
    return length((now_ms - parse_timestamp(timestamp)) / 1000) if timestamp else ""


def span(since: str, until: str | None, now_ms: int) -> str:
    """How long something took, or takes until now."""
    end = parse_timestamp(until) if until else now_ms
    return length((end - parse_timestamp(since)) / 1000)


def clock(timestamp: str | None) -> str:
    """`2026-01-31 12:00:00`, in UTC and without the milliseconds."""
    return timestamp[:19].replace("T", " ") if timestamp else ""


def price(per_hour: str | None, currency: str) -> str:
    return f"{per_hour} {currency}/h" if per_hour is not None else "no price in force"


def ranges(numbers: list[int]) -> str:
    """`[0, 1, 2, 5]` -> `0-2,5`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
