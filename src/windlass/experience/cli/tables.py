"""Tables: aligned columns, the same in a pipe and on a terminal; there with colour.

Not rich's tables: they fold words in a narrow terminal ("Rejecte d"), look different from what a
script sees, and cost 50 ms of imports on every `get`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from windlass.experience.cli.session import Session, visible

Row = Sequence[str]

# What a narrow terminal can do without, first to go first. -o wide and pipes keep everything.
_LONG_IDS = "ids"  # not a column: where ids are shortened
_DISPENSABLE = (
    "COST",
    "NODES",
    "CREATED",
    "ACTOR",
    _LONG_IDS,
    "BORROWED",
    "TYPE",
    "AGE",
    "WORKERS",
    "CLASS",
    "REASONS",
)

NOTHING = "-"
_BLANK = "\x00"  # a cell of a row that goes on: not even a dash
_GAP = 2

_GOOD, _MOVING, _WAITING, _ASIDE, _BAD, _OVER = (
    {"fg": "green"},
    {"fg": "cyan"},
    {"fg": "yellow"},
    {"fg": "magenta"},
    {"fg": "red"},
    {"dim": True},
)
_STYLES: dict[str, dict[str, Any]] = {
    "Running": _GOOD,
    "Succeeded": _GOOD,
    "Admitted": _MOVING,
    "Starting": _MOVING,
    "Pending": _WAITING,
    "Preempted": _ASIDE,
    "Suspended": _ASIDE,
    "Failed": _BAD,
    "Rejected": _BAD,
    "Cancelled": _OVER,
    "admitted": _GOOD,
    "rejected": _BAD,
    "held": _WAITING,
    "ready": _GOOD,
    "draining": _WAITING,
    "unverified": _WAITING,
    "down": _BAD,
}


def painted(session: Session, word: str) -> str:
    """A word that means something (a phase, a verdict, a node's state) in its colour."""
    return click.style(word, **_STYLES[word]) if session.fancy and word in _STYLES else word


def print_table(session: Session, headers: Sequence[str], rows: Sequence[Row]) -> None:
    room = _room()
    if room is not None:
        if session.output != "wide":
            headers, rows = _without_dispensable(headers, rows, room)
        rows = _wrapped(headers, rows, room)
    widths = column_widths(headers, rows)
    header = aligned(headers, widths)
    sys.stdout.write((click.style(header, bold=True) if session.fancy else header) + "\n")
    for row in rows:
        sys.stdout.write(aligned(row, widths, colored=session.fancy) + "\n")


def _room() -> int | None:
    """The columns of the terminal; None in a pipe, where a line is as long as it is."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _without_dispensable(
    headers: Sequence[str], rows: Sequence[Row], room: int
) -> tuple[Sequence[str], Sequence[Row]]:
    for name in _DISPENSABLE:
        if _total(column_widths(headers, rows)) <= room:
            break
        if name == _LONG_IDS:
            rows = [[_short(cell) for cell in row] for row in rows]
        elif name in headers[1:]:  # the first column names the row
            at = list(headers).index(name, 1)
            headers = [*headers[:at], *headers[at + 1 :]]
            rows = [[*row[:at], *row[at + 1 :]] for row in rows]
    return headers, rows


def _short(cell: str) -> str:
    """`dec_01a1e5eeab2eecb5…`: enough to tell two apart; -o name and -o wide have the whole."""
    prefix, mark, rest = cell.partition("_")
    is_id = mark and len(rest) == 32 and rest.isalnum()
    return f"{prefix}_{rest[:16]}…" if is_id else cell


def _wrapped(headers: Sequence[str], rows: Sequence[Row], room: int) -> Sequence[Row]:
    """The widest column on several lines each, broken at blanks only, if that is what makes it fit."""
    widths = column_widths(headers, rows)
    excess = _total(widths) - room
    texts = [index for index in range(len(headers)) if any(" " in row[index].strip() for row in rows)]
    if excess <= 0 or not texts:
        return rows
    from textwrap import wrap

    at = max(texts, key=lambda index: widths[index])
    narrow = max(widths[at] - excess, len(headers[at]), 12)
    lines: list[Row] = []
    for row in rows:
        pieces = wrap(_shown(row)[at], narrow, break_long_words=False, break_on_hyphens=False) or [NOTHING]
        lines.append([*row[:at], pieces[0], *row[at + 1 :]])
        for piece in pieces[1:]:
            blank = [_BLANK] * len(row)
            lines.append([*blank[:at], piece, *blank[at + 1 :]])
    return lines


def column_widths(headers: Sequence[str], rows: Sequence[Row]) -> list[int]:
    return [max(map(len, column)) for column in zip(headers, *map(_shown, rows), strict=True)]


def aligned(row: Row, widths: Sequence[int], *, colored: bool = False) -> str:
    """Every cell padded but the last, so that no line ends in blanks."""
    line = ""
    for index, (cell, width) in enumerate(zip(_shown(row), widths, strict=True)):
        shown = cell.ljust(width) + " " * _GAP if index + 1 < len(widths) else cell
        line += click.style(shown, **_STYLES[cell]) if colored and cell in _STYLES else shown
    return line.rstrip() if _BLANK in row else line


def _shown(row: Row) -> list[str]:
    """An empty cell is a dash, so that columns survive awk; a line break would break the row."""
    return ["" if cell == _BLANK else visible(" ".join(cell.split())) or NOTHING for cell in row]
