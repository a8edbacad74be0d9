"""What one invocation knows: the common flags, and what follows from them.

The flags may stand before or after the subcommand; the later one wins. Nothing is read or
connected before a command asks for it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from windlass.sdk import Client
    from windlass.sdk.contexts import Access

OUTPUTS = ("table", "wide", "json", "yaml", "name")
SCOPE = ("tenant", "project", "env")
"""The common flags that only some commands can honour; the others refuse them."""


class Session:
    def __init__(self) -> None:
        self.context: str | None = None
        self.server: str | None = None
        self.output = "table"
        self.chosen_project: str | None = None
        self.chosen_env: str | None = None
        self.chosen_tenant: str | None = None
        self.quiet = False
        self.no_color = bool(os.environ.get("NO_COLOR"))

    @cached_property
    def access(self) -> Access:
        from windlass.sdk.contexts import resolve

        found = resolve(context=self.context, server=self.server)
        for note in found.notes:
            self.say(f"note: {note}")
        return found

    @cached_property
    def client(self) -> Client:
        from windlass.sdk.client import Client
        from windlass.sdk.logins import kept_login

        login = kept_login(self.access)
        # A key has its tenant; a login may have several, and this is the one to act in.
        return Client(
            self.access.server,
            self.access.api_key,
            login=login,
            tenant=self.tenant if login is not None else None,
        )

    @property
    def project(self) -> str | None:
        return self.chosen_project or self.access.project

    @property
    def env(self) -> str | None:
        """The context's environment is a default for the context's project only."""
        if self.chosen_env or (self.chosen_project and self.chosen_project != self.access.project):
            return self.chosen_env
        return self.access.env

    @property
    def tenant(self) -> str | None:
        return self.chosen_tenant or self.access.tenant

    @property
    def narrowed(self) -> str:
        """What -t, -p and -e leave in sight, for a message: a name that is mistyped leaves nothing."""
        chosen = {
            "tenant": self.chosen_tenant,
            "project": self.chosen_project,
            "environment": self.chosen_env,
        }
        told = [f"{what} {name}" for what, name in chosen.items() if name]
        return f" of {', '.join(told)}" if told else ""

    @property
    def machine(self) -> bool:
        """Whether stdout is for a program."""
        return self.output in {"json", "yaml"}

    @property
    def fancy(self) -> bool:
        """Whether a person reads stdout on a terminal that may be coloured."""
        return sys.stdout.isatty() and not self.no_color and os.environ.get("TERM") != "dumb"

    def takes(self, what: str, *taken: str) -> None:
        """Refuses -t, -p and -e that were given and that `what` would ignore. Defaults are no flags."""
        given = [flag for flag in SCOPE if getattr(self, f"chosen_{flag}") and flag not in taken]
        if "tenant" in given and self.access.login is not None:
            given.remove("tenant")  # a login acts in the tenant that is named, whatever the command
        if given:
            from windlass.core.errors import Invalid

            raise Invalid(f"{what} takes no {' and no '.join(f'--{flag}' for flag in given)}")

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def say(self, text: str, **style: Any) -> None:
        """A message to the person: on stderr, and not with --quiet."""
        if not self.quiet:
            self.complain(text, **style)

    def complain(self, text: str, **style: Any) -> None:
        """What must be said even with --quiet: why it failed."""
        text = visible(text)
        color = False if self.no_color else None
        click.echo(click.style(text, **style) if style else text, err=True, color=color)


def visible(text: str) -> str:
    """Text of others on a terminal: what would move its cursor or turn its words around is spelled out."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


def _store(attribute: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def remember(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        if value:
            setattr(ctx.ensure_object(Session), attribute, value)
        return value

    return remember


def _places(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from windlass.experience.cli.completing import complete_place

    return complete_place(ctx, param, incomplete)


def common_options(takes: Sequence[str] = SCOPE) -> list[click.Option]:
    """The flags every command knows. Those it does not take are read all the same, to be refused by
    name, but not shown. New objects each time: click ties a parameter to a command."""

    def option(names: list[str], attribute: str, help: str, **more: Any) -> click.Option:
        flag = attribute.removeprefix("chosen_")
        hidden = flag in SCOPE and flag not in takes
        return click.Option(
            names, help=help, expose_value=False, callback=_store(attribute), hidden=hidden, **more
        )

    return [
        option(["-o", "--output"], "output", "How to print what was asked for.", type=click.Choice(OUTPUTS)),
        option(["-p", "--project"], "chosen_project", "Project.", metavar="NAME", shell_complete=_places),
        option(
            ["-e", "--env"],
            "chosen_env",
            "Environment of the project.",
            metavar="NAME",
            shell_complete=_places,
        ),
        option(["-t", "--tenant"], "chosen_tenant", "Tenant.", metavar="NAME", shell_complete=_places),
        option(["--context"], "context", "A context of the configuration file.", metavar="NAME"),
        option(
            ["--server"], "server", "Address of the server, such as http://127.0.0.1:7420.", metavar="URL"
        ),
        option(["--quiet"], "quiet", "No messages, only what was asked for.", is_flag=True),
        option(["--no-color"], "no_color", "No colour, also on a terminal.", is_flag=True),
    ]


class _WithCommonFlags(click.Command):
    """Adds the common flags and lists them after the command's own."""

    def __init__(self, *args: Any, takes: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.own = len(self.params)
        self.scope = SCOPE if isinstance(self, click.Group) else tuple(takes)
        self.params.extend(common_options(self.scope))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for index, param in enumerate(self.get_params(ctx)):
            record = param.get_help_record(ctx)
            if record is not None:
                # --help comes last of all and belongs to the shared ones.
                (own if index < self.own else shared).append(record)
        for title, records in (("Options", own), ("Common options", shared)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)


class Command(_WithCommonFlags):
    """A command that takes the common flags; of -t, -p and -e those in `takes`."""

    def invoke(self, ctx: click.Context) -> Any:
        ctx.ensure_object(Session).takes(ctx.command_path.partition(" ")[2] or self.name or "", *self.scope)
        return super().invoke(ctx)


class Group(_WithCommonFlags, click.Group):
    """A group that takes them too, for commands that are small enough to live in its module."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if not ctx.resilient_parsing and args and args[0] not in known and not args[0].startswith("-"):
            _refuse_unknown(ctx, args[0], known)
        return super().resolve_command(ctx, args)


def _refuse_unknown(ctx: click.Context, word: str, known: list[str]) -> None:
    from windlass.core.errors import Invalid
    from windlass.experience.cli.later import LATER
    from windlass.experience.cli.lazy import did_you_mean

    typed = " ".join([*ctx.command_path.split()[1:], word])
    if typed in LATER:
        raise Invalid(f"`windlass {typed}` comes in a later release", remedy=LATER[typed])
    ctx.fail(f"there is no command {word!r}{did_you_mean(word, known)}")


def command(name: str, **options: Any) -> Callable[[Callable[..., Any]], Command]:
    return click.command(name, cls=Command, **options)


def group(name: str, **options: Any) -> Callable[[Callable[..., Any]], Group]:
    return click.group(name, cls=Group, **options)


pass_session = click.make_pass_decorator(Session, ensure=True)
