"""A platform that is told to stop does, whoever is reading."""

from __future__ import annotations

from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.journeys.platforms import PATIENCE_S, platform


@pytest.mark.slow
def test_who_watches_reads_an_end_and_nothing_is_said_to_have_failed(tmp_path: Path) -> None:
    with platform(tmp_path) as subject:
        key = subject.start()
        watching = HTTPConnection(subject.address, timeout=PATIENCE_S)
        watching.request("GET", "/v1/events?watch=true", headers={"authorization": f"Bearer {key}"})
        stream = watching.getresponse()
        assert stream.status == 200
        assert subject.stop() == 0
        stream.read()  # to its end: a connection that breaks off would raise
        watching.close()
        assert "exception" not in (tmp_path / "stderr").read_text().lower()
