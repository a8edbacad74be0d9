"""`defrag`: which moves would free which hole at what cost, on a server or a scenario; and making them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import IO, Any

import click

from windlass.core.errors import Conflict, Invalid
from windlass.experience.cli import completing
from windlass.experience.cli.names import find_component
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.session import SCOPE, Session, command, pass_session
from windlass.experience.cli.tables import print_table
from windlass.sdk import api


@dataclass(frozen=True, slots=True)
class _Hole:
    """As it was typed."""

    gpu_class: str | None
    profile: str | None
    gpus: str | None
    workers: int | None
    topology: str | None

    @property
    def named(self) -> bool:
        return any((self.gpu_class, self.profile, self.gpus, self.workers, self.topology))


@command("defrag", takes=SCOPE, short_help="Show which moves would free a place, or make them.")
@click.argument("name", required=False, shell_complete=completing.complete_component)
@click.option("--plan", is_flag=True, help="Only show what could be moved; move nothing.")
@click.option("--yes", is_flag=True, help="Move without asking.")
@click.option("--class", "gpu_class", metavar="CLASS", help="With --plan: for a hole in this class of GPUs.")
@click.option("--profile", metavar="NAME", help="With --plan: for a hole in units of a hardware profile.")
@click.option("--gpus", metavar="N", help="Of the hole: GPUs (or units) per worker; 1 without it.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Of the hole: how many workers.")
@click.option("--topology", metavar="LABEL", help="Of the hole: all workers in one rack, block, …")
@click.option(
    "-f", "--file", "source", type=click.File("rb"), help="With --plan: a scenario instead of a server."
)
@pass_session
def defrag(
    session: Session, /, name: str | None, *, plan: bool, yes: bool, source: IO[bytes] | None, **hole: Any
) -> None:
    """Show which moves would free a place for work that waits because of fragmentation, or make them.

    Only work that accepts moving is moved (the trait movable or spot-tolerant): it is stopped, and started
    again at its new place. Lost is what it did since its last checkpoint, or since it started. Without NAME a
    plan is shown for everybody who waits for that reason. Without --plan the moves for NAME are made, as far
    as the plan still holds then (exit 5 where it does not).

    \b
      windlass defrag --plan
      windlass defrag --plan wide-run -p nlp
      windlass defrag --plan --class h100-80g --gpus 8 --workers 2 --topology rack
      windlass defrag --plan -f scenario.yaml
      windlass defrag wide-run --yes
    """
    wanted = _Hole(**hole)
    if name and wanted.named:
        raise click.UsageError("name who the hole is for, or describe it; not both")
    if plan and yes:
        raise click.UsageError("--plan moves nothing, so there is nothing to say --yes to")
    if plan:
        found = _offline(source, name, wanted) if source is not None else _asked(session, name, wanted)
        _print(session, found)
        return
    if name is None or source is not None:
        raise click.UsageError("name the waiting component that the moves are for, or add --plan")
    _make(session, find_component(session, name), yes=yes)


def _asked(session: Session, name: str | None, hole: _Hole) -> api.DefragProposals:
    component = find_component(session, name) if name else None
    return session.client.defrag_plans(
        component,
        gpu_class=hole.gpu_class,
        profile=hole.profile,
        gpus=hole.gpus,
        workers=hole.workers,
        topology=hole.topology,
    )


def _offline(source: IO[bytes], name: str | None, hole: _Hole) -> api.DefragProposals:
    import msgspec

    from windlass.core.scheduling.defrag import named_hole
    from windlass.core.scheduling.defrag_words import told
    from windlass.core.scheduling.scenario_run import propose
    from windlass.core.units import parse_gpus
    from windlass.experience.cli.schedule import read_scenario

    scenario = read_scenario(source)
    wanted: Any = name
    if hole.named:
        if hole.gpu_class is None or hole.profile is not None:
            raise click.UsageError("in a scenario a hole has a --class; profiles are a server's")
        try:
            wanted = named_hole(
                hole.gpu_class, parse_gpus(hole.gpus or "1"), hole.workers or 1, hole.topology
            )
        except ValueError as error:
            raise Invalid(f"--gpus: {error}") from None
    items = [told(one) for one in propose(scenario, wanted)]
    return msgspec.convert({"items": items}, api.DefragProposals)


def _make(session: Session, component: str, *, yes: bool) -> None:
    """Show the plan, ask, and have that very plan carried out."""
    (found,) = session.client.defrag_plans(component).items
    if found.why:
        raise Conflict(f"nothing can be moved for {component}: {found.why}")
    if not yes:
        if session.machine or not sys.stdin.isatty():
            raise click.UsageError("moving stops running work: add --yes, or --plan to only look")
        _print_one(session, found)
        if not click.confirm(f"Move {_many(len(found.moves), 'workload')}?", err=True):
            session.say("nothing was moved")
            return
    done = session.client.defragment(component, found.digest)
    if session.machine:
        print_value(done, session.output)
    elif session.output == "name":
        for move in done.moves:
            write(f"component/{move.workload}")
    else:
        for move in done.moves:
            write(f"component/{move.workload} moves to {_where(move.to)}")
    session.say(f"{component} starts on {_where(done.hole)} when they have left")


def _print(session: Session, found: api.DefragProposals) -> None:
    if session.machine:
        print_value(found, session.output)
        return
    if session.output == "name":
        for name in dict.fromkeys(move.workload for one in found.items for move in one.moves):
            write(f"component/{name}")
        return
    if not found.items:
        session.say("nobody waits because of fragmentation")
    for number, one in enumerate(found.items):
        if number:
            write("")
        _print_one(session, one)


def _print_one(session: Session, one: api.DefragProposal) -> None:
    write(f"{one.component or 'A hole'}: {_shape(one.wanted)}")
    if one.why:
        write(f"  no plan: {one.why}")
        return
    write(f"  place: {_where(one.hole)}")
    if not one.moves:
        write("  It is there already; nobody has to move.")
        return
    cost = f"{one.lost_gpu_hours} GPU-hours are lost, {_many(one.restarted_workers, 'worker')} restarted"
    write(f"  cost: {cost}")
    rows = [
        [
            move.workload,
            _where(move.source),
            _where(move.to),
            move.lost_gpu_hours,
            str(move.restarted_workers),
        ]
        for move in one.moves
    ]
    print_table(session, ["MOVES", "FROM", "TO", "LOST GPU-HOURS", "WORKERS"], rows)


def _shape(wanted: api.WantedHole) -> str:
    each = f"{wanted.gpus} of {wanted.gpu_class} on one node"
    many = f"{wanted.workers} times {each}" if wanted.workers > 1 else each
    topology = wanted.topology
    return many if topology is None else f"{many}, in one {topology.level} ({topology.mode})"


def _where(workers: list[api.PlacedWorker]) -> str:
    return " ".join(f"{worker.node}:{','.join(map(str, worker.gpus))}" for worker in workers)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
