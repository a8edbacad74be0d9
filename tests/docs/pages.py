"""Markdown as the tests read it: which files there are, their fenced blocks, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}) *([\w+-]*)[^\n]*$")
_INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block. `line` is that of its first line of text, from 1."""

    path: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def all_pages() -> list[Path]:
    """Every Markdown file of the repository; folders that begin with a dot are not part of it."""
    found = (path for path in ROOT.rglob("*.md") if path.is_file())
    inside = ((path, path.relative_to(ROOT).parts) for path in found)
    return sorted(path for path, parts in inside if not any(part.startswith(".") for part in parts))


def blocks(*languages: str, pages: list[Path] | None = None) -> list[Block]:
    return [
        block
        for path in (all_pages() if pages is None else pages)
        for block in _blocks(path)
        if block.language in languages
    ]


def _blocks(path: Path) -> Iterator[Block]:
    mark, language, start = "", "", 0
    held: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if not mark and fence:
            mark, language, start, held = fence[1], fence[2].lower(), number + 1, []
        elif mark and line.strip() == mark:
            yield Block(path, start, language, "\n".join(held))
            mark = ""
        elif mark:
            held.append(line)
    assert not mark, f"{path}:{start}: the fenced block does not end"


def prose(path: Path) -> str:
    """The text without its fenced blocks."""
    mark = ""
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        fence = _FENCE.match(line)
        if not mark and fence:
            mark = fence[1]
        elif mark:
            mark = "" if line.strip() == mark else mark
        else:
            kept.append(line)
    return "\n".join(kept)


def links(path: Path) -> list[str]:
    return _LINK.findall(_INLINE_CODE.sub("code", prose(path)))


def headings(path: Path) -> list[str]:
    return [heading.replace("`", "") for heading in _HEADING.findall(prose(path))]


def cells(page: str, column: int = 0) -> list[str]:
    """One column of every table of a page of the reference, without the marks for code."""
    rows = [line for line in (REFERENCE / page).read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    found = [re.split(r"(?<!\\)\|", row)[1 + column].strip() for row in rows]
    return [cell.replace("`", "").replace("\\|", "|") for cell in found]
