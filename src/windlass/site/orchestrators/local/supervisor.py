"""Owns one worker: starts it, keeps its output, ends it, and writes down what became of it.

    python -I -S supervisor.py FOLDER [LOCK_FD]

It is alone on purpose: it imports nothing of Windlass, so that a job outlives the server that
started it, its upgrade and its crash. Everything it knows is in FOLDER:

    spec.json   what to run; written before the start, never changed
    lock        held (flock) as long as the supervisor lives; the server hands it over already locked;
                its time of change is the last sign of life
    state.json  what is the case; replaced atomically; exists from before the first fork, for ever
    log.N       output; N is the offset of the file's first byte in all output; the last two stay
    ../stop     the whole attempt shall end; the text is the reason

An attempt whose state.json exists is never started again, not even if nothing came of it: only
the platform may decide to try twice. If the supervisor is killed, the kernel kills the worker
(PDEATHSIG), the lock falls free, and a state without an end then means: lost.
"""

# pathlib would double the start-up time of something that is started once per worker:
# ruff: noqa: PTH104, PTH108, PTH110, PTH123, PTH208
from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
OUR_SIGNALS = (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
ALREADY = 3  # our exit code when somebody else has, or had, this worker
NOT_RUNNABLE, NOT_FOUND = 126, 127  # exit codes, as shells say it
NEVER = float("inf")
POLL_S = 0.1  # how often survivors of a KILL are looked for again
STATE_RETRY_S = 1.0  # a full disk may become free
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Log:
    """Output on disk, at most two files of `cap` bytes. Losing bytes never disturbs the worker."""

    def __init__(self, cap: int) -> None:
        self.cap, self.base, self.size, self.fd = cap, 0, 0, -1
        self.lost, self.cause = 0, ""

    def write(self, data: bytes) -> None:
        if self.lost:
            note = f"\n[windlass: {self.lost} bytes of output were lost: {self.cause}]\n".encode()
            self.lost = self.lost + len(data) if self._append(note) else 0
        if not self.lost:
            self.lost = self._append(data)

    def _append(self, data: bytes) -> int:
        """How many bytes could not be written."""
        rest = memoryview(data)
        try:
            while rest:
                if self.fd < 0 or self.size >= self.cap:
                    self._open()
                written = os.write(self.fd, rest[: self.cap - self.size])
                self.size += written
                rest = rest[written:]
        except OSError as error:
            self.cause = os.strerror(error.errno or 0)
            self.close()
        return len(rest)

    def _open(self) -> None:
        if self.size >= self.cap:
            self.close()
            previous, self.base, self.size = self.base, self.base + self.size, 0
            for name in os.listdir():
                if name.startswith("log.") and name != f"log.{previous}":
                    os.unlink(name)
        self.fd = os.open(f"log.{self.base}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def close(self) -> None:
        if self.fd >= 0:
            with suppress(OSError):
                os.fsync(self.fd)
            os.close(self.fd)
            self.fd = -1


class Supervisor:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.state: dict[str, Any] = {"phase": "starting", "detail": "", "restarts": 0}
        self.state |= {"supervisor_pid": os.getpid(), "supervisor_start": start_time(os.getpid())}
        self.state |= dict.fromkeys(("pid", "start", "started_ms", "ended_ms", "exit_code"))
        self.log = Log(spec["log_cap_bytes"])
        self.output, self.output_end = os.pipe()
        # Whoever holds the writing end was started by the worker, as long as the machine is up.
        self.state |= {"output": os.fstat(self.output).st_ino, "boot": boot_id()}
        self.wake, self.wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.child = 0  # its pid, until it is reaped
        self.child_since = 0.0
        self.exit_code: int | None = None
        self.reason = ""  # why we are ending it, once we are
        self.asked_to_stop = self.adopts_orphans = False
        self.backoff_ms = 0
        self.limit_at = self.kill_at = self.restart_at = self.save_at = NEVER
        self.pulse_at = 0.0

    def listen_for_signals(self) -> None:
        signal.set_wakeup_fd(self.wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # any handler makes the wake-up pipe ring
        for harmless in OUR_SIGNALS[2:]:
            signal.signal(harmless, signal.SIG_IGN)

    def _on_term(self, *_: object) -> None:
        self.asked_to_stop = True

    # --- the story -----------------------------------------------------------------------------

    def run(self) -> None:
        self.adopts_orphans = not self.spec["contained"] and prctl(PR_SET_CHILD_SUBREAPER, 1)
        if os.path.exists("../stop"):
            return self.finish(None, stop_reason())
        self.start()
        while self.state["ended_ms"] is None:
            self.wait()
            alive = self.reap()
            now = time.monotonic()
            if not self.reason and (self.asked_to_stop or now >= self.limit_at):
                self.end(stop_reason() if self.asked_to_stop else "time-limit")
            if not alive and self.exit_code is not None:
                self.after_exit(self.exit_code)
            elif not alive and self.reason:  # stopped while it waited to be restarted
                self.finish(self.state["exit_code"], self.reason)
            elif now >= self.kill_at:
                self.kill()
                self.kill_at = now + POLL_S
            elif now >= self.restart_at:
                self.start()
            if now >= self.save_at:
                self.save()
            if now >= self.pulse_at:
                self.pulse(now)
        return None

    def wait(self) -> None:
        """Until there is output, a signal or something due. Output is copied on the way."""
        deadline = min(self.limit_at, self.kill_at, self.restart_at, self.save_at, self.pulse_at)
        timeout = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([self.output, self.wake], [], [], timeout)
        if self.wake in ready:
            with suppress(BlockingIOError):
                os.read(self.wake, 4096)
        if self.output in ready:
            self.log.write(os.read(self.output, 1 << 16))

    def reap(self) -> bool:
        """Collect the dead. False: nothing of the worker is left."""
        try:
            while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if dead.si_pid == self.child:
                    if not self.reason or not self.adopts_orphans:
                        # It is not reaped yet, so the number of its group is still ours to signal.
                        self.signal_group(signal.SIGKILL)
                        self.kill_at = 0.0
                    by_itself = dead.si_code == os.CLD_EXITED
                    self.exit_code = dead.si_status if by_itself else 128 + dead.si_status
                    self.child = 0
                os.waitpid(dead.si_pid, 0)
        except ChildProcessError:
            return False
        return True

    def end(self, reason: str) -> None:
        """The signal now (a spec written by an older release names none); `kill_at` is when patience ends."""
        self.reason = reason
        self.limit_at = self.restart_at = NEVER
        self.kill_at = time.monotonic() + self.spec["grace_ms"] / 1000
        leave = signal.Signals[f"SIG{self.spec.get('signal', 'TERM')}"]
        self.signal_group(leave)
        self.signal_orphans(leave)

    def kill(self) -> None:
        self.signal_group(signal.SIGKILL)
        self.signal_orphans(signal.SIGKILL)
        if command := self.spec["kill_command"]:  # a container is nobody's child: its engine ends it
            with suppress(OSError):
                os.waitpid(os.posix_spawnp(command[0], command, self.spec["environment"]), 0)

    def signal_group(self, number: int) -> None:
        if self.child:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child, number)

    def signal_orphans(self, number: int) -> None:
        """Who left the group comes to us when his parent dies. We take only our own children, layer
        by layer: their pids cannot be reused before we reap them."""
        for name in os.listdir("/proc") if self.adopts_orphans else ():
            with suppress(OSError, ValueError, IndexError):
                pid = int(name)
                if int(process_stat(pid)[1]) == os.getpid() and pid != self.child:
                    os.kill(pid, number)

    def after_exit(self, exit_code: int) -> None:
        self.kill_at, self.exit_code = NEVER, None
        if self.spec["kill_command"]:
            self.kill()  # leaves no container behind, and frees its name for a restart
        while select.select([self.output], [], [], 0)[0]:
            self.log.write(os.read(self.output, 1 << 16))
        if self.reason or not self.spec["restart"]:
            return self.finish(exit_code, self.reason or killed_by(exit_code))
        policy = self.spec["backoff"]
        healthy = (time.monotonic() - self.child_since) * 1000 >= policy["healthy_ms"]
        doubled = 0 if healthy else min(self.backoff_ms * 2, policy["max_ms"])
        self.backoff_ms = doubled or policy["first_ms"]
        self.log.write(f"[windlass: exited with {exit_code}, restarting in {self.backoff_ms} ms]\n".encode())
        self.restart_at = time.monotonic() + self.backoff_ms / 1000
        return self.change(phase="restarting", pid=None, start=None, exit_code=exit_code)

    def finish(self, exit_code: int | None, detail: str) -> None:
        """The end. Not left before it is on disk: the exit code must not get lost."""
        self.log.write(b"")  # the note about lost bytes, if there is one to make
        self.log.close()
        self.change(phase="exited", exit_code=exit_code, detail=detail, ended_ms=now_ms())
        while self.save_at != NEVER:
            time.sleep(STATE_RETRY_S)
            self.save()

    # --- starting the worker -------------------------------------------------------------------

    def start(self) -> None:
        self.restart_at = NEVER
        gate, gate_end = os.pipe()  # opens when the worker's pid is on disk
        trouble, trouble_end = os.pipe()  # exec's error, or nothing at all
        pid = os.fork()
        if pid == 0:
            os.close(gate_end)
            self.become_worker(gate, trouble_end)
        os.close(gate)
        os.close(trouble_end)
        self.child, self.child_since = pid, time.monotonic()
        if self.state["started_ms"] is not None:
            self.state["restarts"] += 1
        elif self.spec["time_limit_ms"] is not None:
            self.limit_at = self.child_since + self.spec["time_limit_ms"] / 1000
        first_ms = self.state["started_ms"] or now_ms()
        self.change(phase="running", pid=pid, start=start_time(pid), started_ms=first_ms, exit_code=None)
        with suppress(BrokenPipeError):
            os.write(gate_end, b"!")
        os.close(gate_end)
        with os.fdopen(trouble) as report:
            code, _, detail = report.read().partition(" ")
        if code:
            os.waitpid(pid, 0)
            self.child = 0
            self.finish(int(code), detail)

    def become_worker(self, gate: int, trouble: int) -> NoReturn:
        code, detail = NOT_RUNNABLE, "it could not be started"
        command, folder = self.spec["command"], self.spec["folder"]
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (*OUR_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
                signal.signal(number, signal.SIG_DFL)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.read(gate, 1) != b"!":
                os._exit(NOT_RUNNABLE)  # the supervisor died before the kernel knew of our bond
            for standard, source in enumerate((os.open(os.devnull, os.O_RDONLY), *[self.output_end] * 2)):
                os.dup2(source, standard)
            detail = f"the work folder {folder} cannot be entered"
            os.chdir(folder)
            detail = f"cannot run {command[0]}"
            os.execvpe(command[0], command, self.spec["environment"])  # noqa: S606
        except OSError as error:
            if error.errno == errno.ENOENT and detail.startswith("cannot run"):
                code, detail = NOT_FOUND, f"command not found: {command[0]}"
            else:
                detail = f"{detail}: {os.strerror(error.errno or 0)}"
        except ValueError as error:  # a NUL byte in an argument or variable
            detail = f"{detail}: {error}"
        os.write(trouble, f"{code} {detail}".encode())
        os._exit(code)

    # --- what is the case ----------------------------------------------------------------------

    def change(self, **facts: object) -> None:
        self.state.update(facts)
        self.save()

    def save(self) -> None:
        try:
            write_durably("state.json", json.dumps(self.state).encode())
            self.save_at = NEVER
        except OSError:
            # Try again, unless the folder itself was deleted: then nobody will ever look.
            deleted = os.stat(".").st_nlink == 0  # noqa: PTH116 - pathlib costs a tenth of our start
            self.save_at = NEVER if deleted else time.monotonic() + STATE_RETRY_S
        self.look()

    def pulse(self, now: float) -> None:
        """A sign of life: if everything is killed at once, work ended about here, not when it is found."""
        self.pulse_at = now + self.spec["pulse_ms"] / 1000
        with suppress(OSError):
            os.utime("lock")

    def look(self) -> None:
        """Tell the server, if there is one, that there is something to see. Only a hint."""
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.settimeout(0)
            folder, _, name = self.spec["look"].rpartition("/")
            handle = os.open(folder, os.O_PATH)
            try:
                bell.sendto(b"look", f"/proc/self/fd/{handle}/{name}")  # socket paths end at 107 bytes
            finally:
                os.close(handle)


def write_durably(name: str, data: bytes) -> None:
    with open(f"{name}.tmp", "wb", buffering=0) as file:
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, "short write")
        os.fsync(file.fileno())
    os.rename(f"{name}.tmp", name)
    folder = os.open(".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def prctl(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False  # without it escapees may survive, nothing worse


def process_stat(pid: int) -> list[bytes]:
    """/proc/PID/stat after the name: [0] state, [1] parent, [19] start time in ticks since boot."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def start_time(pid: int) -> int:
    with suppress(OSError, IndexError, ValueError):
        return int(process_stat(pid)[19])
    return 0


def stop_reason() -> str:
    with suppress(OSError), open("../stop", encoding="utf-8") as file:
        return file.read().strip() or "cancelled"
    return "cancelled"


def killed_by(exit_code: int) -> str:
    """Shells say 128 + n for a child killed by signal n, too. 255 and its like are no signal's."""
    with suppress(ValueError):
        return f"killed by {signal.Signals(exit_code - 128).name}"
    return ""


def boot_id() -> str:
    with suppress(OSError), open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
    return ""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def main(arguments: list[str]) -> int:
    os.chdir(arguments[0])
    lock = int(arguments[1]) if len(arguments) > 1 else os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.fcntl(lock, fcntl.F_SETFD, fcntl.FD_CLOEXEC)  # else the worker would hold it, and look like us
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return ALREADY
    if os.path.exists("state.json"):
        return ALREADY
    with open("spec.json", encoding="utf-8") as file:
        spec = json.load(file)
    if os.fork():
        os._exit(0)  # the server waits for this one only, and is nobody's parent afterwards
    for standard in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), standard)
    supervisor = Supervisor(spec)
    supervisor.listen_for_signals()
    supervisor.save()
    if supervisor.save_at != NEVER:
        return 1  # nothing was started, nothing is on disk: the server will try again
    try:
        supervisor.run()
    except BaseException:
        with open("supervisor.err", "w", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
