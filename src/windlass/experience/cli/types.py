"""`type diff` and `type migrate`: from one component type, or version of one, to another."""

from __future__ import annotations

from collections import Counter

import click

from windlass.experience.cli import completing
from windlass.experience.cli.complaints import reason_line
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.session import SCOPE, Session, group, pass_session
from windlass.sdk import api


@group("type", short_help="Compare component types, and move components to another.")
def type_group() -> None:
    """Compare component types, and move components to another.

    \b
      windlass type diff training-job@1.0.0 training-job@2.0.0
      windlass type migrate training-job@1.0.0 training-job@2.0.0 -p nlp --dry-run
    """


@type_group.command("diff", takes=SCOPE)
@click.argument("type", shell_complete=completing.complete_type)
@click.argument("other", shell_complete=completing.complete_type)
@pass_session
def type_diff(session: Session, type: str, other: str) -> int:
    """Show what would differ for each live component of TYPE, were it of OTHER.

    Both are a name or name@version. Nothing changes. Exits with 3 when one would be refused.

    \b
      windlass type diff training-job@1.0.0 training-job@2.0.0
    """
    where = {"tenant": session.tenant, "project": session.project, "env": session.env}
    found = session.client.type_diff(type, other, **where)
    if session.machine:
        print_value(found, session.output)
    elif session.output == "name":
        for one in found.items:
            write(f"component/{one.component}")
    else:
        _print_diff(session, found)
    return 3 if any(one.reasons for one in found.items) else 0


def _print_diff(session: Session, found: api.TypeDiff) -> None:
    same = [one.component for one in found.items if not one.diff and not one.reasons]
    for one in found.items:
        if one.reasons:
            write(f"component/{one.component} would be refused")
            for reason in one.reasons:
                write(f"  - {reason_line(reason)}")
                if reason.remedy:
                    write(f"    try: {reason.remedy}")
        elif one.diff:
            write(one.diff)
    if same:
        session.say(f"no difference for {', '.join(same)}")
    if found.total > len(found.items):
        session.say(f"({len(found.items)} of {found.total} live components shown; -p narrows)")
    if not found.total:
        session.say(f"no live component is of {found.type}")


@type_group.command("migrate", takes=SCOPE)
@click.argument("type", shell_complete=completing.complete_type)
@click.argument("other", shell_complete=completing.complete_type)
@click.option("--dry-run", is_flag=True, help="Only say what would happen; move nothing.")
@pass_session
def type_migrate(session: Session, type: str, other: str, *, dry_run: bool) -> int:
    """Move the components of TYPE that are not alive to OTHER, each through admission.

    Nothing is started: the next run of a component is of the new type. What is alive stays as it is
    (exit 5), and so does what would be refused (exit 3).

    \b
      windlass type migrate training-job@1.0.0 training-job@2.0.0 -p nlp --dry-run
    """
    where = {"tenant": session.tenant, "project": session.project, "env": session.env}
    found = session.client.type_migrate(type, other, dry_run=dry_run, **where)
    if session.machine:
        print_value(found, session.output)
    else:
        _print_migration(session, found)
    outcomes = {one.outcome for one in found.items}
    return 3 if "refused" in outcomes else 5 if "alive" in outcomes else 0


def _print_migration(session: Session, found: api.Migration) -> None:
    if session.output == "name":
        for one in found.items:
            if one.outcome == "moved":
                write(f"component/{one.component}")
        return
    tried = " (dry run)" if found.dry_run else ""
    for one in found.items:
        write(f"component/{one.component} {one.outcome}{tried}" + (f": {one.message}" if one.message else ""))
        for reason in one.reasons:
            session.complain(f"  {reason_line(reason)}", fg="red")
            if reason.remedy:
                session.complain(f"    try: {reason.remedy}")
        if one.remedy:
            session.complain(f"  try: {one.remedy}")
    counted = Counter(one.outcome for one in found.items)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counted.items()))
    session.say(told or f"no component is of {found.type}")
