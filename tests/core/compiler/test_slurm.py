"""What a Slurm site is told, and that nothing an author writes can add to it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.compiler.test_shell import ANY_TEXT, AWKWARD
from tests.core.compiler.works import SLURM, work

from windlass.core.compiler.slurm import compile_slurm
from windlass.core.compiler.work import Checkpoint, Work
from windlass.core.documents.kinds import Site
from windlass.core.errors import Invalid
from windlass.core.scheduling.model import Topology
from windlass.core.units import Ms

FAKES = {
    "srun": '#!/bin/sh\nprintf "%s\\0" "$@"; printf "==\\0"; exec /usr/bin/env -0\n',
    "scontrol": "#!/bin/sh\nprintf 'gpu1\\ngpu2\\n'\n",
}


@cache
def fakes() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="windlass-srun-")
    for name, text in FAKES.items():
        path = Path(folder.name) / name
        path.write_text(text)
        path.chmod(0o755)
    return folder


def run(script: str) -> tuple[list[str], dict[str, str]]:
    """What the script would have had srun start, and with which variables."""
    done = subprocess.run(
        ["bash", "--norc"],
        input=script.encode("ascii"),
        capture_output=True,
        check=True,
        env={
            "PATH": f"{fakes().name}{os.pathsep}/usr/bin:/bin",
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "g[1-2]",
        },
    )
    argv, _, environment = done.stdout.decode().partition("==\0")
    pairs = (pair.partition("=") for pair in environment.split("\0")[:-1])
    return argv.split("\0")[:-1], {name: value for name, _, value in pairs}


def options(
    one: Work, template: Mapping[str, Any] | None = None, *patches: Mapping[str, Any]
) -> dict[str, Any]:
    named = [(f"t{at}", patch) for at, patch in enumerate(patches)]
    found: dict[str, Any] = compile_slurm(one, template or {}, named)["options"]
    return found


VARIABLES = st.dictionaries(
    st.sampled_from(["PATH", "EPOCHS", "hosts", "LD_PRELOAD_X", "A1"]), ANY_TEXT | AWKWARD
)


@settings(max_examples=60)
@given(st.lists(ANY_TEXT | AWKWARD, min_size=1, max_size=5), VARIABLES)
def test_srun_gets_the_argv_and_the_variables_as_they_were_written(
    command: list[str], variables: dict[str, str]
) -> None:
    one = work(command=tuple(command), variables=variables)
    script = compile_slurm(one, {}, ())["script"]
    argv, environment = run(script)
    assert argv[argv.index("sh") + 1 :] == command
    assert variables.items() <= environment.items()
    assert {line for line in script.splitlines() if line.startswith("#SBATCH")} == {
        f"#SBATCH --{name}" + ("" if value is True else f"={value}") for name, value in options(one).items()
    }


def test_workers_meet_at_the_first_node_and_know_their_rank() -> None:
    argv, environment = run(compile_slurm(work(), {}, ())["script"])
    assert environment["MASTER_ADDR"] == "gpu1" and environment["MASTER_PORT"] == "20007"
    assert environment["WINDLASS_COMPONENT"] == "vision/dev/sft-run"
    assert "RANK=$SLURM_PROCID" in argv[argv.index("-c") + 1]


def test_replicas_of_a_service_are_not_of_one_world() -> None:
    argv, environment = run(compile_slurm(work(workload="service"), {}, ())["script"])
    assert "MASTER_ADDR" not in environment and "RANK" not in argv[argv.index("-c") + 1]
    assert "WINDLASS_WORKER" in argv[argv.index("-c") + 1]


def test_an_option_says_everything_that_was_decided() -> None:
    assert options(work(checkpoint=Checkpoint("USR1", Ms(90_000)), dedicated=True, retries=1)) == {
        "account": "acme",
        "comment": "windlass.dev/tenant=acme,windlass.dev/project=vision,windlass.dev/env=dev,"
        "windlass.dev/component=sft-run,windlass.dev/type=training-job,windlass.dev/type-version=1.0.0,"
        "windlass.dev/tier=gold,windlass.dev/profile=h100-80g",
        "cpus-per-task": 24,
        "exclusive": True,
        "export": "NIL",
        "gres": "gpu:h100-80g:2",
        "job-name": "vision.dev.sft-run",
        "mem": "256G",
        "nodes": 2,
        "ntasks-per-node": 1,
        "partition": "h100-80g",
        "qos": "gold",
        "requeue": True,
        "signal": "USR1@90",
        "time": "0-04:00:00",
    }


PLATFORM = Site("slurm", queueing="platform")
OTHERS: Sequence[tuple[str, Work, dict[str, Any]]] = [
    ("mig", work("h100-mig-1g", units=1), {"gres": "gpu:h100-80g_1g.10gb:1"}),
    ("share", work("l40s-quarter", units=1), {"gres": "shard:1", "constraint": "l40s-48g"}),
    ("not placed yet", work(at=PLATFORM), {"hold": True}),
    ("placed", work(at=PLATFORM, nodes=("b", "a")), {"nodelist": "a,b", "nodes": 2, "ntasks-per-node": 1}),
    (
        "one node",
        work(nodes=("a", "a")),
        {"nodes": 1, "ntasks-per-node": 2, "gres": "gpu:h100-80g:4", "mem": "512G"},
    ),
    (
        "uneven",
        work(workers=3, nodes=("a", "b", "a")),
        {"nodes": 2, "ntasks": 3, "gpus-per-task": "h100-80g:2", "mem-per-gpu": "128G"},
    ),
    ("rack", work(topology=Topology("rack", "required")), {"switches": "1@3650-00:00:00"}),
    ("near", work(topology=Topology("block", "preferred")), {"switches": "1@00:05:00"}),
    ("same node", work(topology=Topology("node", "required")), {"nodes": 1, "ntasks-per-node": 2}),
    ("a second more", work(time_limit=Ms(86_400_001)), {"time": "1-00:00:01"}),
    ("its own nodes", work(at=Site("slurm", isolation="dedicated-nodes")), {"exclusive": True}),
    ("may be stopped", work(preemptible=True), {"requeue": True}),
    ("runs once", work(), {"no-requeue": True}),
]


@pytest.mark.parametrize(("one", "expected"), [case[1:] for case in OTHERS], ids=[case[0] for case in OTHERS])
def test_other_decisions_give_other_options(one: Work, expected: dict[str, Any]) -> None:
    assert expected.items() <= options(one).items()


def test_a_sweep_is_an_array_of_single_workers_under_a_cap() -> None:
    found = options(work(workers=4), {"options": {"array": 100}})
    assert {
        "array": "0-99%4",
        "nodes": 1,
        "ntasks-per-node": 1,
        "gres": "gpu:h100-80g:2",
    }.items() <= found.items()


def test_traits_add_what_is_open_in_any_order() -> None:
    ib, fast = {"options": {"constraint": "ib", "tmp": "10G"}}, {"options": {"constraint": "fast&ib"}}
    assert options(work(), {}, ib, fast) == options(work(), {}, fast, ib)
    assert options(work(), {}, ib, fast)["constraint"] == "fast&ib"


def test_tasks_that_share_a_node_see_their_own_gpus_only() -> None:
    argv, _ = run(compile_slurm(work(nodes=("a", "a")), {}, ())["script"])
    assert "--gpu-bind=per_task:2" in argv


@pytest.mark.parametrize(("image", "written"), [("ghcr.io/a/b:1", "ghcr.io#a/b:1"), ("a/b:1", "a/b:1")])
def test_an_image_is_run_where_the_site_can(image: str, written: str) -> None:
    argv, _ = run(compile_slurm(work(image=image, at=Site("slurm", containers="auto")), {}, ())["script"])
    assert f"--container-image={written}" in argv
    (kept,) = [part for part in argv if part.startswith("--container-env=")]
    assert "EPOCHS" in kept and "RANK" in kept


MOUNTS = "_SLURM_SPANK_OPTION_pyxis_container_mounts"
"""By such a variable an option of a plugin reaches a step that was not started with it."""

REFUSED: Sequence[tuple[str, Work, dict[str, Any], str]] = [
    ("owned", work(), {"options": {"account": "other"}}, "account, which the platform decides"),
    ("unknown", work(), {"options": {"wrap": "id"}}, "wrap, which the platform decides"),
    (
        "two lines",
        work(),
        {"options": {"constraint": "a\n#SBATCH --qos=top"}},
        "not a value of the Slurm option",
    ),
    ("an argument", work(), {"options": {"tmp": "1G --qos=top"}}, "not a value of the Slurm option"),
    ("not a number", work(), {"options": {"array": True}}, "not a value of the Slurm option"),
    ("part", work(), {"script": "id"}, "a part for Slurm has no script"),
    ("rank", work(variables={"RANK": "0"}), {}, "the author sets the variable RANK"),
    (
        "slurm's",
        work(),
        {"variables": {"SLURM_CONF": "x"}},
        "type training-job@1.0.0 sets the variable SLURM_CONF",
    ),
    ("mounts", work(variables={MOUNTS: "/:/host"}), {}, f"the author sets the variable {MOUNTS}"),
    (
        "home",
        work(variables={"ENROOT_MOUNT_HOME": "y"}),
        {},
        "the author sets the variable ENROOT_MOUNT_HOME",
    ),
    ("nothing to run", work(command=()), {}, "needs a command"),
    ("engine", work(at=Site("slurm", containers="podman")), {}, "with podman"),
    ("zone", work(topology=Topology("zone", "required")), {}, "within one zone"),
    ("array placed", work(at=PLATFORM), {"options": {"array": 3}}, "to a node of its own"),
    ("node name", work(nodes=("a b", "a b")), {}, "a node's name"),
    ("uneven shares", work("l40s-quarter", workers=3, nodes=("a", "a", "b")), {}, "shards per node"),
]


@pytest.mark.parametrize(("one", "template", "told"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_slurm_cannot_be_told_is_refused(one: Work, template: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        compile_slurm(one, template, ())


def test_traits_that_disagree_are_both_named() -> None:
    with pytest.raises(Invalid, match="trait a and trait b disagree"):
        compile_slurm(work(), {}, [("b", {"options": {"tmp": "1G"}}), ("a", {"options": {"tmp": "2G"}})])


def test_a_variable_of_the_author_stands_and_one_of_two_traits_must_agree() -> None:
    one, other = {"variables": {"EPOCHS": "9", "MODE": "x"}}, {"variables": {"MODE": "y"}}
    _, environment = run(compile_slurm(work(), one, ())["script"])
    assert environment["EPOCHS"] == "3" and environment["MODE"] == "x"
    with pytest.raises(Invalid, match="the variable MODE has two values: trait a and trait b disagree"):
        compile_slurm(work(), {}, [("a", one), ("b", other)])


def test_the_templates_command_stands_in_for_the_authors() -> None:
    argv, _ = run(compile_slurm(work(command=()), {"command": ["vllm", "serve"]}, ())["script"])
    assert argv[-2:] == ["vllm", "serve"]
    argv, _ = run(compile_slurm(work(), {"command": ["vllm", "serve"]}, ())["script"])
    assert argv[-2:] == ["python", "train.py"]


def test_the_site_of_these_tests_queues_by_itself() -> None:
    assert SLURM.queueing == "site" and "hold" not in options(work())
