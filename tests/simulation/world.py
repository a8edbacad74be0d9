"""The simulated world: replicas of the real control plane, the real agent on a site in memory, a network
between them, and whatever a seed lets go wrong.

A process is a party of the loop. To crash one is to declare its party dead: its callbacks never run
again, its connections close, and a new one starts from what is stored.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tests.simulation.history import Breach, Record, check_state
from tests.simulation.loop import Party, VirtualLoop
from tests.simulation.store import SimDatabase, SimStore

from windlass.contracts.agent import Desired, NodeReport, SiteReport
from windlass.control.app import ControlPlane, parts, start
from windlass.control.gateway.http import Gateway
from windlass.control.gateway.table import routes
from windlass.core.errors import Unavailable
from windlass.core.ids import make_id
from windlass.core.units import Ms
from windlass.site.agent.loop import AgentLoop
from windlass.site.orchestrators.fake import FakeOrchestrator, FakeSite

START = Ms(1_772_442_000_000 + 3_570_000)
"""2026-03-02T09:59:30Z: half a minute before the hourly posting."""

FLEET = (
    NodeReport(name="h1", gpu_class="h100-80g", gpus=8),
    NodeReport(name="h2", gpu_class="h100-80g", gpus=8),
)
TIMEOUT_S = 10.0

T = TypeVar("T")


class Gone(Exception):
    """The other side died, or the way to it did."""


class SimSite(FakeSite):
    """Its clock is the world's."""

    def __init__(self, clock: Callable[[], Ms]) -> None:
        self._clock = clock
        super().__init__(FLEET)
        self.slow = True

    @property
    def now_ms(self) -> int:
        return self._clock()

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        pass


@dataclass
class Replica:
    """One server's place; `party` and `plane` are of its present life, None while it is down."""

    world: World
    name: str
    offset_ms: int = 0
    party: Party | None = None
    plane: ControlPlane | None = None
    gateway: Gateway | None = None
    store: SimStore | None = None
    calls: list[asyncio.Future[Any]] = field(default_factory=list)

    @property
    def up(self) -> bool:
        return self.gateway is not None

    def clock(self) -> Ms:
        return Ms(self.world.now() + self.offset_ms)

    def begin(self) -> None:
        self.party = Party(self.name)
        self.party.task(self._live(self.party), f"{self.name} lives")

    async def _live(self, party: Party) -> None:
        while self.gateway is None:
            try:
                await self._open(party)
            except Unavailable:
                if self.store is not None:
                    self.store.die()
                await asyncio.sleep(1.0)
        assert self.plane is not None
        for task in start(self.plane):
            task.add_done_callback(self._loop_ended)

    async def _open(self, party: Party) -> None:
        shared = len(self.world.replicas) > 1
        self.store = SimStore(self.world.database, party, shared=shared)
        plane = await parts(
            self.store, self.clock, self.world.id, reach=_no_network, replica=self.name if shared else None
        )
        if self.store.tail is not None:
            self.store.tail.start()
        self.plane = plane
        self.gateway = Gateway(
            routes(plane), plane.door, self.world.id, plane.limiter, plane.tracer, plane.minutes
        )

    def _loop_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.world.breach("loops run for ever", f"{self.name}: {task.get_name()}: {task.exception()!r}")

    def crash(self) -> None:
        if self.party is None:
            return
        self.party.dead = True
        self.party = self.plane = self.gateway = None
        if self.store is not None:
            self.store.die()
            self.store = None
        for call in self.calls:
            if not call.done():
                call.set_exception(Gone())
                call.exception()  # its caller may be dead too
        self.calls.clear()

    async def serve(self, work: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """Run in this server's process on behalf of somebody outside it. Raises Gone if it dies."""
        if self.party is None or self.gateway is None:
            raise Gone
        answer: asyncio.Future[T] = self.world.loop.create_future()
        self.calls.append(answer)

        async def handled() -> None:
            try:
                result = await work()
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(result)

        party = self.party
        task = party.task(handled(), name)
        try:
            return await answer
        finally:
            self.calls = [call for call in self.calls if call is not answer]
            if not task.done():
                self.world.loop.call_soon(task.cancel, context=party.context.copy())


class World:
    def __init__(
        self,
        loop: VirtualLoop,
        chance: Random,
        path: Path,
        content: bytes = b"",
        *,
        count: int = 1,
        start: Ms = START,
    ) -> None:
        self.loop = loop
        self.chance = chance
        self.database = SimDatabase(path, content, loop, chance, start)
        self.database.committed = self._committed
        self.site = SimSite(self.now)
        self.cut_off_until = 0.0
        self.replicas: list[Replica] = []
        self.replicas += [Replica(self, f"r{number}") for number in range(1, count + 1)]
        self.records: list[Record] = []
        self.breaches: list[Breach] = []
        self.trace: list[str] = []
        self.agent_party: Party | None = None
        self.keys: dict[str, str] = {}
        self._ids = 0

    def now(self) -> Ms:
        return self.database.clock()

    def id(self, prefix: str) -> str:
        self._ids += 1
        return make_id(prefix, self.now(), self._ids)

    def told(self, what: str) -> None:
        self.trace.append(f"{self.loop.time():.6f} {self.loop.steps} {what}")

    def breach(self, law: str, detail: str) -> None:
        self.breaches.append(Breach(law, detail))

    def _committed(self) -> None:
        self.told("commit")
        self.breaches += check_state(self.database.rows)

    # --- the agent ------------------------------------------------------------------------------------

    def start_agent(self) -> None:
        self.agent_party = Party("agent")
        agent = AgentLoop("local", FakeOrchestrator(self.site), SimLink(self), jitter=self.chance.random)
        self.agent_party.task(agent.run(), "agent")

    def crash_agent(self) -> None:
        if self.agent_party is not None:
            self.agent_party.dead = True

    # --- the network ----------------------------------------------------------------------------------

    async def hop(self) -> None:
        await asyncio.sleep(self.chance.random() * 0.02)

    def some_replica(self) -> Replica:
        return self.chance.choice(self.replicas)

    async def request(
        self, by: str, method: str, path: str, body: Any = None, *, key: str = "", at: Replica | None = None
    ) -> Record:
        """One request, and what its client knows of it afterwards."""
        replica, sent = at or self.some_replica(), self.now()
        headers = {"authorization": f"Bearer {self.keys[by]}"}
        if key:
            headers["idempotency-key"] = key
        status, answer = None, None
        try:
            await self.hop()
            async with asyncio.timeout(TIMEOUT_S):
                status, answer = await replica.serve(
                    lambda: _served(replica, method, path, body, headers), f"{method} {path}"
                )
            await self.hop()
        except (Gone, TimeoutError):
            pass
        answered = self.now() if status is not None else None
        record = Record(method, path, sent, answered, status, body, answer, key, by)
        self.records.append(record)
        self.told(f"{replica.name} {method} {path} {key} -> {status}")
        return record


async def _served(
    replica: Replica, method: str, path: str, body: Any, headers: dict[str, str]
) -> tuple[int, Any]:
    assert replica.gateway is not None
    sent: list[dict[str, Any]] = []
    pending = [{"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}]

    async def receive() -> dict[str, Any]:
        if not pending:
            await asyncio.Event().wait()
        return pending.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await replica.gateway(asgi_scope(method, path, headers), receive, send)
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(content) if content else None


def asgi_scope(method: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
    pure, _, query = path.partition("?")
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": pure,
        "query_string": query.encode(),
        "headers": [
            (name.encode(), value.encode()) for name, value in {"host": "windlass", **headers}.items()
        ],
    }


async def _no_network(*args: Any, **kwargs: Any) -> Any:
    raise Unavailable("there is no network in the simulation")


class SimLink:
    """The agent's way to the centre: any replica, with delays, while it is not cut off."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def desired(self, site: str) -> Desired:
        return await self._ask(lambda plane: plane.link.desired(site), "desired")

    async def report(self, report: SiteReport) -> None:
        await self._ask(lambda plane: plane.link.report(report), "report")

    async def changed(self, site: str, generation: int) -> None:
        await self._ask(lambda plane: plane.link.changed(site, generation), "changed", wait=True)

    async def _ask(
        self, what: Callable[[ControlPlane], Coroutine[Any, Any, T]], name: str, *, wait: bool = False
    ) -> T:
        world, replica = self._world, self._world.some_replica()
        try:
            self._reach()
            await world.hop()
            async with asyncio.timeout(None if wait else TIMEOUT_S):
                answer = await replica.serve(lambda: what(_plane(replica)), name)
            await world.hop()
            self._reach()  # it was done, and the answer may be lost all the same
        except (Gone, TimeoutError):
            raise Unavailable("the centre is away") from None
        world.told(f"agent {name} at {replica.name}")
        return answer

    def _reach(self) -> None:
        if self._world.loop.time() < self._world.cut_off_until:
            raise Gone


def _plane(replica: Replica) -> ControlPlane:
    if replica.plane is None:
        raise Gone
    return replica.plane
