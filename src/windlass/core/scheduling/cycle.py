"""One scheduling cycle: state and events in, new state and decisions out.

    1. take in the events
    2. wake classes in which somebody's minimum runtime has ended
    3. keep promises whose victims are gone, before anybody else is considered
    4. look at what has changed: whole classes where room appeared, else only the new lines
    5. let elastic gangs grow with what is left
    6. explain what still waits

The state is an owned value: hand it over, use only what comes back. A cycle without events and
without an ended minimum runtime does nothing; `wake_at` says when the next one of those is due.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from windlass.core.scheduling.backfill import (
    heads_before,
    keep_reservations,
    may_start,
    note_blocked,
    plan_beside_head,
)
from windlass.core.scheduling.causes import explain, explain_class
from windlass.core.scheduling.events import apply
from windlass.core.scheduling.fit import fit, never, quota_allows
from windlass.core.scheduling.growth import grow
from windlass.core.scheduling.lines import Line
from windlass.core.scheduling.model import Admit, Event, Grow, LineCause, Outcome, Placement, Preempt, Waiting
from windlass.core.scheduling.moving import drop_ended
from windlass.core.scheduling.owed import forget_owed, note_owed
from windlass.core.scheduling.preemption import make_room
from windlass.core.scheduling.room import lacks_room
from windlass.core.scheduling.state import Held, State, expected_end
from windlass.core.units import MilliGpu, Ms

_ROUNDS = 10
"""Where a look took something back or away (`_take_back`, `_promise`), another one follows, because who
was tried before it may start now. One look is the rule; what is left after so many waits for the next
cycle. The last two go through to the end: whoever can be helped at all has been tried then."""


@dataclass(slots=True)
class _Decisions:
    admitted: list[Admit] = field(default_factory=list)
    preempted: list[Preempt] = field(default_factory=list)
    causes: list[LineCause] = field(default_factory=list)
    grown: dict[str, Grow] = field(default_factory=dict)
    taken_back: int = 0

    @property
    def made_way(self) -> int:
        """How many were taken back or asked to leave so far."""
        return self.taken_back + len(self.preempted)

    def outcome(self) -> Outcome:
        grown = tuple(grow for id, grow in self.grown.items() if id not in {one.id for one in self.preempted})
        return Outcome(tuple(self.admitted), tuple(self.preempted), tuple(self.causes), grown)


def cycle(state: State, events: Iterable[Event], now: Ms) -> tuple[State, Outcome]:
    decisions = _Decisions()
    for event in events:
        apply(state, event)
    drop_ended(state)
    _wake_protected(state, now)
    decisions.admitted.extend(keep_promises(state, now))
    for more in range(_ROUNDS - 1, -1, -1):
        classes, arrivals = _what_changed(state)
        for gpu_class in classes:
            _consider_class(state, gpu_class, now, decisions, again=more > 1)
        for line in arrivals:
            _consider_arrival(state, line, now, decisions)
    state.begin()
    return state, decisions.outcome()


def follow(state: State, events: Iterable[Event], now: Ms) -> State:
    """Take in what another decided and decide nothing: the engine of a replica that does not lead.
    Whoever could start now waits for no cause; its leader is about to say so."""
    for event in events:
        apply(state, event)
    classes, arrivals = _what_changed(state)
    for gpu_class in classes:
        state.blocked[gpu_class] = []
        state.reservations.clear()
        for line in state.lines.in_order(gpu_class, state.tree):
            _note_if_blocked(state, line, now)
        for line in list(state.lines.of_class(gpu_class)):
            _explain_unless_it_fits(state, line, now)
    for line in arrivals:
        _note_if_blocked(state, line, now)
        _explain_unless_it_fits(state, line, now)
    return state


def take_over(state: State) -> None:
    """From following to leading: everything is looked at, and explained as if for the first time."""
    for gpu_class, lines in state.lines.by_class.items():
        state.stale_classes[gpu_class] = None
        for line in lines.values():
            line.cause = None


def _note_if_blocked(state: State, line: Line, now: Ms) -> None:
    shape = line.shape
    if never(state, line) is not None or fit(state, shape) is not None:
        return
    if quota_allows(state.pool(shape), shape):
        note_blocked(state, line, now)
    else:
        note_owed(state, line)


def _explain_unless_it_fits(state: State, line: Line, now: Ms) -> None:
    placement = fit(state, line.shape) if never(state, line) is None else None
    if placement is not None and may_start(state, line, placement, now) is not None:
        line.cause = None
    else:
        explain(state, line, now)


def wake_at(state: State) -> Ms | None:
    """When to call `cycle` again even if nothing happens: somebody becomes preemptible then."""
    return min(state.protected_until.values(), default=None)


def _wake_protected(state: State, now: Ms) -> None:
    for gpu_class in [name for name, until in state.protected_until.items() if until <= now]:
        del state.protected_until[gpu_class]  # whoever is still in the way is noted anew
        state.stale_classes[gpu_class] = None


def keep_promises(state: State, now: Ms) -> list[Admit]:
    """Admit promised work whose victims are all gone."""
    kept = []
    for id in [id for id, promise in state.promises.items() if not promise.victims]:
        promise = state.promises.pop(id)
        held = promise.held
        state.let_go(id)
        end = expected_end(held.shape, now)
        state.hold(Held(id, held.shape, held.submitted, now, held.placement, end, queued=held.queued))
        kept.append(Admit(id, held.placement, promise.borrowed))
    return kept


def _what_changed(state: State) -> tuple[list[str], list[Line]]:
    """Classes to go through as a whole, and single new lines of other classes. Several new lines of
    one class have an order among them, so the class is gone through."""
    new: dict[str, list[Line]] = {}
    for line in state.stale_lines.values():
        new.setdefault(line.shape.gpu_class, []).append(line)
    for gpu_class, lines in new.items():
        if len(lines) > 1:
            state.stale_classes[gpu_class] = None
    classes = list(state.stale_classes)
    arrivals = [lines[0] for gpu_class, lines in new.items() if gpu_class not in state.stale_classes]
    state.stale_classes.clear()
    state.stale_lines.clear()
    return classes, arrivals


def _consider_class(state: State, gpu_class: str, now: Ms, decisions: _Decisions, *, again: bool) -> None:
    """Everybody in order, each as long as its line moves; then say why the rest waits. Who was taken back or
    asked to leave stood in the way of others, who come before those still to be tried: if there is `again` a
    round, all begin anew."""
    state.blocked[gpu_class] = []
    state.reservations.clear()
    for line in state.lines.in_order(gpu_class, state.tree):
        made_way = decisions.made_way
        _try_head(state, line, now, decisions)
        if again and decisions.made_way > made_way:
            return
    _grow(state, gpu_class, now, decisions)
    _explain_class(state, gpu_class, now, decisions)


def _consider_arrival(state: State, line: Line, now: Ms, decisions: _Decisions) -> None:
    """A new line, when nothing else has changed: only it is tried. If it took something, the others
    may wait for another reason than before."""
    moved = False
    while line.members and _try_head(state, line, now, decisions):
        moved = True
    if moved:
        _grow(state, line.shape.gpu_class, now, decisions)
        _explain_class(state, line.shape.gpu_class, now, decisions)
    elif line.members:
        _explain_line(state, line, now, decisions)


def _try_head(state: State, line: Line, now: Ms, decisions: _Decisions) -> bool:
    """Admit the head of a line, or promise it room. False: it waits on."""
    shape = line.shape
    if never(state, line) is not None:
        return False
    if quota_allows(state.pool(shape), shape) and not lacks_room(state, line):
        placement = fit(state, shape)
        assert placement is not None, "there is quota and room"
        placement = may_start(state, line, placement, now)
        if placement is None:
            return False
        _admit(state, line, placement, now, decisions)
        return True
    if _promise(state, line, now, decisions):
        return True
    if quota_allows(state.pool(shape), shape):
        note_blocked(state, line, now)
        if forget_owed(state, line):
            state.stale_classes[shape.gpu_class] = None
    else:
        note_owed(state, line)
        if quota_allows(state.future_pool(shape), shape):
            note_blocked(state, line, now)  # who is leaving leaves it the quota; the room must be there too
    return False


def _admit(state: State, line: Line, placement: Placement, now: Ms, decisions: _Decisions) -> None:
    shape = line.shape
    borrowed = MilliGpu(state.future_pool(shape).beyond_guarantee(shape.gpus * len(placement.workers)))
    behind, version = heads_before(state, line), state.fleet.version
    held = taken_from(state, line, placement, now)
    state.not_begun[held.id] = None
    state.hold(held)
    keep_reservations(state, behind, version)
    decisions.admitted.append(Admit(held.id, placement, borrowed))


def taken_from(state: State, line: Line, placement: Placement, now: Ms) -> Held:
    """The head of the line, out of it."""
    submitted, id = line.head
    queued = state.lines.waiting[id].queued
    state.calibration.started(id, line.shape.gpu_class, now)
    state.lines.remove(id)
    if not line.members and forget_owed(state, line):
        state.stale_classes[line.shape.gpu_class] = None
    return Held(id, line.shape, submitted, now, placement, expected_end(line.shape, now), queued=queued)


def _promise(state: State, line: Line, now: Ms, decisions: _Decisions) -> bool:
    plan = make_room(state, line, now)
    if plan is not None:
        plan = plan_beside_head(state, line, plan, now)
    if plan is None:
        return False
    if not plan.after:
        # It fits beside those who are leaving: only their quota, promised already, was in the way.
        _admit(state, line, plan.placement, now, decisions)
        return True
    if _take_back(state, [victim for victim, _ in plan.victims], decisions):
        # Whoever is ahead does not keep a lender from its guarantee, no more than if the borrower ran.
        placement = fit(state, line.shape)
        if placement is None:
            return _promise(state, line, now, decisions)
        _admit(state, line, placement, now, decisions)
        return True
    held = taken_from(state, line, plan.placement, now)
    for victim, reason in plan.victims:
        state.stop(victim)
        # What the newcomer leaves of their quota and GPUs may do for somebody who was tried before.
        state.stale_classes[line.shape.gpu_class] = None
        decisions.preempted.append(Preempt(victim.id, held.id, reason))
    state.make_promise(held, dict.fromkeys(plan.after), plan.borrowed, now)
    decisions.admitted.append(Admit(held.id, plan.placement, plan.borrowed, plan.after))
    return True


def _grow(state: State, gpu_class: str, now: Ms, decisions: _Decisions) -> None:
    """What nobody could start with goes to elastic gangs. Those admitted just now start larger."""
    if gpu_class in state.stale_classes or gpu_class not in state.elastic:
        return
    fresh = {admit.id: at for at, admit in enumerate(decisions.admitted)}
    for held in grow(state, gpu_class, now, only=None if state.options.growth else fresh):
        borrowed = _borrowed_by(state, held)
        if held.id in fresh:
            decisions.admitted[fresh[held.id]] = Admit(held.id, held.placement, borrowed)
        else:
            decisions.grown[held.id] = Grow(held.id, held.placement, borrowed)


def _borrowed_by(state: State, held: Held) -> MilliGpu:
    """How much of what it holds lies beyond every guarantee, it being the last that came."""
    pool = state.future_pool(held.shape)
    pool.discharge(held.amount)
    borrowed = MilliGpu(pool.beyond_guarantee(held.amount))
    pool.charge(held.amount)
    return borrowed


def _take_back(state: State, victims: list[Held], decisions: _Decisions) -> bool:
    """Victims that this very cycle admitted have not begun: their admission is taken back, and they
    wait as if it had not happened. True: there were some."""
    now_admitted = {admit.id for admit in decisions.admitted}
    fresh = [victim for victim in victims if victim.id in now_admitted]
    for held in fresh:
        state.let_go(held.id)
        state.lines.add(Waiting(held.id, held.shape, held.submitted, held.queued))
        state.stale_classes[held.shape.gpu_class] = None
    decisions.taken_back += len(fresh)
    gone = {held.id for held in fresh}
    decisions.admitted[:] = [admit for admit in decisions.admitted if admit.id not in gone]
    return bool(fresh)


def _explain_class(state: State, gpu_class: str, now: Ms, decisions: _Decisions) -> None:
    for changed in explain_class(state, gpu_class, now):
        decisions.causes.append(changed)


def _explain_line(state: State, line: Line, now: Ms, decisions: _Decisions) -> None:
    changed = explain(state, line, now)
    if changed is not None:
        decisions.causes.append(changed)
