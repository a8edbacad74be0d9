"""How the code is kept readable and its core pure: rules of docs and style that a machine can check."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from windlass.core.admission.rules import RULES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "windlass"
MAX_FILE, MAX_FUNCTION = 500, 70

VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "service", "misc", "lib", "base"}

# Imports inside functions cost a reader; each place that needs them says why.
LATE_IMPORTS = {
    "control/identity/jose.py": "joserfc is 100 ms and 20 MB, for installations with an identity provider",
    "experience/": "a command that does not need a module does not wait for it: the CLI starts in 150 ms",
    "processes.py": "uvloop, and the exporter of traces where one is set, are loaded by who runs a process",
    "sdk/": "the synchronous client does not wait for asyncio, nor either for what a call may not need",
    "site/nodes/inventory.py": "NVML is there on machines with GPUs only",
}

# Time and chance are arguments. The defaults that bind them to the machine are these.
CLOCK_AND_CHANCE = {
    "runtime/": "the one place that reads the machine's clock and its randomness",
    "platform.py": "puts the parts together, with the machine's own clock and chance",
    "agent.py": "puts a site together, with the machine's own chance",
    "control/identity/keys.py": "the default of an argument: how a secret is drawn",
    "sdk/": "a client lives in its caller's time: deadlines and the pauses between tries",
    "site/orchestrators/local/": "talks to processes of this machine, which live in its time",
    "experience/": "a command line lives in the time of the person who waits for it",
    "sim/world.py": "worlds are made from a seed",
}
_CLOCKS = {
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "monotonic"),
    ("time", "monotonic_ns"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
}
_CHANCE = {"random", "secrets", "uuid"}


def python_files(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if "__pycache__" not in path.parts]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def listed(path: Path, places: dict[str, str]) -> bool:
    inside = path.relative_to(SOURCE).as_posix()
    return any(inside.startswith(place) for place in places)


EVERYTHING = python_files("src", "tests", "benchmarks", "tools")


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    long = {named(path): n for path in EVERYTHING if (n := len(path.read_text().splitlines())) > MAX_FILE}
    assert long == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{named(path)}:{node.name}": length
        for path in EVERYTHING
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION
    }
    assert long == {}


def test_a_module_is_named_after_what_it_owns() -> None:
    vague = [named(path) for path in EVERYTHING if path.stem in VAGUE or set(path.parts) & VAGUE]
    assert vague == []


def test_no_two_test_files_share_a_name() -> None:
    """Test folders are no packages, so pytest knows a file by its name alone and refuses a second one."""
    names = Counter(path.name for path in python_files("tests") if path.name.startswith("test_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_module_of_ours_says_what_it_owns() -> None:
    silent = [
        named(path) for path in python_files("src") if tree(path).body and not ast.get_docstring(tree(path))
    ]
    assert silent == []


def late_imports(path: Path) -> Iterator[str]:
    for function in ast.walk(tree(path)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield f"{named(path)}:{node.lineno}"


def test_imports_are_at_the_top_except_where_it_is_listed_why() -> None:
    late = [
        found
        for path in python_files("src/windlass")
        if not listed(path, LATE_IMPORTS)
        for found in late_imports(path)
    ]
    assert late == []


def test_nothing_on_the_list_of_late_imports_is_stale() -> None:
    used = {
        place
        for place in LATE_IMPORTS
        for path in python_files("src/windlass")
        if listed(path, {place: ""}) and [*late_imports(path)]
    }
    assert used == set(LATE_IMPORTS)


def clock_or_chance(path: Path) -> Iterator[str]:
    """Reads of the machine's clock, and any use of its randomness."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in _CLOCKS:
                yield f"{named(path)}:{node.lineno} {node.value.id}.{node.attr}"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            )
            if _CHANCE & {name.partition(".")[0] for name in names}:
                yield f"{named(path)}:{node.lineno} {names}"


def test_time_and_chance_are_arguments_everywhere_but_where_they_enter() -> None:
    read = [
        found
        for path in python_files("src/windlass")
        if not listed(path, CLOCK_AND_CHANCE)
        for found in clock_or_chance(path)
    ]
    assert read == []


@pytest.mark.parametrize("folder", ["src/windlass/core/ledger", "src/windlass/core/metering.py"])
def test_money_and_gpu_time_never_meet_a_float(folder: str) -> None:
    paths = python_files(folder) or [ROOT / folder]
    found = [
        f"{named(path)}:{node.lineno}"
        for path in paths
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Name) and node.id == "float")
        or (isinstance(node, ast.Constant) and isinstance(node.value, float))
        or (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div))
    ]
    assert found == []


def test_no_test_sleeps_to_wait_for_something() -> None:
    """A pause inside a polling loop has its reason beside it; everything else waits for a condition."""
    bare = [
        f"{named(path)}:{number}"
        for path in python_files("tests/control", "tests/core", "tests/architecture")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if "time.sleep(" in line and path != Path(__file__)
    ]
    assert bare == []


def test_every_rule_code_is_in_the_reference() -> None:
    reference = ROOT / "docs" / "reference"
    if not reference.is_dir():
        pytest.skip("docs/reference is not written yet")
    text = "\n".join(path.read_text() for path in reference.rglob("*.md"))
    assert [rule.code for rule in RULES if f"`{rule.code}`" not in text] == []
