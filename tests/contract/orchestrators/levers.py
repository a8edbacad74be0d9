"""What the suite must be able to do to a site from outside, for each adapter."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Protocol

from tests.site.worlds import UNTIL_TOLD, LocalWorld

from windlass.site.nodes.inventory import simulated
from windlass.site.orchestrators.fake import FakeOrchestrator, FakeSite
from windlass.site.orchestrators.local.orchestrator import LocalOrchestrator
from windlass.site.orchestrators.local.processes import send_signal
from windlass.site.orchestrators.port import Logs, Orchestrator


class Subject(Orchestrator, Logs, Protocol):
    pass


class Levers(Protocol):
    command: tuple[str, ...]

    async def open(self) -> Subject:
        """A server starts. Called again: the one before was killed, this is the next."""
        ...

    async def finish(self, workload: str, worker: int, exit_code: int) -> None: ...

    async def lose(self, workload: str, worker: int) -> None: ...

    def starts(self, workload: str) -> int:
        """How many workers of it were ever really started."""
        ...

    async def close(self) -> None: ...

    async def clean_up(self) -> None: ...


class FakeLevers:
    command: tuple[str, ...] = UNTIL_TOLD

    def __init__(self) -> None:
        self.site = FakeSite(simulated("h100-80gx8", nodes=2).nodes)

    async def open(self) -> Subject:
        return FakeOrchestrator(self.site)

    async def finish(self, workload: str, worker: int, exit_code: int) -> None:
        self.site.say(workload, 1, worker, b"up\n")
        self.site.finish(workload, 1, worker, exit_code)

    async def lose(self, workload: str, worker: int) -> None:
        self.site.lose(workload, 1, worker)

    def starts(self, workload: str) -> int:
        return sum(start[0] == workload for start in self.site.starts)

    async def close(self) -> None:
        pass

    async def clean_up(self) -> None:
        pass


class LocalLevers:
    command: tuple[str, ...] = ("sh", "-c", "echo started >> ../count; " + UNTIL_TOLD[2])

    def __init__(self, data: Path) -> None:
        self.world = LocalWorld(data)
        self.server: LocalOrchestrator | None = None

    async def open(self) -> Subject:
        await self.close()
        self.server = self.world.orchestrator()
        await self.server.open()
        return self.server

    async def finish(self, workload: str, worker: int, exit_code: int) -> None:
        await asyncio.to_thread(self.world.tell, exit_code, worker, workload)

    async def lose(self, workload: str, worker: int) -> None:
        state = await asyncio.to_thread(self.world.running, worker, workload)
        send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGKILL)

    def starts(self, workload: str) -> int:
        counts = self.world.data.glob(f"site/*/{workload}/*/*/count")
        return sum(len(path.read_text().splitlines()) for path in counts)

    async def close(self) -> None:
        if self.server is not None:
            await self.server.close()
            self.server = None

    async def clean_up(self) -> None:
        await asyncio.to_thread(self.world.end_everything)
