"""The SDK's guide runs, block by block, against a real platform."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.docs.pages import ROOT, blocks

GUIDE = ROOT / "docs" / "guides" / "sdk.md"

# Each block keeps its place in the guide, so that a traceback names the guide's line.
READER = """
import json, sys
namespace = {"__name__": "guide"}
for block in json.load(sys.stdin):
    exec(compile("\\n" * (block["line"] - 1) + block["text"], sys.argv[1], "exec"), namespace)
"""


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
