"""The reference under docs/reference, made from the code it describes.

Every page is a function from nothing to text: same code, same bytes. What a page says comes from the
tables, types and signatures the platform itself uses. The one thing written by hand is what an
environment variable is for (settings.py), and a variable without that line stops the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from tools.reference import api, authorization, cli, documents, errors, expressions, metrics, rules, settings
from tools.reference.markdown import lines_of, table

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"

Page = Callable[[], str]

PAGES: Mapping[str, tuple[Page, str]] = {
    "cli.md": (cli.page, "every command with its options"),
    "api.md": (api.page, "every route, and the shape of every answer"),
    "documents.md": (documents.page, "every kind of document, field by field"),
    "rules.md": (rules.page, "what an intent can be refused for"),
    "expressions.md": (expressions.page, "what types, traits and policies can say"),
    "errors.md": (errors.page, "every error: code, HTTP status, exit code"),
    "metrics.md": (metrics.page, "what `/metrics` shows"),
    "authorization.md": (authorization.page, "which role may do what"),
    "settings.md": (settings.page, "flags, environment variables, the configuration file"),
}


@cache
def render_all() -> Mapping[str, str]:
    """Every file of the reference by its name. Made once: the code does not change while it runs."""
    pages = {name: page() for name, (page, _) in PAGES.items()}
    return {"README.md": _index(), **pages}


def differences(folder: Path = FOLDER) -> list[str]:
    """The names of files that are not what the code says, missing ones and leftovers included."""
    wanted = render_all()
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    return sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))


def write(folder: Path = FOLDER) -> list[str]:
    """Make the folder what the code says; the names of the files that changed."""
    changed = differences(folder)
    wanted = render_all()
    folder.mkdir(parents=True, exist_ok=True)
    for name in changed:
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8")
        else:
            (folder / name).unlink()
    return changed


def _index() -> str:
    rows = [[f"[{name.removesuffix('.md')}]({name})", what] for name, (_, what) in PAGES.items()]
    return lines_of("Reference", "the code", *table(["Page", "Says"], rows))
