"""A sign of life on stderr while a command waits. Silent with --quiet and when nobody looks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from windlass.experience.cli.session import Session


@contextmanager
def waiting(session: Session, text: str) -> Iterator[Callable[[str], None]]:
    """Shows `text`, and what the yielded function is given later."""
    if session.quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, no_color=session.no_color)
    with console.status(escape(text)) as status:
        yield lambda words: status.update(escape(words))
