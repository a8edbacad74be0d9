"""No float touches money or GPU time: not a literal, not a division, not a conversion."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from windlass.core import metering, units
from windlass.core.ledger import prices

FILES = [
    Path(metering.__file__),
    Path(units.__file__),
    *sorted(Path(prices.__file__).parent.glob("*.py")),
]


def floats(tree: ast.AST) -> list[str]:
    """Where a float could come from, as text."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=float() | complex()):
                found.append(f"line {node.lineno}: a float literal")
            case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
                found.append(f"line {node.lineno}: true division")
            case ast.Name(id="float") | ast.Attribute(attr="timestamp" | "total_seconds" | "truediv"):
                found.append(f"line {node.lineno}: a float by name")
            case ast.Import(names=[ast.alias(name="math")]) | ast.ImportFrom(module="math"):
                found.append(f"line {node.lineno}: math works in floats")
            case _:
                pass
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_money_and_metering_know_no_float(path: Path) -> None:
    assert floats(ast.parse(path.read_text())) == []


@pytest.mark.parametrize("code", ["1.5", "a / b", "a /= b", "float(a)", "import math", "moment.timestamp()"])
def test_the_search_finds_what_it_is_for(code: str) -> None:
    assert len(floats(ast.parse(code))) == 1
