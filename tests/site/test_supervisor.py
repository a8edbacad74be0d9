"""The supervisor against real processes: it keeps what it promises however the others behave."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.site.worlds import LocalWorld, assignment, eventually, process_exists, python

from windlass.site.orchestrators.local.folders import read_if_there, worker_file
from windlass.site.orchestrators.local.launch import Limits
from windlass.site.orchestrators.local.processes import SUPERVISOR, has_supervisor

# A worker that ignores TERM and has children that do, too, one of them in a session of its own.
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pids = [os.getpid()]
for escape in (False, True):
    pid = os.fork()
    if pid == 0:
        if escape:
            os.setsid()
            if os.fork():
                os._exit(0)
        open(f"pid-{escape}", "w").write(str(os.getpid()))
        while True: time.sleep(1000)
print("ready")
while True: time.sleep(1000)
"""

# Python hears a signal between two instructions: one that comes just before a long sleep waits for its end.
NAPS = "while True: time.sleep(0.02)"


def pids_of(world: LocalWorld) -> list[int]:
    work = world.folder() / "work"
    files = [work / "pid-False", work / "pid-True"]
    return [int(eventually(lambda file=file: file.exists() and file.read_text())) for file in files]  # type: ignore[misc]


def test_cancel_ends_a_worker_that_ignores_term_and_its_escaped_grandchildren(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", *python(STUBBORN), grace_ms=200))
    children = pids_of(world)
    world.when_logged(b"ready")
    assert all(process_exists(pid) for pid in children)
    world.stop()
    seen = world.gone()
    assert (seen.workers[0].exit_code, seen.workers[0].detail) == (137, "cancelled")
    assert not any(process_exists(pid) for pid in children)


def test_a_worker_is_told_to_leave_by_the_signal_it_asked_for(world: LocalWorld) -> None:
    save = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: (print('saved', flush=True), sys.exit(7)))\n"
        f"print('ready', flush=True)\n{NAPS}"
    )
    world.ensure(assignment("wl_1", *python(save), signal="USR1"))
    world.when_logged(b"ready")
    world.stop()
    assert world.gone().workers[0].exit_code == 7
    assert b"saved" in world.log()


def test_what_a_finished_worker_leaves_behind_is_killed(world: LocalWorld) -> None:
    leave = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nprint(os.getpid())\ntime.sleep(1000)"
    world.ensure(assignment("wl_1", *python(leave.replace("if os.fork()", "r, w = os.pipe()\nif os.fork()"))))
    assert world.gone().exit_code == 0
    for line in world.log().split():
        assert not process_exists(int(line))


def test_after_term_a_child_that_still_saves_its_work_has_the_whole_grace_period(world: LocalWorld) -> None:
    # The shell dies of TERM at once; its child takes a moment longer, and is not killed for that.
    saver = python(
        "import signal, time\n"
        "def save(*_): time.sleep(0.3); print('saved'); raise SystemExit\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready')\n"
        f"{NAPS}"
    )
    world.ensure(assignment("wl_1", "sh", "-c", '"$@"; echo never', "sh", *saver))
    world.when_logged(b"ready")
    world.stop()
    assert world.gone().workers[0].detail == "cancelled"
    assert b"saved" in world.log()


def test_the_time_limit_is_kept_by_the_supervisor_alone(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", "sleep", "1000", time_limit_ms=150))
    # Nobody looks or asks: the state file alone says what happened.
    eventually(lambda: (state := world.state()) and state.ended_ms)
    seen = world.gone()
    assert (seen.exit_code, seen.detail) == (143, "time-limit")
    worker = seen.workers[0]
    assert worker.started_ms is not None
    assert worker.ended_ms is not None
    assert worker.ended_ms - worker.started_ms >= 150


@pytest.mark.parametrize(
    ("command", "code", "detail"),
    [
        (("sh", "-c", "exit 7"), 7, ""),
        (("sh", "-c", "kill -9 $$"), 137, "killed by SIGKILL"),
        (("trainx",), 127, "command not found: trainx"),
        (("/etc/passwd",), 126, "cannot run /etc/passwd: Permission denied"),
        (("echo", "a\0b"), 126, "cannot run echo: embedded null byte"),
    ],
)
def test_an_end_is_reported_as_a_shell_would(
    world: LocalWorld, command: tuple[str, ...], code: int, detail: str
) -> None:
    world.ensure(assignment("wl_1", *command))
    worker = world.gone().workers[0]
    assert (worker.state, worker.exit_code, worker.detail) == ("exited", code, detail)


def test_a_work_folder_that_is_not_there_is_said(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", "true", working_dir="/nowhere/at/all"))
    assert "the work folder /nowhere/at/all cannot be entered" in world.gone().detail


def test_a_service_is_restarted_with_growing_pauses_on_the_same_port(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", "sh", "-c", "echo on $PORT; exit 3", kind="service"))
    seen = world.when(lambda seen: seen.workers and seen.workers[0].restarts >= 4)
    port = seen.workers[0].port
    world.stop()
    assert world.gone().workers[0].detail == "cancelled"
    log = world.log().decode()
    assert log.count(f"on {port}\n") >= 4
    pauses = [int(line.split()[-2]) for line in log.splitlines() if "restarting in" in line]
    assert pauses[:4] == [10, 20, 40, 40]


def test_a_service_that_was_healthy_begins_its_pauses_anew(tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, limits=Limits(backoff_first_ms=10, backoff_max_ms=1000, healthy_ms=0))
    world.ensure(assignment("wl_1", "false", kind="service"))
    world.when(lambda seen: seen.workers and seen.workers[0].restarts >= 3)
    world.stop()
    world.gone()
    assert b"restarting in 20" not in world.log()


def test_a_service_whose_program_is_missing_is_not_tried_for_ever(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", "servex", kind="service"))
    assert world.gone().detail == "command not found: servex"


def test_a_stop_while_a_service_waits_to_be_restarted_ends_it(tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, limits=Limits(backoff_first_ms=3_600_000))
    world.ensure(assignment("wl_1", "false", kind="service"))
    waiting = world.when(lambda seen: seen.workers and "waiting to be restarted" in seen.workers[0].detail)
    assert waiting.workers[0].state == "starting"
    world.stop()
    assert world.gone().workers[0].detail == "cancelled"


def test_signals_and_descriptors_are_those_a_program_expects(world: LocalWorld) -> None:
    show = (
        "import os, signal\n"
        "print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:4])\n"
        "print(os.readlink('/proc/self/fd/0'), os.getsid(0) == os.getpid())\n"
        "print([line for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn'))])"
    )
    # A shell in between: Python itself ignores SIGPIPE.
    world.ensure(
        assignment(
            "wl_1",
            "sh",
            "-c",
            "cat /proc/self/status | grep -E 'SigBlk|SigIgn'; exec \"$@\"",
            "sh",
            *python(show),
        )
    )
    world.gone()
    lines = world.log().decode().splitlines()
    ignored = [int(line.split()[1], 16) & 0x7FFF_FFFF for line in lines[:2]]  # 32 and up are the C library's
    assert ignored == [0, 0]
    assert lines[2] in ("[0, 1, 2, 3]", "[0, 1, 2]")  # 3 is the listing's own
    assert lines[3] == "/dev/null True"


# --- without a server: the supervisor alone ------------------------------------------------------


def spec(folder: Path, *command: str, **facts: Any) -> dict[str, Any]:
    return {
        "command": list(command),
        "environment": {"PATH": os.environ["PATH"], "WINDLASS_WORK": str(folder)},
        "folder": str(folder),
        "restart": False,
        "grace_ms": 1000,
        "time_limit_ms": None,
        "log_cap_bytes": 1 << 20,
        "pulse_ms": 15_000,
        "backoff": {"first_ms": 10, "max_ms": 10, "healthy_ms": 1000},
        "look": str(folder / "look"),
        "kill_command": [],
        "contained": False,
        **facts,
    }


def supervise(folder: Path, *command: str, **facts: Any) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.json").write_text(json.dumps(spec(folder, *command, **facts)))
    return subprocess.run([sys.executable, "-I", "-S", str(SUPERVISOR), str(folder)], check=False).returncode


def ended(folder: Path) -> bool:
    state = worker_file(folder)
    return state is not None and state.ended_ms is not None


def test_a_second_supervisor_refuses_while_the_first_lives_and_after_it(tmp_path: Path) -> None:
    folder = tmp_path / "attempt" / "0"
    assert supervise(folder, "sh", "-c", "echo once >> count; read x < go") == 0
    os.mkfifo(folder / "go")
    eventually((folder / "count").exists)
    assert supervise(folder, "sh", "-c", "echo twice >> count") == 3
    state = worker_file(folder)
    assert state is not None
    assert state.pid is not None
    os.kill(state.pid, signal.SIGKILL)
    eventually(lambda: ended(folder))
    assert supervise(folder, "sh", "-c", "echo thrice >> count") == 3
    assert (folder / "count").read_text() == "once\n"


def test_a_stop_that_came_before_the_start_wins(tmp_path: Path) -> None:
    folder = tmp_path / "attempt" / "0"
    folder.mkdir(parents=True)
    (tmp_path / "attempt" / "stop").write_text("cancelled")
    supervise(folder, "touch", str(tmp_path / "started"))
    eventually(lambda: ended(folder))
    assert not (tmp_path / "started").exists()


def test_a_full_disk_costs_output_but_neither_the_job_nor_its_exit_code(tmp_path: Path) -> None:
    folder = tmp_path / "attempt" / "0"
    folder.mkdir(parents=True)
    (folder / "log.0").symlink_to("/dev/full")
    # More than a pipe holds: once all of it is out, the first of it has met the full disk.
    flood = "mkfifo go went; head -c 300000 /dev/zero; echo x > went; read x < go; echo kept; exit 5"
    supervise(folder, "sh", "-c", flood)
    eventually((folder / "went").exists)
    (folder / "went").read_text()
    eventually(lambda: (state := worker_file(folder)) and state.phase == "running")
    (folder / "log.0").unlink()  # the disk is free again for the log, and now full for the state
    (folder / "state.json.tmp").symlink_to("/dev/full")
    (folder / "go").write_text("\n")
    eventually(lambda: b"kept" in (read_if_there(folder / "log.0") or b""))
    assert not ended(folder)
    (folder / "state.json.tmp").unlink()
    eventually(lambda: ended(folder))
    state = worker_file(folder)
    assert state is not None
    assert state.exit_code == 5
    log = (folder / "log.0").read_bytes()
    assert b" bytes of output were lost: No space left on device]\n" in log
    assert log.endswith(b"kept\n")


def test_a_disk_full_from_the_start_starts_nothing_and_can_be_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "attempt" / "0"
    folder.mkdir(parents=True)
    (folder / "state.json.tmp").symlink_to("/dev/full")
    supervise(folder, "touch", "started")
    eventually(lambda: not has_supervisor(folder))
    assert worker_file(folder) is None
    assert not (folder / "started").exists()
    (folder / "state.json.tmp").unlink()
    assert supervise(folder, "touch", "started") == 0
    eventually(lambda: ended(folder))
    assert (folder / "started").exists()


def test_every_change_rings_the_bell_and_nobody_listening_is_fine(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 20) / "attempt" / "0"
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        handle = os.open(folder, os.O_PATH)
        bell.bind(f"/proc/self/fd/{handle}/look")
        os.close(handle)
        bell.settimeout(20)
        supervise(folder, "true")
        assert [bell.recv(16) for _ in range(3)] == [b"look"] * 3  # starting, running, exited
    supervise(tmp_path / "alone" / "1", "true")
    eventually(lambda: ended(tmp_path / "alone" / "1"))


def test_a_supervisor_whose_folder_was_deleted_ends_with_its_job(tmp_path: Path) -> None:
    folder, gate, up = tmp_path / "attempt" / "0", tmp_path / "go", tmp_path / "up"
    os.mkfifo(gate)
    assert supervise(folder, "sh", "-c", f"touch {up}; read x < {gate}") == 0
    eventually(up.exists)  # before that it has no folder to run in, and would never read
    state = worker_file(folder)
    assert state is not None and process_exists(state.supervisor_pid)
    shutil.rmtree(tmp_path / "attempt")
    gate.write_text("now\n")
    eventually(lambda: not process_exists(state.supervisor_pid), what="the end of the supervisor")
