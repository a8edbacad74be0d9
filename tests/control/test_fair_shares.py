"""Ways to get more than one's share, each found by somebody who tried."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.control.documents import envelope, intent, project, quota, site
from tests.control.worlds import World, play, url


def test_a_lender_that_comes_in_the_same_moment_is_not_starved(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("chat/prod/borrower", 8, workers=2, preemptible=True), by="globex")
        await world.apply(intent("nlp/dev/lender", 8), by="acme")
        await world.settle()
        assert world.phase("nlp/dev/lender") == "Running"

    play(tmp_path, story)


def test_an_environment_with_work_in_it_cannot_be_dropped(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/dev/a", 1), by="acme")
        await world.settle()
        smaller = project("nlp", "acme", environments=["prod"], defaultProfile="h100-80g")
        reply = await world.apply(smaller, by="acme-admin")
        assert reply.status == 409 and "nlp/dev/a" in reply.json["detail"]

    play(tmp_path, story)


def test_a_tenant_that_no_site_is_open_to_is_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(site("local", tenants=["globex"]))
        assert (await world.apply(intent("nlp/dev/a"), by="acme")).codes == ["entitlement.site"]
        assert (await world.apply(intent("chat/prod/a"), by="globex")).status == 200

    play(tmp_path, story)


def test_a_replica_count_written_as_a_decimal_counts_in_full(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for most in (1000, 1000.0):
            service = intent("chat/prod/s", type="inference-service", parameters={"maxReplicas": most})
            assert (await world.apply(service, by="globex")).codes == ["entitlement.max"]

    play(tmp_path, story)


def test_a_deleted_tenants_keys_do_not_open_the_next_one_of_that_name(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for plural, name in (("envelopes", "globex"), ("projects", "chat"), ("tenants", "globex")):
            assert (await world.call("DELETE", f"/v1/{plural}/{name}")).status == 204
        assert (await world.call("GET", "/v1/whoami", by="globex")).status == 401

    play(tmp_path, story)


def test_a_submit_behind_a_deletion_in_the_same_batch_is_judged_by_what_is_left(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        deleted, submitted = await asyncio.gather(
            world.call("DELETE", "/v1/projects/vision"), world.apply(intent("vision/prod/orphan"), by="acme")
        )
        if deleted.status == 204:
            assert submitted.codes == ["project.unknown"]
        else:
            assert (deleted.status, submitted.status) == (409, 200)

    play(tmp_path, story)


def test_what_an_earlier_tenant_spent_under_the_same_name_is_not_shown(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("vision/prod/job"), by="acme")
        await world.settle()
        world.advance(3600)
        world.finish("vision/prod/job")
        await world.settle()
        assert (await world.call("DELETE", url("vision/prod/job"), by="acme")).status == 204
        for plural, name in (("envelopes", "vision"), ("projects", "vision")):
            await world.call("DELETE", f"/v1/{plural}/{name}")
        again = project("vision", "globex", environments=["prod"], defaultProfile="h100-80g")
        share = envelope("v", {"tenant": "globex", "project": "vision"}, gpus=quota(0, 4))
        assert (await world.apply([again, share])).status == 200
        await world.apply(intent("vision/prod/job"), by="globex")
        await world.settle()
        world.finish("vision/prod/job")
        await world.settle()
        (listed,) = (await world.get("/v1/components?project=vision", by="globex"))["items"]
        one = await world.get(url("vision/prod/job"), by="globex")
        assert listed["status"]["cost"] == one["status"]["cost"] == "0.00"

    play(tmp_path, story)
