"""Groups whose commands are imported only when used, so that `windlass --help` stays instant.

A group is a table: name, where the command lives, one line of help. Help and completion read the
table alone; a test compares its lines with the commands' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class Entry(NamedTuple):
    """`target` is module:attribute. Entries with the same `section` stand together in the help."""

    target: str
    help: str
    section: str = "Commands"


class LazyGroup(click.Group):
    def __init__(self, *args: Any, table: Mapping[str, Entry], **options: Any) -> None:
        super().__init__(*args, **options)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(len(name) for name in self.table)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.table.items():
            sections.setdefault(entry.section, []).append((name.ljust(width), entry.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)


def did_you_mean(word: str, known: Mapping[str, object] | list[str]) -> str:
    """`; did you mean 'queue'?`, or nothing when nothing is near."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
