"""Processes of this machine: starting supervisors, telling whether they live, signalling safely.

A pid alone is never trusted: pids are reused. A process is known by pid and start time, and a
leftover of a dead supervisor by the `WINDLASS_WORK` variable it was started with or by the pipe of
the worker's output, which nobody else can have. (Who gets rid of both escapes; a container cannot.)
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from windlass.core.errors import Unavailable
from windlass.site.orchestrators.local import supervisor
from windlass.site.orchestrators.local.folders import WorkerFile

SUPERVISOR = Path(supervisor.__file__)
START_TIMEOUT_S = 30.0
AT_ONCE = 16  # each takes two descriptors while it starts
SWEEP_TIMEOUT_S = 2.0
WORK_VARIABLE = "WINDLASS_WORK"


def start_supervisors(python: str, folders: Sequence[Path]) -> None:
    """One for each worker's folder that has none. Raises `Unavailable` when one could not begin."""
    trouble: Unavailable | None = None
    for first in range(0, len(folders), AT_ONCE):
        starting = [_start(python, folder) for folder in folders[first : first + AT_ONCE]]
        for one in starting:
            try:
                _await_detached(one)
            except Unavailable as error:  # the others are waited for all the same
                trouble = trouble or error
    if trouble is not None:
        raise trouble


def _start(python: str, folder: Path) -> subprocess.Popen[bytes] | None:
    """We take the lock and hand it over through fork and exec: there is no moment at which a
    supervisor is on its way and the lock is free, so nobody can start a second one."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return subprocess.Popen(
            [python, "-I", "-S", str(SUPERVISOR), str(folder), str(lock)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},  # no secret of ours
            pass_fds=(lock,),
            start_new_session=True,
        )
    except BlockingIOError:
        return None  # it has one already
    finally:
        os.close(lock)


def _await_detached(starting: subprocess.Popen[bytes] | None) -> None:
    if starting is None:
        return
    try:
        _, said = starting.communicate(timeout=START_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        starting.kill()
        starting.communicate()
        raise Unavailable("a supervisor did not start in time", remedy="is the machine overloaded?") from None
    if starting.returncode not in (0, supervisor.ALREADY):
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unavailable(f"a supervisor could not start: {last or starting.returncode}")


def has_supervisor(folder: Path) -> bool:
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def send_signal(pid: int, start: int, number: int) -> bool:
    """Signal the process that had this pid and start time, and never another one."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if supervisor.start_time(pid) != start:
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
            return True
        return False
    finally:
        os.close(handle)


def sign_of_life(folder: Path, state: WorkerFile) -> None:
    """Note that we saw it supervised; and let its supervisor go on, if somebody stopped that."""
    with suppress(OSError):
        os.utime(folder / "lock")
    with suppress(OSError, IndexError):
        if supervisor.process_stat(state.supervisor_pid)[0] == b"T":
            send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGCONT)


def sweep(mark: str, state: WorkerFile) -> bool:
    """Kill everything that was started for this worker. True: nothing is left."""
    deadline = time.monotonic() + SWEEP_TIMEOUT_S
    while leftovers := list(_started_for(mark, state)):
        for pid, start in leftovers:
            send_signal(pid, start, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _started_for(mark: str, state: WorkerFile) -> Iterator[tuple[int, int]]:
    variable = f"{WORK_VARIABLE}={mark}".encode()
    same_boot = state.boot != "" and state.boot == supervisor.boot_id()
    output = f"pipe:[{state.output}]" if same_boot and state.output else ""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            start = supervisor.start_time(int(entry.name))
            # Who is older than the worker was given its pipe, and is somebody else's.
            younger = state.start is not None and start >= state.start
            if _was_told(entry.path, variable) or (output and younger and _holds(entry.path, output)):
                yield int(entry.name), start


def _was_told(process: str, variable: bytes) -> bool:
    with suppress(OSError):
        return variable in Path(process, "environ").read_bytes().split(b"\0")
    return False


def _holds(process: str, output: str) -> bool:
    """Its environment may be cleaned or overwritten; an open end of the worker's output says it, too."""
    with suppress(OSError):
        for handle in Path(process, "fd").iterdir():
            with suppress(OSError):
                if str(handle.readlink()) == output:
                    return True
    return False


def free_ports(count: int, *, taken: Iterable[int]) -> list[int]:
    """Loopback ports nobody listens on and no other attempt was given."""
    avoid = set(taken)
    sockets: list[socket.socket] = []
    try:
        ports: list[int] = []
        while len(ports) < count:
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sockets.append(probe)  # kept open, so that the kernel does not offer it again
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            if port not in avoid:
                ports.append(port)
        return ports
    finally:
        for probe in sockets:
            probe.close()


def temporary_folder(work: Path) -> Path:
    """A short path: sockets made in TMPDIR must stay below 108 bytes, which data folders often pass."""
    name = hashlib.sha256(str(work).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"windlass-{name}"


def make_private(folder: Path) -> None:
    """Ours alone. Raises `Unavailable` if somebody else made something of that name."""
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    if facts.st_uid != os.getuid() or not folder.is_dir() or folder.is_symlink():
        raise Unavailable(f"{folder} belongs to somebody else", remedy="remove it")
