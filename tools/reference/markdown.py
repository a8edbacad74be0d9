"""Markdown, as far as the reference needs it. Blocks are lists of lines, blank lines included."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def lines_of(title: str, source: str, *lines: str) -> str:
    """A whole page: its title, where it comes from, then its lines."""
    head = [f"# {title}", "", f"Generated from {source} by `python -m tools.reference`. Do not edit it.", ""]
    return "\n".join([*head, *lines]).rstrip("\n") + "\n"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_cell(cell) for cell in cells) + " |"

    return [line(headers), "|" + "---|" * len(headers), *(line(row) for row in rows), ""]


def fence(language: str, text: str) -> list[str]:
    return [f"```{language}", *text.strip("\n").splitlines(), "```", ""]


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def codes(names: Iterable[str]) -> str:
    return ", ".join(code(name) for name in names)


def link(text: str) -> str:
    """To the heading of that text on the same page."""
    return f"[{text}](#{slug(text)})"


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def sentence(text: str | None) -> str:
    """A docstring's first paragraph on one line; nothing for none."""
    return " ".join((text or "").strip().partition("\n\n")[0].split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()
