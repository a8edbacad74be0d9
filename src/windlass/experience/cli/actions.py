"""`cancel`, `rerun`, `wait`: the product's actions on a component that exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from windlass.core.errors import Invalid, WindlassError
from windlass.core.units import parse_duration
from windlass.experience.cli import completing
from windlass.experience.cli.exits import worst
from windlass.experience.cli.names import find_component, path_of
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.phases import find_phase
from windlass.experience.cli.progress import waiting
from windlass.experience.cli.session import SCOPE, Session, command, pass_session
from windlass.sdk import api

names_argument = click.argument(
    "names", nargs=-1, required=True, metavar="NAME…", shell_complete=completing.complete_component
)
name_argument = click.argument("name", shell_complete=completing.complete_component)


@command("cancel", takes=SCOPE, short_help="Stop components.")
@names_argument
@pass_session
def cancel(session: Session, names: Sequence[str]) -> int:
    """Stop components. Work that waits leaves the queue; work that runs is stopped.

    \b
      windlass cancel sft-run
      windlass cancel nlp/prod/sft-run nlp/dev/notebook
    """
    return _each(session, names, session.client.cancel, "cancelled", "stopping")


@command("rerun", takes=SCOPE, short_help="Run finished jobs again.")
@names_argument
@pass_session
def rerun(session: Session, names: Sequence[str]) -> int:
    """Run finished jobs again, as a new run with the same document and its own admission.

    \b
      windlass rerun sft-run
    """
    return _each(session, names, session.client.rerun, "queued again")


@command("wait", takes=SCOPE, short_help="Wait until a component is in a phase.")
@name_argument
@click.option(
    "--for",
    "phase",
    required=True,
    metavar="PHASE",
    shell_complete=completing.complete_phase_or_final,
    help="A phase, or `final`: however it ends.",
)
@click.option("--timeout", metavar="DURATION", help="Give up after this long, such as 90s or 10m.")
@pass_session
def wait(session: Session, name: str, phase: str, timeout: str | None) -> None:
    """Wait until a component is in a phase, or past it on its way to success.

    Exits with 0 when it is, 5 when it ended in another phase, 6 when the time is over.

    \b
      windlass wait sft-run --for Succeeded --timeout 4h
    """
    wanted = find_phase(phase, or_final=True)
    path = find_component(session, name)
    with waiting(session, f"waiting for {path} to be {wanted}"):
        found = session.client.wait(path, wanted, seconds(timeout))
    if session.machine:
        print_value(found, session.output)
    elif session.output == "name":
        write(f"component/{path}")
    else:
        write(f"component/{path} {found.status.phase}")


def seconds(duration: str | None) -> float | None:
    """A duration from the command line; None for none."""
    if duration is None:
        return None
    try:
        return parse_duration(duration) / 1000
    except ValueError as error:
        raise Invalid(f"{duration!r}: {error}") from None


def _each(
    session: Session,
    names: Sequence[str],
    act: Callable[[str], api.Component],
    done: str,
    until_final: str = "",
) -> int:
    """Acts on every one, whatever becomes of the others; the exit code is the worst.

    `done` is what to say of it; `until_final` instead, while it has not ended.
    """

    def tell(component: api.Component) -> None:
        phase = component.status.phase
        if until_final and phase in api.FINAL_PHASES and phase != "Cancelled":
            _told(session, component, f"already {phase}; nothing to cancel")
            return
        ended = phase in api.FINAL_PHASES
        _told(session, component, f"{done if ended else until_final or done} ({phase})")

    if len(names) == 1:  # its failure is the command's failure, told by main
        tell(act(find_component(session, names[0])))
        return 0
    codes = []
    for name in names:
        try:
            tell(act(find_component(session, name)))
        except WindlassError as error:
            from windlass.experience.cli.complaints import show

            show(error, session)
            codes.append(error.exit_code)
    return worst(codes)


def _told(session: Session, component: api.Component, done: str) -> None:
    if session.machine:
        print_value(component, session.output)
    elif session.output == "name":
        write(f"component/{path_of(component)}")
    else:
        write(f"component/{path_of(component)} {done}")
