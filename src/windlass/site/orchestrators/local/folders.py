"""Where everything of the local site is on disk. The disk is the only memory there is.

<data>/site/
  lock                              flock: one writer at a time
  look                              unix datagram socket: supervisors ring here
  gpus/<node>/<index>/<holder>      see gpus.py
  jobs/<workload>/<attempt>/
    attempt.json                    the assignment and what was chosen for it, written first
    stop                            it shall end; the text is the reason
    <worker>/                       see supervisor.py; also work/, its folder to run in
  ended/<workload>/<attempt>/       forgotten attempts, kept for their logs
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from windlass.contracts.agent import Assignment, other_placement
from windlass.core.errors import Invalid

_WORKLOAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}")
MAX_ATTEMPT = 10**9


class AttemptKey(NamedTuple):
    workload: str
    attempt: int


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided for an attempt before anything of it was started."""

    assignment: Assignment
    master_port: int | None = None
    ports: dict[int, int] = {}  # by worker
    container: bool = False
    failure: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.assignment.workload, self.assignment.attempt)


class WorkerFile(msgspec.Struct, frozen=True, kw_only=True):
    """state.json, as the supervisor writes it."""

    phase: str
    supervisor_pid: int
    supervisor_start: int
    pid: int | None = None
    start: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    detail: str = ""
    restarts: int = 0
    output: int = 0  # the inode of the pipe that the worker writes to
    boot: str = ""  # of which run of this machine the numbers above are


class Folders:
    def __init__(self, data_dir: Path) -> None:
        self.root = (data_dir / "site").absolute()
        self.jobs = self.root / "jobs"
        self.ended = self.root / "ended"
        self.gpus = self.root / "gpus"
        self.look = self.root / "look"

    def create(self) -> None:
        for folder in (self.jobs, self.ended, self.gpus):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time, also if two servers were started on one folder by mistake."""
        handle = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def attempt(self, key: AttemptKey) -> Path:
        return self.jobs / _checked(key) / str(key.attempt)

    def ended_attempt(self, key: AttemptKey) -> Path:
        return self.ended / _checked(key) / str(key.attempt)

    def worker(self, key: AttemptKey, index: int) -> Path:
        return self.attempt(key) / str(index)

    def attempts(self) -> list[AttemptKey]:
        return list(_attempts_in(self.jobs))

    def record(self, key: AttemptKey) -> Record | None:
        return _record_in(self.attempt(key))

    def write_record(self, record: Record) -> None:
        folder = self.attempt(record.key)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(folder / "attempt.json", msgspec.json.encode(record))

    def stop_reason(self, key: AttemptKey) -> str | None:
        data = read_if_there(self.attempt(key) / "stop")
        return None if data is None else data.decode().strip()

    def retire(self, key: AttemptKey) -> Path:
        """Out of sight of `attempts`, logs and results kept."""
        target = self.ended_attempt(key)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        self.attempt(key).rename(target)
        remove_if_empty(self.attempt(key).parent)
        return target

    def recall(self, key: AttemptKey, wanted: Assignment) -> None:
        """Somebody wants a forgotten attempt: show its result again rather than run it again."""
        retired, place = self.ended_attempt(key), self.attempt(key)
        known = _record_in(retired)
        if known is not None and other_placement(known.assignment, wanted):
            return  # the number was given twice; this is the result of the other
        if retired.exists() and not place.exists():
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            retired.rename(place)


def _record_in(folder: Path) -> Record | None:
    data = read_if_there(folder / "attempt.json")
    return None if data is None else msgspec.json.decode(data, type=Record)


def worker_file(folder: Path) -> WorkerFile | None:
    data = read_if_there(folder / "state.json")
    return None if data is None else msgspec.json.decode(data, type=WorkerFile)


def read_if_there(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # not empty, or already gone


def write_durably(path: Path, data: bytes) -> None:
    """All of it or nothing, also through a power cut."""
    draft = path.with_name(f"{path.name}.tmp")
    with draft.open("wb") as file:
        draft.chmod(0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _attempts_in(folder: Path) -> Iterator[AttemptKey]:
    for workload in sorted(folder.iterdir()):
        if _WORKLOAD.fullmatch(workload.name):
            for attempt in sorted(workload.iterdir()):
                if attempt.name.isdecimal():
                    yield AttemptKey(workload.name, int(attempt.name))


def _checked(key: AttemptKey) -> str:
    """Ids come from the platform, but a path is made of them: nothing that could climb out."""
    if _WORKLOAD.fullmatch(key.workload) is None or not 0 <= key.attempt <= MAX_ATTEMPT:
        raise Invalid(f"{key.workload!r} attempt {key.attempt} is not a workload's attempt")
    return key.workload
