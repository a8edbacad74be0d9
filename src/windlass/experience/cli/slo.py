"""`slo`: how the platform keeps its promises, and how much may still go wrong."""

from __future__ import annotations

import click

from windlass.experience.cli.output import show
from windlass.experience.cli.phrases import length
from windlass.experience.cli.session import Session, command, pass_session
from windlass.sdk import api


@command("slo", short_help="Show how the platform keeps its promises.")
@click.option(
    "--window", default="24h", show_default=True, metavar="DURATION", help="How far back, up to 30d."
)
@pass_session
def slo(session: Session, window: str) -> None:
    """Show how the platform keeps its promises, and how much may still go wrong.

    MEASURED is the share that was good, BUDGET what is left of the errors that the target allows; below
    zero the promise is broken. OF is how many intents, starts, requests or estimates there were, or how
    long was waited. MEDIAN and P95 are times: of the wait, of the start, of an estimate's error.

    \b
      windlass slo --window 7d
    """
    found = session.client.slo(window)
    headers = ["LEVEL", "TARGET", "WITHIN", "MEASURED", "BUDGET", "OF", "MEDIAN", "P95"]
    wide = session.output == "wide"
    rows = [_row(level) + ([level.promise] if wide else []) for level in found.levels]
    show(
        session, found, [*headers, "PROMISE"] if wide else headers, rows, [_name(one) for one in found.levels]
    )
    broken = [_name(level) for level in found.levels if level.met is False]
    if broken:
        session.say(f"not kept over {found.window}: {', '.join(broken)}", fg="yellow")


def _row(level: api.ServiceLevel) -> list[str]:
    return [
        _name(level).partition("/")[2],
        _percent(level.target, "none"),
        level.within or "",
        _percent(level.measured, "no data" if level.target else ""),
        _percent(level.budget_left, ""),
        _counted(level),
        _time(level.median_s),
        _time(level.p95_s),
    ]


def _counted(level: api.ServiceLevel) -> str:
    if not level.target:
        return ""
    return length(level.total / 1000) if level.name == "explained" else str(level.total)


def _time(seconds: str | None) -> str:
    """Below ten seconds a part of one matters."""
    if seconds is None:
        return ""
    return f"{float(seconds):.3g} s" if float(seconds) < 10 else length(float(seconds))


def _name(level: api.ServiceLevel) -> str:
    return f"slo/{level.name}" + (f"/{level.of}" if level.of else "")


def _percent(share: str | None, without: str) -> str:
    return without if share is None else f"{share} %"
