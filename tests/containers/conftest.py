"""One podman for all tests of this folder, and a site whose jobs are containers."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.containers.engine import Podman, started
from tests.containers.site import ContainerLevers, ContainerWorld
from tests.site import worlds
from tests.site.worlds import short_lived_temporary_folder
from tools.debian_packages import NotToBeHad


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    # A folder of a short name: the sockets of a container's monitor lie in it.
    with tempfile.TemporaryDirectory(prefix="wl-") as folder:
        try:
            engine = started(Path(folder))
            with engine as found:
                yield found
                found.call("rm", "--all", "--force", "--time=0")
        except NotToBeHad as why:
            pytest.skip(str(why))


@pytest.fixture(autouse=True)
def on_the_path(
    podman: Podman, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    tmp_path_factory.getbasetemp()  # made now, or pytest would make it in the folder that goes away
    monkeypatch.setattr(worlds, "DEADLINE_S", 90.0)  # each container starts half a dozen programs
    monkeypatch.setenv("PATH", str(podman.folder), prepend=":")
    with short_lived_temporary_folder(monkeypatch):
        yield


@pytest.fixture
def world(tmp_path: Path, podman: Podman) -> Iterator[ContainerWorld]:
    world = ContainerWorld(tmp_path)
    yield world
    world.end_everything()
    assert podman.containers() == [], "no container outlives its job"


@pytest.fixture
def levers(tmp_path: Path, podman: Podman) -> Iterator[ContainerLevers]:
    subject = ContainerLevers(tmp_path, podman)
    yield subject
    asyncio.run(subject.clean_up())
    assert podman.containers() == [], "no container outlives its job"
