"""The types and traits that come with every release, on Slurm: goldens to read, checked as they would be."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.core.compiler.kubernetes.shipped import TRAITS, applies, case_of, work_of
from tests.core.compiler.works import SLURM

from windlass.core.compiler.checker.check import check
from windlass.core.compiler.names import site_values
from windlass.core.compiler.rendering import trait_patches, type_template
from windlass.core.compiler.slurm import compile_slurm
from windlass.core.compiler.wishes import wishes
from windlass.core.compiler.work import Work

GOLDENS = Path(__file__).parents[2] / "golden" / "compiler" / "slurm"
ON_SLURM = ("training-job", "batch-job", "sweep", "inference-service", "model-service", "notebook")
WITHOUT_A_COMMAND = ("model-service", "notebook")
"""Whose type knows what to run."""
HERE = [name for name in TRAITS if name not in ("storage", "secret")]
"""Volumes and secrets of a cell are Kubernetes' to hold."""
PAIRS = [(name, trait) for name in ON_SLURM for trait in HERE if applies(name, trait)]


def compiled(name: str, *traits: str) -> tuple[Work, dict[str, Any]]:
    command = {} if name in WITHOUT_A_COMMAND else {"command": ["python", "-u", "it's main.py"]}
    case = case_of(name, *traits, **command)
    site = site_values("fra1", SLURM)
    one = replace(work_of(case, SLURM), name=name, preemptible=wishes(case).preemptible)
    return one, compile_slurm(one, type_template(case, "slurm", site), trait_patches(case, "slurm", site))


def same_as_golden(name: str, made: dict[str, Any]) -> None:
    """The canonical form as it leaves, and the script beside it as a person reads it."""
    pages = {
        f"{name}.json": msgspec.json.format(msgspec.json.encode(made, order="sorted"), indent=2) + b"\n",
        f"{name}.sh": made["script"].encode(),
    }
    for page, data in pages.items():
        if os.environ.get("WINDLASS_GOLDENS") == "write":
            GOLDENS.mkdir(parents=True, exist_ok=True)
            (GOLDENS / page).write_bytes(data)
        assert (GOLDENS / page).read_bytes() == data


@pytest.mark.golden
@pytest.mark.parametrize("name", ON_SLURM)
def test_a_shipped_type_on_slurm(name: str) -> None:
    one, made = compiled(name)
    assert check(one, "slurm", made) == ()
    same_as_golden(name, made)


@pytest.mark.golden
@pytest.mark.parametrize(("name", "trait"), PAIRS)
def test_a_shipped_type_with_a_shipped_trait_on_slurm(name: str, trait: str) -> None:
    one, made = compiled(name, trait)
    assert check(one, "slurm", made) == ()
    same_as_golden(f"{name}+{trait}", made)


def test_there_is_no_golden_of_slurm_without_its_test() -> None:
    names = {*ON_SLURM, *(f"{name}+{trait}" for name, trait in PAIRS)}
    assert {page.name for page in GOLDENS.iterdir()} == {
        f"{name}.{end}" for name in names for end in ("json", "sh")
    }


def test_all_traits_together_say_the_same_in_any_order() -> None:
    together = [name for name in HERE if name != "sharing"]
    assert compiled("training-job", *together)[1] == compiled("training-job", *together[::-1])[1]
