"""Printing many things of one kind, once or again and again as they change."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import msgspec

from windlass.experience.cli.columns import Column, lay_out
from windlass.experience.cli.output import print_next, print_value, show, write
from windlass.experience.cli.session import Session
from windlass.experience.cli.tables import Row, aligned, column_widths

T = TypeVar("T")
_POLL_S = 1.0
_REFRESH_S = 2.0
_CLEAR = "\x1b[H\x1b[2J"


def show_items(
    session: Session,
    value: Any,
    columns: Sequence[Column[T]],
    items: Sequence[T],
    name: Callable[[T], str],
) -> None:
    """`value` is what a program gets, `items` what a person sees of it."""
    headers, rows = lay_out(columns, items, wide=session.output == "wide", now_ms=session.now_ms())
    show(session, value, headers, rows, [name(item) for item in items])


def say_more(session: Session, shown: int, limit: int) -> None:
    """After a list that a limit may have cut."""
    if shown >= limit:
        session.say(f"({shown} shown; --limit shows more)")


def show_value(session: Session, fetch: Callable[[], T], show: Callable[[T], None], *, watch: bool) -> None:
    """One value that is a page of its own, once or again and again. `show` is for a person."""
    while True:
        found = fetch()
        if watch and session.machine:
            print_next(found, session.output)
        elif session.machine:
            print_value(found, session.output)
        else:
            if watch and session.fancy:
                sys.stdout.write(_CLEAR)
            show(found)
        if not watch:
            return
        sys.stdout.flush()
        time.sleep(_REFRESH_S)


def watch_items(
    session: Session,
    fetch: Callable[[], Sequence[T]],
    columns: Sequence[Column[T]],
    name: Callable[[T], str],
    sleep: Callable[[float], None],
) -> NoReturn:
    """Prints everything once, then what is new or different, until interrupted.

    Ages change by themselves, so two looks at an item are compared by value, not by row.
    """
    known: dict[str, T] = {}
    widths: list[int] = []
    while True:
        changed = [item for item in fetch() if known.get(name(item)) != item]
        known |= {name(item): item for item in changed}
        headers, rows = lay_out(columns, changed, wide=session.output == "wide", now_ms=session.now_ms())
        first = not widths
        if first:
            kept = [one.reserve for one in columns if session.output == "wide" or not one.wide]
            widths = [max(pair) for pair in zip(column_widths(headers, rows), kept, strict=True)]
        for line in _lines(session, changed, [headers, *rows] if first else rows, widths, name):
            write(line)
        sys.stdout.flush()
        sleep(_POLL_S)


def _lines(
    session: Session,
    items: Sequence[T],
    rows: Sequence[Row],
    widths: Sequence[int],
    name: Callable[[T], str],
) -> list[str]:
    if session.output == "json":
        return [msgspec.json.encode(item).decode() for item in items]
    if session.output == "yaml":
        from windlass.experience.cli.output import to_yaml

        return [f"---\n{to_yaml(msgspec.to_builtins(item))}".rstrip() for item in items]
    if session.output == "name":
        return [name(item) for item in items]
    return [aligned(row, widths, colored=session.fancy) for row in rows]
