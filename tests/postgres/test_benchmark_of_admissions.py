"""Admissions are measured on PostgreSQL too. No number is judged: a test must not fail because the machine is
busy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.control.engines import POSTGRES

pytestmark = pytest.mark.skipif(not POSTGRES, reason="a benchmark on PostgreSQL: `make test-pg`")

ROOT = Path(__file__).parents[2]
TINY = ["--queues", "10", "--workloads", "60", "--nodes", "2"]


@pytest.mark.parametrize("finish", [[], ["--finish", "4"]])
def test_every_workload_is_admitted_once_and_ends(finish: list[str]) -> None:
    command = [sys.executable, "-m", "benchmarks.admissions", "--json", "--store", "postgres", *TINY, *finish]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    assert answer["settings"]["store"] == "postgres"
    assert answer["results"]["admissionsPerSecond"] > 0
