"""What an event changes, and what has to be looked at because of it.

An arrival changes nothing for anybody else, so only its own line is looked at. Room that appears
makes its whole class worth a look. Nothing here decides anything.
"""

from __future__ import annotations

from typing import assert_never

from windlass.core.scheduling.model import (
    Adopted,
    Event,
    Node,
    NodesChanged,
    PastUseChanged,
    Placement,
    QuotasChanged,
    Released,
    Running,
    Stopping,
    Submitted,
    Waiting,
    Withdrawn,
)
from windlass.core.scheduling.moving import arrived, drop
from windlass.core.scheduling.owed import forget_owed
from windlass.core.scheduling.state import Held, State, expected_end


def apply(state: State, event: Event) -> None:
    match event:
        case Submitted(workload):
            _submitted(state, workload)
        case Withdrawn(id):
            _withdrawn(state, id)
        case Stopping(id):
            held = state.held.get(id)
            if held is not None and not held.promised:
                state.stop(held)
        case Released(id):
            _released(state, id)
        case Adopted(running):
            _adopted(state, running)
        case NodesChanged(nodes):
            _nodes_changed(state, nodes)
        case QuotasChanged(quotas):
            _drop_promises(state, list(state.promises))
            drop(state, list(state.moving))
            state.use_quotas(quotas)
            _everything_is_stale(state)
        case PastUseChanged(use):
            state.use_past(use)
        case _:
            assert_never(event)


def _submitted(state: State, workload: Waiting) -> None:
    held = state.held.get(workload.id)
    if held is not None and not held.promised:
        state.returning[workload.id] = workload
        return
    if held is not None or workload.id in state.lines.waiting:
        _withdrawn(state, workload.id)
    if arrived(state, workload):
        return
    state.fleet.mix(workload.shape.gpu_class).note(workload.shape)
    line = state.lines.add(workload)
    if line.cause is None:
        # A line that waits already was tried, and nothing has changed for it.
        state.stale_lines[line.id] = line


def _withdrawn(state: State, id: str) -> None:
    state.returning.pop(id, None)
    state.calibration.told.pop(id, None)
    if id in state.promises:
        dropped = state.drop_promise(id)
        state.stale_classes[dropped.shape.gpu_class] = None
        return
    line = state.lines.remove(id)
    if line is not None and not line.members:
        state.stale_lines.pop(line.id, None)
        if forget_owed(state, line) or line in state.blocked.get(line.shape.gpu_class, ()):
            state.stale_classes[line.shape.gpu_class] = None  # those it held back may go


def _released(state: State, id: str) -> None:
    held = state.held.get(id)
    if held is None or held.promised:
        return
    if any(state.fleet.class_of(take.node) != held.shape.gpu_class for take in held.takes):
        state.startable.clear()  # found running where another class is: nobody foresaw that end
    state.let_go(id)
    for promise in state.promises.values():
        promise.victims.pop(id, None)
    for moving in state.moving.values():
        moving.after.pop(id, None)
    state.stale_classes[held.shape.gpu_class] = None
    again = state.returning.pop(id, None)
    if again is not None:
        _submitted(state, again)


def _adopted(state: State, running: Running) -> None:
    if running.id in state.promises or running.id in state.lines.waiting:
        _withdrawn(state, running.id)
    if running.id in state.moving:
        drop(state, [running.id])  # it has a place again, another one
    state.let_go(running.id)
    shape = running.shape
    end = expected_end(shape, running.since)
    held = Held(running.id, shape, running.submitted, running.since, running.placement, end)
    held.stopping, held.last_checkpoint = running.stopping, running.last_checkpoint
    state.hold(held)
    state.stale_classes[shape.gpu_class] = None


def _nodes_changed(state: State, nodes: tuple[Node, ...]) -> None:
    ready = {node.name for node in nodes if node.state == "ready"}
    lost = [id for id, promise in state.promises.items() if not _all_on(promise.held.placement, ready)]
    state.sizes.clear()
    state.no_room.clear()
    state.startable.clear()
    _drop_promises(state, lost)
    drop(state, [id for id, moving in state.moving.items() if not _all_on(moving.target, ready)])
    if not state.fleet.update(nodes):
        drop(state, list(state.moving))
        state.use_fleet(nodes)
        # A node may have come back smaller than a promise made on it.
        _drop_promises(state, [id for id, promise in state.promises.items() if _short(promise.held)])
    _everything_is_stale(state)


def _all_on(placement: Placement, nodes: set[str]) -> bool:
    return all(worker.node in nodes for worker in placement.workers)


def _short(held: Held) -> bool:
    return sum(amount for take in held.takes for _, amount, *_ in take.gpus) < held.amount


def _drop_promises(state: State, ids: list[str]) -> None:
    """Their workloads are considered anew; victims already on their way out are not called back."""
    for id in ids:
        _submitted(state, state.drop_promise(id))


def _everything_is_stale(state: State) -> None:
    state.lines.look_again()
    for gpu_class in state.lines.by_class:
        state.stale_classes[gpu_class] = None
