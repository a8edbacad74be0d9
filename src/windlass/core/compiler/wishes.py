"""What the traits of an intent mean to the scheduler and to admission: the `constraints` of each, evaluated
with its parameters, and put together.

A constraint is a wish in a fixed vocabulary, because the scheduler must understand it; how it looks on an
orchestrator is the trait's patch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import msgspec

from windlass.core.admission.case import Case, trait_spec
from windlass.core.compiler.definition import constraint_values, definition
from windlass.core.compiler.names import trait_values
from windlass.core.compiler.work import Checkpoint, Signal
from windlass.core.documents.kinds import Document
from windlass.core.documents.scalars import Sharing
from windlass.core.expressions import Unevaluable
from windlass.core.intent import TraitUse
from windlass.core.scheduling.model import Topology, TopologyMode
from windlass.core.units import Ms

MAX_GRACE_S = 3600


class _Stated(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The vocabulary. `movable`: it may be stopped to start again elsewhere at once, so it may be preempted;
    `sharing`: a profile of the same class that shares so; `volumes` and `secrets`: what the project must have
    been granted."""

    preemptible: bool = False
    movable: bool = False
    topology: _Level | None = None
    dedicated: bool = False
    checkpoint: _Leave | None = None
    sharing: Sharing | None = None
    volumes: list[str] = []
    secrets: list[str] = []


class _Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: str
    mode: TopologyMode = "preferred"


class _Leave(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    grace_seconds: int
    signal: Signal = "TERM"


VOCABULARY = {
    "preemptible": "true or false",
    "movable": "true or false",
    "topology": "{level: a node label, mode: required or preferred}",
    "dedicated": "true or false",
    "checkpoint": f"{{signal: {', '.join(get_args(Signal))}, graceSeconds: 1 to {MAX_GRACE_S}}}",
    "sharing": ", ".join(get_args(Sharing)),
    "volumes": "a list of names",
    "secrets": "a list of names",
}


@dataclass(frozen=True, slots=True)
class Wishes:
    preemptible: bool = False
    movable: bool = False
    topology: Topology | None = None
    dedicated: bool = False
    checkpoint: Checkpoint | None = None
    sharing: Sharing | None = None
    volumes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


NONE = Wishes()


def wishes(case: Case) -> Wishes:
    """Of all its traits together. Raises Unevaluable where one does not make sense."""
    all_of = [stated(case, use, document) for use, document in case.traits if document is not None]
    if not all_of:
        return NONE
    topology = next((one.topology for one in all_of if one.topology is not None), None)
    leave = next((one.checkpoint for one in all_of if one.checkpoint is not None), None)
    return Wishes(
        preemptible=any(one.preemptible or one.movable for one in all_of),
        movable=any(one.movable for one in all_of),
        topology=Topology(topology.level, topology.mode) if topology is not None else None,
        dedicated=any(one.dedicated for one in all_of),
        checkpoint=Checkpoint(leave.signal, Ms(leave.grace_seconds * 1000)) if leave is not None else None,
        sharing=next((one.sharing for one in all_of if one.sharing is not None), None),
        volumes=tuple(name for one in all_of for name in one.volumes),
        secrets=tuple(name for one in all_of for name in one.secrets),
    )


def stated(case: Case, use: TraitUse, document: Document) -> _Stated:
    """The constraints of one trait."""
    spec = trait_spec(document)
    if not spec.constraints:
        return _Stated()
    return read_constraints(constraint_values(definition(spec), trait_values(case, document, use.parameters)))


def read_constraints(rendered: Mapping[str, object]) -> _Stated:
    try:
        found = msgspec.convert(rendered, _Stated)
    except msgspec.ValidationError as error:
        raise Unevaluable(f"constraints: {error}") from None
    if found.checkpoint is not None and not 1 <= found.checkpoint.grace_seconds <= MAX_GRACE_S:
        raise Unevaluable(
            f"constraints: a grace of {found.checkpoint.grace_seconds} s is not 1 to {MAX_GRACE_S}"
        )
    return found
