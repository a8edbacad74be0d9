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
