"""The platform's books and promises, judged from outside: from rows alone, by other means than those
that wrote them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from tests.control.worlds import World, url

from windlass.core.ledger.check import check
from windlass.core.ledger.postings import Entry, Transfer, Usage
from windlass.core.metering import Holding
from windlass.core.units import parse_timestamp

HOLDING = ("Admitted", "Starting", "Running")


def holdings(world: World) -> list[Holding]:
    return [
        Holding(
            id=row["id"],
            tenant=row["tenant"],
            project=row["project"],
            env=row["env"],
            component=row["component"],
            gpu_class=row["gpu_class"],
            tier=row["tier"],
            currency=row["currency"],
            gpu_milli=row["gpu_milli"],
            since=row["since_ms"],
            until=row["until_ms"],
        )
        for row in world.rows("SELECT * FROM holdings ORDER BY since_ms, id")
    ]


def transfers(world: World) -> list[Transfer]:
    entries: defaultdict[str, list[Entry]] = defaultdict(list)
    for row in world.rows("SELECT * FROM entries ORDER BY id, account"):
        entries[row["id"]].append(Entry(row["account"], row["currency"], row["micros"]))
    by_id = {holding.id: holding for holding in holdings(world)}
    found = []
    for row in world.rows("SELECT * FROM transfers ORDER BY holding, segment_ms, sequence"):
        held = by_id[row["holding"]]
        usage = Usage(
            holding=held.id,
            tenant=row["tenant"],
            project=held.project,
            env=held.env,
            component=held.component,
            gpu_class=held.gpu_class,
            tier=held.tier,
            gpu_milli=held.gpu_milli,
            segment=row["segment_ms"],
            sequence=row["sequence"],
            through=row["through_ms"],
            gpu_us=row["gpu_us"],
            per_gpu_hour=row["per_gpu_hour"],
            book=row["book"],
        )
        own = tuple(entries.pop(row["id"]))
        found.append(Transfer(row["source"], row["id"], row["at_ms"], row["memo"], own, usage))
    assert not entries, f"entries of no transfer: {list(entries)}"
    return found


def audit_money(world: World) -> None:
    """Sums to zero, nothing twice, every closed holding charged what it owes, budgets add up."""
    posted, held = transfers(world), holdings(world)
    timeline = world.plane.prices.timeline
    assert check(posted, held, timeline) == ()
    closed = [holding for holding in held if holding.until is not None]
    names = {holding.id for holding in closed}
    own = [transfer for transfer in posted if transfer.usage and transfer.usage.holding in names]
    assert check(own, closed, timeline, until=world.clock()) == ()
    spent: Counter[tuple[str, str]] = Counter()
    for row in world.rows("SELECT tenant, currency, micros FROM transfers"):
        spent[row["tenant"], row["currency"]] += row["micros"]
    tenants = world.plane.catalog.current.tenants
    for row in world.rows("SELECT scope, SUM(spent) AS spent FROM budgets GROUP BY scope"):
        if "/" not in row["scope"]:
            assert row["spent"] == spent[row["scope"], tenants[row["scope"]].currency], row["scope"]


def audit_holding(world: World) -> None:
    """Who holds GPUs has exactly one open holding, on GPUs nobody else has, within every ceiling."""
    live = [row for row in world.rows("SELECT * FROM workloads") if row["phase"] in HOLDING]
    meters = sorted(holding.id for holding in holdings(world) if holding.until is None)
    assert meters == sorted(f"{row['id']}/{row['attempt']}" for row in live)
    taken: Counter[tuple[str, int]] = Counter()
    used: Counter[tuple[str, str]] = Counter()
    for row in live:
        shape, placement = json.loads(row["shape"]), json.loads(row["placement"])
        for worker in placement["workers"]:
            for gpu in worker["gpus"]:
                taken[worker["node"], gpu] += min(shape["gpus"], shape["unit"])
            tenant, project, env = shape["queue"].split("/")
            for scope in (tenant, f"{tenant}/{project}", shape["queue"]):
                used[scope, shape["gpu_class"]] += shape["gpus"]
    assert all(amount <= 1000 for amount in taken.values()), taken
    for (tenant, project, env), envelope in world.plane.catalog.current.envelopes.items():
        scope = "/".join(part for part in (tenant, project, env) if part)
        for quota in envelope.gpus:
            if quota.max is not None:
                assert used[scope, quota.profile_class] <= quota.max, scope


def audit_budget_holds(world: World) -> None:
    """What budgets hold is the sum of what live work holds."""
    kept: Counter[str] = Counter()
    for row in world.rows("SELECT scope, micros FROM budget_holds"):
        kept[row["scope"]] += row["micros"]
    for row in world.rows("SELECT scope, micros FROM budget_held"):
        assert row["micros"] == kept[row["scope"]], row["scope"]
    live = {row["id"] for row in world.rows("SELECT id FROM workloads WHERE finished_ms IS NULL")}
    assert {row["workload"] for row in world.rows("SELECT DISTINCT workload FROM budget_holds")} <= live


async def audit_history(world: World, path: str) -> list[tuple[str, int, int]]:
    """Every millisecond from submission to its end (or now) has one cause."""
    row = world.workload(path)
    why = await world.get(f"{url(path)}/explanation")
    now = world.clock()
    end = row["finished_ms"] if row["finished_ms"] is not None else now
    spans = [(span["cause"], instant(span["from"]), instant(span["to"], now)) for span in why["history"]]
    at = row["submitted_ms"]
    for cause, since, until in spans:
        assert cause and since == at and until >= since, f"{path}: {spans}"
        at = until
    assert at == end, f"{path}: {spans} end at {at}, not {end}"
    if row["phase"] == "Pending":
        assert why["cause"], f"{path} waits without a cause"
    return spans


async def audit(world: World) -> None:
    audit_money(world)
    audit_holding(world)
    audit_budget_holds(world)
    for row in world.rows("SELECT DISTINCT path FROM workloads"):
        if world.rows("SELECT 1 FROM components WHERE project || '/' || env || '/' || name = ?", row["path"]):
            await audit_history(world, row["path"])


def instant(text: str | None, absent: int = 0) -> int:
    return parse_timestamp(text) if text is not None else absent


def summary(world: World) -> dict[str, list[tuple[Any, ...]]]:
    """How everything ended, without what differs by how often the platform was restarted."""
    tables = ("components", "decisions", "holdings", "transfers", "entries", "budgets", "transitions")
    dumped = world.dump()
    work = world.rows(
        "SELECT path, run, attempt, phase, failures, preemptions, submitted_ms, started_ms, finished_ms,"
        " placement, outcome FROM workloads ORDER BY id"
    )
    return {**{table: dumped[table] for table in tables}, "workloads": [tuple(row) for row in work]}
