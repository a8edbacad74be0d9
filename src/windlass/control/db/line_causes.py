"""Why a line waited, since when: with a workload's transitions, the explanation of every pending second."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.control.db.port import Row, Tx
from windlass.core.scheduling.model import LineCause
from windlass.core.units import Ms

_CAUSE = (
    "INSERT INTO line_causes (line, since_ms, cause, also, message) VALUES ($1, $2, $3, $4, $5)"
    " ON CONFLICT (line, since_ms) DO UPDATE SET cause = excluded.cause, also = excluded.also,"
    " message = excluded.message"
)
_LAST = (
    "SELECT line, since_ms, cause, also FROM line_causes c WHERE line = ANY($1)"
    " AND since_ms = (SELECT MAX(since_ms) FROM line_causes WHERE line = c.line)"
)
_SINCE = (
    "SELECT since_ms, cause, message FROM line_causes WHERE line = $1 AND since_ms >="
    " (SELECT COALESCE(MAX(since_ms), 0) FROM line_causes WHERE line = $1 AND since_ms <= $2)"
    " ORDER BY since_ms"
)


async def add(tx: Tx, causes: Sequence[LineCause], emptied: Sequence[tuple[str, Ms]], now: Ms) -> None:
    """Why each line waits from `since` on; from now on where that would change what was recorded.

    The engine dates the first cause of a line back to its head's submission. After a restart, or when
    work comes back to an emptied line, that lies before causes which were true at their time.

    `emptied` are lines whose last member was placed, and since when it waited: if that was after the line's
    last cause, it was placed by the first cycle that saw it, and what the line waited for earlier is not why.
    """
    lines = dict.fromkeys([*(cause.line for cause in causes), *(line for line, _ in emptied)])
    if not lines:
        return
    found = await tx.rows_of(_LAST, list(lines))
    last: dict[str, tuple[Ms, str, str]] = {
        row["line"]: (row["since_ms"], row["cause"], row["also"]) for row in found
    }
    written: dict[tuple[str, Ms], tuple[object, ...]] = {}
    for cause in causes:
        also, since, known = ",".join(cause.also), cause.since, last.get(cause.line)
        if known is not None and known[0] >= since:
            if known[1:] == (cause.cause, also):
                continue
            since = max(known[0], now)
        last[cause.line] = (since, cause.cause, also)
        written[cause.line, since] = (cause.line, since, cause.cause, also, cause.message)
    for line, queued in emptied:
        known = last.get(line)
        if known is not None and known[0] < queued and known[1] != "starting":
            last[line] = (queued, "starting", "")
            written[line, queued] = (line, queued, "starting", "", "")
    await tx.execute_many(_CAUSE, list(written.values()))


async def since(tx: Tx, line: str, at: Ms) -> Sequence[Row]:
    """The causes of a line from the one in force at `at` on."""
    return await tx.rows(_SINCE, line, at)
