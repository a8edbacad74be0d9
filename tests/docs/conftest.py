"""Makes `tools` and `tests.docs` importable from the repository's root; a platform to try the docs on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

PLATFORM = """
import json, sys
from pathlib import Path
from windlass.platform import UpOptions, run_up

def tell(ready):
    print(json.dumps({"WINDLASS_SERVER": ready.address, "WINDLASS_API_KEY": ready.secret}), flush=True)

run_up(UpOptions(data=Path(sys.argv[1]), port=0, demo=True, context=None), tell)
"""


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A demo platform of its own; the environment that leads to it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    environment["WINDLASS_CONFIG"] = str(tmp_path / "config.toml")
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", PLATFORM, str(tmp_path / "data")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert server.stdout is not None
    try:
        ready = server.stdout.readline()
        assert ready, f"the platform did not start:\n{(tmp_path / 'log').read_text()}"
        yield {**environment, **json.loads(ready)}
    finally:
        server.terminate()
        server.wait(timeout=20)
        server.stdout.close()
