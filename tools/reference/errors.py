"""errors.md: the tree of errors, with what a program, a proxy and a shell see of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import windlass
from tools.reference.markdown import code, lines_of, sentence, table
from windlass.core import errors
from windlass.core.errors import WindlassError

_REMEDY = re.compile(r"(\w+) +(\S.*?) +\d{3} +exit", re.ASCII)


def page() -> str:
    said = (errors.__doc__ or "").strip().split("\n\n")
    remedies = {name: remedy for name, remedy in _REMEDY.findall(said[1]) if hasattr(errors, name)}
    rows = [
        [
            f"{'· ' * depth}{kind.__name__}",
            code(kind.code),
            str(kind.status),
            str(kind.exit_code),
            "yes" if kind.retryable else "",
            " ".join(filter(None, (_stopped(kind.title), sentence(vars(kind).get("__doc__"))))),
            remedies.get(kind.__name__, ""),
        ]
        for depth, kind in tree()
    ]
    return lines_of(
        "Errors",
        "the tree of errors",
        "An error is answered as `application/problem+json`; `code` names it for programs. The command line"
        " ends with the exit code. Where a retry can help, the answer carries `Retry-After`, and the SDK and"
        " the command line try again by themselves.",
        "",
        *table(["Error", "Code", "HTTP", "Exit", "Retry", "Means", "So"], rows),
        " ".join(said[2].split()),
    )


def _stopped(title: str) -> str:
    return title if title[-1] in ".?" else f"{title}."


def tree() -> list[tuple[int, type[WindlassError]]]:
    """The root and everything below it, depth first, siblings by status."""
    for module in walk_packages(windlass.__path__, "windlass."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    return list(_below(WindlassError, 0))


def _below(kind: type[WindlassError], depth: int) -> Iterator[tuple[int, type[WindlassError]]]:
    yield depth, kind
    for child in sorted(kind.__subclasses__(), key=lambda one: (one.status, one.code)):
        yield from _below(child, depth + 1)
