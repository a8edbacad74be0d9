"""One seed, one story: clients and faults for a while, then everything heals, and the books are read."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml
from tests.control.documents import CATALOG, intent
from tests.simulation.actors import Client, Faults, Watcher, nature, url
from tests.simulation.history import Breach, check_history
from tests.simulation.loop import Party, VirtualLoop, play
from tests.simulation.world import START, World

from windlass.core.units import Ms

CLIENTS, REQUESTS = 3, 12
TENANTS = ("acme", "globex", "umbra")
_HEAL_S = 45.0


@dataclass(frozen=True, slots=True)
class Told:
    """How a story went."""

    seed: int
    breaches: Sequence[Breach]
    trace: Sequence[str]
    steps: int
    commits: int

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def __str__(self) -> str:
        laws = "\n".join(f"  {breach}" for breach in self.breaches[:5])
        again = f"python -m tests.simulation {self.seed}"
        return f"seed {self.seed} broke {len(self.breaches)} promises:\n{laws}\nrepeat it with: {again}"


Plot = Callable[[World], Coroutine[Any, Any, None]]


def simulate(seed: int, plot: Plot | None = None) -> Told:
    """Odd seeds play one server on its own database, even ones two or three replicas."""
    chance = Random(seed)
    count = 1 if seed % 2 else chance.choice((2, 2, 3))
    content, keys = furnished()
    with tempfile.TemporaryDirectory(dir=_memory()) as folder, _silence():

        async def story(loop: VirtualLoop) -> Told:
            world = World(loop, chance, Path(folder) / "windlass.db", content, count=count)
            world.keys = dict(keys)
            world._ids = 1_000_000
            try:
                await (plot or everything)(world)
            finally:
                for replica in world.replicas:
                    replica.crash()
                world.crash_agent()
                world.database.close()
            commits = sum("commit" in line for line in world.trace)
            return Told(seed, world.breaches, world.trace, loop.steps, commits)

        return play(chance, story)


@contextmanager
def _silence() -> Iterator[None]:
    """What goes wrong here goes wrong on purpose."""
    logger = logging.getLogger("windlass")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


async def everything(world: World) -> None:
    """Everybody does what they do, everything goes wrong that may."""
    for replica in world.replicas:
        replica.begin()
    world.start_agent()
    newest = world.database.rows("SELECT value FROM counters WHERE name = 'event'")[0]["value"]
    watchers = [Watcher(world, newest), Watcher(world, 0)]
    outside = [asyncio.create_task(watcher.run(), name="watcher") for watcher in watchers]
    outside.append(asyncio.create_task(nature(world), name="nature"))
    faults = asyncio.create_task(Faults(world).run(), name="faults")
    clients = [Client(world, f"c{number}").run(REQUESTS) for number in range(CLIENTS)]
    await asyncio.gather(*clients)
    faults.cancel()
    await _heal(world)
    await asyncio.sleep(_HEAL_S)
    await _explain(world)
    outside[-1].cancel()
    world.site.slow = False
    world.site.settle()
    await asyncio.sleep(_HEAL_S)
    judge(world, watchers)


async def a_frozen_leader(world: World) -> None:
    """The leader decides, freezes before it can write, and wakes when another leads and has given away
    what it meant to give. One server alone has nobody to take over."""
    if len(world.replicas) == 1:
        return
    for replica in world.replicas:
        replica.begin()
    world.start_agent()
    world.site.slow = False
    await asyncio.sleep(5.0)
    world.database.freezing_leaders = 1
    awake = world.replicas[:]
    # Not waited for: the one that freezes may be the one that has to answer.
    first = asyncio.create_task(
        world.request("umbra", "POST", "/v1/apply", intent("cheap/dev/low", 8), at=world.replicas[0])
    )
    async with asyncio.timeout(5.0):
        while len(awake) == len(world.replicas):
            await asyncio.sleep(0.01)
            awake = [one for one in world.replicas if one.party is not None and not one.party.frozen]
    for by, path in (("globex", "chat/prod/own"), ("acme", "vision/prod/own")):
        await world.request(by, "POST", "/v1/apply", intent(path, 8), at=awake[0])
    await asyncio.sleep(_HEAL_S)
    await first
    judge(world, [])


async def _heal(world: World) -> None:
    """Everybody is back, nothing fails any more; what was on its way takes its time."""
    world.cut_off_until = world.database.deaf_until = 0.0
    world.database.failing_commits = world.database.lost_answers = world.database.freezing_leaders = 0
    world.site.refusals = 0
    for replica in world.replicas:
        replica.offset_ms = 0
        if replica.party is None:
            replica.begin()
        replica.party.frozen = False  # type: ignore[union-attr]
        if replica.store is not None:
            replica.store.away_until = 0.0
    if world.agent_party is not None and world.agent_party.dead:
        world.start_agent()


async def _explain(world: World) -> None:
    for row in world.database.rows("SELECT project, env, name FROM components"):
        path = "/".join((row["project"], row["env"], row["name"]))
        for replica in world.replicas:
            await world.request("admin", "GET", f"{url(path)}/explanation", at=replica)


def judge(world: World, watchers: Sequence[Watcher]) -> None:
    world.breaches += check_history(
        world.records,
        world.database.rows,
        now_ms=world.now(),
        starts=world.site.starts,
        watches=[watcher.watch() for watcher in watchers],
    )
    for row in world.database.rows("SELECT path, phase, want FROM workloads WHERE finished_ms IS NULL"):
        if row["want"] == "stop" or row["phase"] in ("Admitted", "Starting"):
            world.breach("what is wanted happens", f"{row['path']} is still {row['phase']} {row['want']}")
    for row in world.database.rows("SELECT type, subject, data FROM events ORDER BY id"):
        world.trace.append(f"{row['type']} {row['subject']} {row['data']}")
    for row in world.database.rows("SELECT id, micros FROM transfers ORDER BY id"):
        world.trace.append(f"{row['id']} {row['micros']}")


@cache
def furnished() -> tuple[bytes, dict[str, str]]:
    """A database with the catalog and a key for everybody, made once for this process."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        path = Path(folder) / "windlass.db"
        keys = play(Random(0), lambda loop: _furnish(World(loop, Random(0), path, start=Ms(START - 600_000))))
        return path.read_bytes(), keys


async def _furnish(world: World) -> dict[str, str]:
    (replica,) = world.replicas
    replica.party = Party("r1")
    await replica.party.task(replica._open(replica.party))
    assert replica.plane is not None
    keyring = replica.plane.keyring
    made = await replica.serve(lambda: keyring.bootstrap("root", "platform-admin"), "bootstrap")
    world.keys["admin"] = made.secret
    applied = await world.request("admin", "POST", "/v1/apply", list(yaml.safe_load_all(CATALOG)))
    assert applied.status == 200, applied
    for tenant in TENANTS:
        body = {"name": tenant, "role": "developer", "tenant": tenant}
        created = await world.request("admin", "POST", "/v1/keys", body)
        assert created.status == 201, created
        world.keys[tenant] = created.answer["secret"]
    replica.crash()
    world.database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    world.database.close()
    return world.keys


def _memory() -> str | None:
    """A folder in memory, where there is one."""
    return "/dev/shm" if sys.platform == "linux" and Path("/dev/shm").is_dir() else None  # noqa: S108
