"""Containers: what is typed. `make test-containers` runs it with a real engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.site.worlds import NODE, assignment

from windlass.contracts.agent import NodeReport
from windlass.site.nodes.inventory import Inventory, simulated
from windlass.site.orchestrators.local.containers import Engine, Setting, find_engine
from windlass.site.orchestrators.local.folders import Record
from windlass.site.orchestrators.local.launch import Limits, refusal, supervisor_spec

PODMAN = Engine("podman", "/usr/bin/podman")
REAL = Inventory((NodeReport(name=NODE, gpu_class="h100-80g", gpus=8),), {NODE: tuple(range(8))})
BASE = {"PATH": "/usr/bin", "HOME": "/w", "LANG": "C.UTF-8", "TMPDIR": "/t"}


def spec(record: Record, engine: Engine = PODMAN, inventory: Inventory = REAL) -> dict[str, object]:
    return supervisor_spec(
        record,
        record.assignment.workers[0],
        inventory=inventory,
        engine=engine,
        base=BASE,
        work=Path("/w"),
        look=Path("/look"),
        limits=Limits(),
    )


def test_a_job_in_podman() -> None:
    wanted = assignment(
        "wl_1",
        "python",
        "train.py",
        image="acme/sft:v3",
        gpus=(2, 3),
        variables={"TOKEN": "s3cret", "PATH": "/x"},
    )
    told = spec(Record(assignment=wanted, master_port=4242, container=True))
    assert told["command"] == [
        *("/usr/bin/podman", "run", "--rm", "--name", "windlass-wl_1-1-0"),
        *("--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=host"),
        *("--device", "nvidia.com/gpu=2", "--device", "nvidia.com/gpu=3"),
        *("--env-file", "/variables.env"),
        *("acme/sft:v3", "python", "train.py"),
    ]
    assert told["environment"] == BASE, "what an author sets never steers the engine on the host"
    inside = str(told["variables.env"]).splitlines()
    assert {"TOKEN=s3cret", "PATH=/x", "RANK=0", "CUDA_VISIBLE_DEVICES=2,3"} <= set(inside)
    kill = '"$0" stop -t 0 "$1"; "$0" rm --force "$1"'
    assert told["kill_command"] == ["sh", "-c", kill, "/usr/bin/podman", "windlass-wl_1-1-0"]
    assert told["contained"] is True


def test_docker_names_gpus_in_its_own_way() -> None:
    record = Record(assignment=assignment("wl_1", image="i", gpus=(0, 1)), master_port=1, container=True)
    command = spec(record, Engine("docker", "docker"))["command"]
    assert isinstance(command, list)
    assert command[command.index("--gpus") + 1] == '"device=0,1"'


def test_simulated_gpus_are_not_asked_of_the_engine() -> None:
    record = Record(assignment=assignment("wl_1", image="i"), master_port=1, container=True)
    assert "--device" not in str(spec(record, inventory=simulated("h100-80gx8", nodes=1))["command"])


def test_a_service_with_a_port_of_its_own_is_published_on_loopback_only() -> None:
    record = Record(
        assignment=assignment("wl_1", image="i", kind="service", port=8000), ports={0: 4711}, container=True
    )
    told = spec(record)
    assert "127.0.0.1:4711:8000" in str(told["command"])
    assert "--network=host" not in str(told["command"])
    assert "PORT=8000" in str(told["variables.env"]).splitlines()


def test_an_image_without_a_command_can_run_in_a_container() -> None:
    assert refusal(assignment("wl_1", image="i"), REAL, PODMAN) is None
    assert refusal(assignment("wl_1", image="i"), REAL, None) is not None
    assert refusal(assignment("wl_1"), REAL, PODMAN) is not None


@pytest.mark.parametrize(
    ("setting", "there", "works", "name", "why"),
    [
        ("never", ("podman",), ("podman",), None, "this site runs processes"),
        ("auto", ("podman", "docker"), ("podman", "docker"), "podman", ""),
        ("auto", ("podman", "docker"), ("docker",), "docker", ""),
        (
            "auto",
            (),
            (),
            None,
            "neither podman nor docker works",
        ),
        (
            "docker",
            ("podman",),
            ("podman",),
            None,
            "docker does not work",
        ),
        ("podman", ("podman", "docker"), ("podman", "docker"), "podman", ""),
    ],
)
def test_which_engine_is_used(
    setting: Setting, there: tuple[str, ...], works: tuple[str, ...], name: str | None, why: str
) -> None:
    engine, reason = find_engine(
        setting, which=lambda name: name if name in there else None, works=lambda binary: binary in works
    )
    assert (engine.name if engine else None) == name
    assert reason.startswith(why)


async def _asked_of_a_broken_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    from windlass.site.orchestrators.local import orchestrator

    monkeypatch.setattr(orchestrator, "find_engine", lambda _: (None, "podman does not work"))
    site = orchestrator.LocalOrchestrator(tmp_path, REAL, clock=lambda: 0, containers="podman")
    await site.open()
    try:
        await site.ensure(assignment("wl_1", "true", image="i"))
        (seen,) = await site.observe()
        return seen.failure
    finally:
        await site.close()


def test_an_engine_asked_for_by_name_is_never_replaced_by_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = asyncio.run(_asked_of_a_broken_engine(tmp_path, monkeypatch))
    assert "podman, which does not work" in failure
