"""Events tell of every change, once, to whoever may know; a watcher resumes anywhere and misses nothing.
They commit with the change they tell of, or not at all."""

from __future__ import annotations

import asyncio
import gc
import json
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.control.documents import intent, project
from tests.control.worlds import Stream, World, make_key, play, url

from windlass.control.db import events
from windlass.control.gateway import feed
from windlass.control.identity.scopes import system_scope
from windlass.runtime.metrics import EVENT_WATCHERS


async def next_event(stream: Stream) -> dict[str, Any]:
    """The next event, past comments and heartbeats."""
    while (chunk := await stream.next()).startswith(b":"):
        pass
    first, _, rest = chunk.partition(b"\n\n")
    if rest:  # several that happened at once
        stream.unread.append(rest)
    fields = dict(line.split(": ", 1) for line in first.decode().strip().splitlines())
    data: dict[str, Any] = json.loads(fields["data"])
    assert (int(fields["id"]), fields["event"]) == (data["id"], data["type"])
    return data


async def stored(world: World, by: str = "admin") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await world.get("/v1/events?limit=500", by=by))["items"]
    return found


async def some_work(world: World) -> None:
    for path, by in (("nlp/prod/a", "acme"), ("chat/prod/b", "globex"), ("nlp/prod/c", "acme")):
        assert (await world.apply(intent(path), by=by)).status == 200
        await world.settle()
    world.finish("nlp/prod/a")
    world.finish("chat/prod/b")
    await world.settle()


def test_the_stream_is_the_list_as_it_grows(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        before = len(await stored(world))
        async with world.stream("/v1/events?watch=true") as stream:
            await stream.next()
            await some_work(world)
            grown = (await stored(world))[before:]
            assert len(grown) > 10
            assert [await next_event(stream) for _ in grown] == grown

    play(tmp_path, story)


@pytest.mark.parametrize("recent", [10_000, 3])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_watcher_resumes_after_any_event_without_loss_or_repetition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recent: int, restarted: bool
) -> None:
    monkeypatch.setattr(feed, "_RECENT", recent)  # those who come back late read from the store
    monkeypatch.setattr(feed, "_PAGE", 4)

    async def story(world: World) -> None:
        await world.restart()
        await some_work(world)
        if restarted:
            await world.restart()
        for by in ("admin", "acme"):
            whole = await stored(world, by)
            assert len(whole) > 8
            for after in (0, whole[0]["id"], whole[len(whole) // 2]["id"], whole[-2]["id"]):
                rest = [event for event in whole if event["id"] > after]
                async with world.stream(f"/v1/events?watch=true&since={after}", by=by) as stream:
                    assert [await next_event(stream) for _ in rest] == rest
                async with world.stream("/v1/events?watch=true", by=by, last_event_id=str(after)) as stream:
                    assert [await next_event(stream) for _ in rest] == rest

    play(tmp_path, story)


def test_a_tenants_stream_carries_its_own_events_only(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        async with world.stream("/v1/events?watch=true&since=0", by="acme") as stream:
            await some_work(world)
            own = await stored(world, "acme")
            assert {event["tenant"] for event in own} == {"acme"}
            assert [await next_event(stream) for _ in own] == own
            await world.apply(intent("chat/prod/late"), by="globex")
            await world.apply(intent("nlp/prod/late"), by="acme")
            assert (await next_event(stream))["subject"] == "nlp/prod/late"

    play(tmp_path, story)


def test_a_watcher_of_a_quiet_tenant_reads_what_others_do_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_RECENT", 2)

    async def story(world: World) -> None:
        await world.restart()
        after: list[int] = []
        original = events.since

        async def counted(tx: Any, since: int, limit: int) -> Any:
            after.append(since)
            return await original(tx, since, limit)

        monkeypatch.setattr(events, "since", counted)
        async with world.stream("/v1/events?watch=true&since=0", by="umbra") as stream:
            await stream.next()
            for number in range(5):
                await world.apply(intent(f"nlp/prod/a{number}"), by="acme")
                await asyncio.sleep(0)
            await world.apply(intent("cheap/dev/own"), by="umbra")
            while (await next_event(stream))["subject"] != "cheap/dev/own":
                pass
        assert after == sorted(set(after)), "it never starts from the same place twice"

    play(tmp_path, story)


def test_what_happens_while_a_watcher_reads_the_store_wakes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store elsewhere answers with what was true before; the news since then comes while it does."""
    monkeypatch.setattr(feed, "_RECENT", 1)

    async def story(world: World) -> None:
        store = world.plane.store
        original, submitted = store.read, False

        async def slow(scope: Any, load: Any) -> Any:
            nonlocal submitted
            answer = await original(scope, load)
            if not submitted:
                submitted = True
                await world.apply(intent("cheap/dev/own"), by="umbra")
            return answer

        umbra = replace(system_scope("test"), tenant="umbra")
        watched = feed.EventFeed(store)
        after = world.newest_event()
        await world.apply(intent("nlp/prod/a"), by="acme")
        await world.apply(intent("nlp/prod/b"), by="acme")
        monkeypatch.setattr(store, "read", slow)
        async with aclosing(watched.watch(umbra, after, heartbeat_s=0.5)) as rows:
            found = await anext(rows)
        assert [event.subject for event in found] == ["cheap/dev/own"]

    play(tmp_path, story)


def test_a_silent_stream_says_that_it_is_alive(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        scope = system_scope("test")
        async with aclosing(world.plane.feed.watch(scope, world.newest_event(), heartbeat_s=0.001)) as rows:
            assert [await anext(rows) for _ in range(3)] == [(), (), ()]

    play(tmp_path, story)


def test_a_watcher_that_leaves_is_forgotten_at_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        gc.collect()  # other worlds of this process may have crashed with watchers
        watchers = EVENT_WATCHERS._value.get
        others = watchers()
        for _ in range(3):
            async with world.stream("/v1/events?watch=true") as stream:
                await stream.next()
                await world.apply(project("p"))
                assert watchers() == others + 1
            assert watchers() == others
            assert not world.plane.feed._waiters

    play(tmp_path, story)


def test_a_reader_that_does_not_read_holds_up_nobody_and_loses_nothing(tmp_path: Path) -> None:
    class Stuck(Stream):
        """Takes one chunk, then nothing until it is told."""

        def __init__(self) -> None:
            super().__init__()
            self.go = asyncio.Event()

        async def send(self, message: dict[str, Any]) -> None:
            await super().send(message)
            if not self.chunks.empty():
                await self.go.wait()

    async def story(world: World) -> None:
        stuck = Stuck()
        path = f"/v1/events?watch=true&since={world.newest_event()}"
        scope = world._scope("GET", path, "admin", {})
        serving = asyncio.create_task(world.gateway(scope, stuck.receive, stuck.send))
        before = len(await stored(world))
        await some_work(world)
        assert world.phase("nlp/prod/a") == "Succeeded"
        stuck.go.set()
        grown = (await stored(world))[before:]
        assert [await next_event(stuck) for _ in grown] == grown
        stuck.gone.set()
        await serving

    play(tmp_path, story)


def test_a_watcher_that_leaves_as_an_event_arrives_has_left(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(project("before"))
        last = (await stored(world))[-1]["id"]
        watched = world.plane.feed.watch(system_scope("test"), last)
        watching = asyncio.ensure_future(anext(watched))
        await asyncio.sleep(0)
        while not world.plane.feed._waiters:
            await asyncio.sleep(0)
        world.plane.feed._wake()
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(10):
                await watching

    play(tmp_path, story)


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_stream_ends_with_the_key_that_opened_it(tmp_path: Path, how: str) -> None:
    async def story(world: World) -> None:
        key = await make_key(world, "leaver", "viewer", "acme", expiresInS=60)
        async with world.stream("/v1/events?watch=true", by="leaver") as stream:
            await stream.next()
            await world.apply(project("before"))
            assert (await next_event(stream))["subject"] == "Project/before"
            if how == "revoked":
                assert (await world.call("DELETE", f"/v1/keys/{key}")).status == 204
            else:
                world.advance(60)
            await world.apply(project("after"))
            async with asyncio.timeout(10):
                await stream.ended.wait()
            assert stream.chunks.empty()

    play(tmp_path, story)


def test_a_log_is_followed_to_its_end(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/prod/a"), by="acme")
        await world.settle()
        found = world.workload("nlp/prod/a")
        world.site.say(found["id"], 1, 0, b"one\n")
        async with world.stream(f"{url('nlp/prod/a')}/logs?follow=true", by="acme") as stream:
            assert await stream.next() == b"one\n"
            world.site.say(found["id"], 1, 0, b"two\n")
            assert await stream.next() == b"two\n"
            world.finish("nlp/prod/a")
        whole = await world.call("GET", f"{url('nlp/prod/a')}/logs", by="acme")
        assert whole.body == b"one\ntwo\n" and whole.headers["content-type"].startswith("text/plain")
        tail = await world.call("GET", f"{url('nlp/prod/a')}/logs?tail=4", by="acme")
        assert tail.body == b"two\n"

    play(tmp_path, story)


# --- one command, one transaction -------------------------------------------------------------

WRITES = {
    "apply a document": ("POST", "/v1/apply", project("new")),
    "apply a component": ("POST", "/v1/apply", intent("nlp/prod/new")),
    "be refused": ("POST", "/v1/apply", intent("nlp/prod/new", 99)),
    "cancel": ("POST", f"{url('nlp/prod/a')}/actions/cancel", b""),
    "rerun": ("POST", f"{url('nlp/prod/done')}/actions/rerun", b""),
    "delete a component": ("DELETE", url("nlp/prod/done"), b""),
    "delete a document": ("DELETE", "/v1/projects/vision", b""),
    "make a key": ("POST", "/v1/keys", {"name": "n", "role": "viewer", "tenant": "acme"}),
}


async def one_done_one_running(world: World) -> None:
    for path in ("nlp/prod/done", "nlp/prod/a"):
        await world.apply(intent(path), by="acme")
        await world.settle()
        if path.endswith("done"):
            world.finish(path)
            await world.settle()


@pytest.mark.parametrize("write", WRITES)
def test_a_change_its_audit_row_and_its_event_commit_together(tmp_path: Path, write: str) -> None:
    method, path, body = WRITES[write]

    async def story(world: World) -> None:
        await one_done_one_running(world)
        before = world.dump()
        reply = await world.call(method, path, body, by="acme-admin")
        assert reply.status in (200, 201, 204, 422), reply.body
        after = world.dump()
        new = world.rows("SELECT * FROM audit ORDER BY id")[len(before["audit"]) :]
        assert len(new) == 1 and new[0]["actor"] == "acme-admin" and new[0]["tenant"] == "acme"
        assert new[0]["request_id"] == reply.headers["x-request-id"]
        assert len(after["events"]) == len(before["events"]) + 1

    play(tmp_path, story)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("crash", ["emit_all", "audit"])
def test_a_crash_after_telling_leaves_neither_the_change_nor_the_telling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str, crash: str
) -> None:
    method, path, body = WRITES[write]

    async def story(world: World) -> None:
        await one_done_one_running(world)
        before = world.dump()
        original = getattr(events, crash)

        async def crashing(*args: Any, **named: Any) -> None:
            await original(*args, **named)
            raise RuntimeError("pulled the plug")

        with monkeypatch.context() as patch:
            patch.setattr(events, crash, crashing)
            reply = await world.call(method, path, body, by="acme-admin")
        assert reply.status == 500
        assert world.dump() == before
        assert (await world.call(method, path, body, by="acme-admin")).status in (200, 201, 204, 422)

    play(tmp_path, story)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(cuts=st.lists(st.integers(0, 12), max_size=6), seed=st.integers(0, 3))
def test_however_often_a_watcher_is_cut_off_it_sees_every_event_once(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], seed: int
) -> None:
    async def story(world: World) -> None:
        await some_work(world)
        by = ("admin", "acme", "globex", "auditor")[seed]
        whole = await stored(world, by)
        seen: list[dict[str, Any]] = []
        for cut in [*cuts, len(whole)]:
            last = str(seen[-1]["id"]) if seen else "0"
            async with world.stream("/v1/events?watch=true", by=by, last_event_id=last) as stream:
                for _ in range(min(cut, len(whole) - len(seen))):
                    seen.append(await next_event(stream))
        assert seen == whole

    play(tmp_path_factory.mktemp("stream"), story)
