"""Environment variables, found where the source reads or sets them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import windlass

SOURCE = Path(windlass.__file__).parent
_OWN = re.compile(r"_?WINDLASS_[A-Z][A-Z_]*")


def variables_in(folder: Path = SOURCE) -> dict[str, set[str]]:
    """Each variable that the source reads, and each of Windlass's own that it names: in which files."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in (*_read(tree, path), *_named(tree)):
            found.setdefault(name, set()).add(path.relative_to(folder).as_posix())
    return found


def keys_of(function: str, path: Path) -> set[str]:
    """The constant keys of every dictionary that a function of the file writes out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    body = next(
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function
    )
    dictionaries = (node for node in ast.walk(body) if isinstance(node, ast.Dict))
    keys = (key for one in dictionaries for key in one.keys)
    return {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def _named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _OWN.fullmatch(node.value):
            yield node.value


def _read(tree: ast.AST, path: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=owner, attr="get" | "pop" | "setdefault"), args=[key, *_]
            ) if _is_environment(owner):
                yield _constant(key, path)
            case ast.Call(func=ast.Attribute(attr="getenv") | ast.Name(id="getenv"), args=[key, *_]):
                yield _constant(key, path)
            case ast.Subscript(value=owner, slice=key) if _is_environment(owner):
                yield _constant(key, path)
            case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[owner]) if _is_environment(
                owner
            ):
                yield _constant(key, path)


def _is_environment(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition(".")[2] == "environ"


def _constant(key: ast.expr, path: Path) -> str:
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        return key.value
    raise LookupError(
        f"{path}:{key.lineno} reads an environment variable whose name is not written there,"
        " so the reference cannot list it"
    )
