"""Makes `tests` importable as a package of helpers, and gives each test a server of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.sdk.canned_server import CannedServer, serving


@pytest.fixture
def server() -> Iterator[CannedServer]:
    with serving() as canned:
        yield canned


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private configuration, and nothing from the environment of whoever runs the tests."""
    for name in ("SERVER", "API_KEY", "CONTEXT", "CONFIG", "DEBUG"):
        monkeypatch.delenv(f"WINDLASS_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path
