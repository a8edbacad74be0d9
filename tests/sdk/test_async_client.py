"""The asynchronous client: the same methods, the same answers, the same errors."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any

import pytest
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer, Reply, problem
from tests.sdk.test_client import DOCUMENT, WHOAMI
from tests.sdk.test_waiting import sse

from windlass.core import errors
from windlass.sdk import AsyncClient, Client


async def no_sleep(_: float) -> None:
    await asyncio.sleep(0)


def client_of(server: CannedServer) -> AsyncClient:
    return AsyncClient(server.url, "wl_secret", sleep=no_sleep)


def public(kind: type) -> dict[str, list[str]]:
    members = inspect.getmembers(kind, inspect.isfunction)
    return {name: list(inspect.signature(one).parameters) for name, one in members if name[0] != "_"}


def test_both_clients_have_the_same_methods() -> None:
    assert public(AsyncClient) == public(Client)


def test_requests_share_a_client_and_each_has_a_connection(server: CannedServer) -> None:
    server.answer("GET", "/v1/whoami", WHOAMI)

    async def ask() -> list[Any]:
        async with client_of(server) as client:
            answers: list[Awaitable[Any]] = [client.whoami() for _ in range(8)]
            found = await asyncio.gather(*answers)
            await client.whoami()
            return found

    assert asyncio.run(ask()) == [WHOAMI] * 8
    assert len(server.asked) == 9


def test_a_lost_write_is_sent_again_with_its_key(server: CannedServer) -> None:
    server.answer("POST", "/v1/apply", Reply(cut=True), samples.applied(samples.result()))

    async def ask() -> int:
        async with client_of(server) as client:
            return (await client.apply(DOCUMENT)).revision

    assert asyncio.run(ask()) == 43
    assert len({one.headers["idempotency-key"] for one in server.asked}) == 1


def test_errors_are_those_of_the_blocking_client(server: CannedServer) -> None:
    server.answer("GET", "/v1/whoami", problem(403, "not-permitted", "no"))

    async def ask() -> None:
        async with client_of(server) as client:
            await client.whoami()

    with pytest.raises(errors.NotPermitted):
        asyncio.run(ask())


def test_flows_wait_and_plan(server: CannedServer) -> None:
    server.answer("GET", samples.ROUTE, samples.component("Pending"), samples.component("Succeeded"))
    rejected = samples.result("rejected", decision=samples.decision("rejected"))
    server.answer("POST", "/v1/apply", problem(422, "rejected", "no", results=[rejected]))

    async def ask() -> tuple[str, str]:
        async with client_of(server) as client:
            done = await client.wait(samples.PATH)
            planned = await client.plan(DOCUMENT)
            return done.status.phase, planned.results[0].outcome

    assert asyncio.run(ask()) == ("Succeeded", "rejected")


def test_logs_and_events_stream(server: CannedServer) -> None:
    server.answer("GET", f"{samples.ROUTE}/logs", Reply(chunks=[b"a\xc3", b"\xa9\n"]))
    server.answer(
        "GET",
        "/v1/events",
        Reply(chunks=[sse(samples.event(1))], cut=True),
        Reply(chunks=[sse(samples.event(2))]),
    )

    async def ask() -> tuple[str, list[int]]:
        async with client_of(server) as client:
            log = "".join([piece async for piece in client.logs(samples.PATH)])
            seen: list[int] = []
            watching = client.watch()
            async for event in watching:
                seen.append(event.id)
                if len(seen) == 2:
                    break
            await watching.aclose()  # type: ignore[attr-defined]  # an async generator, typed as iterator
            return log, seen

    assert asyncio.run(ask()) == ("aé\n", [1, 2])


def test_nobody_there_is_unavailable() -> None:
    async def ask() -> None:
        async with AsyncClient("http://127.0.0.1:9") as client:
            await client.whoami()

    with pytest.raises(errors.Unavailable):
        asyncio.run(ask())


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_every_method_says_what_it_does(kind: type) -> None:
    members = inspect.getmembers(kind, inspect.isfunction)
    assert [name for name, one in members if name[0] != "_" and not one.__doc__] == []
