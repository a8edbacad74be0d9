"""`coverage`: GPU hours through component types against `raw`, by tenant and type."""

from __future__ import annotations

import click

from windlass.experience.cli.output import show
from windlass.experience.cli.session import SCOPE, Session, command, pass_session

_UNKNOWN = "(not recorded)"


@command("coverage", takes=SCOPE, short_help="Show how much GPU time goes through component types.")
@click.option(
    "--window", default="30d", show_default=True, metavar="DURATION", help="How far back, up to 366d."
)
@pass_session
def coverage(session: Session, window: str) -> None:
    """Show how much GPU time goes through component types, and how much through raw.

    Much raw is a sign that a type is missing. Time that older releases metered has no type; it counts
    for neither.

    \b
      windlass coverage --window 7d
      windlass coverage -t acme -o json
    """
    where = {"tenant": session.tenant, "project": session.project, "env": session.env}
    found = session.client.coverage(window, **where)
    rows = [[one.tenant, one.type or _UNKNOWN, one.gpu_hours] for one in found.lines]
    names = [f"coverage/{one.tenant}/{one.type or _UNKNOWN}" for one in found.lines]
    show(session, found, ["TENANT", "TYPE", "GPU-HOURS"], rows, names)
    if found.percent is not None:
        hours = f"{found.types_gpu_hours} GPU-hours through types, {found.raw_gpu_hours} through raw"
        session.say(f"{found.percent} % over {found.window}: {hours}")
