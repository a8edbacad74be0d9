"""What service levels are measured by: of workloads, their first estimate, placement and start; of the API,
its minutes. Ids of workloads sort by time, so a window is a range of the primary key."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.control.db.narrow import narrowed
from windlass.control.db.port import Row, Tx
from windlass.core.units import Ms

_ADD_MINUTE = (
    "INSERT INTO api_minutes (minute_ms, answered, failed) VALUES ($1, $2, $3)"
    " ON CONFLICT (minute_ms) DO UPDATE SET answered = api_minutes.answered + excluded.answered,"
    " failed = api_minutes.failed + excluded.failed"
)
_FORGET_MINUTES = "DELETE FROM api_minutes WHERE minute_ms < $1"
_MINUTES = (
    "SELECT CAST(COALESCE(SUM(answered), 0) AS BIGINT) AS answered,"
    " CAST(COALESCE(SUM(failed), 0) AS BIGINT) AS failed FROM api_minutes WHERE minute_ms >= $1"
)
_RUNS = (
    "SELECT tier, line, submitted_ms, first_admitted_ms, first_started_ms, finished_ms, estimated_ms"
    " FROM workloads WHERE id >= $1{filters} ORDER BY id DESC LIMIT $2"
)
_REQUEUED = (
    "SELECT line, since_ms, until_ms FROM (SELECT w.id, w.line, w.tenant, t.phase, t.at_ms AS since_ms,"
    " LEAD(t.at_ms) OVER (PARTITION BY t.workload ORDER BY t.n) AS until_ms FROM transitions t"
    " JOIN workloads w ON w.id = t.workload WHERE t.workload >= $1"
    " AND (w.preemptions > 0 OR w.failures > 0)) spans"
    " WHERE phase = 'Pending'{filters} ORDER BY id DESC LIMIT $2"
)
_FIRST_CAUSES = (
    "SELECT line, (SELECT MIN(since_ms) FROM line_causes c WHERE c.line = w.line) AS since_ms"
    " FROM (SELECT DISTINCT line FROM workloads WHERE id >= $1) w"
)


async def add_minute(tx: Tx, minute: Ms, answered: int, failed: int) -> None:
    await tx.execute(_ADD_MINUTE, minute, answered, failed)


async def forget_minutes(tx: Tx, before: Ms) -> None:
    await tx.execute(_FORGET_MINUTES, before)


async def answered_since(tx: Tx, since: Ms) -> tuple[int, int]:
    """Requests answered, and of those the failed."""
    assert tx.scope.tenant is None, "how the API does as a whole is the platform's own"
    row = await tx.row(_MINUTES, since)
    return (row["answered"], row["failed"]) if row is not None else (0, 0)


async def runs_after(tx: Tx, id: str, limit: int) -> Sequence[Row]:
    """Workloads made after `id`, the newest first."""
    return await narrowed(tx, _RUNS, id, limit, tenant=None)


async def requeued_after(tx: Tx, id: str, limit: int) -> Sequence[Row]:
    """When they waited again, after a preemption or a retry."""
    return await narrowed(tx, _REQUEUED, id, limit, tenant=None)


async def first_causes(tx: Tx, id: str) -> dict[str, Ms]:
    """Since when the waiting of each line is explained, of lines with workloads made after `id`: a cause
    holds until the next one. A line that nobody ever waited in has none."""
    rows = await tx.rows(_FIRST_CAUSES, id)
    return {row["line"]: Ms(row["since_ms"]) for row in rows if row["since_ms"] is not None}
