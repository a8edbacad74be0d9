"""Many stories, every promise: real controllers on a virtual clock, with everything that can go wrong.

A failure names its seed. `make test-faults` plays more of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulation import history
from tests.simulation.story import simulate

STORIES = int(os.environ.get("WINDLASS_SIMULATIONS", "160"))
FIRST = int(os.environ.get("WINDLASS_SIMULATION_FIRST", "1"))
_PARTS = 8


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_every_promise_holds_whatever_goes_wrong(part: int) -> None:
    for seed in range(FIRST + part, FIRST + STORIES, _PARTS):
        told = simulate(seed)
        assert not told.breaches, told


@pytest.mark.parametrize("seed", [5, 6])
def test_the_same_seed_is_the_same_story_in_every_process(seed: int) -> None:
    here = simulate(seed)
    assert simulate(seed).trace == here.trace
    other = "from tests.simulation.story import simulate; import logging; logging.disable(50);"
    done = subprocess.run(
        [sys.executable, "-c", f"{other} print(simulate({seed}).digest)"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == here.digest


def test_another_seed_is_another_story() -> None:
    assert simulate(7).digest != simulate(9).digest


def test_the_checker_shares_no_code_with_the_platform() -> None:
    assert "windlass" not in Path(history.__file__).read_text(encoding="utf-8")
