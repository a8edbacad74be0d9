"""Command lines in documentation: found in a block, then parsed by the command line's own parser."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
from tests.docs.pages import ROOT, Block

from windlass.core.errors import WindlassError
from windlass.experience.cli.main import make_root
from windlass.experience.cli.session import Session

SHELLS = ("console", "sh", "bash", "shell")
_OPERATOR = re.compile(r"[();<>|&]+")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=.*")


def command_lines(block: Block) -> Iterator[tuple[int, list[str]]]:
    """Every `windlass …` and `make …` of the block with its line: after a prompt or bare, also in a
    pipe or `$(…)`. Other lines are output."""
    lines = block.text.splitlines()
    at = 0
    while at < len(lines):
        start, text = at, lines[at]
        while text.endswith("\\") and at + 1 < len(lines):
            at += 1
            text = text[:-1] + lines[at]
        at += 1
        typed = text.strip().removeprefix("$ ")
        if text.strip().startswith("$ ") or re.match(r"(\S*/)?(windlass|make) ", typed):
            for words in simple_commands(typed):
                program = words[0].rpartition("/")[2]
                if program in {"windlass", "make"}:
                    yield block.line + start, [program, *words[1:]]


def simple_commands(line: str) -> Iterator[list[str]]:
    """The commands of one line of shell: split at pipes, `;`, `&&`, redirections and parentheses."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for token in [*lexer, ";"]:
        if _OPERATOR.fullmatch(token):
            while words and _ASSIGNED.fullmatch(words[0]):
                words.pop(0)
            if words:
                yield words
            words = []
        else:
            words.append(token)


def complaint(words: list[str]) -> str | None:
    """What is wrong with a command line, or None. Nothing is run."""
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
        unknown = set(targets) - make_targets()
        return f"there is no target {', '.join(sorted(unknown))}" if unknown else None
    try:
        _resolve(make_root(), "windlass", words[1:], None)
    except click.exceptions.Exit:  # --help
        return None
    except click.BadParameter as error:
        if error.param is not None and isinstance(error.param.type, click.Path | click.File):
            return None  # the file is the reader's to write
        return error.format_message()
    except click.UsageError as error:
        return error.format_message()
    except WindlassError as error:  # a command of a later release
        return error.detail
    return None


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def _resolve(command: click.Command, name: str, args: list[str], parent: click.Context | None) -> None:
    """Parses as running would, group by group, and stops where running would begin."""
    context = command.make_context(name, list(args), parent, obj=Session())
    with context:
        if isinstance(command, click.Group):
            rest = [*context._protected_args, *context.args]
            inner_name, inner, inner_args = command.resolve_command(context, rest)
            assert inner is not None
            _resolve(inner, inner_name or "", inner_args, context)
