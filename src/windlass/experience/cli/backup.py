"""`backup` and `restore`: the embedded database as one file. What they do is in `windlass.platform`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.experience.cli.output import print_value
from windlass.experience.cli.session import Session, command, pass_session
from windlass.experience.cli.up import default_data

if TYPE_CHECKING:
    from windlass.platform import Copy

_FILE = click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
_DATA = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The platform's data folder; else ~/.local/share/windlass.",
)


@command("backup", short_help="Copy the platform's database, while it runs.")
@_FILE
@_DATA
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@pass_session
def backup(session: Session, *, file: Path, data: Path | None, force: bool) -> None:
    """Copy the database of `windlass up` into FILE: one moment, checked, on disk when this returns.

    The platform may be running. The file can be read by you alone. Logs and working folders of jobs are
    not in it. A platform on PostgreSQL is saved with PostgreSQL's own tools.

    \b
      windlass backup windlass-monday.db
      windlass backup /mnt/safe/latest.db --force
    """
    from windlass.platform import back_up

    made = back_up(data or default_data(), file, force=force)
    if session.machine:
        print_value({"file": str(file), **_facts(made)}, session.output)
    session.say(f"saved {file}: {_told(made)}, {made.size:,} bytes")


@command("restore", short_help="Put a copy of the database back.")
@_FILE
@_DATA
@click.option("--force", is_flag=True, help="Replace the database that is there; it is kept aside.")
@pass_session
def restore(session: Session, *, file: Path, data: Path | None, force: bool) -> None:
    """Put FILE, which `windlass backup` made, into a data folder. The platform must be stopped.

    What happened after the backup has then not happened. Jobs that the restored database does not know
    are stopped at the next start; those it knows are found again.

    \b
      windlass restore windlass-monday.db
      windlass restore windlass-monday.db --data /srv/windlass --force
    """
    from windlass.platform import restore as put_back

    folder = data or default_data()
    found, kept = put_back(folder, file, force=force)
    if session.machine:
        told = {"data": str(folder), "kept": str(kept) if kept else None, **_facts(found)}
        print_value(told, session.output)
    session.say(f"restored {file} into {folder}: {_told(found)}")
    if kept is not None:
        session.say(f"the database that was there is kept in {kept}; remove it when all is well")
    session.say("keys revoked since the backup are valid again: see `windlass key list` after the start")


def _told(copy: Copy) -> str:
    return f"schema {copy.schema}, {copy.components} components, everything up to event {copy.event}"


def _facts(copy: Copy) -> dict[str, int]:
    return {
        "schema": copy.schema,
        "components": copy.components,
        "event": copy.event,
        "bytes": copy.size,
    }
