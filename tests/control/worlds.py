"""A whole control plane in a test: a store in a folder, time that only moves when told, an orchestrator
in memory, and a client that calls the gateway as a web server would.

Nothing runs by itself: `settle` lets the scheduler and the site's agent look and act until both are
content. `restart` builds everything anew from the same database, as a killed process would.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.control.documents import CATALOG
from tests.control.engines import CopiedDatabase, Database, new_world_database

from windlass.contracts.agent import NodeReport
from windlass.control.app import ControlPlane, parts
from windlass.control.gateway.http import Gateway
from windlass.control.gateway.table import routes
from windlass.core.bounds import Bounds
from windlass.core.ids import make_id
from windlass.core.units import Ms
from windlass.runtime.fetch import Fetch, fetch
from windlass.runtime.tracing import OFF, Tracer
from windlass.site.agent.loop import AgentLoop
from windlass.site.orchestrators.fake import FakeOrchestrator, FakeSite

START = Ms(1_772_442_000_000)
"""2026-03-02T09:00:00Z, a Monday."""

FLEET = (
    NodeReport(name="h1", gpu_class="h100-80g", gpus=8, labels={"rack": "r1"}),
    NodeReport(name="h2", gpu_class="h100-80g", gpus=8, labels={"rack": "r2"}),
    NodeReport(name="l1", gpu_class="l40s-48g", gpus=4, labels={"rack": "r1"}),
)

KEYS = {
    "acme-admin": ("tenant-admin", "acme"),
    "acme": ("developer", "acme"),
    "acme-viewer": ("viewer", "acme"),
    "globex-admin": ("tenant-admin", "globex"),
    "globex": ("developer", "globex"),
    "umbra": ("developer", "umbra"),
    "auditor": ("platform-viewer", None),
}


class FakeClock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> Ms:
        return self.now


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def codes(self) -> list[str]:
        """The rules a refusal names, in order."""
        return [reason["rule"] for reason in self.json["reasons"]]


@dataclass
class World:
    database: Database
    clock: FakeClock = field(default_factory=FakeClock)
    site: FakeSite = field(default_factory=lambda: FakeSite(FLEET))
    keys: dict[str, str] = field(default_factory=dict)
    replica: str | None = None
    tracer: Tracer = OFF
    reach: Fetch = fetch
    bounds: Bounds = field(default_factory=Bounds)
    _counter: Any = field(default_factory=lambda: itertools.count(1))
    plane: ControlPlane = field(init=False)
    gateway: Gateway = field(init=False)
    agent: AgentLoop = field(init=False)

    async def open(self) -> None:
        store = await self.database.open()
        self.plane = await parts(
            store, self.clock, self._id, self.tracer, self.reach, replica=self.replica, bounds=self.bounds
        )
        orchestrator = FakeOrchestrator(self.site)
        self.plane.logs = orchestrator
        plane = self.plane
        self.gateway = Gateway(routes(plane), plane.door, self._id, plane.limiter, self.tracer, plane.minutes)
        self.agent = AgentLoop("local", orchestrator, self.plane.link, jitter=lambda: 0.0, tracer=self.tracer)
        await self.plane.scheduler.load()

    async def close(self) -> None:
        await self.plane.store.close()

    async def another(self, name: str) -> World:
        """One more replica on the same database, with the same clock, site and keys."""
        other = replace(self, replica=name)
        await other.open()
        return other

    async def restart(self) -> None:
        await self.close()
        await self.open()

    def _id(self, prefix: str) -> str:
        return make_id(prefix, self.clock(), next(self._counter))

    # --- time and motion ------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        self.clock.now = Ms(self.clock.now + round(seconds * 1000))
        self.site.now_ms = self.clock.now

    async def settle(self) -> None:
        """Scheduler and site take turns until neither finds anything to do."""
        before = -1
        while before != (newest := self.newest_event()):
            before = newest
            await self.plane.scheduler.turn()
            await self.agent.converge()

    def newest_event(self) -> int:
        return int(self.rows("SELECT value FROM counters WHERE name = 'event'")[0]["value"])

    def finish(self, path: str, exit_code: int = 0) -> None:
        """Let every worker of the component's present attempt end."""
        found = self.workload(path)
        for worker in sorted(self.site.attempts[found["id"], found["attempt"]].workers):
            self.site.finish(found["id"], found["attempt"], worker, exit_code)

    # --- what is stored -------------------------------------------------------------------------

    def rows(self, statement: str, *args: object) -> Sequence[Any]:
        return self.database.rows(statement, *args)

    def workload(self, path: str) -> Any:
        """The newest run of a component."""
        return self.rows("SELECT * FROM workloads WHERE path = ? ORDER BY id DESC LIMIT 1", path)[0]

    def phase(self, path: str) -> str:
        return str(self.workload(path)["phase"])

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table."""
        return {
            name: sorted(tuple(row) for row in self.rows(f"SELECT * FROM {name}"))  # noqa: S608 (own tables)
            for name in self.database.tables()
        }

    # --- the API --------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        path: str,
        body: bytes | str | object = b"",
        *,
        by: str | None = "admin",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request by the holder of a named key (None: without one), with its whole answer."""
        sent: list[dict[str, Any]] = []
        pending = [{"type": "http.request", "body": _encoded(body)}]

        async def receive() -> dict[str, Any]:
            if not pending:
                await asyncio.Event().wait()  # it stays for the whole answer
            return pending.pop()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.gateway(self._scope(method, path, by, headers or {}), receive, send)
        start, *rest = sent
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], headers, b"".join(message.get("body", b"") for message in rest))

    def _scope(self, method: str, path: str, by: str | None, headers: Mapping[str, str]) -> dict[str, Any]:
        pure, _, query = path.partition("?")
        sent = {"host": "windlass"}
        sent |= {"authorization": f"Bearer {self.keys.get(by, by)}"} if by is not None else {}
        sent |= {name.lower(): value for name, value in headers.items()}
        return {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": pure,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
        }

    async def get(self, path: str, *, by: str = "admin") -> Any:
        reply = await self.call("GET", path, by=by)
        assert reply.status == 200, reply.body
        return reply.json

    async def apply(self, *documents: object, by: str = "admin", **headers: str) -> Reply:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        body = documents[0] if len(documents) == 1 else list(documents)
        return await self.call("POST", "/v1/apply", body, by=by, headers=sent)

    async def act(self, path: str, action: str, *, by: str = "admin", **headers: str) -> Reply:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.call("POST", f"{url(path)}/actions/{action}", by=by, headers=sent)

    @asynccontextmanager
    async def stream(self, path: str, *, by: str = "admin", **headers: str) -> AsyncIterator[Stream]:
        """An answer that goes on; leaving the block disconnects, and the server must notice."""
        opened = Stream()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        serving = asyncio.create_task(
            self.gateway(self._scope("GET", path, by, sent), opened.receive, opened.send)
        )
        try:
            yield opened
        finally:
            opened.gone.set()
            await serving


class Stream:
    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.ended = asyncio.Event()
        self.chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self.unread: list[bytes] = []  # of the chunk that was looked at last
        self.started: dict[str, Any] = {}

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.started = message
        elif message.get("body"):
            self.chunks.put_nowait(message["body"])
        elif not message.get("more_body"):
            self.ended.set()

    async def next(self) -> bytes:
        if self.unread:
            return self.unread.pop()
        async with asyncio.timeout(10):
            return await self.chunks.get()


def url(path: str) -> str:
    project, env, name = path.split("/")
    return f"/v1/projects/{project}/components/{env}/{name}"


def cursor(path: str, position: object) -> str:
    """As a page of that list names where the next begins."""
    return urlsafe_b64encode(f"{path}\n{position}".encode()).decode().rstrip("=")


def _encoded(body: bytes | str | object) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def play(
    folder: Path,
    story: Callable[[World], Awaitable[None]],
    *,
    catalog: str = CATALOG,
    site: FakeSite | None = None,
    reach: Fetch = fetch,
) -> None:
    """Run a story in a world of its own: the catalog applied, the fleet known, a key for everybody."""

    async def told() -> None:
        database = new_world_database(folder)
        world = World(database, reach=reach)
        if site is not None:
            world.site = site
        world.site.now_ms = world.clock()
        await _furnish(world, database, catalog)
        try:
            await story(world)
        finally:
            await world.close()
            world.database.close()

    asyncio.run(told())


_FURNISHED: dict[str, tuple[object, dict[str, str], int]] = {}
"""By catalog: the database of a furnished world, its keys and the next id. Made once, copied often."""


async def _furnish(world: World, database: CopiedDatabase, catalog: str) -> None:
    if catalog not in _FURNISHED:
        await world.open()
        world.keys["admin"] = (await world.plane.keyring.bootstrap("root", "platform-admin")).secret
        if catalog:
            applied = await world.apply(catalog)
            assert applied.status == 200, applied.body
            for name, (role, tenant) in KEYS.items():
                await make_key(world, name, role, tenant)
        await world.close()
        _FURNISHED[catalog] = (database.keep(), dict(world.keys), next(world._counter))
    content, keys, next_id = _FURNISHED[catalog]
    database.fill(content)
    world.keys, world._counter = dict(keys), itertools.count(next_id)
    await world.open()
    await world.settle()


async def make_key(world: World, name: str, role: str, tenant: str | None, **more: Any) -> str:
    """Its id; the world keeps the secret under its name."""
    asked = {"name": name, "role": role, "tenant": tenant, **more}
    made = await world.call("POST", "/v1/keys", asked)
    assert made.status == 201, made.body
    world.keys[name] = made.json["secret"]
    return str(made.json["key"]["id"])
