"""The first pages a person reads, typed as they stand into a shell beside a demo platform. What a page shows
of an answer is in the answer; ids, numbers and times are its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, blocks

PAGES = [ROOT / "README.md", ROOT / "docs" / "guides" / "getting-started.md"]
NOT_HERE = ("make ", "export PATH=")
PATIENCE_S = 30.0
REFUSED = 3


@dataclass(frozen=True)
class Step:
    """A line that is typed, and the lines that are shown below it."""

    place: str
    line: str
    shown: tuple[str, ...]


def steps(page: Path, folder: Path) -> Iterator[Step]:
    """In the order of the page; a document is saved under its name when it comes."""
    for block in blocks("console", "yaml", pages=[page]):
        if block.language == "yaml":
            name = re.search(r"name: ([\w-]+)", block.text)
            assert name is not None
            (folder / f"{name[1]}.yaml").write_text(f"{block.text}\n")
            continue
        for typed in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            line, *shown = typed.splitlines()
            if not line.startswith(NOT_HERE):
                yield Step(str(block), line, tuple(shown))


def alike(text: str) -> str:
    text = re.sub(r"dec_\w+…?|run-\w{6}", "ID", text)
    return " ".join(re.sub(r"\d+(\.\d+)?", "N", text).split())


def is_shown(line: str, answer: list[str]) -> bool:
    """A line that ends with … is the beginning of one."""
    wanted = alike(line)
    if wanted.endswith("…"):
        return any(one.startswith(wanted.rstrip("… ")) for one in answer)
    return wanted in answer


def missing(step: Step, folder: Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", step.line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    answer = [alike(line) for line in (done.stdout + done.stderr).splitlines()]
    refused = any(" rejected " in line for line in step.shown)
    assert done.returncode == (REFUSED if refused else 0), f"{step.place}: {step.line}\n{done.stderr}"
    return [line for line in step.shown if not is_shown(line, answer)]


@pytest.mark.slow
def test_the_first_pages_can_be_typed_as_they_stand(platform: dict[str, str], tmp_path: Path) -> None:
    environment = {**platform, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    typed = 0
    for page in PAGES:
        for step in steps(page, tmp_path):
            typed += 1
            until = time.monotonic() + PATIENCE_S
            # Only reading is tried again: a log may be a moment behind its job.
            while missed := missing(step, tmp_path, environment):
                again = step.line.startswith(("windlass logs", "windlass why"))
                assert again and time.monotonic() < until, f"{step.place}: {step.line}: {missed} not shown"
    assert typed >= 20


def test_a_line_that_is_not_in_the_answer_is_noticed() -> None:
    answer = [alike("component/atlas/dev/greedy rejected  dec_01a1eef1 in 3 s")]
    assert is_shown("component/atlas/dev/greedy  rejected dec_77… in 12.5 s", answer)
    assert is_shown("component/atlas …", answer)
    assert not is_shown("component/atlas", answer)
    assert not is_shown("component/atlas/dev/humble …", answer)
