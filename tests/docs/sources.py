"""What the source says there is, read without importing it: the second opinion on the reference."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "windlass"


def trees(under: str = ".") -> Iterator[tuple[Path, ast.Module]]:
    folder = SOURCE / under
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    for path in files:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def calls(under: str = ".") -> Iterator[ast.Call]:
    for _, tree in trees(under):
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def classes(under: str = ".") -> Iterator[ast.ClassDef]:
    for _, tree in trees(under):
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def first_text(call: ast.Call) -> str | None:
    """The first argument, where it is a text."""
    match call.args:
        case [ast.Constant(value=str(text)), *_]:
            return text
    return None


def keyword_text(call: ast.Call, name: str) -> str | None:
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg=found, value=ast.Constant(value=str(text))) if found == name:
                return text
    return None


def called(call: ast.Call) -> str:
    return ast.unparse(call.func)


def commands() -> set[str]:
    """`windlass key create`, from the decorators: @command("up"), @group("key"), @key.command("create")."""
    found: set[str] = set()
    for _, tree in trees("experience/cli"):
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        decorators = [(one.name, mark) for one in functions for mark in one.decorator_list]
        made = [(name, mark) for name, mark in decorators if isinstance(mark, ast.Call)]
        groups = {name: first_text(mark) for name, mark in made if called(mark) == "group"}
        for _, mark in made:
            owner, _, method = called(mark).rpartition(".")
            text = first_text(mark)
            if text is not None and method in {"command", "group"}:
                if owner in groups:
                    found.add(f"windlass {groups[owner]} {text}")
                elif not owner:
                    found.add(f"windlass {text}")
    return found


def rule_codes() -> set[str]:
    """Every code that a Rule has, and every one that is given to a reason by name."""
    rules = {first_text(call) for call in calls("core/admission") if called(call) == "Rule"}
    reasons = {keyword_text(call, "rule") for call in calls()}
    by_default = {text for _, tree in trees() for text in _default_rules(tree)}
    return {code for code in rules | reasons | by_default if code}


def _default_rules(tree: ast.Module) -> Iterator[str]:
    """`rule: str = "…"` among a function's arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
                match default:
                    case ast.Constant(value=str(text)) if argument.arg == "rule":
                        yield text


def error_codes() -> set[str]:
    """`code = "…"` in the body of a class."""
    found: set[str] = set()
    for one in classes():
        for line in one.body:
            match line:
                case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(text))):
                    found.add(text)
                case ast.AnnAssign(target=ast.Name(id="code"), value=ast.Constant(value=str(text))):
                    found.add(text)
    return found


def metric_names() -> set[str]:
    made = (call for call in calls() if called(call) in {"Counter", "Gauge", "Histogram", "Summary", "Info"})
    return {name for call in made if (name := first_text(call))}


def wire_types() -> set[str]:
    return {one.name for page in ("api", "identity") for one in classes(f"contracts/{page}.py")}
