"""`completion SHELL`: the script that makes TAB work."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from windlass.experience.cli.session import command


@command("completion", short_help="Print a completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a completion script for your shell.

    \b
      eval "$(windlass completion bash)"         # in ~/.bashrc
      eval "$(windlass completion zsh)"          # in ~/.zshrc
      windlass completion fish | source          # in config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    root = ctx.find_root().command
    click.echo(kind(root, {}, "windlass", "_WINDLASS_COMPLETE").source())
