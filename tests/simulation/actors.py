"""Who does things in the simulated world: clients, watchers, work that ends, and what goes wrong."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from tests.control.documents import envelope, intent, price_book, quota
from tests.simulation.history import Record, Watch
from tests.simulation.world import Gone, Replica, World, asgi_scope

from windlass.core.errors import Unavailable

PLACES = (
    ("acme", "nlp/prod"),
    ("acme", "nlp/dev"),
    ("acme", "vision/prod"),
    ("globex", "chat/prod"),
    ("umbra", "cheap/dev"),
)
_TRIES = 4


class Client:
    """Submits, cancels, reruns, deletes, changes the catalog, makes and revokes keys; asks again with
    the same key when it got no answer."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._numbers = itertools.count(1)
        self._own: list[tuple[str, str]] = []
        self._issued: list[str] = []

    async def run(self, requests: int) -> None:
        acts = (self._submit, self._cancel, self._rerun, self._catalog, self._key, self._look, self._delete)
        for _ in range(requests):
            await asyncio.sleep(self._world.chance.expovariate(1 / 1.5))
            await self._world.chance.choices(acts, (10, 4, 3, 2, 1, 2, 1))[0]()

    async def _send(self, by: str, method: str, path: str, body: Any = None) -> Record:
        """Until it is answered, or this client loses patience."""
        key = f"{self._name}-{next(self._numbers)}"
        record = await self._world.request(by, method, path, body, key=key)
        for _ in range(_TRIES):
            if record.status is not None and record.status != 503:
                if self._world.chance.random() < 0.15:  # it did not notice, and sends it once more
                    await self._world.request(by, method, path, body, key=key)
                break
            await asyncio.sleep(self._world.chance.random() * 3)
            record = await self._world.request(by, method, path, body, key=key)
        return record

    async def _submit(self) -> None:
        chance = self._world.chance
        by, place = chance.choice(PLACES)
        if self._own and chance.random() < 0.2:
            by, path = chance.choice(self._own)
        else:
            path = f"{place}/{self._name}-{len(self._own)}"
            self._own.append((by, path))
        spec: dict[str, Any] = {"timeLimit": "1h"} if chance.random() < 0.5 else {}
        await self._send(by, "POST", "/v1/apply", intent(path, chance.choice((1, 2, 4, 4, 8)), **spec))

    async def _act(self, action: str) -> None:
        if self._own:
            by, path = self._world.chance.choice(self._own)
            await self._send(by, "POST", f"{url(path)}/actions/{action}")

    async def _cancel(self) -> None:
        await self._act("cancel")

    async def _rerun(self) -> None:
        await self._act("rerun")

    async def _delete(self) -> None:
        if self._own:
            by, path = self._own.pop(self._world.chance.randrange(len(self._own)))
            record = await self._send(by, "DELETE", url(path))
            if record.status != 204:
                self._own.append((by, path))

    async def _catalog(self) -> None:
        chance = self._world.chance
        scope = {"tenant": "acme", "project": "nlp", "env": "prod"}
        most = chance.choice((4, 6, 8))
        document = chance.choice(
            (
                envelope("nlp-prod", scope, gpus=quota(2, most), sharing=["dedicated"]),
                envelope("umbra", {"tenant": "umbra"}, gpus=quota(0, most + 4)),
                price_book("list", f"{chance.randint(1, 9)}.49"),
            )
        )
        await self._send("admin", "POST", "/v1/apply", document)

    async def _key(self) -> None:
        if self._issued:
            await self._send("admin", "DELETE", f"/v1/keys/{self._issued.pop()}")
            return
        body = {"name": f"guest-{self._name}", "role": "viewer", "tenant": "acme"}
        record = await self._send("admin", "POST", "/v1/keys", body)
        if record.status == 201:
            self._issued.append(record.answer["key"]["id"])

    async def _look(self) -> None:
        if self._own:
            by, path = self._world.chance.choice(self._own)
            await self._world.request(by, "GET", f"{url(path)}/explanation")


class Watcher:
    """Follows all events; after a lost connection it resumes after the last it saw, wherever it can."""

    def __init__(self, world: World, after: int) -> None:
        self._world = world
        self._after = after
        self._connection = 0
        self.ids: list[int] = []

    def watch(self) -> Watch:
        return Watch(self._after, tuple(self.ids))

    async def run(self) -> None:
        while True:
            replica = self._world.some_replica()
            try:
                async with asyncio.timeout(5 + self._world.chance.random() * 60):
                    await replica.serve(lambda to=replica: self._follow(to), "watch")  # type: ignore[misc]
            except (Gone, TimeoutError, Unavailable):
                pass
            self._connection += 1  # whatever the old one still sends arrives nowhere
            await asyncio.sleep(self._world.chance.random())

    async def _follow(self, replica: Replica) -> None:
        connection = self._connection

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            for line in message.get("body", b"").decode().splitlines():
                if connection == self._connection and line.startswith("id: "):
                    self.ids.append(int(line[4:]))

        last = self.ids[-1] if self.ids else self._after
        headers = {"authorization": f"Bearer {self._world.keys['admin']}", "last-event-id": str(last)}
        assert replica.gateway is not None
        await replica.gateway(asgi_scope("GET", "/v1/events?watch=true", headers), receive, send)


async def nature(world: World) -> None:
    """Work starts, ends, fails; what is told to stop stops; now and then the orchestrator refuses."""
    while True:
        await asyncio.sleep(world.chance.expovariate(1.0))
        world.site.settle()
        running = [
            (key, index)
            for key, attempt in sorted(world.site.attempts.items())
            for index, worker in sorted(attempt.workers.items())
            if worker.state == "running"
        ]
        if running and world.chance.random() < 0.3:
            (workload, attempt_number), index = world.chance.choice(running)
            fate = world.chance.random()
            if fate < 0.1:
                world.site.lose(workload, attempt_number, index)
            else:
                world.site.finish(workload, attempt_number, index, 0 if fate < 0.8 else 1)
            world.told(f"ended {workload} {attempt_number}")


class Faults:
    """What goes wrong, one after the other and several at once. Each story has its own few kinds, often or
    seldom: a mixture of everything would hide what one kind alone can do."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._alone = len(world.replicas) == 1

    async def run(self) -> None:
        kinds: list[Callable[[], object]] = [
            self._crash,
            self._freeze,
            self._cut_off,
            self._crash_agent,
            self._commits_fail,
            self._refuse,
            self._step_clock,
        ]
        if not self._alone:
            kinds += [self._freeze_leader, self._lose_answers, self._lose_hints, self._database_away]
        chance = self._world.chance
        weights = [chance.choice((0, 1, 1, 6)) for _ in kinds]
        weights[chance.randrange(len(weights))] += 1
        pause_s = chance.choice((1.5, 3.0, 6.0))
        while True:
            await asyncio.sleep(chance.expovariate(1 / pause_s))
            fault = chance.choices(kinds, weights)[0]
            self._world.told(f"fault {getattr(fault, '__name__', '')} {fault() or ''}")

    def _later(self, most: float, what: Callable[[], object]) -> None:
        self._world.loop.call_later(self._world.chance.random() * most, what)

    def _crash(self) -> str:
        replica = self._world.some_replica()
        if replica.party is not None:
            replica.crash()
            self._later(6.0, lambda: replica.begin() if replica.party is None else None)
        return replica.name

    def _freeze(self) -> str:
        replica = self._world.some_replica()
        if replica.store is not None and not replica.store.party.frozen:
            replica.store.freeze(self._world.chance.random() * 9.0)
        return replica.name

    def _freeze_leader(self) -> None:
        self._world.database.freezing_leaders += 1

    def _cut_off(self) -> None:
        self._world.cut_off_until = self._world.loop.time() + self._world.chance.random() * 15

    def _crash_agent(self) -> None:
        self._world.crash_agent()
        self._later(4.0, self._new_agent)

    def _new_agent(self) -> None:
        if self._world.agent_party is not None and self._world.agent_party.dead:
            self._world.start_agent()

    def _commits_fail(self) -> None:
        self._world.database.failing_commits += self._world.chance.randint(1, 4)

    def _lose_answers(self) -> None:
        self._world.database.lost_answers += self._world.chance.randint(1, 4)

    def _lose_hints(self) -> None:
        self._world.database.deaf_until = self._world.loop.time() + self._world.chance.random() * 10

    def _database_away(self) -> str:
        replica = self._world.some_replica()
        if replica.store is not None:
            replica.store.away_until = self._world.loop.time() + self._world.chance.random() * 6
        return replica.name

    def _refuse(self) -> None:
        self._world.site.refusals += self._world.chance.randint(1, 3)

    def _step_clock(self) -> str:
        """Replicas go by the database's clock and are off by a little; one alone goes by its machine's."""
        replica = self._world.some_replica()
        most = 3_000 if self._alone else 40
        replica.offset_ms = self._world.chance.randint(-most, most)
        return f"{replica.name} {replica.offset_ms}"


def url(path: str) -> str:
    project, env, name = path.split("/")
    return f"/v1/projects/{project}/components/{env}/{name}"
