"""Several replicas on one PostgreSQL: each knows what the others did, one decides, nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.control.books import audit
from tests.control.documents import intent
from tests.control.engines import POSTGRES
from tests.control.worlds import World, make_key, play, url

from windlass.control.db import leases
from windlass.control.db.port import Tx
from windlass.control.identity.scopes import system_scope
from windlass.control.leadership import LENGTH, NAME
from windlass.core.units import Ms

pytestmark = pytest.mark.skipif(not POSTGRES, reason="replicas need PostgreSQL: `make test-pg`")

JOB = "nlp/prod/job"


def with_two(folder: Path, story: Callable[[World, World], Awaitable[None]]) -> None:
    async def told(world: World) -> None:
        world.replica = "first"
        await world.restart()
        other = await world.another("second")
        try:
            await story(world, other)
        finally:
            await other.close()

    play(folder, told)


async def heard(world: World) -> None:
    """Until this replica's listeners know of every event that is stored."""
    newest = world.newest_event()
    async with asyncio.timeout(20):
        while world.plane.store._tail._after < newest:  # type: ignore[attr-defined]
            await asyncio.sleep(0.005)


async def settle(*worlds: World) -> None:
    """Replicas and site take turns until nobody finds anything to do."""
    before = -1
    while before != (newest := worlds[0].newest_event()):
        before = newest
        for world in worlds:
            await heard(world)
            await world.plane.scheduler.turn()
        await worlds[0].agent.converge()


async def expire(world: World) -> None:
    """As if its holder had not been heard of for longer than the lease lasts."""
    world.rows("UPDATE leases SET expires_ms = 0")


async def lead(world: World) -> None:
    await world.plane.leadership.look()


def test_what_one_replica_stores_the_other_judges_by(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        project = {
            "apiVersion": "windlass.dev/v1",
            "kind": "Project",
            "metadata": {"name": "fresh", "tenant": "acme"},
            "spec": {"environments": ["dev"], "defaultProfile": "h100-80g"},
        }
        assert (await first.apply(project)).status == 200
        admitted = await second.apply(intent("fresh/dev/job", 1))
        assert admitted.status == 200, admitted.body
        assert (await second.call("DELETE", url("fresh/dev/job"))).status == 204
        assert (await second.call("DELETE", "/v1/projects/fresh")).status == 204
        refused = await first.apply(intent("fresh/dev/job", 1))
        assert refused.codes == ["project.unknown"]

    with_two(tmp_path, story)


def test_catalog_changes_on_two_replicas_at_once_make_one_history(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        before = first.plane.catalog.current.revision

        def tier(number: int) -> dict[str, object]:
            metadata = {"name": f"tier-{number}"}
            spec = {"priority": number, "preempts": False, "preemptible": True}
            return {"apiVersion": "windlass.dev/v1", "kind": "Tier", "metadata": metadata, "spec": spec}

        done = await asyncio.gather(*((first, second)[n % 2].apply(tier(n)) for n in range(20)))
        assert {reply.status for reply in done} == {200}
        assert sorted(reply.json["revision"] for reply in done) == list(range(before + 1, before + 21))
        for world in (first, second):
            await heard(world)
            assert {f"tier-{n}" for n in range(20)} <= set(world.plane.catalog.current.tiers)

    with_two(tmp_path, story)


def test_a_key_revoked_on_one_replica_is_of_no_use_on_the_other(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        key = await make_key(first, "guest", "viewer", "acme")
        second.keys["guest"] = first.keys["guest"]
        assert (await second.call("GET", "/v1/whoami", by="guest")).status == 200
        assert (await first.call("DELETE", f"/v1/keys/{key}")).status == 204
        await heard(second)
        assert (await second.call("GET", "/v1/whoami", by="guest")).status == 401

    with_two(tmp_path, story)


def test_the_same_request_to_two_replicas_happens_once(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        sent = [world.apply(intent(JOB, 1), idempotency_key="k") for world in (first, second) * 4]
        replies = await asyncio.gather(*sent)
        assert {reply.body for reply in replies} == {replies[0].body}
        assert len(first.rows("SELECT id FROM decisions WHERE component = ?", JOB)) == 1
        other = await second.apply(intent(JOB, 2), idempotency_key="k")
        assert other.status == 409

    with_two(tmp_path, story)


def test_watchers_of_every_replica_hear_everything_once_in_order(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        told: dict[str, list[int]] = {"first": [], "second": []}
        first.plane.store.listen(lambda rows: told["first"].extend(row.id for row in rows))
        second.plane.store.listen(lambda rows: told["second"].extend(row.id for row in rows))
        start = first.newest_event()
        await asyncio.gather(*((first, second)[n % 2].apply(intent(f"nlp/prod/j{n}", 1)) for n in range(40)))
        for world in (first, second):
            await heard(world)
        expected = list(range(start + 1, first.newest_event() + 1))
        assert told == {"first": expected, "second": expected}

    with_two(tmp_path, story)


def test_one_leads_and_the_other_knows_the_queue_all_the_same(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        await lead(first)
        await lead(second)
        assert (first.plane.leadership.leads, second.plane.leadership.leads) == (True, False)
        for name in ("a", "b", "c"):
            await second.apply(intent(f"nlp/prod/{name}", 8))
        await settle(second, first)
        why = [(await world.get(f"{url('nlp/prod/c')}/explanation")) for world in (first, second)]
        assert why[0]["cause"] == why[1]["cause"] == "quota"
        assert why[0]["position"] == why[1]["position"] == {"ahead": 1, "of": 2}
        queues = [(await world.get("/v1/queue")) for world in (first, second)]
        for queue in queues:
            assert [item["component"] for item in queue["waiting"]] == ["nlp/prod/b", "nlp/prod/c"]
            assert [item["component"] for item in queue["running"]] == ["nlp/prod/a"]
        await audit(first)

    with_two(tmp_path, story)


def test_when_the_leader_is_gone_the_next_decides_and_starts_nothing_twice(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        await lead(first)
        await first.apply(intent(JOB, 4))
        await settle(first, second)
        assert first.phase(JOB) == "Running"
        await second.apply(intent("nlp/prod/next", 4))
        await expire(first)
        await lead(second)
        await heard(second)
        await second.plane.scheduler.turn()
        assert second.phase("nlp/prod/next") == "Admitted"
        assert second.workload(JOB)["attempt"] == 1
        await settle(second)
        await audit(second)

    with_two(tmp_path, story)


def test_a_leader_that_was_frozen_is_refused_when_it_wakes(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        await lead(first)
        await settle(first, second)
        await first.apply(intent(JOB, 4))
        await heard(first)
        await expire(first)
        await lead(second)
        assert first.plane.leadership.leads, "it does not know yet"
        with pytest.raises(leases.Deposed):
            await first.plane.scheduler.turn()
        assert first.phase(JOB) == "Pending"
        await heard(second)
        await second.plane.scheduler.turn()
        assert first.phase(JOB) == "Admitted"
        await lead(first)
        assert not first.plane.leadership.leads

    with_two(tmp_path, story)


def test_a_lease_goes_by_the_databases_clock_and_its_token_only_grows(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        scope = system_scope("test")

        async def take(world: World, holder: str) -> leases.Lease | None:
            async def unit(tx: Tx) -> leases.Lease | None:
                return await leases.acquire(tx, NAME, holder, LENGTH)

            return await world.plane.store.unit(scope, unit)

        one = await take(first, "one")
        assert one is not None and one.token == 1
        first.clock.now = Ms(first.clock.now + 1_000_000)  # the replica's own clock says nothing here
        assert await take(second, "two") is None
        again = await take(first, "one")
        assert again is not None and again.token == 1
        await expire(first)
        two = await take(second, "two")
        assert two is not None and two.token == 2
        await expire(first)
        back = await take(second, "two")
        assert back is not None and back.token == 3, "after a gap it is a new beginning"

    with_two(tmp_path, story)


def test_a_clock_that_was_put_back_keeps_nobody_from_leading(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        await lead(first)
        # As a leader leaves it that died just before the database's clock was put back by an hour.
        first.rows("UPDATE leases SET expires_ms = expires_ms + 3600000")
        await lead(second)
        assert second.plane.leadership.leads
        await first.apply(intent(JOB, 4))
        await heard(first)
        with pytest.raises(leases.Deposed):
            await first.plane.scheduler.turn()

    with_two(tmp_path, story)


def test_one_that_resigns_is_followed_at_once(tmp_path: Path) -> None:
    async def story(first: World, second: World) -> None:
        await lead(first)
        await first.plane.leadership.resign()
        await lead(second)
        assert second.plane.leadership.leads and not first.plane.leadership.leads

    with_two(tmp_path, story)
