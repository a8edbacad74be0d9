"""The local orchestrator: attempts on this machine, each worker under a supervisor of its own.

It keeps nothing in memory that it could not lose: what was asked is in attempt.json, who runs is
in the locks, what came of it is in the state files. So a restarted server adopts by looking, and
any step may be cut off anywhere. The order of writes is what makes it safe:

    attempt.json  ->  GPU holders  ->  spec.json  ->  lock handed to a supervisor  ->  state.json  ->  the job

Before the state file exists, starting again is right; from then on nobody starts it again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from windlass.contracts.agent import Assignment, NodeReport, Observation, WorkerSpec, other_placement
from windlass.core.errors import NotFound, Unavailable
from windlass.site.nodes.inventory import Inventory
from windlass.site.orchestrators.local import logs, processes
from windlass.site.orchestrators.local.containers import Setting, find_engine
from windlass.site.orchestrators.local.folders import (
    AttemptKey,
    Folders,
    Record,
    WorkerFile,
    worker_file,
    write_durably,
)
from windlass.site.orchestrators.local.gpus import DoubleHeld, Holdings
from windlass.site.orchestrators.local.launch import (
    VARIABLES_FILE,
    Limits,
    Refusal,
    refusal,
    supervisor_spec,
)
from windlass.site.orchestrators.local.observing import look_at
from windlass.site.orchestrators.local.retention import Retention
from windlass.site.orchestrators.port import CANCELLED, PEER_FAILED, LogChunk, failed

_LOG = logging.getLogger("windlass.site")
T = TypeVar("T")


class LocalOrchestrator:
    """`open` it before use and `close` it after; closing leaves every job running."""

    def __init__(
        self,
        data_dir: Path,
        inventory: Inventory,
        *,
        clock: Callable[[], int],
        python: str = sys.executable,
        containers: Setting = "never",
        limits: Limits | None = None,
    ) -> None:
        self.inventory = inventory
        self.folders = Folders(data_dir)
        self.holdings = Holdings(self.folders.gpus)
        self._clock = clock
        self._python = python
        self._limits = limits or Limits()
        self._retention = Retention(self.folders.ended, self._limits)
        self._containers = containers
        self._engine, self._why_processes = find_engine(containers)
        self._turn = threading.Lock()
        self._final: dict[AttemptKey, Observation] = {}
        self._rung = asyncio.Event()
        self._bell: socket.socket | None = None

    async def open(self) -> None:
        """Make the folders, listen for supervisors, free what a crash left held."""
        self.folders.create()
        self._bell = _listen(self.folders.look)
        asyncio.get_running_loop().add_reader(self._bell, self._on_ring)
        await self._on_disk(lambda: self.holdings.release_all_but(self.folders.attempts()))

    async def close(self) -> None:
        if self._bell is not None:
            asyncio.get_running_loop().remove_reader(self._bell)
            self._bell.close()
            self._bell = None

    # --- the port ------------------------------------------------------------------------------

    async def nodes(self) -> tuple[NodeReport, ...]:
        return self.inventory.nodes

    async def ensure(self, assignment: Assignment) -> None:
        await self._on_disk(lambda: self._ensure(assignment))

    async def stop(self, workload: str, attempt: int) -> None:
        await self._on_disk(lambda: self._stop(AttemptKey(workload, attempt), CANCELLED))

    async def observe(self) -> tuple[Observation, ...]:
        return await self._on_disk(self._observe)

    async def forget(self, workload: str, attempt: int) -> None:
        await self._on_disk(lambda: self._forget(AttemptKey(workload, attempt)))

    async def changed(self) -> None:
        await self._rung.wait()
        self._rung.clear()

    async def stop_everything(self) -> None:
        """For a platform that is thrown away: return when nothing of it runs any more."""
        while live := [seen for seen in await self.observe() if not seen.gone]:
            for seen in live:
                await self.stop(seen.workload, seen.attempt)
            await asyncio.sleep(0.05)

    # --- logs ----------------------------------------------------------------------------------

    async def read_log(
        self, workload: str, attempt: int, worker: int, *, offset: int = 0, limit: int = 1 << 20
    ) -> LogChunk:
        key = AttemptKey(workload, attempt)
        while True:
            folder = self._log_folder(key, worker)
            chunk = await asyncio.to_thread(logs.read, folder, offset=offset, limit=limit)
            if chunk.data or self._log_folder(key, worker) == folder:
                return chunk  # else it moved to the ended ones under the reader's hands

    def follow_log(
        self, workload: str, attempt: int, worker: int, *, offset: int = 0
    ) -> AsyncIterator[LogChunk]:
        key = AttemptKey(workload, attempt)
        return logs.follow(
            lambda: self._log_folder(key, worker), lambda: self._worker_is_over(key, worker), offset=offset
        )

    def _log_folder(self, key: AttemptKey, worker: int) -> Path:
        for place in (self.folders.attempt(key), self.folders.ended_attempt(key)):
            if place.exists():
                return place / str(worker)
        raise NotFound(
            f"there is no log of {key.workload}, attempt {key.attempt}",
            remedy="it never started here, or it ended so long ago that its log was removed",
        )

    def _worker_is_over(self, key: AttemptKey, worker: int) -> bool:
        folder = self._log_folder(key, worker)
        if folder.is_relative_to(self.folders.ended) or key in self._final:
            return True
        if processes.has_supervisor(folder):
            return False
        state = worker_file(folder)
        # Never started: wait, unless the attempt failed or was stopped before it could.
        return state is not None or self._never_starts(key)

    def _never_starts(self, key: AttemptKey) -> bool:
        record = self.folders.record(key)
        return self.folders.stop_reason(key) is not None or (record is not None and bool(record.failure))

    # --- one at a time, on a thread, with the site's lock ----------------------------------------

    async def _on_disk(self, work: Callable[[], T]) -> T:
        def alone() -> T:
            with self._turn, self.folders.locked():
                return work()

        try:
            return await asyncio.to_thread(alone)
        except OSError as error:
            raise Unavailable(
                f"the site's folder {self.folders.root} cannot be used: {error.strerror or error}",
                remedy="free some disk space, or check who owns the folder",
            ) from error

    def _on_ring(self) -> None:
        if self._bell is not None:
            try:
                while self._bell.recv(16):
                    self._rung.set()
            except BlockingIOError:
                pass

    # --- starting ------------------------------------------------------------------------------

    def _ensure(self, assignment: Assignment) -> None:
        key = AttemptKey(assignment.workload, assignment.attempt)
        self.folders.recall(key, assignment)
        record = self.folders.record(key)
        if record is not None and other_placement(record.assignment, assignment):
            self._forget(key)  # its number was given again; if it lives, the agent ends it first
            if (record := self.folders.record(key)) is not None:
                return
        if record is None:
            record = self._decide(assignment)
            if assignment.known_to_run:
                self._count_as_lost(record)
            self.folders.write_record(record)
        if record.failure or self.folders.stop_reason(key) is not None:
            return
        try:
            self.holdings.take(record.assignment)
        except DoubleHeld as error:
            if self._on_its_way(error):
                return  # the end of those who leave rings, and then it is asked for again
            _LOG.error(
                "a GPU was assigned twice", extra={"facts": {"workload": key.workload, "why": str(error)}}
            )
            self.folders.write_record(
                msgspec.structs.replace(
                    record,
                    failure=f"double-held: {error}",
                    remedy="this is a bug of the platform, please report it; rerun once the other has ended",
                )
            )
            return
        self._start_missing(record)

    def _on_its_way(self, double: DoubleHeld) -> bool:
        """It is enough that those go who were told to: work that the centre gave up while we were away, or of
        which a restored one knows nothing."""
        leaving = (milli for key, milli in double.others.items() if self.folders.stop_reason(key) is not None)
        return sum(leaving) >= double.over

    def _count_as_lost(self, record: Record) -> None:
        """It ran, and nothing of it is here: the site's folder was lost, or the database is older than
        what the site still keeps. It is not started a second time, and nobody pays for what nobody saw."""
        for worker in record.assignment.workers:
            folder = self.folders.worker(record.key, worker.index)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            at = record.assignment.placed_ms or self._clock()
            lost = WorkerFile(phase="lost", supervisor_pid=0, supervisor_start=0, ended_ms=at)
            write_durably(folder / "state.json", msgspec.json.encode(lost))

    def _decide(self, assignment: Assignment) -> Record:
        """Everything that is chosen, chosen once."""
        refused = self._no_engine(assignment) or refusal(assignment, self.inventory, self._engine)
        if refused is not None:
            return Record(assignment=assignment, failure=refused.failure, remedy=refused.remedy)
        in_container = self._engine is not None and bool(assignment.image)
        notes: tuple[str, ...] = ()
        if assignment.image and not in_container:
            notes = (f"the image {assignment.image} is not used: {self._why_processes}",)
        if assignment.kind == "job":
            (port,) = processes.free_ports(1, taken=self._ports_taken())
            return Record(assignment=assignment, master_port=port, notes=notes, container=in_container)
        ports = processes.free_ports(len(assignment.workers), taken=self._ports_taken())
        by_worker = {worker.index: port for worker, port in zip(assignment.workers, ports, strict=True)}
        return Record(assignment=assignment, ports=by_worker, notes=notes, container=in_container)

    def _no_engine(self, assignment: Assignment) -> Refusal | None:
        """A site that asks for an engine by name wants its isolation; a process is no stand-in for it."""
        if self._engine is not None or not assignment.image or self._containers not in ("podman", "docker"):
            return None
        return Refusal(
            f"this site runs containers with {self._containers}, which does not work on this machine",
            f"repair {self._containers} there, or set containers: auto or never in the Site document",
        )

    def _ports_taken(self) -> set[int]:
        taken: set[int] = set()
        for key in self.folders.attempts():
            record = self.folders.record(key) if key not in self._final else None
            if record is not None:
                taken |= {*record.ports.values(), record.master_port or 0}
        return taken

    def _start_missing(self, record: Record) -> None:
        folders = [
            self._prepare(record, worker)
            for worker in record.assignment.workers
            if not self._was_started(self.folders.worker(record.key, worker.index))
        ]
        processes.start_supervisors(self._python, folders)

    def _was_started(self, folder: Path) -> bool:
        return worker_file(folder) is not None or processes.has_supervisor(folder)

    def _prepare(self, record: Record, worker: WorkerSpec) -> Path:
        folder = self.folders.worker(record.key, worker.index)
        work = folder / "work"
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        spec = supervisor_spec(
            record,
            worker,
            inventory=self.inventory,
            engine=self._engine,
            base=self._base_environment(work),
            work=work,
            look=self.folders.look,
            limits=self._limits,
        )
        told = spec.pop(VARIABLES_FILE, None)
        if told is not None:
            write_durably(folder / VARIABLES_FILE, told.encode())
        write_durably(folder / "spec.json", msgspec.json.encode(spec))
        return folder

    def _base_environment(self, work: Path) -> dict[str, str]:
        temporary = processes.temporary_folder(work)
        processes.make_private(temporary)
        # Our own Python comes last: `python` is found even where the machine only has `python3`.
        path = f"{os.environ.get('PATH', os.defpath)}:{Path(self._python).parent}"
        return {"PATH": path, "HOME": str(work), "LANG": "C.UTF-8", "TMPDIR": str(temporary)}

    # --- looking, ending, forgetting --------------------------------------------------------------

    def _observe(self) -> tuple[Observation, ...]:
        return tuple(seen for key in self.folders.attempts() if (seen := self._look(key)) is not None)

    def _look(self, key: AttemptKey) -> Observation | None:
        if key in self._final:
            return self._final[key]
        record = self.folders.record(key)
        if record is None:
            return None  # its first write was cut off; whoever wants it will ask again
        seen = look_at(self.folders, record, now_ms=self._clock())
        if record.assignment.kind == "job" and not seen.gone and any(failed(one) for one in seen.workers):
            self._stop(key, PEER_FAILED)  # a gang without one of its workers only burns GPUs
            seen = look_at(self.folders, record, now_ms=self._clock())
        if seen.gone:
            self._tidy(record)
            self._final[key] = seen
        return seen

    def _tidy(self, record: Record) -> None:
        self.holdings.release(record.key)
        for worker in record.assignment.workers:
            work = self.folders.worker(record.key, worker.index) / "work"
            shutil.rmtree(processes.temporary_folder(work), ignore_errors=True)

    def _stop(self, key: AttemptKey, reason: str) -> None:
        record = self.folders.record(key)
        if record is None or record.failure or key in self._final:
            return
        marker = self.folders.attempt(key) / "stop"
        if not marker.exists():
            write_durably(marker, reason.encode())
        for worker in record.assignment.workers:
            folder = self.folders.worker(key, worker.index)
            state = worker_file(folder)
            # No state yet: the supervisor on its way will find the marker before it starts anything.
            if state is not None and state.ended_ms is None and processes.has_supervisor(folder):
                processes.send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGTERM)

    def _forget(self, key: AttemptKey) -> None:
        seen = self._look(key) if self.folders.attempt(key).exists() else None
        if seen is None or not seen.gone:
            return
        for worker in self.folders.attempt(key).iterdir():
            shutil.rmtree(worker / "work", ignore_errors=True)
        self._retention.add(self.folders.retire(key))
        self._final.pop(key, None)


def _listen(path: Path) -> socket.socket:
    """Bound under a name of its own and then renamed: the path is never missing, never taken."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    bell.settimeout(0)
    folder = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        bell.bind(
            f"/proc/self/fd/{folder}/{fresh.name}"
        )  # socket paths end at 107 bytes, data folders do not
        fresh.replace(path)
    except OSError:
        bell.close()
        raise
    finally:
        os.close(folder)
    return bell
