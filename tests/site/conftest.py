"""Makes `tests.site.worlds` importable, and lets no job outlive its test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.site.worlds import LocalWorld, short_lived_temporary_folder


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    tmp_path_factory.getbasetemp()  # made now, or pytest would make it in the folder that goes away
    with short_lived_temporary_folder(monkeypatch):
        yield


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    world = LocalWorld(tmp_path)
    yield world
    world.end_everything()
