"""The door of the scheduling engine: everything the outside calls. The journey is `cycle.py`.

    state = new_state(options)
    state, outcome = cycle(state, events, now)

(`follow` instead, where another replica decides; `take_over` when that changes)

(`defrag.py` and `defrag_apply.py` are a door of their own: moving what runs, when a person asks for it)

and between cycles `position`, `cause_of`, `estimate`, `waiting_in_order`, `running`, `usage` and
`what_if`. The words in and out are in `model.py`.
"""

from windlass.core.scheduling.cycle import cycle, follow, take_over, wake_at
from windlass.core.scheduling.estimate import estimate, estimates, foretell, was_told
from windlass.core.scheduling.lines import line_of
from windlass.core.scheduling.questions import (
    cause_of,
    position,
    running,
    usage,
    waiting_in_order,
    what_if,
)
from windlass.core.scheduling.state import State, new_state

__all__ = [
    "State",
    "cause_of",
    "cycle",
    "estimate",
    "estimates",
    "follow",
    "foretell",
    "line_of",
    "new_state",
    "position",
    "running",
    "take_over",
    "usage",
    "waiting_in_order",
    "wake_at",
    "was_told",
    "what_if",
]
