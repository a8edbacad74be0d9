"""Why a line waits: the first cause that binds, and the others that bind too.

Judged in the order of `CAUSE_ORDER`. Only a change of cause is news. A message tells the numbers of
the moment, so it is written when somebody asks, not for every line in every cycle.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.scheduling.backfill import delayed_head
from windlass.core.scheduling.fit import in_words, never, quota_allows
from windlass.core.scheduling.lines import Line
from windlass.core.scheduling.model import Cause, LineCause, Shape
from windlass.core.scheduling.owed import owed_first
from windlass.core.scheduling.remedies import bound
from windlass.core.scheduling.room import lack_of_room
from windlass.core.scheduling.state import State
from windlass.core.scheduling.survey import host_short, required, survey
from windlass.core.units import Ms, format_gpus

BRIEFLY: dict[Cause, str] = {
    "entitlement": "its queue is not entitled to so much of this class",
    "site": "no node is ready at its sites",
    "quota": "its quota has no room for it",
    "capacity": "not enough GPUs are free in sum",
    "fragmentation": "enough GPUs are free in sum, but no arrangement fits",
    "priority": "it would fit, but would delay another",
    "starting": "the next cycle starts it",
}
"""What is kept of a cause. With its numbers (`message`) it is told to whoever asks, as of that moment."""


def explain_class(state: State, gpu_class: str, now: Ms) -> Iterator[LineCause]:
    """Explain every line of a class; those whose cause is another one than before. Lines of one queue share
    what is free to it, and most lack what they lacked before: they are passed over."""
    for (_, queue), lines in list(state.lines.groups.get(gpu_class, {}).items()):
        pool = state.tree.pool(queue, gpu_class)
        free, guaranteed = pool.free(), pool.guaranteed_room()
        for line in list(lines.values()):
            if line.cause is not None and line.lacks is not None:
                short = line.needed > free or (line.needed > guaranteed and not line.shape.preemptible)
                if line.lacks == (short, lack_of_room(state, line)):
                    continue
            changed = explain(state, line, now)
            if changed is not None:
                yield changed


def explain(state: State, line: Line, now: Ms) -> LineCause | None:
    """Set the line's cause. Returns it if it is another one than before."""
    cause, *also = binding(state, line, now)
    before = line.cause
    if before is not None and before.cause == cause and before.also == tuple(also):
        return None
    since = state.lines.waiting[line.head[1]].began if before is None else now
    line.cause = LineCause(line.id, cause, tuple(also), BRIEFLY[cause], since)
    return line.cause


def binding(state: State, line: Line, now: Ms) -> list[Cause]:
    """Every cause that binds, the first first; at least one."""
    shape = line.shape
    bound: list[Cause] = []
    forever = never(state, line)
    entitled = forever is None or forever.cause != "entitlement"
    if not entitled:
        bound.append("entitlement")
    away = bool(shape.sites) and not any(site in state.fleet.ready_sites for site in shape.sites)
    if away:
        bound.append("site")
    # What the tree has to give is no question for a request it does not know or never allows.
    short = not quota_allows(state.pool(shape), shape)
    if entitled and short:
        bound.append("quota")
    lack = None if away else lack_of_room(state, line)
    if lack is not None:
        bound.append(lack)
    # Without lack of either it hangs on others whether it waits, so that is looked at every time.
    line.lacks = (short, lack) if short or lack else None
    return bound or [_next_in_line(state, line, now)]


def _next_in_line(state: State, line: Line, now: Ms) -> Cause:
    """It fits: either it would delay somebody ahead, or nothing is in its way but the next cycle."""
    line.behind, line.lender = None, False
    lender = owed_first(state, line.shape, line.shape.needed)
    if lender is not None:
        line.behind, line.lender = lender.head[1], True
    elif (head := delayed_head(state, line, now)) is not None:
        line.behind = head.head[1]
    return "starting" if line.behind is None else "priority"


def message(state: State, line: Line, cause: Cause) -> str:
    """The cause in a sentence, with the numbers of the moment; then, if so, that it can never run."""
    forever = line.never
    if forever is None:
        told = _now(state, line, cause)
        return f"{told} {bound(state, line)}" if cause in ("quota", "priority") else told
    if forever.cause == cause or (forever.cause, cause) == ("capacity", "fragmentation"):
        return forever.message
    return f"{_now(state, line, cause)} {forever.message}"


def _now(state: State, line: Line, cause: Cause) -> str:
    shape = line.shape
    match cause:
        case "site":
            return f"No node is ready at {', '.join(shape.sites)}."
        case "quota":
            return _quota_message(state, shape)
        case "capacity" | "fragmentation":
            return _room_message(state, shape, cause)
        case "priority" if line.lender:
            return f"It would fit, but only with what is guaranteed to {line.behind}, which waits for it."
        case "priority":
            return f"It would fit, but starting it now would delay {line.behind}, which is ahead."
        case "starting":
            return "It fits; the next cycle starts it."
        case _:
            return ""


def _quota_message(state: State, shape: Shape) -> str:
    pool = state.pool(shape)
    need = f"It needs {in_words(shape.needed, shape.gpu_class)}"
    room = pool.guaranteed_room()
    if not shape.preemptible and room < pool.free():
        return (
            f"{need} and may not be preempted, so it cannot borrow; of what {shape.queue} is guaranteed, "
            f"{format_gpus(room)} are unused."
        )
    for node in pool.path:
        if node.max is not None and node.held + shape.needed > node.max:
            held, most = format_gpus(node.held), format_gpus(node.max)
            return f"{need}; {node.name} holds {held} of the {most} it may hold."
    own, free = min(room, pool.free()), pool.free()
    return (
        f"{need}; {shape.queue} could get {format_gpus(free)} now: {format_gpus(own)} of its guarantee, "
        f"{format_gpus(free - own)} lent by others."
    )


def _room_message(state: State, shape: Shape, cause: Cause) -> str:
    if shape.gpu_class not in state.fleet.classes:
        return f"There is no node of class {shape.gpu_class}."
    seen = survey(state, shape)
    short = host_short(state, shape, state.avoided(shape))
    if cause == "capacity" and shape.needed <= seen.free and short is not None:
        return f"It needs {short.need} {short.of}; {short.free} are free{_where(shape)}."
    free = f"{format_gpus(seen.free)} are free on {_nodes(seen.nodes)}{_where(shape)}"
    if seen.shunned:
        free += f", {format_gpus(seen.shunned)} more beside what it keeps away from"
    if cause == "capacity":
        need = in_words(shape.needed, shape.gpu_class)
        unready = f", {format_gpus(seen.unready)} on nodes that are not ready" if seen.unready else ""
        too_few = shape.needed > seen.everything
        in_all = f"; there are {format_gpus(seen.everything)} in all, in use or not" if too_few else ""
        return f"It needs {need}; {free}{unready}{in_all}."
    each = f"{format_gpus(shape.gpus)} on one node" if shape.gpus else "a node"
    many = f"{shape.fewest} times {each}" if shape.fewest > 1 else each
    host = " with the CPU and memory for it" if shape.cpu_milli or shape.memory_mib else ""
    together = f", all in one {shape.topology.level}" if required(shape) and shape.topology else ""
    found = f"the largest hole is {format_gpus(seen.hole)}"
    if seen.workers and shape.fewest > 1:
        unit = shape.topology.level if required(shape) and shape.topology else "site"
        found += f"; the best {unit} has room for {seen.workers} of {shape.fewest} workers"
    elif seen.hole >= shape.gpus:
        found += _lacking_there(shape)
    return f"It needs {many}{host}{together}; {free}; {found}."


def _lacking_there(shape: Shape) -> str:
    """What a hole that is large enough lacks."""
    if shape.mig_profile is not None:
        return f", but no {shape.mig_profile} fits beside the instances there"
    return ", but without the rest of what it needs"


def _where(shape: Shape) -> str:
    at = f" at {', '.join(shape.sites)}" if shape.sites else ""
    return at + (" without other tenants" if shape.dedicated else "")


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
