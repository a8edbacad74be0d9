"""`why NAME`: the explanation as a paragraph, then what it waited for so far."""

from __future__ import annotations

import click

from windlass.experience.cli import completing, phrases
from windlass.experience.cli.complaints import reason_line, warning_line
from windlass.experience.cli.names import find_component
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.session import SCOPE, Session, command, pass_session
from windlass.experience.cli.tables import print_table
from windlass.sdk import api


@command("why", takes=SCOPE, short_help="Say why it waits, was rejected or was preempted.")
@click.argument("name", shell_complete=completing.complete_component)
@pass_session
def why(session: Session, name: str) -> None:
    """Say why it waits, was rejected or was preempted, and what would help.

    NAME is a name, project/name or project/env/name. `-o json` prints the explanation as the
    API gives it.

    \b
      windlass why sft-run
      windlass why nlp/prod/sft-run -o json
    """
    found = session.client.why(find_component(session, name))
    if session.machine:
        print_value(found, session.output)
    elif session.output == "name":
        write(f"component/{found.component}")
    else:
        print_explanation(session, found)


def print_explanation(session: Session, found: api.Explanation) -> None:
    now = session.now_ms()
    write(_headline(found))
    if found.message:
        write(f"  {found.message}")
    for reason in found.reasons:
        write(f"  - {reason_line(reason)}")
        if reason.remedy and reason.remedy != found.remedy:
            write(f"    try: {reason.remedy}")
    for warning in found.warnings:
        write(f"  warning: {warning_line(warning)}")
    if found.preempted_by:
        write(f"  It made room for {found.preempted_by}.")
    for line in _outlook(found, now):
        write(f"  {line}")
    if found.remedy:
        write(f"  try: {found.remedy}")
    if found.history:
        write("")
        rows = [
            [span.cause, phrases.clock(span.since), phrases.span(span.since, span.to, now), _end(span)]
            for span in found.history
        ]
        print_table(session, ["CAUSE", "FROM (UTC)", "FOR", "UNTIL (UTC)"], rows)


def _headline(found: api.Explanation) -> str:
    also = f" (also: {', '.join(found.also)})" if found.also else ""
    cause = f", because of {found.cause}{also}" if found.cause else ""
    return f"{found.component} is {found.phase}{cause}."


def _outlook(found: api.Explanation, now_ms: int) -> list[str]:
    lines = []
    if found.position:
        ahead = found.position.ahead
        lines.append(f"{ahead} of {found.position.of} waiting are ahead of it." if ahead else "It is next.")
    estimate = found.estimate
    if estimate and estimate.starts_at:
        words = f"It should start {phrases.when(estimate.starts_at, now_ms)}"
        if estimate.low and estimate.high and estimate.low != estimate.high:
            words += f" ({phrases.between(estimate.low, estimate.high, now_ms)})"
        lines.append(f"{words}: {estimate.basis}." if estimate.basis else f"{words}.")
    elif estimate and estimate.basis:
        lines.append(f"When it starts is not known: {estimate.basis}.")
    return lines


def _end(span: api.CauseSpan) -> str:
    return phrases.clock(span.to) if span.to else "now"
