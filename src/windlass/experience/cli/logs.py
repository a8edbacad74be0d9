"""`logs NAME`: what the work wrote, as it wrote it."""

from __future__ import annotations

import sys

import click

from windlass.experience.cli import completing
from windlass.experience.cli.following import Follower, Lines, copied
from windlass.experience.cli.names import find_component
from windlass.experience.cli.session import SCOPE, Session, command, pass_session


@command("logs", takes=SCOPE, short_help="Print or follow the log of a component.")
@click.argument("name", shell_complete=completing.complete_component)
@click.option(
    "-f", "--follow", is_flag=True, help="Stay until the work ends, through retries; wait for it to start."
)
@click.option(
    "--worker", type=click.IntRange(min=0), default=0, show_default=True, help="Which worker of a gang."
)
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("--attempt", type=click.IntRange(min=0), metavar="N", help="An earlier attempt.")
@pass_session
def logs(
    session: Session, name: str, *, follow: bool, worker: int, tail: int | None, attempt: int | None
) -> None:
    """Print or follow the log of a component. With -o json, each line is a value of its own.

    \b
      windlass logs sft-run -f
      windlass logs nlp/prod/sft-run --worker 1 --tail 100
    """
    path = find_component(session, name)
    lines = Lines(worker, session.output) if session.machine else None
    log = Follower(session, path, worker, lines or copied(sys.stdout))
    _copy(session, path, log, follow=follow, worker=worker, tail=tail, attempt=attempt)
    if lines is not None:
        lines.finish()
    elif log.silent and tail != 0:
        session.say("(no output)")


def _copy(
    session: Session,
    path: str,
    log: Follower,
    *,
    follow: bool,
    worker: int,
    tail: int | None,
    attempt: int | None,
) -> None:
    # Work that has not begun has no log to take the end of; following it begins at the beginning.
    component = session.client.component(path) if follow else None
    if tail is not None and (component is None or component.status.phase != "Pending"):
        # The API counts bytes from the end; lines are counted here, over what is there by now.
        so_far = "".join(session.client.logs(path, worker=worker, attempt=attempt))
        log.show("".join(so_far.splitlines(keepends=True)[-tail:] if tail else []))
        log.printed = len(so_far)
    if component is not None and attempt is None:
        log.to_the_end()
        if log.silent and log.missing is not None:
            raise log.missing
    elif component is not None or tail is None:
        log.attempt = attempt
        if component is None:
            for piece in session.client.logs(path, worker=worker, attempt=attempt):
                log.show(piece)
        else:
            log.copy_attempt(component)
