"""cli.md: the tree of commands, as click knows it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from tools.reference.markdown import code, fence, lines_of, sentence, table
from windlass.experience.cli import main
from windlass.experience.cli.session import common_options


def page() -> str:
    root = main.make_root()
    lines = [*_help(root.help), *_common(root)]
    for path, command, context in commands(root):
        lines += _command(path, command, context)
    return lines_of("Commands", "the command line's own definitions", *lines)


def commands(root: click.Group) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command below the root with what a person types for it, groups before their members."""
    context = click.Context(root, info_name="windlass")
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        assert command is not None, f"`windlass {name}` points nowhere"
        yield from _tree(f"windlass {name}", command, click.Context(command, context, info_name=name))


def _tree(
    path: str, command: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _tree(f"{path} {name}", inner, click.Context(inner, context, info_name=name))


def _common(root: click.Command) -> list[str]:
    context = click.Context(root, info_name="windlass")
    rows = [option_row(option, context) for option in common_options()]
    said = main.__doc__ or ""
    return [
        "## Common options",
        "",
        "Every command takes these, before or after its name; the later one wins. Where --tenant,"
        " --project or --env would mean nothing, a command refuses it.",
        "",
        *table(["Option", "Means", "Default"], rows),
        "## Exit codes",
        "",
        " ".join(said[said.index("Exit codes:") :].split()),
        "",
    ]


def _command(path: str, command: click.Command, context: click.Context) -> list[str]:
    # Options are optional by name; what has to be given stands in the table.
    pieces = " ".join([path, *command.collect_usage_pieces(context)])
    lines = [f"## {path}", "", code(pieces), "", *_help(command.help)]
    shared = {option.name for option in common_options()}
    own = [param for param in command.params if param.name not in shared]
    options = [param for param in own if isinstance(param, click.Option)]
    if options:
        lines += table(["Option", "Means", "Default"], [option_row(option, context) for option in options])
    if isinstance(command, click.Group):
        members = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        rows = [[code(f"{path} {name}"), sentence(one.help)] for name, one in members if one is not None]
        lines += table(["Command", "Does"], rows)
    return lines


def option_row(option: click.Option, context: click.Context) -> list[str]:
    names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    if not option.is_flag and not option.count:
        names += f" {code(option.make_metavar(context))}"
    default = ""
    if option.required:
        default = "required"
    elif option.show_default:
        default = code(str(option.default))
    return [names, option.help or "", default]


def _help(text: str | None) -> list[str]:
    """Paragraphs as prose; what click must not wrap (`\\b`) is an example."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(text or "").partition("\f")[0].split("\n\n"):
        first, _, rest = paragraph.partition("\n")
        if first.strip() == "\b":
            lines += fence("console", "\n".join(_example(line) for line in rest.splitlines()))
        else:
            lines += [" ".join(paragraph.split()), ""]
    return lines


def _example(line: str) -> str:
    """`windlass queue     who waits` -> `$ windlass queue     # who waits`."""
    typed, gap, remark = [*re.split(r"( {2,})", line.strip(), maxsplit=1), "", ""][:3]
    return f"$ {typed}" + (f"{gap}# {remark}" if remark else "")
