"""What the disk and the kernel say about an attempt. Nothing is remembered in between.

For each worker there are three witnesses: the lock (somebody supervises it), state.json (what
became of it), and the attempt's stop file (nothing more of it will be started). A state without
an end and without a supervisor means that the supervisor was killed: the worker is lost, and
whatever it left running is killed before anybody is told.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from windlass.contracts.agent import Observation, WorkerObservation, WorkerSpec, WorkerState
from windlass.site.orchestrators.local import processes
from windlass.site.orchestrators.local.folders import (
    Folders,
    Record,
    WorkerFile,
    read_if_there,
    worker_file,
    write_durably,
)
from windlass.site.orchestrators.port import LOST, result

KILL_TIMEOUT_S = 30.0


def look_at(folders: Folders, record: Record, *, now_ms: int) -> Observation:
    """One attempt as it is. The caller holds the site's lock."""
    key = record.key
    if record.failure:
        return Observation(
            workload=key.workload,
            attempt=key.attempt,
            gone=True,
            failure=record.failure,
            remedy=record.remedy,
            notes=record.notes,
            placed_ms=record.assignment.placed_ms,
        )
    stopped = folders.stop_reason(key)
    seen = [
        _look_at_worker(folders, record, worker, stopped=stopped, now_ms=now_ms)
        for worker in record.assignment.workers
    ]
    workers = tuple(worker for worker in seen if worker is not None)
    gone = len(workers) == len(seen) and all(ended(worker) for worker in workers)
    exit_code, detail = result(workers) if gone else (None, "")
    return Observation(
        workload=key.workload,
        attempt=key.attempt,
        workers=workers,
        gone=gone,
        notes=record.notes,
        exit_code=exit_code,
        detail=detail,
        placed_ms=record.assignment.placed_ms,
    )


def ended(worker: WorkerObservation) -> bool:
    """For good, and with nothing left behind. A lost one whose leftovers resist is not there yet."""
    return worker.state == "exited" or (worker.state == "lost" and worker.ended_ms is not None)


def _look_at_worker(
    folders: Folders, record: Record, worker: WorkerSpec, *, stopped: str | None, now_ms: int
) -> WorkerObservation | None:
    folder = folders.worker(record.key, worker.index)
    port = record.ports.get(worker.index)
    # The lock first: if it is free, the state we read next is the last one ever written.
    supervised = processes.has_supervisor(folder)
    state = worker_file(folder)
    if state is None:
        if supervised:
            return WorkerObservation(index=worker.index, state="starting", port=port)
        if stopped is not None:
            return WorkerObservation(index=worker.index, state="exited", detail=stopped)
        return None
    if state.ended_ms is None and supervised:
        processes.sign_of_life(folder, state)
    elif state.ended_ms is None:
        state = _bury(folder, state, now_ms=now_ms)
    return _seen(worker.index, state, port=port)


def _seen(index: int, state: WorkerFile, *, port: int | None) -> WorkerObservation:
    phase: WorkerState = "starting"
    detail = ""
    match state.phase:
        case "running":
            phase = "running"
        case "exited":
            phase, detail = "exited", state.detail
        case "lost":
            phase, detail = "lost", LOST
        case "restarting":
            detail = f"exited with {state.exit_code}, waiting to be restarted"
    return WorkerObservation(
        index=index,
        state=phase,
        exit_code=state.exit_code if phase == "exited" else None,
        started_ms=state.started_ms,
        ended_ms=state.ended_ms,
        port=port,
        restarts=state.restarts,
        detail=detail,
    )


def _bury(folder: Path, state: WorkerFile, *, now_ms: int) -> WorkerFile:
    """Its supervisor was killed. Kill what is left of it, then write the end down, once."""
    ended_ms = _last_sign_of_life(folder, state, now_ms=now_ms)
    spec = msgspec.json.decode(read_if_there(folder / "spec.json") or b"{}")
    # As it was told, which is not where the folder is now if the data was moved.
    mark = spec.get("environment", {}).get(processes.WORK_VARIABLE, str(folder / "work"))
    # The container first: its engine's monitor writes to the same pipe, and is needed to end it.
    clean = _remove_container(spec.get("kill_command")) and processes.sweep(mark, state)
    lost = msgspec.structs.replace(state, phase="lost")
    if not clean:
        return lost
    lost = msgspec.structs.replace(lost, ended_ms=ended_ms)
    write_durably(folder / "state.json", msgspec.json.encode(lost))
    return lost


def _remove_container(command: Sequence[str] | None) -> bool:
    if not command:
        return True
    try:
        subprocess.run(command, capture_output=True, timeout=KILL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return True


def _last_sign_of_life(folder: Path, state: WorkerFile, *, now_ms: int) -> int:
    """Not now: supervisors, the server or the whole machine may have been away for long, and nobody
    pays for that. While somebody looks, the last sign is a few seconds old."""
    signs = [entry.stat().st_mtime_ns // 1_000_000 for entry in os.scandir(folder) if entry.is_file()]
    return min(now_ms, max([state.started_ms or 0, *signs]))
