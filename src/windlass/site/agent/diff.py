"""What to do so that a site becomes what it should be. Pure: frozen values in, actions out.

The laws (tests/site/test_agent_diff.py): a converged site needs no action; carrying the actions
out converges; two attempts of one workload are never on the site at once; nothing that was asked
for is stopped. What is here under a wanted number, but was placed by a database that has since been put
back to an earlier day, was not asked for: it ends first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.contracts.agent import Assignment, Desired, Observation, other_placement

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Ensure:
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Stop:
    workload: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Only after its end was reported."""

    workload: str
    attempt: int


Action = Ensure | Stop | Forget


def diff(desired: Desired, seen: Sequence[Observation]) -> tuple[Action, ...]:
    """Stops first, so that what they free is on its way before anything new starts."""
    wanted = {key_of(assignment): assignment for assignment in desired.assignments}
    there = {key_of(observation): observation for observation in seen}
    live = {key for key, observation in there.items() if not observation.gone}
    strange = _strange(wanted, there)

    stops = [
        Stop(*key)
        for key in sorted(live)
        if key not in wanted or key in strange or wanted[key].want == "stop"
    ]
    forgets = [
        Forget(*key)
        for key in sorted(there.keys() - live)
        if key not in wanted or (key in strange and wanted[key].want == "stop")
    ]
    ensures = [
        Ensure(assignment)
        for key, assignment in sorted(wanted.items())
        if assignment.want == "run"
        and _lacks_workers(assignment, None if key in strange else there.get(key))
        and not any(other[0] == key[0] and (other != key or other in strange) for other in live)
    ]
    return (*stops, *forgets, *ensures)


def to_report(desired: Desired | None, seen: Sequence[Observation]) -> tuple[Observation, ...]:
    """What is seen, and that what shall be stopped but is not here is gone."""
    wanted = {key_of(assignment): assignment for assignment in (desired.assignments if desired else ())}
    there = {key_of(observation): observation for observation in seen}
    strange = _strange(wanted, there)
    absent = tuple(
        Observation(
            workload=assignment.workload,
            attempt=assignment.attempt,
            gone=True,
            placed_ms=assignment.placed_ms,
        )
        for key, assignment in wanted.items()
        if assignment.want == "stop" and (key not in there or key in strange)
    )
    return (*seen, *absent)


def key_of(thing: Assignment | Observation) -> Key:
    return thing.workload, thing.attempt


def _strange(wanted: dict[Key, Assignment], there: dict[Key, Observation]) -> set[Key]:
    return {key for key in wanted.keys() & there.keys() if other_placement(wanted[key], there[key])}


def _lacks_workers(assignment: Assignment, observation: Observation | None) -> bool:
    """Not there, or cut off while it was started. What has ended is not started again."""
    if observation is None:
        return True
    if observation.gone:
        return False
    return {worker.index for worker in observation.workers} < {worker.index for worker in assignment.workers}
