"""The SDK's guide runs, block by block, against a real platform."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, blocks

GUIDE = ROOT / "docs" / "guides" / "sdk.md"

PLATFORM = """
import json, sys
from pathlib import Path
from windlass.platform import UpOptions, run_up

def tell(ready):
    print(json.dumps({"WINDLASS_SERVER": ready.address, "WINDLASS_API_KEY": ready.secret}), flush=True)

run_up(UpOptions(data=Path(sys.argv[1]), port=0, demo=True, gpus="h100-80gx8", context=None), tell)
"""

# Each block keeps its place in the guide, so that a traceback names the guide's line.
READER = """
import json, sys
namespace = {"__name__": "guide"}
for block in json.load(sys.stdin):
    exec(compile("\\n" * (block["line"] - 1) + block["text"], sys.argv[1], "exec"), namespace)
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


@pytest.mark.slow
def test_the_guide_runs(platform: dict[str, str]) -> None:
    found = blocks("python", pages=[GUIDE])
    assert len(found) >= 8
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", READER, str(GUIDE)],
        input=json.dumps([{"line": block.line, "text": block.text} for block in found]),
        env=platform,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "entitlement.max" in done.stdout, "the refusal was not shown"
    assert "Pending quota" in done.stdout, "nothing waited"
    assert "['Succeeded', 'Succeeded', 'Succeeded']" in done.stdout
    assert done.stderr == ""
