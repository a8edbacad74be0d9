"""Makes `the worlds of other folders` importable, and finds servers a place."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))


@pytest.fixture
def place() -> Iterator[Path]:
    """For a server's data. Not `tmp_path`: whoever runs pytest next closes the way there to other users."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-pg-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
