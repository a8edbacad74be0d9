"""What people and programs see first: the help, and the description of the API."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.docs.pages import ROOT
from tools.reference.routes import canonical_openapi

from windlass.experience.cli.main import make_root

GOLDEN = ROOT / "tests" / "golden"


def same_as_golden(path: Path, text: str) -> None:
    if os.environ.get("WINDLASS_GOLDENS") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "run `make goldens` and read the diff"


@pytest.mark.golden
def test_the_help_is_as_reviewed() -> None:
    done = CliRunner().invoke(make_root(), ["--help"], prog_name="windlass", terminal_width=80)
    assert done.exit_code == 0
    same_as_golden(GOLDEN / "cli" / "help.txt", done.stdout)


@pytest.mark.golden
def test_the_description_of_the_api_is_as_reviewed() -> None:
    text = canonical_openapi()
    assert json.loads(text)["openapi"].startswith("3.1")
    same_as_golden(GOLDEN / "openapi" / "openapi.json", text)
