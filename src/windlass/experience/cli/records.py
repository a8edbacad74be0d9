"""`decisions`, `events`, `audit list`: what the platform wrote down."""

from __future__ import annotations

import sys

import click

from windlass.core.errors import NotFound
from windlass.experience.cli import columns
from windlass.experience.cli.columns import lay_out
from windlass.experience.cli.listing import say_more, show_items
from windlass.experience.cli.names import find_component
from windlass.experience.cli.output import print_next, write
from windlass.experience.cli.session import SCOPE, Session, command, group, pass_session
from windlass.experience.cli.tables import aligned

_RECENT = 50
# Wide enough for what the columns usually hold; a stream cannot know what will come.
_EVENT_WIDTHS = (6, 19, 24, 36, 16, 12, 40)

limit_option = click.option(
    "--limit", type=click.IntRange(min=1), default=_RECENT, show_default=True, help="At most so many."
)


@command("decisions", takes=SCOPE, short_help="List what was admitted and rejected, and why.")
@click.option("--component", metavar="NAME", help="Only those about one component.")
@limit_option
@pass_session
def decisions(session: Session, component: str | None, limit: int) -> None:
    """List what was admitted and rejected, and why.

    `windlass get decision dec_…` shows one with all its reasons.

    \b
      windlass decisions -p nlp
      windlass describe decision dec_…
    """
    show_decisions(session, component=component, limit=limit)


def show_decisions(session: Session, *, component: str | None, limit: int) -> None:
    path = None
    if component:
        path = find_component(session, component)
    else:
        session.takes("decisions", "tenant", "project")
    found = session.client.decisions(
        component=path,
        tenant=session.tenant,
        project=None if path else session.chosen_project,
        limit=limit,
    )
    show_items(session, found, columns.DECISIONS, found.items, lambda one: f"decision/{one.id}")
    say_more(session, len(found.items), limit)


@command("events", short_help="List or watch what happens.")
@click.option("-w", "--watch", is_flag=True, help="Stay and print events as they happen.")
@click.option("--since", type=int, metavar="ID", help="Only events after this one.")
@limit_option
@pass_session
def events(session: Session, *, watch: bool, since: int | None, limit: int) -> None:
    """List or watch what happens: the newest, or the first after --since.

    \b
      windlass events --watch
      windlass events --since 1200 -o json
    """
    if watch:
        watch_events(session, since)
    else:
        show_events(session, since=since, limit=limit)


def show_events(session: Session, *, since: int | None, limit: int) -> None:
    if since is not None:
        found = session.client.events(since=since, limit=limit)
    else:  # a person wants the newest
        found = session.client.newest_events(min(limit, 500))
    show_items(session, found, columns.EVENTS, found.items, lambda one: f"event/{one.id}")
    say_more(session, len(found.items), limit)


def show_event(session: Session, text: str) -> None:
    """One event by its number."""
    id = text.removeprefix("event/")
    number = int(id) if id.isascii() and id.isdigit() else 0
    found = session.client.events(since=number - 1, limit=1).items if number else []
    if not found or found[0].id != number:
        raise NotFound(f"no event {id!r} that you may see", remedy="`windlass events` shows the newest")
    show_items(session, found[0], columns.EVENTS, found, lambda one: f"event/{one.id}")


def watch_events(session: Session, since: int | None) -> None:
    """One line per event: JSON lines for a program, aligned columns for a person."""
    session.say("watching; Ctrl-C stops")
    for event in session.client.watch(since):
        match session.output:
            case "json" | "yaml":
                print_next(event, session.output)
            case "name":
                write(f"event/{event.id}")
            case _:
                _, rows = lay_out(
                    columns.EVENTS, [event], wide=session.output == "wide", now_ms=session.now_ms()
                )
                write(aligned(rows[0], _EVENT_WIDTHS[: len(rows[0])], colored=session.fancy))
        sys.stdout.flush()


@group("audit", short_help="Show who did what.")
def audit() -> None:
    """Show who did what.

    \b
      windlass audit list -t acme
    """


@audit.command("list", takes=["tenant"])
@limit_option
@pass_session
def audit_list(session: Session, limit: int) -> None:
    """List the changes people and programs made, newest first.

    \b
      windlass audit list
      windlass audit list -t acme -o json
    """
    found = session.client.audit(tenant=session.tenant, limit=limit)
    show_items(session, found, columns.AUDIT, found.items, lambda one: f"audit/{one.id}")
    say_more(session, len(found.items), limit)
