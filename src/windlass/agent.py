"""`windlass agent`: a site of its own, for servers elsewhere.

The agent dials out and the servers never dial in. It needs a key of the role agent for its site and
nothing else. It may know several servers: it speaks to the first that answers, and lets each of them
ask for logs. While none answers, what it was last told to run runs on (site/agent/loop.py).

    1. the data folder, locked; the fleet, real or simulated; its jobs found again
    2. the loop of the site, over HTTP
    3. per server, answers to what is asked of logs
    4. where asked for, its own metrics; nothing else of it can be asked
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Literal, TypeVar

from prometheus_client import start_http_server

from windlass.contracts.agent import Desired, LogAnswer, LogQuestion, LogQuestions, SiteReport
from windlass.core.errors import Invalid, NotFound, Unavailable, WindlassError
from windlass.platform import DEFAULT_FLEET, lock_data
from windlass.processes import run, tracer_to
from windlass.runtime import logging
from windlass.runtime.clock import system_clock
from windlass.runtime.logging import warn
from windlass.runtime.metrics import REGISTRY
from windlass.sdk.async_client import AsyncClient
from windlass.sdk.calls import Call, get, post
from windlass.site.agent.loop import AgentLoop
from windlass.site.nodes.inventory import Inventory, from_nvml, simulated
from windlass.site.orchestrators.local.orchestrator import LocalOrchestrator

T = TypeVar("T")
_WAIT_S = 5
_ANSWER_S = 10.0
"""A server that has not answered by then is frozen or cut off: the next is asked."""
_AWAY_S = 2.0


@dataclass(frozen=True, slots=True)
class AgentOptions:
    site: str
    servers: tuple[str, ...]
    key: str
    data: Path
    gpus: str | None = None
    nodes: int = 2
    containers: Literal["auto", "never", "podman", "docker"] = "never"
    log_level: str = "warning"
    otlp: str = ""
    metrics: tuple[str, int] | None = None  # where to listen for who scrapes


@dataclass(frozen=True, slots=True)
class Joined:
    """Told once the site's jobs are found and its loop runs."""

    site: str
    nodes: int
    gpus: int
    metrics: str = ""


def run_agent(options: AgentOptions, ready: Callable[[Joined], None]) -> None:
    """Run the site until it is told to stop; its jobs run on."""
    logging.configure(options.log_level)
    inventory = _inventory(options)
    lock = lock_data(options.data)
    try:
        run(_run(options, inventory, ready))
    finally:
        os.close(lock)


async def _run(options: AgentOptions, inventory: Inventory, ready: Callable[[Joined], None]) -> None:
    orchestrator = LocalOrchestrator(
        options.data, inventory, clock=system_clock, containers=options.containers
    )
    await orchestrator.open()
    measured = measured_at(options.metrics) if options.metrics is not None else ""
    clients = [AsyncClient(server, options.key, timeout_s=_ANSWER_S) for server in options.servers]
    link, tracer = HttpLink(options.site, clients), tracer_to(options.otlp)
    loop = AgentLoop(options.site, orchestrator, link, jitter=random.random, tracer=tracer)
    tasks = [asyncio.create_task(loop.run(), name="agent")]
    tasks += [asyncio.create_task(answer_logs(options.site, one, orchestrator)) for one in clients]
    ready(Joined(options.site, len(inventory.nodes), sum(node.gpus for node in inventory.nodes), measured))
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await stop.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in clients:
            client.close()
        await orchestrator.close()
        tracer.close()


def measured_at(listen: tuple[str, int]) -> str:
    """On a thread of its own, which ends with the process; the address."""
    try:
        server, _ = start_http_server(listen[1], listen[0], registry=REGISTRY)
    except OSError as error:
        raise Invalid(
            f"cannot listen on {listen[0]}:{listen[1]} for metrics: {error.strerror}",
            remedy="choose another address with --metrics",
        ) from None
    host = f"[{listen[0]}]" if ":" in listen[0] else listen[0]
    return f"http://{host}:{server.server_port}/metrics"


class HttpLink:
    """The centre, over HTTP: whichever server answers."""

    def __init__(self, site: str, clients: Sequence[AsyncClient]) -> None:
        self._site = site
        self._clients = list(clients)
        self._heard: Desired | None = None

    async def desired(self, site: str) -> Desired:
        heard, self._heard = self._heard, None
        if heard is not None:
            return heard
        return await self._ask(get(Desired, "sites", site, "desired"))

    async def report(self, report: SiteReport) -> None:
        await self._ask(post(NoneType, report, "sites", report.site, "reports"))

    async def changed(self, site: str, generation: int) -> None:
        """A request that waits at the server until there is something newer."""
        question = get(Desired, "sites", site, "desired", generation=generation, wait=_WAIT_S)
        while True:
            heard: Desired = await self._ask(question)
            if heard.generation > generation:
                self._heard = heard
                return

    async def _ask(self, call: Call[T]) -> T:
        """Of the first server that is there; the one that answered is asked first the next time."""
        away: Unavailable | None = None
        for client in list(self._clients):
            try:
                answer = await client.send(call)
            except Unavailable as error:
                away = error
                self._clients.append(self._clients.pop(self._clients.index(client)))
            except WindlassError as error:
                raise Unavailable(f"the centre refuses: {error.detail}", remedy=error.remedy) from error
            else:
                return answer
        assert away is not None, "there is at least one server"
        raise away


async def answer_logs(site: str, client: AsyncClient, orchestrator: LocalOrchestrator) -> None:
    """For ever: fetch what one server asks, read it, answer."""
    while True:
        try:
            asked = await client.send(get(LogQuestions, "sites", site, "questions", wait=_WAIT_S))
            for question in asked.questions:
                await _answer(site, client, orchestrator, question)
        except WindlassError as error:
            if not isinstance(error, Unavailable):
                warn("a question about logs failed", detail=error.detail)
            await asyncio.sleep(_AWAY_S)


async def _answer(
    site: str, client: AsyncClient, orchestrator: LocalOrchestrator, asked: LogQuestion
) -> None:
    try:
        chunk = await orchestrator.read_log(
            asked.workload, asked.attempt, asked.worker, offset=asked.offset, limit=asked.limit
        )
        told = LogAnswer(id=asked.id, data=chunk.data, offset=chunk.offset, dropped=chunk.dropped)
    except NotFound:
        told = LogAnswer(id=asked.id, data=b"", offset=max(0, asked.offset))
    await client.send(post(NoneType, told, "sites", site, "answers"))


def _inventory(options: AgentOptions) -> Inventory:
    if options.gpus is None and (real := from_nvml()) is not None:
        return real
    return simulated(options.gpus or DEFAULT_FLEET, nodes=options.nodes, site=options.site)
