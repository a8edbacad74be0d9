"""When supervisors are stopped or killed: what still ends, what is cleaned up, and who pays until when."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.site.worlds import UNTIL_TOLD, LocalWorld, assignment, eventually, process_exists, python

from windlass.site.orchestrators.local.folders import AttemptKey, WorkerFile
from windlass.site.orchestrators.local.gpus import DoubleHeld, Holdings
from windlass.site.orchestrators.local.launch import Limits
from windlass.site.orchestrators.local.processes import has_supervisor, send_signal


def signal_supervisor(world: LocalWorld, number: signal.Signals) -> WorkerFile:
    state = world.running()
    assert send_signal(state.supervisor_pid, state.supervisor_start, number)
    return state


def test_a_stopped_supervisor_goes_on_as_soon_as_somebody_looks_and_can_be_cancelled(
    world: LocalWorld,
) -> None:
    world.ensure(assignment("wl_1", *UNTIL_TOLD))
    signal_supervisor(world, signal.SIGSTOP)
    world.stop()
    assert world.gone().detail == "cancelled"


def test_a_stopped_supervisor_still_holds_its_worker_to_the_time_limit(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", *UNTIL_TOLD, time_limit_ms=50))
    state = world.state()
    if state is not None:  # it may be over already
        send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGSTOP)
    assert world.gone().detail == "time-limit"


def test_work_that_was_killed_while_nobody_looked_ended_at_its_last_sign_of_life(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", *UNTIL_TOLD))
    world.when_logged(b"up")
    state = signal_supervisor(world, signal.SIGKILL)
    folder = world.folder()
    eventually(lambda: not has_supervisor(folder))
    long_ago = time.time_ns() // 10**9 - 40
    for path in folder.iterdir():
        os.utime(path, (long_ago, long_ago))
    os.utime(folder / "lock", (long_ago + 10, long_ago + 10))
    # It began before that, too: the state file cannot be older than what it tells.
    began = (long_ago - 10) * 1000
    text = (folder / "state.json").read_text().replace(str(state.started_ms), str(began))
    (folder / "state.json").write_text(text)
    os.utime(folder / "state.json", (long_ago, long_ago))
    (worker,) = world.gone().workers
    assert (worker.started_ms, worker.ended_ms) == (began, (long_ago + 10) * 1000)


def test_a_silent_worker_gives_signs_of_life_without_a_server(tmp_path: Path) -> None:
    world = LocalWorld(tmp_path, limits=Limits(pulse_ms=10))
    try:
        world.ensure(assignment("wl_1", *UNTIL_TOLD))
        world.running()
        lock = world.folder() / "lock"
        os.utime(lock, (0, 0))
        eventually(lambda: lock.stat().st_mtime > 0)
    finally:
        world.end_everything()


def test_leftovers_without_environment_are_known_by_the_pipe_they_write_to(world: LocalWorld) -> None:
    escapee = (
        "import os, sys, time\n"
        "if len(sys.argv) == 1:\n"
        "    if os.fork() == 0: os.setsid(); os.execve(sys.executable, [*sys.orig_argv, 'again'], {})\n"
        "else: open('escaped', 'w').write(f'{os.getpid()}.')\n"
        "time.sleep(1000)"
    )
    world.ensure(assignment("wl_1", *python(escapee)))
    path = world.folder() / "work" / "escaped"
    eventually(lambda: path.exists() and path.read_text().endswith("."))
    pid = int(path.read_text()[:-1])
    assert process_exists(pid)
    signal_supervisor(world, signal.SIGKILL)
    assert world.gone().detail == "lost"
    assert not process_exists(pid)


def test_an_exit_code_that_is_no_signals_is_not_called_one(world: LocalWorld) -> None:
    world.ensure(assignment("wl_1", "sh", "-c", "exit 255"))
    seen = world.gone()
    assert (seen.exit_code, seen.detail) == (255, "")


def test_a_crash_right_after_a_holder_was_written_changes_no_holder_later(tmp_path: Path) -> None:
    gpus = Holdings(tmp_path)
    gpus.take(assignment("wl_1", gpus=(0,), gpu_milli=750))
    (holder,) = tmp_path.glob("*/*/wl_1.*")
    (tmp_path / "draft").hardlink_to(holder)  # as a crash before the draft was removed leaves it
    gpus.take(assignment("wl_2", gpus=(1,), gpu_milli=100))
    with pytest.raises(DoubleHeld):
        gpus.take(assignment("wl_3", gpus=(0,), gpu_milli=500))
    gpus.release(AttemptKey("wl_1", 1))
    gpus.take(assignment("wl_3", gpus=(0,), gpu_milli=500))
