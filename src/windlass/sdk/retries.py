"""When to send the same request again, and after how long.

Only what another try can cure: a connection lost on the way, 502, 503, and 429 after the pause
the server asks for. Every try sends the same bytes, so a write has the same idempotency key and
happens once. A refused connection and a time-out are not tried again: nobody is there, or the
caller has already waited as long as it wanted.
"""

from __future__ import annotations

from typing import NamedTuple

from windlass.sdk.http1 import Answer

_CURABLE = frozenset({429, 502, 503})


class Retries(NamedTuple):
    """`attempts` counts the first try. A pause longer than `longest_s` is not waited for."""

    attempts: int = 4
    first_s: float = 0.2
    longest_s: float = 15.0

    def pause_s(self, attempt: int) -> float | None:
        """How long to pause after try number `attempt` (from 1) failed; None: give up."""
        if attempt >= self.attempts:
            return None
        return min(self.first_s * 2.0 ** (attempt - 1), self.longest_s)

    def pause_after_answer_s(self, attempt: int, answer: Answer) -> float | None:
        """The same after an answer; None also when the answer is not one to repeat for."""
        if answer.status not in _CURABLE:
            return None
        pause_s = self.pause_s(attempt)
        asked = answer.headers.get("retry-after", "")
        if pause_s is None or not asked.isdigit():
            return pause_s
        return float(asked) if float(asked) <= self.longest_s else None
