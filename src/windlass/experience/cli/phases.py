"""Phases as people type them: any case, and the nearest one when it is none."""

from __future__ import annotations

from windlass.core.errors import Invalid
from windlass.experience.cli.lazy import did_you_mean
from windlass.sdk import api

PHASES = (
    "Pending",
    "Admitted",
    "Starting",
    "Running",
    "Preempted",
    "Suspended",
    "Succeeded",
    "Failed",
    "Cancelled",
    "Rejected",
)
WAITING = frozenset({"Pending", "Preempted", "Suspended"})
"""Not on any GPU now, and not over."""
FINAL = "final"


def find_phase(word: str, *, or_final: bool = False) -> str:
    known = {phase.lower(): phase for phase in PHASES}
    if or_final:
        known[FINAL] = FINAL
    found = known.get(word.lower())
    if found is None:
        raise Invalid(
            f"{word!r} is not a phase{did_you_mean(word, known)}",
            remedy=f"phases: {', '.join(known.values())}",
        )
    return found


def is_final(component: api.Component) -> bool:
    return component.status.phase in api.FINAL_PHASES
