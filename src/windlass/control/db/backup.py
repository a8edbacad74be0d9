"""Copies of the embedded database: taken while it is in use, checked before they get their name.

A copy is one moment of the database, in one file, on disk before anybody is told that it is there.
Putting one back never destroys: what was there is kept in a folder of its own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote

from windlass.control.db.migrations import refuse_newer, steps
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable

DATABASE = "windlass.db"
_SIDES = ("-wal", "-shm")
_NUMBERS = (
    "SELECT (SELECT version FROM schema_version), (SELECT serves FROM schema_version),"
    " (SELECT value FROM counters WHERE name = 'event'), (SELECT COUNT(*) FROM components)"
)


@dataclass(frozen=True, slots=True)
class Copy:
    """What is in a database file."""

    schema: int
    event: int
    components: int
    size: int


def back_up(data: Path, target: Path, *, force: bool) -> Copy:
    """One moment of a data folder's database, in a file of its own. The platform may be running."""
    source = data / DATABASE
    if not source.is_file():
        raise NotFound(
            f"there is no database in {data}", remedy="name the platform's data folder with --data DIR"
        )
    if target.exists() and not force:
        raise Conflict(f"{target} exists", remedy="choose another name, or replace it with --force")
    if target.exists() and target.samefile(source):
        raise Invalid(f"{target} is the database itself", remedy="choose another name")
    with _draft(target) as draft:
        return _copied(source, draft)


def restore(data: Path, source: Path, day: str, *, force: bool) -> tuple[Copy, Path | None]:
    """Put a copy in place, and say where the former database is kept. The caller holds the folder."""
    if not source.is_file():
        raise NotFound(f"there is no file {source}", remedy="name a file that `windlass backup` made")
    place = data / DATABASE
    if place.exists() and not force:
        raise Conflict(
            f"{data} has a database", remedy="replace it with --force; it is kept beside the restored one"
        )
    if place.exists() and place.samefile(source):
        raise Invalid(f"{source} is the database itself", remedy="name a file that `windlass backup` made")
    with _draft(place) as draft:
        found = _copied(source, draft)
        kept = _put_aside(place, day) if place.exists() else None
        # A log that belongs to another database must never lie beside the restored one.
        for side in _SIDES:
            Path(f"{place}{side}").unlink(missing_ok=True)
        _sync_folder(data)
    return found, kept


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """A private file beside the target that gets its name when the block is done, and all of it or
    nothing, also through a power cut."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        yield draft
        descriptor = os.open(draft, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        raise Unavailable(
            f"{target} cannot be written: {error.strerror}",
            remedy="choose a folder that exists, with room, and that you may write",
        ) from None
    finally:
        for left in (draft, *(Path(f"{draft}{side}") for side in (*_SIDES, "-journal"))):
            with suppress(OSError):
                left.unlink()


def _copied(source: Path, draft: Path) -> Copy:
    """In one step, inside one read transaction: writers go on, and the copy is of one moment."""
    try:
        with (
            closing(_opened(source)) as origin,
            closing(sqlite3.connect(draft, isolation_level=None)) as copy,
        ):
            origin.execute("PRAGMA busy_timeout = 5000")
            origin.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, whole without others beside it
            return _checked(copy, source, draft)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "no such" not in str(error):
            raise Unavailable(
                f"{source} could not be copied: {error}", remedy="see that there is room, and try again"
            ) from None
        raise Invalid(
            f"{source} is no database of Windlass: {error}", remedy="name a file that `windlass backup` made"
        ) from None


def _opened(path: Path) -> sqlite3.Connection:
    """Never makes a file that is not there."""
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=rw", uri=True, isolation_level=None)


def _checked(copy: sqlite3.Connection, source: Path, draft: Path) -> Copy:
    (verdict,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise Invalid(f"{source} is damaged: {verdict}", remedy="use an older backup")
    schema, serves, event, components = copy.execute(_NUMBERS).fetchone()
    if schema is None or event is None:
        raise Invalid(
            f"{source} is no database of Windlass", remedy="name a file that `windlass backup` made"
        )
    refuse_newer(schema, serves, len(steps()))
    return Copy(schema, event, components, draft.stat().st_size)


def _put_aside(place: Path, day: str) -> Path:
    """Under two names for a moment, so that a power cut finds it under one of them."""
    with suppress(sqlite3.Error), closing(_opened(place)) as former:
        # What is only in the log goes into the file; one that is damaged is kept as it is.
        former.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    aside = Path(mkdtemp(prefix=f"before-restore-{day}-", dir=place.parent))
    for side in ("", *_SIDES):
        with suppress(FileNotFoundError):
            os.link(f"{place}{side}", aside / f"{DATABASE}{side}")
    _sync_folder(aside)
    _sync_folder(aside.parent)
    return aside


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
