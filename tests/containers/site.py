"""A local site that runs containers, and the contract suite's levers for it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
from tests.containers.engine import IMAGE, Podman
from tests.contract.orchestrators.levers import LocalLevers
from tests.site.worlds import LocalWorld, eventually

from windlass.contracts.agent import Assignment
from windlass.site.orchestrators.local.containers import container_name
from windlass.site.orchestrators.local.orchestrator import LocalOrchestrator

UNTIL_TOLD = ("sh", "-c", "mkfifo /tmp/go; echo up; read code < /tmp/go; exit $code")


class Contained(LocalOrchestrator):
    """Whatever has a command runs in the image."""

    async def ensure(self, assignment: Assignment) -> None:
        if assignment.command:
            assignment = msgspec.structs.replace(assignment, image=IMAGE)
        await super().ensure(assignment)


class ContainerWorld(LocalWorld):
    def orchestrator(self) -> LocalOrchestrator:
        return Contained(
            self.data,
            self.inventory,
            clock=lambda: time.time_ns() // 1_000_000,
            limits=self.limits,
            containers="podman",
        )


class ContainerLevers(LocalLevers):
    command: tuple[str, ...] = UNTIL_TOLD

    def __init__(self, data: Path, podman: Podman) -> None:
        super().__init__(data)
        self.world = ContainerWorld(data)
        self.podman = podman

    async def finish(self, workload: str, worker: int, exit_code: int) -> None:
        container = container_name(workload, 1, worker)
        command = f"[ -p /tmp/go ] && echo {exit_code} > /tmp/go"

        def told() -> bool:
            """Not yet, while the container or its fifo is on its way. A container that ends at once may
            take the answer to our call with it."""
            if self.podman.run("exec", container, "sh", "-c", command).returncode == 0:
                return True
            state = self.world.state(worker, workload)
            return state is not None and state.phase == "exited"

        await asyncio.to_thread(eventually, told, what="a worker that listens")

    def starts(self, workload: str) -> int:
        logs = self.world.data.glob(f"site/*/{workload}/*/*/log*")
        return sum(path.read_text().count("up\n") for path in logs)
