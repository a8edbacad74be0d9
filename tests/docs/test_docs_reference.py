"""The reference is what the code says, and leaves nothing out that the source has."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from tests.docs import sources
from tests.docs.pages import REFERENCE, ROOT, cells, headings
from tools import reference
from tools.reference.environment import variables_in
from tools.reference.routes import openapi
from tools.reference.settings import READ, TOLD

from windlass.control.identity.authorize import Action
from windlass.control.identity.scopes import Role
from windlass.core.documents.kinds import KINDS
from windlass.core.documents.shape import wire_name
from windlass.core.intent import IntentSpec
from windlass.runtime import metrics


@pytest.mark.golden
def test_the_reference_is_current() -> None:
    if os.environ.get("WINDLASS_GOLDENS") == "write":
        reference.write()
    assert reference.differences() == [], "run `make goldens` and read the diff"


def test_making_it_twice_gives_the_same_bytes() -> None:
    once = subprocess.run(
        [sys.executable, "-c", "from tools.reference import render_all; print(render_all())"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7", "COLUMNS": "40"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert once.stdout == f"{reference.render_all()}\n"


def test_a_page_that_differs_is_named_and_one_too_many_too(tmp_path: Path) -> None:
    reference.write(tmp_path)
    assert reference.differences(tmp_path) == []
    (tmp_path / "cli.md").write_text("something else")
    (tmp_path / "old.md").write_text("a page that nothing makes any more")
    assert reference.differences(tmp_path) == ["cli.md", "old.md"]
    assert reference.write(tmp_path) == ["cli.md", "old.md"]
    assert reference.differences(tmp_path) == []


def test_check_exits_with_1_where_something_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tools.reference import __main__ as program

    monkeypatch.setattr(sys, "argv", ["tools.reference", "--check"])
    monkeypatch.setattr(program, "differences", lambda: ["cli.md"])
    assert program.main() == 1
    assert "docs/reference/cli.md" in capsys.readouterr().out
    monkeypatch.setattr(program, "differences", list)
    assert program.main() == 0


def test_every_command_is_there() -> None:
    found = sources.commands()
    assert len(found) > 30
    assert found <= set(headings(REFERENCE / "cli.md"))


def test_every_rule_code_is_there() -> None:
    found = sources.rule_codes()
    assert {"entitlement.max", "document.invalid", "name.invalid"} <= found
    assert found <= {*cells("rules.md", 0), *cells("rules.md", 1)}


def test_every_error_code_is_there() -> None:
    found = sources.error_codes()
    assert "rejected" in found
    assert found <= set(cells("errors.md", 1))


def test_every_metric_is_there_and_is_served() -> None:
    found = sources.metric_names()
    assert found
    assert found <= set(cells("metrics.md"))
    served = metrics.render().decode()
    assert all(f"# HELP {name} " in served for name in found)


def test_every_route_is_there() -> None:
    described = {
        f"{method.upper()} {path}" for path, methods in openapi()["paths"].items() for method in methods
    }
    for kind in KINDS.values():
        assert {f"GET /v1/{kind.plural}", f"DELETE /v1/{kind.plural}/{{name}}"} <= described
    listed = set(cells("api.md"))
    assert described <= listed
    literals = {text for call in sources.calls("control/gateway/table.py") if (text := _path(call))}
    assert "/healthz" in literals
    assert literals <= {one.partition(" ")[2] for one in listed}


def _path(call: ast.Call) -> str | None:
    """The path of a Route(…) that is written out."""
    match call:
        case ast.Call(func=ast.Name(id="Route"), args=[_, ast.Constant(value=str(text)), *_]):
            return text
    return None


def test_every_shape_of_an_answer_is_there() -> None:
    assert sources.wire_types() <= set(headings(REFERENCE / "api.md"))


def test_every_kind_and_each_of_its_fields_is_there() -> None:
    text = (REFERENCE / "documents.md").read_text(encoding="utf-8")
    specs = {**{name: kind.spec for name, kind in KINDS.items()}, "Component": IntentSpec}
    for name, spec in specs.items():
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        for field in fields(spec):
            wire = field.metadata.get("wire") or wire_name(field.name)
            assert f"| `{wire}` |" in section, f"{name}.{wire}"
        assert f"kind: {name}\n" in section


def test_every_role_and_action_is_there() -> None:
    text = (REFERENCE / "authorization.md").read_text(encoding="utf-8")
    for word in (*get_args(Role), *get_args(Action)):
        assert f"`{word}`" in text


def test_every_environment_variable_of_the_source_is_there() -> None:
    listed = set(cells("settings.md"))
    assert set(variables_in()) <= listed
    assert {*READ, *TOLD} <= listed


@pytest.mark.parametrize(
    "line",
    [
        "os.environ.get('NEW_ONE')",
        "os.environ['NEW_ONE']",
        "environ.get('NEW_ONE', 'x')",
        "os.getenv('NEW_ONE')",
        "'NEW_ONE' in os.environ",
    ],
)
def test_a_new_environment_variable_is_noticed(line: str, tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(f"import os\nvalue = {line}\n")
    assert set(variables_in(tmp_path)) == {"NEW_ONE"}


def test_a_variable_whose_name_cannot_be_seen_stops_the_reference(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text("import os\nfor name in names:\n    os.environ.get(name)\n")
    with pytest.raises(LookupError, match="reads an environment variable"):
        variables_in(tmp_path)
