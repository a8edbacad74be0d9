"""Builders and a real local site for the tests. Waiting is for a condition, never for a time."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from windlass.contracts.agent import Assignment, Desired, Observation, SiteReport, WorkerSpec
from windlass.core.errors import Unavailable
from windlass.site.nodes.inventory import Inventory, simulated
from windlass.site.orchestrators.local.folders import AttemptKey, WorkerFile, worker_file
from windlass.site.orchestrators.local.launch import Limits
from windlass.site.orchestrators.local.orchestrator import LocalOrchestrator
from windlass.site.orchestrators.local.processes import has_supervisor, send_signal

T = TypeVar("T")
DEADLINE_S = 20.0
NODE = "local-h100-80g-1"

# Runs until somebody writes an exit code into the fifo `go` of its folder.
UNTIL_TOLD = ("sh", "-c", "mkfifo go; echo up; read code < go; exit $code")


def assignment(
    workload: str = "wl_1",
    *command: str,
    attempt: int = 1,
    workers: int = 1,
    gpus: tuple[int, ...] = (0,),
    **facts: Any,
) -> Assignment:
    """A job of `workers` workers. Worker 0 has the GPUs `gpus` of the first node, the others have none."""
    facts = {"want": "run", "kind": "job", "gpu_milli": 1000, "grace_ms": 10_000, **facts}
    return Assignment(
        workload=workload,
        attempt=attempt,
        tenant="acme",
        project="nlp",
        env="prod",
        component="sft-run",
        workers=tuple(
            WorkerSpec(index=index, node=NODE, gpus=gpus if index == 0 else ()) for index in range(workers)
        ),
        command=command,
        **facts,
    )


def python(source: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-u", "-c", source)


def eventually(condition: Callable[[], T | None], *, what: str = "the condition") -> T:
    """The first true answer. Polls, because a real process tells nobody when it gets somewhere."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come true within {DEADLINE_S} s")


def process_exists(pid: int) -> bool:
    """Alive; a zombie nobody reaped does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def short_lived_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The jobs' TMPDIRs go with the test, also of jobs that are never looked at again."""
    folder = tempfile.mkdtemp(prefix="wt-")
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setenv("TMPDIR", folder)
    yield
    shutil.rmtree(folder, ignore_errors=True)


class LocalWorld:
    """A site on this machine. Each call opens the folder anew, as a restarted server does."""

    def __init__(
        self, data: Path, *, limits: Limits | None = None, inventory: Inventory | None = None
    ) -> None:
        self.data = data
        self.limits = limits or Limits(backoff_first_ms=10, backoff_max_ms=40, healthy_ms=60_000)
        self.inventory = inventory or simulated("h100-80gx8", nodes=2)

    def orchestrator(self) -> LocalOrchestrator:
        return LocalOrchestrator(
            self.data, self.inventory, clock=lambda: time.time_ns() // 1_000_000, limits=self.limits
        )

    def run(self, story: Callable[[LocalOrchestrator], Coroutine[Any, Any, T]]) -> T:
        async def told() -> T:
            orchestrator = self.orchestrator()
            await orchestrator.open()
            try:
                async with asyncio.timeout(2 * DEADLINE_S):
                    return await story(orchestrator)
            finally:
                await orchestrator.close()

        return asyncio.run(told())

    def ensure(self, wanted: Assignment) -> None:
        self.run(lambda site: site.ensure(wanted))

    def stop(self, workload: str = "wl_1", attempt: int = 1) -> None:
        self.run(lambda site: site.stop(workload, attempt))

    def observe(self) -> tuple[Observation, ...]:
        return self.run(lambda site: site.observe())

    def seen(self, workload: str = "wl_1", attempt: int = 1) -> Observation | None:
        found = [one for one in self.observe() if (one.workload, one.attempt) == (workload, attempt)]
        return found[0] if found else None

    def when(self, condition: Callable[[Observation], object], workload: str = "wl_1") -> Observation:
        def met() -> Observation | None:
            seen = self.seen(workload)
            return seen if seen is not None and condition(seen) else None

        return eventually(met, what=f"what is seen of {workload}")

    def gone(self, workload: str = "wl_1") -> Observation:
        return self.when(lambda seen: seen.gone, workload)

    def gone_not_yet(self, workload: str = "wl_1") -> bool:
        seen = self.seen(workload)
        return seen is not None and not seen.gone

    def folder(self, worker: int = 0, workload: str = "wl_1", attempt: int = 1) -> Path:
        return self.orchestrator().folders.worker(AttemptKey(workload, attempt), worker)

    def state(self, worker: int = 0, workload: str = "wl_1") -> WorkerFile | None:
        return worker_file(self.folder(worker, workload))

    def running(self, worker: int = 0, workload: str = "wl_1") -> WorkerFile:
        def met() -> WorkerFile | None:
            state = self.state(worker, workload)
            return state if state is not None and state.phase == "running" else None

        return eventually(met, what="the worker's start")

    def log(self, worker: int = 0, workload: str = "wl_1") -> bytes:
        async def everything(site: LocalOrchestrator) -> bytes:
            data, offset = b"", 0
            while (chunk := await site.read_log(workload, 1, worker, offset=offset)).data:
                data, offset = data + chunk.data, chunk.next_offset
            return data

        return self.run(everything)

    def when_logged(self, text: bytes, worker: int = 0, workload: str = "wl_1") -> bytes:
        def met() -> bytes | None:
            log = self.log(worker, workload)
            return log if text in log else None

        return eventually(met, what=f"{text!r} in the log")

    def tell(self, exit_code: int, worker: int = 0, workload: str = "wl_1") -> None:
        """Ends a worker that runs `UNTIL_TOLD`."""
        fifo = self.folder(worker, workload) / "work" / "go"

        def written() -> bool:
            with suppress(OSError):  # no fifo yet, or nobody at its other end
                handle = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
                os.write(handle, f"{exit_code}\n".encode())
                os.close(handle)
                return True
            return False

        eventually(written, what="a worker that listens")

    def end_everything(self) -> None:
        """By pid and only ours: kill the supervisors; the kernel kills their workers."""
        folders = [path.parent for path in self.data.glob("site/jobs/*/*/*/lock")]

        def all_ended() -> bool:
            for folder in folders:
                state = worker_file(folder)
                if state is not None and state.ended_ms is None:
                    send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGKILL)
            return not any(has_supervisor(folder) for folder in folders)  # one may still be on its way

        eventually(all_ended, what="the end of every job")
        if folders:
            self.observe()  # sweeps what the killed ones left


class FakeLink:
    """A centre in memory. `away` makes every call fail; `reports` is what it heard."""

    def __init__(self, *assignments: Assignment) -> None:
        self.now = Desired(generation=1, assignments=assignments)
        self.reports: list[SiteReport] = []
        self.away = False
        self._moved = asyncio.Event()

    def want(self, *assignments: Assignment) -> None:
        self.now = Desired(generation=self.now.generation + 1, assignments=assignments)
        self._moved.set()

    async def desired(self, site: str) -> Desired:
        self._present()
        return self.now

    async def report(self, report: SiteReport) -> None:
        self._present()
        self.reports.append(report)

    async def changed(self, site: str, generation: int) -> None:
        self._present()
        while self.now.generation <= generation:
            self._moved.clear()
            await self._moved.wait()

    def heard(self) -> list[Observation]:
        return [one for report in self.reports for one in report.observations]

    def _present(self) -> None:
        if self.away:
            raise Unavailable("the centre is away")


async def until(condition: Callable[[], object | Awaitable[object]]) -> None:
    """Like `eventually`, but lets the event loop run meanwhile."""
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while True:
        answer = condition()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return
        assert asyncio.get_running_loop().time() < deadline, "the condition did not come true"
        await asyncio.sleep(0.01)
