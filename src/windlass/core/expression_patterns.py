"""How large a regular expression is once it is compiled, told from its text: an upper bound of its steps.

The library compiles a pattern anew each time it meets it, and a text is matched in time that grows with its
length times these steps: a short pattern such as `\\pL{500}` takes fifty milliseconds, a text of 100,000
characters matched against itself a minute.
"""

from __future__ import annotations

import re

MOST_STEPS = 150_000
"""The library compiles no more: a pattern that would come to more is refused by it."""
MOST_REPEATED = 1000
"""Of what stands before a count, nested counts together: more is no pattern to the library."""

_ATOM = re.compile(
    r"(?P<large>\\[pPX](?:\{[^}]*\}|.)?|[^\x00-\x7f])"
    r"|(?P<negated>\[\^\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]|\.|\\[DWSC])"
    r"|(?P<set>\[\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]|\\[dws])"
    r"|(?P<open>\((?:\?P?<[^>]*>|\?[A-Za-z-]*:|\?[A-Za-z-]*(?=\)))?)"
    r"|(?P<close>\))"
    r"|(?P<count>\{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\}\??)"
    r"|(?P<one>\\Q.*?(?:\\E|$)|\\.|.)",
    re.DOTALL,
)
_LARGE, _NEGATED = 600, 16
"""Steps of a class of Unicode, and of what takes every character but a few: UTF-8 in ranges of bytes."""


def steps_of(pattern: str) -> int:
    """At most so many. A count repeats what stands before it: a character, a class or a group."""
    sums, last = [0], [0]
    folded = 2 if "(?" in pattern else 1  # a flag may make it look for both cases
    for found in _ATOM.finditer(pattern):
        match found.lastgroup:
            case "open":
                sums.append(2)
                last.append(0)
                continue
            case "close" if len(sums) > 1:
                last.pop()
                size = sums.pop()
            case "count":
                times = max(int(found["least"]), int(found["most"] or 0))
                size = last[-1] * (min(times, MOST_REPEATED) + 1)
            case _:
                size = _size(found)
        last[-1] = size
        sums[-1] += size
        if sums[-1] >= MOST_STEPS:
            return MOST_STEPS
    return min(sum(sums) * folded + 2, MOST_STEPS)


def _size(found: re.Match[str]) -> int:
    text = found[0]
    match found.lastgroup:
        case "large":
            return _LARGE
        case "negated":
            return _NEGATED + (len(text) if text.isascii() else _LARGE * len(text))
        case "set":
            large = not text.isascii() or "\\p" in text.lower()
            return _LARGE * len(text) if large else len(text)
    return len(text)
