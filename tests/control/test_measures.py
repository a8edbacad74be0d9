"""What `/metrics` says of a platform at work, and what it costs to ask."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.control.documents import intent
from tests.control.worlds import World, play

from windlass.control.billing.hourly import measure_balance
from windlass.control.db import slo
from windlass.control.db.migrations import migrate, steps
from windlass.control.db.sqlite import SqliteStore, connect
from windlass.control.scheduler.measures import measure
from windlass.runtime import metrics


async def scraped(world: World) -> dict[str, float]:
    reply = await world.call("GET", "/metrics", by=None)
    assert reply.status == 200
    lines = [line.rpartition(" ") for line in reply.body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def risen(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Series that changed, without times."""
    return {
        name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)
    }


def test_requests_are_counted_by_pattern_and_class_and_a_made_up_method_makes_no_series(
    tmp_path: Path,
) -> None:
    async def story(world: World) -> None:
        before = await scraped(world)
        await world.call("GET", "/v1/tiers/gold")
        await world.call("GET", "/v1/tiers/none")
        for number in range(3):
            await world.call(f"BREW{number}", f"/nowhere/{number}")
        found = risen(before, await scraped(world))
        prefix = "windlass_http_requests_total"
        assert found[prefix + '{method="GET",route="/v1/tiers/{name}",status="2xx"}'] == 1
        assert found[prefix + '{method="GET",route="/v1/tiers/{name}",status="4xx"}'] == 1
        assert found[prefix + '{method="other",route="none",status="4xx"}'] == 3
        assert not any("BREW" in name or "nowhere" in name for name in found)

    play(tmp_path, story)


def test_the_queue_is_shown_by_class_and_cause_and_decisions_by_verdict_and_rule(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.settle()
        before = await scraped(world)
        for number in range(3):
            assert (await world.apply(intent(f"nlp/prod/job-{number}", 8))).status == 200
        assert (await world.apply(intent("nlp/prod/huge", 64))).status == 422
        await world.settle()
        after = await scraped(world)
        found = risen(before, after)
        assert after['windlass_workloads_waiting{cause="quota",gpu_class="h100-80g"}'] == 2
        assert after['windlass_workloads_holding{gpu_class="h100-80g"}'] == 1
        assert after['windlass_gpus_free{gpu_class="h100-80g"}'] == 8
        assert after['windlass_gpus{gpu_class="h100-80g"}'] == 16
        assert after['windlass_agent_workers_running{site="local"}'] == 1
        assert found['windlass_decisions_total{verdict="admitted"}'] == 3
        assert found['windlass_decisions_total{verdict="rejected"}'] == 1
        assert found['windlass_decision_reasons_total{rule="entitlement.max"}'] == 1
        assert found['windlass_admission_wait_seconds_count{tier="standard"}'] == 1
        assert found["windlass_start_seconds_count"] == 1
        assert found['windlass_store_commits_total{result="done"}'] > 4
        assert after['windlass_site_heartbeat_timestamp_seconds{site="local"}'] == world.clock() / 1000
        world.finish("nlp/prod/job-0")
        await world.settle()
        final = await scraped(world)
        assert final['windlass_workloads_waiting{cause="quota",gpu_class="h100-80g"}'] == 1

    play(tmp_path, story)


def test_preemptions_are_counted_by_reason_and_postings_balance(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.settle()
        before = await scraped(world)
        for number in range(2):
            assert (await world.apply(intent(f"cheap/dev/borrows-{number}", 8))).status == 200
        await world.settle()
        world.advance(60)
        assert (await world.apply(intent("chat/prod/owner", 8))).status == 200
        await world.settle()
        await measure_balance(world.plane)
        after = await scraped(world)
        found = risen(before, after)
        assert found['windlass_preemptions_total{reason="reclaim"}'] == 1
        assert found["windlass_ledger_transfers_total"] >= 1
        assert after['windlass_ledger_imbalance_micros{currency="USD"}'] == 0
        assert after["windlass_ledger_check_timestamp_seconds"] == world.clock() / 1000

    play(tmp_path, story)


def test_a_scrape_asks_the_store_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/prod/job"))
        await world.settle()

        def asked(*_: object, **__: object) -> None:
            raise AssertionError("a scrape read a table")

        with monkeypatch.context() as patch:
            patch.setattr(world.plane.store, "read", asked)
            patch.setattr(world.plane.store, "unit", asked)
            await scraped(world)

    play(tmp_path, story)


def test_no_series_names_a_tenant_a_component_or_an_id(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent("nlp/prod/very-own-name"))
        await world.settle()
        text = "\n".join(await scraped(world))
        assert not re.search(r"acme|globex|very-own-name|\b(wl|dec|key)_", text)

    play(tmp_path, story)


@pytest.mark.parametrize("statement", [slo._RUNS, slo._REQUEUED, slo._FIRST_CAUSES, slo._MINUTES])
def test_a_window_of_service_levels_is_a_range_of_an_index(statement: str, tmp_path: Path) -> None:
    connection = connect(tmp_path / "windlass.db")
    migrate(connection)
    asked = "EXPLAIN QUERY PLAN " + statement.replace("{filters}", "").replace("$", "?")
    plan = connection.execute(asked, ("wl_1", 10) if "$2" in statement else ("wl_1",)).fetchall()
    connection.close()
    stored = re.compile(r"(SCAN|SEARCH) (workloads|transitions|api_minutes|[tc])\b")
    steps = [row["detail"] for row in plan if stored.match(row["detail"])]
    assert steps and all(step.startswith("SEARCH") for step in steps), steps


def test_a_database_of_the_first_schema_learns_the_new_columns(tmp_path: Path) -> None:
    connection = connect(tmp_path / "windlass.db")
    migrate(connection, steps()[:1])
    columns = "id, component, tenant, path, run, attempt, phase, generation, seq, line, shape, manifest, tier"
    columns += ", currency, submitted_ms, queued_ms, site, want, stop_reason, preemptions, failures"
    columns += ", placement, outcome"
    values = ", ".join(f"'{name}'" for name in columns.split(", "))
    connection.execute(f"INSERT INTO workloads ({columns}) VALUES ({values})")  # noqa: S608 (own words)
    connection.close()
    SqliteStore(tmp_path / "windlass.db")
    again = connect(tmp_path / "windlass.db")
    row = again.execute("SELECT traceparent, estimated_ms, first_admitted_ms FROM workloads").fetchone()
    assert tuple(row) == ("", None, None)
    again.close()


def test_a_replica_that_follows_does_not_tell_what_the_leader_tells(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for number in range(3):
            assert (await world.apply(intent(f"nlp/prod/job-{number}", 8))).status == 200
        await world.settle()
        leading = await scraped(world)
        assert leading["windlass_leader"] == 1
        levels = ("windlass_workloads_", "windlass_gpus")
        assert sum(name.startswith(levels) for name in leading) >= 4
        scheduler = world.plane.scheduler
        measure(scheduler.state, scheduler.nodes, leads=False)
        following = metrics.render().decode().splitlines()
        assert "windlass_leader 0.0" in following
        assert [line for line in following if line.startswith(levels)] == []

    play(tmp_path, story)
