"""`queue`: who waits, in the order they would start, and who runs."""

from __future__ import annotations

import click

from windlass.experience.cli import phrases
from windlass.experience.cli.listing import show_value
from windlass.experience.cli.output import write
from windlass.experience.cli.session import SCOPE, Session, command, pass_session
from windlass.experience.cli.tables import print_table
from windlass.sdk import api


@command("queue", takes=SCOPE, short_help="Show who waits, in order, and who runs.")
@click.option("-w", "--watch", is_flag=True, help="Show it again every two seconds; JSON in one line each.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many of each.")
@pass_session
def queue(session: Session, *, watch: bool, limit: int | None) -> None:
    """Show who waits, in order, and who runs.

    AHEAD counts everybody before you, also work of others that you may not see. GPUS are those
    of all workers together.
    `windlass why NAME` says more about one of them.

    \b
      windlass queue
      windlass queue -t acme -o wide
    """
    show_queue(session, limit=limit, watch=watch)


def show_queue(session: Session, *, limit: int | None, watch: bool) -> None:
    def look() -> api.Queue:
        return session.client.queue(
            limit, tenant=session.tenant, project=session.chosen_project, env=session.chosen_env
        )

    show_value(session, look, lambda found: _print(session, found), watch=watch)


def _print(session: Session, found: api.Queue) -> None:
    if session.output == "name":
        for entry in (*found.waiting, *found.running):
            write(f"component/{entry.component}")
        return
    now = session.now_ms()
    wide = session.output == "wide"
    write(_title("Waiting", len(found.waiting), found.waiting_total))
    if found.waiting:
        headers = ["AHEAD", "COMPONENT", "GPUS", "WORKERS", "CLASS", "CAUSE", "STARTS", "WAITED"]
        rows = [_waiting(entry, now) for entry in found.waiting]
        if wide:
            headers += ["TENANT", "PRIORITY", "MESSAGE"]
            for row, entry in zip(rows, found.waiting, strict=True):
                row += [entry.tenant, str(entry.priority), entry.message]
        print_table(session, headers, rows)
    write("")
    write(_title("Running", len(found.running), found.running_total))
    if found.running:
        headers = ["COMPONENT", "PHASE", "GPUS", "WORKERS", "CLASS", "NODES", "FOR"]
        rows = [_running(entry, now) for entry in found.running]
        if wide:
            headers += ["TENANT", "PRIORITY"]
            for row, entry in zip(rows, found.running, strict=True):
                row += [entry.tenant, str(entry.priority)]
        print_table(session, headers, rows)


def _title(what: str, shown: int, total: int) -> str:
    return f"{what}: {total}" if shown == total else f"{what}: {total}, {shown} shown"


def _waiting(entry: api.QueueEntry, now_ms: int) -> list[str]:
    return [
        "" if entry.ahead is None else str(entry.ahead),
        entry.component,
        entry.gpus,
        str(entry.workers),
        entry.gpu_class,
        entry.cause or "",
        phrases.when(entry.estimated_start, now_ms) or "not known",
        phrases.age(entry.submitted_at, now_ms),
    ]


def _running(entry: api.QueueEntry, now_ms: int) -> list[str]:
    return [
        entry.component,
        entry.phase,
        entry.gpus,
        str(entry.workers),
        entry.gpu_class,
        ",".join(dict.fromkeys(entry.nodes)),
        phrases.age(entry.since, now_ms),
    ]
