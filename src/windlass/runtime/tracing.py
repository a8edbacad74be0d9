"""Traces: one submit is one trace, from the request to the last posting, whichever process takes a hop.

The port, and what is off by default: `OFF` records nothing and costs a test of one attribute. The one that
exports is `runtime/otlp.py`; it is imported only where it is switched on.

A hop may happen minutes later, in another task, process or life of this process. So work carries the W3C
`traceparent` of the request that asked for it, and a span's id follows from its parent's and from what the
hop is: the same hop told twice (after a crash, by an agent that was cut off) is the same span.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 0x01


@dataclass(frozen=True, slots=True)
class Trace:
    """One span's place: its trace, itself, and above it its parent ("" at the root). A trace that whoever
    began it does not sample is carried on, and recorded nowhere."""

    id: str
    span: str
    parent: str = ""
    sampled: bool = True

    @property
    def header(self) -> str:
        """As `traceparent` of what follows from it."""
        return f"00-{self.id}-{self.span}-{_SAMPLED if self.sampled else 0:02x}"

    def child(self, *hop: object) -> Trace:
        """The place of a hop below this one: always the same for the same hop."""
        told = "\x00".join((self.id, self.span, *map(str, hop)))
        return Trace(self.id, blake2b(told.encode(), digest_size=8).hexdigest(), self.span, self.sampled)


def read_traceparent(text: str) -> Trace | None:
    """The caller's span (W3C trace context); None where the header is missing or not one."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    version, id, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(id, 16) or not int(span, 16):
        return None
    return Trace(id, span, sampled=bool(int(flags, 16) & _SAMPLED))


@dataclass(frozen=True, slots=True)
class Span:
    """One hop, over. Times are nanoseconds since 1970 UTC."""

    name: str
    trace: Trace
    began_ns: int
    ended_ns: int
    facts: dict[str, str | int | bool]
    failure: str = ""
    serves: bool = False  # somebody else's request


class Tracer(Protocol):
    @property
    def on(self) -> bool: ...

    def enter(self, traceparent: str) -> Trace:
        """The place of a request's own span: below its caller's, or a new trace."""
        ...

    def record(self, span: Span) -> None:
        """Never waits and never raises: what cannot be kept is dropped and counted."""
        ...

    def close(self) -> None:
        """Send what is there, for a moment at most."""
        ...


class Off:
    on = False

    def enter(self, traceparent: str) -> Trace:
        return entered(traceparent)

    def record(self, span: Span) -> None:
        """Nobody wants it."""

    def close(self) -> None:
        """Nothing is open."""


OFF = Off()


def entered(traceparent: str, chance: Callable[[int], bytes] = os.urandom) -> Trace:
    caller = read_traceparent(traceparent)
    span = chance(8).hex()
    if caller is None:
        return Trace(chance(16).hex(), span)
    return Trace(caller.id, span, caller.span, caller.sampled)


def now_ns() -> int:
    return time.time_ns()
