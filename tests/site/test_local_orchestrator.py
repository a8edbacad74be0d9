"""The local orchestrator's promises that only real processes and real crashes can prove."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from tests.site.worlds import (
    NODE,
    UNTIL_TOLD,
    LocalWorld,
    assignment,
    eventually,
    process_exists,
    python,
)

from windlass.contracts.agent import WorkerSpec
from windlass.core.errors import Invalid, NotFound
from windlass.site.orchestrators.local.launch import Limits
from windlass.site.orchestrators.local.orchestrator import LocalOrchestrator
from windlass.site.orchestrators.local.processes import send_signal

# A server in a process of its own: ensures what it is given, says so, and hangs until it is killed.
SERVER = """
import asyncio, sys, time
from pathlib import Path
import msgspec
from windlass.contracts.agent import Assignment
from windlass.site.nodes.inventory import simulated
from windlass.site.orchestrators.local.orchestrator import LocalOrchestrator

async def main():
    site = LocalOrchestrator(Path(sys.argv[1]), simulated("h100-80gx8", nodes=2), clock=lambda: 0)
    await site.open()
    assignment = msgspec.json.decode(sys.argv[2], type=Assignment)
    if len(sys.argv) > 3:
        print("ready", flush=True)
        sys.stdin.readline()
    await site.ensure(assignment)
    print("done", flush=True)
    sys.stdin.readline()

asyncio.run(main())
"""


def start_server(world: LocalWorld, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, str(world.data), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "WINDLASS_API_KEY": "secret"},
    )


def kill(server: subprocess.Popen[str]) -> None:
    with server:
        server.kill()


def test_kill_9_of_the_server_loses_nothing_and_starts_nothing_twice(world: LocalWorld) -> None:
    wanted = assignment("wl_1", "sh", "-c", "echo started >> ../count; " + UNTIL_TOLD[2])
    server = start_server(world, msgspec.json.encode(wanted).decode())
    assert server.stdout is not None
    assert server.stdout.readline() == "done\n"
    before = world.running()
    kill(server)

    assert world.gone_not_yet()
    world.ensure(wanted)  # the restarted server asks again, and adopts
    after = world.running()
    assert (after.pid, after.start) == (before.pid, before.start)
    world.tell(42)
    seen = world.gone()
    assert seen.exit_code == 42
    assert world.log() == b"up\n"
    assert (world.folder() / "count").read_text() == "started\n"


def test_a_job_that_ends_while_no_server_is_there_keeps_its_exit_code_and_log(world: LocalWorld) -> None:
    server = start_server(world, msgspec.json.encode(assignment("wl_1", *UNTIL_TOLD)).decode())
    assert server.stdout is not None
    server.stdout.readline()
    kill(server)
    world.tell(9)
    eventually(lambda: (state := world.state()) and state.ended_ms)
    seen = world.gone()
    assert (seen.exit_code, world.log()) == (9, b"up\n")


def test_eight_servers_starting_the_same_attempt_at_once_start_it_once(world: LocalWorld) -> None:
    wanted = assignment("wl_1", "sh", "-c", "echo started >> ../count; " + UNTIL_TOLD[2], workers=2)
    servers = [start_server(world, msgspec.json.encode(wanted).decode(), "wait") for _ in range(8)]
    for server in servers:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
    for server in servers:
        assert server.stdin is not None
        server.stdin.write("go\n")
        server.stdin.flush()
    for server in servers:
        assert server.stdout is not None
        assert server.stdout.readline() == "done\n"
        kill(server)
    world.when_logged(b"up", worker=0)
    world.when_logged(b"up", worker=1)
    assert [(world.folder(worker) / "count").read_text() for worker in (0, 1)] == ["started\n"] * 2


def test_a_supervisor_killed_by_force_is_a_lost_worker_and_leaves_no_process(world: LocalWorld) -> None:
    # The child dies with its supervisor by the kernel; the grandchild in its own session by our sweep.
    escapee = (
        "import os, time\n"
        "if os.fork() == 0: os.setsid()\n"
        "open(f'{os.getsid(0) == os.getpid()}{os.getpid()}', 'w')\n"
        "time.sleep(1000)"
    )
    world.ensure(assignment("wl_1", *python(escapee)))
    state = world.running()
    work = world.folder() / "work"
    eventually(lambda: len(list(work.glob("True*"))) == 2)
    pids = [int(path.name.removeprefix("True")) for path in work.glob("True*")]
    assert all(process_exists(pid) for pid in pids)
    assert send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGKILL)
    seen = world.gone()
    assert (seen.workers[0].state, seen.exit_code, seen.detail) == ("lost", None, "lost")
    assert not any(process_exists(pid) for pid in pids)
    assert world.observe() == (seen,)  # and it stays so
    world.ensure(assignment("wl_1", *python(escapee)))
    assert world.observe() == (seen,)


def test_a_reused_pid_is_never_signalled() -> None:
    with subprocess.Popen(["sleep", "1000"]) as innocent:
        assert not send_signal(innocent.pid, 12345, signal.SIGKILL)
        assert innocent.poll() is None
        innocent.kill()


def test_a_stop_with_a_stale_state_file_harms_nobody(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", *UNTIL_TOLD))
    state = world.running()
    with subprocess.Popen(["sleep", "1000"]) as innocent:
        forged = msgspec.structs.replace(state, supervisor_pid=innocent.pid)
        path = world.folder() / "state.json"
        path.write_bytes(msgspec.json.encode(forged))
        world.stop()
        assert innocent.poll() is None
        path.write_bytes(msgspec.json.encode(state))
        innocent.kill()
    world.stop()
    assert world.gone().detail == "cancelled"


def test_the_servers_environment_does_not_leak(world: LocalWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_API_KEY", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    world.ensure(
        assignment(
            "wl_1", "env", gpus=(1, 3), variables={"EPOCHS": "3", "RANK": "77", "CUDA_VISIBLE_DEVICES": "0"}
        )
    )
    world.gone()
    told = dict(line.split("=", 1) for line in world.log().decode().splitlines())
    assert "secret" not in told.values()
    assert set(told) == {
        *("PATH", "HOME", "LANG", "TMPDIR", "EPOCHS", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"),
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("WINDLASS_WORKLOAD", "WINDLASS_COMPONENT", "WINDLASS_WORKER", "WINDLASS_ATTEMPT"),
        *("WINDLASS_NODE", "WINDLASS_WORK"),
    }
    assert (told["CUDA_VISIBLE_DEVICES"], told["RANK"], told["EPOCHS"]) == ("1,3", "0", "3")
    state = world.state()
    assert state is not None
    assert told["HOME"] == str(world.folder() / "work")
    assert len(told["TMPDIR"]) < 60


def test_the_supervisors_own_environment_has_no_secret(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_API_KEY", "secret")
    world.ensure(assignment("wl_1", *UNTIL_TOLD))
    assert b"secret" not in Path(f"/proc/{world.running().supervisor_pid}/environ").read_bytes()


def test_workers_have_folders_of_their_own_that_go_with_the_attempt(world: LocalWorld) -> None:
    world.ensure(
        assignment("wl_1", "sh", "-c", 'echo "$RANK" > mine; echo "$TMPDIR"; touch "$TMPDIR/t"', workers=2)
    )
    world.gone()
    assert [(world.folder(worker) / "work" / "mine").read_text() for worker in (0, 1)] == ["0\n", "1\n"]
    temporary = [Path(world.log(worker).decode().strip()) for worker in (0, 1)]
    assert len(set(temporary)) == 2
    assert not any(path.exists() for path in temporary)
    world.run(lambda site: site.forget("wl_1", 1))
    assert not list(world.data.glob("site/*/*/*/*/work"))
    assert world.log(0).decode().strip() == str(temporary[0])  # the log stays


def test_a_gang_of_64_meets_at_one_port_and_ends_together(world: LocalWorld) -> None:
    command = (
        'echo "$RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT"; [ "$RANK" = 63 ] && exit 5; exec sleep 1000'
    )
    began = time.monotonic()
    world.ensure(assignment("wl_1", "sh", "-c", command, workers=64))
    seen = world.gone()
    assert time.monotonic() - began < 20
    assert (seen.exit_code, seen.detail) == (5, "")
    assert len(seen.workers) == 64
    assert {worker.detail for worker in seen.workers if worker.index != 63} == {"peer-failed"}
    said = [world.log(worker).decode().split() for worker in range(0, 64, 9)]
    assert [line[0] for line in said if line] == [
        f"{index}/64" for index in range(0, 64, 9) if world.log(index)
    ]
    assert len({line[1] for line in said if line}) == 1


def test_a_lost_worker_ends_its_gang(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", *UNTIL_TOLD, workers=2))
    world.running(0)
    state = world.running(1)
    send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGKILL)
    seen = world.gone()
    assert [worker.detail for worker in seen.workers] == ["peer-failed", "lost"]
    assert seen.detail == "lost"


def test_an_attempt_cut_off_between_its_writes_is_started_by_the_next_server(world: LocalWorld) -> None:
    wanted = assignment("wl_1", *UNTIL_TOLD, workers=2)
    site = world.orchestrator()
    site.folders.create()
    site.folders.write_record(site._decide(wanted))  # and here the server died
    seen = world.seen()
    assert seen is not None
    assert (seen.workers, seen.gone) == ((), False)
    world.ensure(wanted)
    world.running(0)
    world.running(1)


def test_an_attempt_that_was_stopped_before_its_start_never_starts(world: LocalWorld) -> None:
    wanted = assignment("wl_1", "touch", "../started")
    site = world.orchestrator()
    site.folders.create()
    site.folders.write_record(site._decide(wanted))
    world.stop()
    world.ensure(wanted)
    seen = world.gone()
    assert (seen.workers[0].state, seen.detail) == ("exited", "cancelled")
    assert not (world.folder() / "started").exists()


def test_gpus_are_held_as_files_while_it_runs_and_free_when_it_is_gone(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", *UNTIL_TOLD, gpus=(2, 5), gpu_milli=250))
    holdings = world.orchestrator().holdings
    assert holdings.held() == {(NODE, 2): {"wl_1.1.0": 250}, (NODE, 5): {"wl_1.1.0": 250}}
    world.tell(0)
    world.gone()
    assert holdings.held() == {}


def test_a_gpu_cannot_be_held_twice_and_the_second_says_so(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", *UNTIL_TOLD, gpus=(0,), gpu_milli=750))
    world.ensure(assignment("wl_2", "touch", "../started", gpus=(1, 0), gpu_milli=500))
    seen = world.gone("wl_2")
    assert seen.failure == (
        "double-held: GPU 0 of local-h100-80g-1 cannot give 0.5 to wl_2.1.0: "
        "0.75 of it is held by wl_1.1.0 (0.75)"
    )
    assert seen.remedy
    assert list(world.orchestrator().holdings.held()) == [(NODE, 0)]
    assert not (world.folder(workload="wl_2") / "started").exists()


def test_what_is_leaving_is_waited_for_and_not_taken_for_a_gpu_held_twice(world: LocalWorld) -> None:
    """As after a site was given up, or a database restored: the centre takes these GPUs for free."""
    stubborn = ("sh", "-c", "trap '' TERM; mkfifo go; echo up; read code < go")
    world.ensure(assignment("wl_1", *stubborn, gpus=(0,), gpu_milli=500, grace_ms=60_000))
    world.ensure(assignment("wl_2", *UNTIL_TOLD, gpus=(0,), gpu_milli=250))
    world.when_logged(b"up")
    world.stop()
    newcomer = assignment("wl_3", *UNTIL_TOLD, gpus=(0,), gpu_milli=500)
    world.ensure(newcomer)
    assert [(seen.gone, seen.failure) for seen in world.observe()] == [(False, "")] * 3
    assert world.state(workload="wl_3") is None, "it was not started yet"
    world.tell(0)
    world.gone()
    world.ensure(newcomer)
    world.running(workload="wl_3")
    assert set(world.orchestrator().holdings.held()[NODE, 0]) == {"wl_2.1.0", "wl_3.1.0"}


def test_workers_of_one_gang_cannot_pass_a_whole_gpu_together(world: LocalWorld) -> None:
    crowd = tuple(WorkerSpec(index=index, node=NODE, gpus=(0,)) for index in range(5))
    wanted = msgspec.structs.replace(assignment("wl_1", "true", gpu_milli=250), workers=crowd)
    world.ensure(wanted)
    assert "double-held" in world.gone().failure


def test_a_holder_without_an_attempt_is_freed_at_the_next_start(world: LocalWorld) -> None:
    site = world.orchestrator()
    site.folders.create()
    site.holdings.take(assignment("wl_9"))
    assert world.run(lambda site: asyncio.sleep(0, site.holdings.held())) == {}


@pytest.mark.parametrize(
    ("change", "failure", "remedy"),
    [
        ({"command": ()}, "nothing to run", "spec.command"),
        ({"workers": ()}, "no worker", "submit"),
        ({"workers": (WorkerSpec(index=0, node="nope", gpus=()),)}, "nope is not on this site", NODE),
        ({"workers": (WorkerSpec(index=0, node=NODE, gpus=(8,)),)}, "[8] of local-h100-80g-1", "submit"),
        ({"workers": (WorkerSpec(index=0, node=NODE, gpus=(1, 1)),)}, "[1, 1]", "submit"),
        ({"variables": {"A=B": "c"}}, "'A=B' cannot be", "rename"),
    ],
)
def test_what_can_never_run_fails_with_a_remedy_and_starts_nothing(
    world: LocalWorld, change: dict[str, object], failure: str, remedy: str
) -> None:
    world.ensure(msgspec.structs.replace(assignment("wl_1", "true"), **change))
    (seen,) = world.observe()
    assert failure in seen.failure
    assert remedy in seen.remedy
    assert (seen.gone, seen.workers) == (True, ())
    assert not list(world.data.glob("site/jobs/*/*/*/lock"))


def test_an_image_that_is_not_used_is_noted(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", "true", image="ghcr.io/acme/sft:v3"))
    assert world.gone().notes == ("the image ghcr.io/acme/sft:v3 is not used: this site runs processes",)


@pytest.mark.parametrize("workload", ["..", "a/b", "", "../../etc", "x" * 100, "wl_1\n", "."])
def test_ids_that_could_climb_out_of_the_folder_are_refused(world: LocalWorld, workload: str) -> None:
    with pytest.raises(Invalid):
        world.ensure(assignment(workload, "true"))
    with pytest.raises(Invalid):
        world.run(lambda site: site.read_log(workload, 1, 0))


def test_services_get_ports_on_loopback_that_differ(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", *UNTIL_TOLD, kind="service", workers=2))
    world.ensure(assignment("wl_2", *UNTIL_TOLD, kind="interactive", gpus=(1,)))
    ports = [worker.port for seen in world.observe() for worker in seen.workers]
    assert len(set(ports)) == 3
    assert None not in ports


def test_retention_keeps_the_newest_logs_and_lets_the_oldest_go(tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, limits=Limits(retain_attempts=2))

    async def story(site: LocalOrchestrator) -> None:
        for number in range(4):
            await site.ensure(assignment(f"wl_{number}", "echo", str(number)))
            while not (await site.observe())[0].gone:
                await asyncio.wait([asyncio.ensure_future(site.changed())], timeout=0.05)
            await site.forget(f"wl_{number}", 1)
        assert await site.observe() == ()
        assert (await site.read_log("wl_3", 1, 0)).data == b"3\n"
        with pytest.raises(NotFound):
            await site.read_log("wl_0", 1, 0)

    world.run(story)
    assert sorted(path.name for path in (tmp_path / "site" / "ended").iterdir()) == ["wl_2", "wl_3"]


def test_stop_everything_leaves_nothing_running(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", *UNTIL_TOLD))
    world.ensure(assignment("wl_2", "sleep", "1000", kind="service", gpus=(1,)))
    world.run(lambda site: site.stop_everything())
    assert all(seen.gone for seen in world.observe())


def test_several_shares_of_one_gpu_are_held_together_and_seen_once(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", gpus=(0, 0, 1), gpu_milli=250))
    world.gone()
    assert world.log().decode().strip() == "0,1"
