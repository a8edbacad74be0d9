"""Every orchestrator there is, behind one set of levers: the suite below knows nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.contract.orchestrators.levers import FakeLevers, Levers, LocalLevers
from tests.site.worlds import short_lived_temporary_folder


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    tmp_path_factory.getbasetemp()  # made now, or pytest would make it in the folder that goes away
    with short_lived_temporary_folder(monkeypatch):
        yield


@pytest.fixture(params=["fake", "local"])
def levers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Levers]:
    subject: Levers = FakeLevers() if request.param == "fake" else LocalLevers(tmp_path)
    yield subject
    asyncio.run(subject.clean_up())
