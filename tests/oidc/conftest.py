"""A real provider, a real platform, a real command line. Only `make test-oidc` asks for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.journeys.platforms import Platform, platform
from tests.oidc.worlds import CATALOG, Desk, RealProvider, provider_document, real_provider


@pytest.fixture
def idp() -> Iterator[RealProvider]:
    with real_provider() as running:
        yield running


@pytest.fixture
def server(tmp_path: Path, idp: RealProvider) -> Iterator[Platform]:
    with platform(tmp_path) as running:
        running.key = running.start()
        status, answer = running.call("POST", "/v1/apply", [*CATALOG, provider_document(idp.issuer)])
        assert status == 200, answer
        yield running


@pytest.fixture
def desk(tmp_path: Path, server: Platform) -> Desk:
    return Desk(tmp_path / "config.toml", f"http://{server.address}")
