"""One cluster for all tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.slurm.cluster import Cluster, started
from tools.debian_packages import NotToBeHad


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        running = started(tmp_path_factory.mktemp("slurm"))
        with running as found:
            yield found
    except NotToBeHad as why:
        pytest.skip(str(why))
