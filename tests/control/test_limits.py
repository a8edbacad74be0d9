"""Who asks too much is refused, told how long to wait, and nobody else notices."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent
from tests.control.worlds import Reply, World, play

from windlass.control.gateway.bounds import BYTES_PER_UNIT
from windlass.control.gateway.limiter import OwnBuckets, network
from windlass.core.bounds import Bounds
from windlass.core.rates import Rate
from windlass.runtime.metrics import REGISTRY

SMALL = Bounds(principal=Rate(5, 10), tenant=Rate(8, 16), address=Rate(2, 4), refusal_s=0)


async def bounded(world: World, bounds: Bounds = SMALL) -> None:
    world.bounds = bounds
    await world.restart()


async def reads(world: World, count: int, by: str = "acme") -> list[int]:
    return [(await world.call("GET", "/v1/version", by=by)).status for _ in range(count)]


def refused(limit: str) -> float:
    return REGISTRY.get_sample_value("windlass_limited_total", {"limit": limit}) or 0.0


def standing(reply: Reply) -> tuple[int, int, int]:
    limit, remaining, reset = (reply.headers[f"ratelimit-{name}"] for name in ("limit", "remaining", "reset"))
    return int(limit), int(remaining), int(reset)


def test_a_principal_may_ask_a_burst_and_then_its_rate(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world)
        assert await reads(world, 12) == [200] * 10 + [429] * 2
        assert await reads(world, 1, by="acme-admin") == [200], "another principal of the tenant"
        world.advance(1)
        assert await reads(world, 6) == [200] * 5 + [429]

    play(tmp_path, story)


def test_a_refusal_says_how_long_to_wait_and_why(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world, replace(SMALL, principal=Rate(1, 3)))
        before = refused("principal")
        await reads(world, 2)
        reply = await world.call("POST", "/v1/apply", intent("nlp/prod/job"), by="acme")
        told = reply.json
        assert (reply.status, told["code"], reply.codes) == (429, "too-many", ["limit.principal"])
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.headers["retry-after"] == "1" and "wait 1 s" in told["remedy"]
        assert standing(reply) == (3, 1, 2)
        assert refused("principal") == before + 1
        assert not world.rows("SELECT * FROM components"), "nothing was changed"
        world.advance(1)
        assert (await world.apply(intent("nlp/prod/job"), by="acme")).status == 200

    play(tmp_path, story)


def test_who_asked_too_much_waits_for_that_word_and_nobody_else_does(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world, replace(SMALL, principal=Rate(1, 3), refusal_s=3600))
        await reads(world, 3)
        flooding = [asyncio.create_task(reads(world, 1)) for _ in range(20)]
        assert await reads(world, 3, by="acme-admin") == [200] * 3
        assert not any(task.done() for task in flooding)
        for task in flooding:
            task.cancel()
        await asyncio.gather(*flooding, return_exceptions=True)

    play(tmp_path, story)


def test_every_answer_says_how_much_is_left(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world)
        assert standing(await world.call("GET", "/v1/version", by="acme")) == (10, 9, 1)
        assert standing(await world.apply(intent("nlp/prod/job"), by="acme")) == (10, 7, 1)
        missing = await world.call("GET", "/v1/decisions/none", by="acme")
        assert (missing.status, standing(missing)) == (404, (10, 6, 1))
        forbidden = await world.call("POST", "/v1/keys", {"name": "x", "role": "viewer"}, by="acme-viewer")
        assert (forbidden.status, standing(forbidden)) == (403, (10, 8, 1)), "also when it was not permitted"
        await reads(world, 6)
        tenants = await world.call("GET", "/v1/version", by="acme-viewer")
        assert standing(tenants) == (16, 3, 2), "of the two buckets, the one with less in it"
        assert standing(await world.call("GET", "/healthz", by=None)) == (4, 3, 1)

    play(tmp_path, story)


def test_a_tenants_principals_together_have_a_limit_and_other_tenants_another(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world)
        assert await reads(world, 10) == [200] * 10
        assert await reads(world, 7, by="acme-admin") == [200] * 6 + [429]
        assert await reads(world, 10, by="globex") == [200] * 10
        assert await reads(world, 10, by="admin") == [200] * 10, "the platform's own have no tenant"

    play(tmp_path, story)


def test_a_large_body_costs_more_but_never_more_than_the_whole_bucket(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world)
        reply = await world.call("POST", "/v1/apply", b" " * (3 * BYTES_PER_UNIT), by="acme")
        assert (reply.status, standing(reply)[1]) == (400, 5)
        world.advance(10)
        reply = await world.call("POST", "/v1/apply", b" " * (500 * BYTES_PER_UNIT), by="acme")
        assert reply.status == 429, "the head was paid for, and now the body wants a full bucket"
        await bounded(world, replace(SMALL, principal=Rate(5, 1000), tenant=Rate(0, 0)))
        reply = await world.call("POST", "/v1/apply", b" " * (500 * BYTES_PER_UNIT), by="acme")
        assert (reply.status, standing(reply)[1]) == (400, 498)

    play(tmp_path, story)


def test_many_tokens_of_one_key_have_one_bucket(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world, replace(SMALL, principal=Rate(1, 6), tenant=Rate(0, 0)))
        for number in range(2):
            made = await world.call("POST", "/v1/tokens", {}, by="acme")
            assert made.status == 201, made.body
            world.keys[f"token-{number}"] = made.json["secret"]
        assert await reads(world, 2, by="token-0") == [200, 200]
        assert await reads(world, 1, by="token-1") == [429]

    play(tmp_path, story)


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/v1/identity"])
def test_what_needs_no_key_is_limited_by_address(tmp_path: Path, path: str) -> None:
    async def story(world: World) -> None:
        await bounded(world)
        statuses = [(await world.call("GET", path, by=None)).status for _ in range(5)]
        assert statuses == [200] * 4 + [429]
        assert await reads(world, 1) == [200], "those with a key are counted by it"

    play(tmp_path, story)


def test_wrong_keys_are_counted_by_the_address_they_come_from(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world)
        assert await reads(world, 6, by="wdl_wrong") == [401] * 4 + [429] * 2
        assert await reads(world, 1) == [200]

    play(tmp_path, story)


def test_a_rate_of_zero_limits_nobody_and_says_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world, Bounds(principal=Rate(0, 0), tenant=Rate(0, 0), address=Rate(0, 0)))
        reply = await world.call("GET", "/v1/version", by="acme")
        assert reply.status == 200 and not any(name.startswith("ratelimit") for name in reply.headers)

    play(tmp_path, story)


def test_streams_have_places_and_give_them_back(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world, Bounds(streams=3, streams_each=2))
        watch = "/v1/events?watch=true"
        async with world.stream(watch, by="acme") as one, world.stream(watch, by="acme") as two:
            await one.next()
            await two.next()
            third = await world.call("GET", watch, by="acme")
            assert (third.status, third.json["code"]) == (429, "too-many")
            async with world.stream(watch, by="globex") as other:
                await other.next()
                full = await world.call("GET", watch, by="admin")
                assert (full.status, full.headers["retry-after"]) == (503, "5")
        assert (await world.call("HEAD", watch, by="acme")).status == 200
        async with world.stream(watch, by="acme") as one, world.stream(watch, by="acme") as two:
            await one.next()
            await two.next()
        assert world.gateway._streams.total == 0

    play(tmp_path, story)


def test_unfinished_bodies_are_held_within_a_limit(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await bounded(world, Bounds(body_bytes=1000, body_bytes_each=500))
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b" " * 200, "more_body": True}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await world.gateway(world._scope("POST", "/v1/apply", "acme", {}), receive, send)
        assert sent[0]["status"] == 429 and b"bytes of unfinished requests" in sent[1]["body"]
        assert world.gateway._bodies.total == 0

    play(tmp_path, story)


def test_buckets_that_are_full_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.control.gateway.limiter._MOST", 100)
    buckets = OwnBuckets(Rate(1, 5))
    for number in range(1000):
        buckets.take(str(number), 1, number * 10)  # type: ignore[arg-type]
        assert len(buckets) <= 100
    last = buckets.take("999", 1, 9990)  # type: ignore[arg-type]
    assert last.level == 3000, "one that is in use is kept"


def test_a_network_of_ipv6_is_one_address() -> None:
    assert network("2001:db8::1") == network("2001:db8::ffff:1") != network("2001:db8:0:1::1")
    assert network("127.0.0.1") == "127.0.0.1"
