"""Holdings, transfers and entries, budgets: GPU time and money. Append-only but for a holding's end
and the running sums of budgets.

Sums are cast: PostgreSQL's are of another type than what they add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.control.db.narrow import Place, narrowed, own_rows
from windlass.control.db.port import Row, Tx
from windlass.core.ledger.postings import Posted, Transfer, charged, payload_hash
from windlass.core.metering import Holding
from windlass.core.units import GpuUs, Micros, MilliGpu, Ms
from windlass.runtime.metrics import TRANSFERS

_HOLDING_COLUMNS = (
    "id, tenant, project, env, component, gpu_class, tier, currency, gpu_milli, since_ms, until_ms, type"
)
_INSERT_HOLDING = (
    f"INSERT INTO holdings ({_HOLDING_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, NULL, $11)"
)
_CLOSE = "UPDATE holdings SET until_ms = $2 WHERE id = $1 AND until_ms IS NULL"
_HOLDINGS = f"SELECT {_HOLDING_COLUMNS} FROM holdings WHERE id = ANY($1)"
_OPEN = f"SELECT {_HOLDING_COLUMNS} FROM holdings WHERE until_ms IS NULL{{filters}} ORDER BY since_ms, id"
_OF_COMPONENT = (
    f"SELECT {_HOLDING_COLUMNS} FROM holdings"
    " WHERE project = $1 AND env = $2 AND component = $3 ORDER BY since_ms"
)
_PAGE = f"SELECT {_HOLDING_COLUMNS} FROM holdings WHERE id > $1{{filters}} ORDER BY id LIMIT $2"
_ALL = f"SELECT {_HOLDING_COLUMNS} FROM holdings ORDER BY since_ms, id"
_ENDED_SINCE = (
    "SELECT tenant, project, env, gpu_class, (since_ms + until_ms) / 7200000 AS hour,"
    " CAST(SUM(gpu_milli * (until_ms - since_ms)) AS BIGINT) AS gpu_us"
    " FROM holdings WHERE until_ms > $1 GROUP BY tenant, project, env, gpu_class, hour"
    " ORDER BY tenant, project, env, gpu_class, hour"
)
_POSTED = (
    "SELECT holding, segment_ms, CAST(SUM(micros) AS BIGINT) AS micros,"
    " CAST(SUM(gpu_us) AS BIGINT) AS gpu_us, COUNT(*) AS n, MAX(through_ms) AS through FROM transfers"
    " WHERE source = 'usage' AND holding = ANY($1) GROUP BY holding, segment_ms"
)
_INSERT_TRANSFER = (
    "INSERT INTO transfers (source, id, at_ms, tenant, holding, segment_ms, sequence, through_ms, gpu_us,"
    " per_gpu_hour, book, micros, currency, memo, hash)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
)
_INSERT_ENTRY = "INSERT INTO entries (source, id, account, currency, micros) VALUES ($1, $2, $3, $4, $5)"
_COSTS = (
    "SELECT h.tenant, h.project, h.env, h.component, h.currency,"
    " CAST(SUM(h.gpu_milli * (h.until_ms - h.since_ms)) AS BIGINT) AS gpu_us"
    " FROM holdings h WHERE h.until_ms IS NOT NULL{filters}"
    " GROUP BY h.tenant, h.project, h.env, h.component, h.currency"
)
_POSTED_COSTS = (
    "SELECT h.tenant, h.project, h.env, h.component, t.currency, CAST(SUM(t.micros) AS BIGINT) AS micros"
    " FROM transfers t JOIN holdings h ON h.id = t.holding"
    " WHERE t.source = 'usage'{filters}"
    " GROUP BY h.tenant, h.project, h.env, h.component, t.currency"
)
_TIME_OF_MANY = (
    "SELECT tenant, project, env, component,"
    " CAST(SUM(gpu_milli * (until_ms - since_ms)) AS BIGINT) AS gpu_us FROM holdings"
    " WHERE until_ms IS NOT NULL AND (project, env, component) IN (VALUES {values})"
    " GROUP BY tenant, project, env, component"
)
_MONEY_OF_MANY = (
    "SELECT h.tenant, h.project, h.env, h.component, CAST(SUM(t.micros) AS BIGINT) AS micros FROM holdings h"
    " JOIN transfers t ON t.holding = h.id WHERE (h.project, h.env, h.component) IN (VALUES {values})"
    " GROUP BY h.tenant, h.project, h.env, h.component"
)
_BY_TYPE = (
    "SELECT h.tenant, h.type, CAST(SUM(h.gpu_milli * ("
    "CASE WHEN h.until_ms IS NULL OR h.until_ms > $2 THEN $2 ELSE h.until_ms END"
    " - CASE WHEN h.since_ms < $1 THEN $1 ELSE h.since_ms END)) AS BIGINT) AS gpu_us FROM holdings h"
    " WHERE h.since_ms < $2 AND (h.until_ms IS NULL OR h.until_ms > $1){filters} GROUP BY h.tenant, h.type"
)
_SUM = "SELECT currency, CAST(SUM(micros) AS BIGINT) AS micros FROM entries GROUP BY currency"
_SUM_TENANT = (
    "SELECT e.currency, CAST(SUM(e.micros) AS BIGINT) AS micros FROM transfers t"
    " JOIN entries e ON e.source = t.source AND e.id = t.id WHERE t.tenant = $1 GROUP BY e.currency"
)
_SPENT = (
    "SELECT CAST(COALESCE(SUM(spent), 0) AS BIGINT) AS spent FROM budgets"
    " WHERE scope = $1 AND day_ms >= $2 AND day_ms < $3"
)
_SPEND = (
    "INSERT INTO budgets (scope, day_ms, spent) VALUES ($1, $2, $3)"
    " ON CONFLICT (scope, day_ms) DO UPDATE SET spent = budgets.spent + excluded.spent"
)
_FORGET_SPENT = "DELETE FROM budgets WHERE scope = $1 OR scope LIKE $2"
_RECOUNT = (
    "INSERT INTO budgets (scope, day_ms, spent)"
    " SELECT {scope} AS scope, t.at_ms - 1 - (t.at_ms - 1) % 86400000 AS day, CAST(SUM(t.micros) AS BIGINT)"
    " FROM holdings h JOIN transfers t ON t.holding = h.id"
    " WHERE h.tenant = $1 AND t.currency = $2 GROUP BY 1, 2"
)
_SCOPES = ("h.tenant", "h.tenant || '/' || h.project", "h.tenant || '/' || h.project || '/' || h.env")
_UNSETTLED = (
    "SELECT path FROM workloads WHERE finished_ms IS NULL AND tenant = $1 AND currency <> $2"
    " UNION SELECT project || '/' || env || '/' || component AS path FROM holdings"
    " WHERE until_ms IS NULL AND tenant = $1 AND currency <> $2 ORDER BY path LIMIT $3"
)
_HELD = "SELECT micros FROM budget_held WHERE scope = $1"
_HOLD = (
    "INSERT INTO budget_held (scope, micros) VALUES ($1, $2)"
    " ON CONFLICT (scope) DO UPDATE SET micros = budget_held.micros + excluded.micros"
)
_KEEP_HOLD = "INSERT INTO budget_holds (workload, scope, micros, renewed) VALUES ($1, $2, $3, $4)"
_USE_HOLD = "UPDATE budget_holds SET micros = micros - $3 WHERE workload = $1 AND scope = $2"
_LIMITED_HOLDS = (
    "SELECT workload, scope, micros FROM budget_holds WHERE workload = ANY($1) AND renewed = 0"
    " ORDER BY workload, scope"
)
_HOLDS = "SELECT workload, scope, micros FROM budget_holds WHERE workload = ANY($1) ORDER BY workload, scope"
_DROP_HOLD = "DELETE FROM budget_holds WHERE workload = $1 AND scope = $2"


@dataclass(frozen=True, slots=True)
class HourOfUse:
    """What a queue's holdings with their middle in one hour (since 1970) held in all."""

    queue: str
    gpu_class: str
    hour: int
    gpu_us: GpuUs


async def ended_since(tx: Tx, since: Ms) -> list[HourOfUse]:
    assert tx.scope.covers(None), "everybody's use is the platform's to read"
    return [
        HourOfUse(
            f"{row['tenant']}/{row['project']}/{row['env']}",
            row["gpu_class"],
            row["hour"],
            GpuUs(row["gpu_us"]),
        )
        for row in await tx.rows(_ENDED_SINCE, since)
    ]


async def open_all(tx: Tx, holdings: Iterable[Holding]) -> None:
    await tx.insert_many(
        _INSERT_HOLDING,
        [
            (
                holding.id,
                holding.tenant,
                holding.project,
                holding.env,
                holding.component,
                holding.gpu_class,
                holding.tier,
                holding.currency,
                holding.gpu_milli,
                holding.since,
                holding.type,
            )
            for holding in holdings
        ],
    )


async def close_all(tx: Tx, ended: Sequence[Holding]) -> None:
    """Holdings that this transaction found open."""
    closed = await tx.execute_many(_CLOSE, [(holding.id, holding.until) for holding in ended])
    assert closed == len(ended), "a holding was closed since this transaction read it"


async def find(tx: Tx, ids: Sequence[str]) -> list[Holding]:
    return [_holding(row) for row in await own_rows(tx, _HOLDINGS, ids)]


async def open_holdings(tx: Tx) -> list[Holding]:
    return [_holding(row) for row in await narrowed(tx, _OPEN, tenant=None)]


async def holdings_of(tx: Tx, tenant: str, project: str, env: str, component: str) -> list[Holding]:
    rows = await tx.rows(_OF_COMPONENT, project, env, component)
    return [_holding(row) for row in rows if row["tenant"] == tenant and tx.scope.covers(tenant)]


async def holdings_page(tx: Tx, after: str, limit: int, place: Place) -> list[Holding]:
    rows = await narrowed(tx, _PAGE, after, limit, tenant=place.tenant, wanted=place.columns())
    return [_holding(row) for row in rows]


async def all_holdings(tx: Tx) -> list[Holding]:
    assert tx.scope.tenant is None, "the audit of the ledger is the platform's own"
    return [_holding(row) for row in await tx.rows(_ALL)]


async def posted(tx: Tx, holdings: Sequence[str]) -> dict[str, dict[Ms, Posted]]:
    """By holding and segment; of a holding that was never posted, nothing."""
    found: dict[str, dict[Ms, Posted]] = {}
    for row in await tx.rows_of(_POSTED, holdings):
        part = Posted(Micros(row["micros"]), GpuUs(row["gpu_us"]), row["n"], row["through"])
        found.setdefault(row["holding"], {})[row["segment_ms"]] = part
    return found


async def add_transfers(tx: Tx, transfers: Sequence[Transfer]) -> None:
    """Fails loudly on a (source, id) that exists: an id is used once, for ever."""
    TRANSFERS.inc(len(transfers))
    await tx.insert_many(_INSERT_TRANSFER, [_columns(transfer) for transfer in transfers])
    await tx.insert_many(
        _INSERT_ENTRY,
        [
            (transfer.source, transfer.id, entry.account, entry.currency, entry.micros)
            for transfer in transfers
            for entry in transfer.entries
        ],
    )


def _columns(transfer: Transfer) -> tuple[object, ...]:
    usage = transfer.usage
    assert usage is not None, "usage is the only source so far"
    return (
        transfer.source,
        transfer.id,
        transfer.at,
        usage.tenant,
        usage.holding,
        usage.segment,
        usage.sequence,
        usage.through,
        usage.gpu_us,
        usage.per_gpu_hour,
        usage.book,
        charged(transfer),
        transfer.entries[0].currency,
        transfer.memo,
        payload_hash(transfer),
    )


async def time_by_type(tx: Tx, since: Ms, until: Ms, place: Place) -> Sequence[Row]:
    """GPU time within `[since, until)`, by tenant and component type."""
    wanted = place.columns("h.")
    return await narrowed(tx, _BY_TYPE, since, until, tenant=place.tenant, column="h.tenant", wanted=wanted)


async def closed_time(tx: Tx, place: Place) -> Sequence[Row]:
    """GPU time of closed holdings, by component."""
    return await _of_holdings(tx, _COSTS, place)


async def posted_costs(tx: Tx, place: Place) -> Sequence[Row]:
    return await _of_holdings(tx, _POSTED_COSTS, place)


async def _of_holdings(tx: Tx, statement: str, place: Place) -> Sequence[Row]:
    wanted = place.columns("h.")
    return await narrowed(tx, statement, tenant=place.tenant, column="h.tenant", wanted=wanted)


async def spent_of(
    tx: Tx, owned: Mapping[tuple[str, str, str], str]
) -> dict[tuple[str, str, str], tuple[GpuUs, Micros]]:
    """GPU time and posted money of components (path -> tenant) that hold nothing now, in two statements.
    What another tenant spent under the same path, when the project was theirs, is not counted."""
    if not owned:
        return {}
    values = ", ".join(f"(${3 * n + 1}, ${3 * n + 2}, ${3 * n + 3})" for n in range(len(owned)))
    wanted = [part for path in owned for part in path]
    time = await tx.rows(_TIME_OF_MANY.replace("{values}", values), *wanted)
    money = await tx.rows(_MONEY_OF_MANY.replace("{values}", values), *wanted)
    posted = {(row["tenant"], row["project"], row["env"], row["component"]): row["micros"] for row in money}
    found = {}
    for row in time:
        path = (row["project"], row["env"], row["component"])
        if row["tenant"] == owned[path] and tx.scope.covers(row["tenant"]):
            found[path] = (GpuUs(row["gpu_us"]), Micros(posted.get((row["tenant"], *path), 0)))
    return found


async def ledger_sum(tx: Tx) -> dict[str, Micros]:
    """Every entry (of the tenant's transfers), by currency. Anything but zero is a bug."""
    own = tx.scope.tenant
    rows = await tx.rows(_SUM) if own is None else await tx.rows(_SUM_TENANT, own)
    return {row["currency"]: Micros(row["micros"]) for row in rows}


async def spent(tx: Tx, scope: str, since: Ms, until: Ms) -> Micros:
    """Kept by UTC day, of which every budget's period is made."""
    row = await tx.row(_SPENT, scope, since, until)
    return Micros(row["spent"]) if row else Micros(0)


async def spend(tx: Tx, amounts: Mapping[tuple[str, Ms], int]) -> None:
    """By scope and day."""
    await tx.execute_many(_SPEND, [(scope, day, micros) for (scope, day), micros in amounts.items()])


async def forget_spent(tx: Tx, tenant: str) -> None:
    """The sums of the tenant's budgets; what was posted stays."""
    await tx.execute(_FORGET_SPENT, tenant, f"{tenant}/%")


async def recount(tx: Tx, tenant: str, currency: str) -> None:
    """The sums of the tenant's budgets, from what was posted in this currency alone."""
    await forget_spent(tx, tenant)
    for scope in _SCOPES:
        await tx.execute(_RECOUNT.replace("{scope}", scope), tenant, currency)


async def unsettled(tx: Tx, tenant: str, currency: str, limit: int) -> list[str]:
    """Paths of the tenant's work that has not ended, or still holds GPUs, and is paid in another currency."""
    return [row["path"] for row in await tx.rows(_UNSETTLED, tenant, currency, limit)]


async def budget_held(tx: Tx, scope: str) -> Micros:
    row = await tx.row(_HELD, scope)
    return Micros(row["micros"]) if row else Micros(0)


async def hold_budget(tx: Tx, workload: str, scope: str, micros: Micros, *, renewed: bool) -> None:
    """`renewed`: work without a time limit, which holds one hour for as long as it runs."""
    await tx.execute(_HOLD, scope, micros)
    await tx.insert(_KEEP_HOLD, workload, scope, micros, int(renewed))


async def use_holds(tx: Tx, posted: Mapping[str, int]) -> None:
    """What is posted of limited work (by workload) is spent now, and no longer held."""
    rows = await tx.rows_of(_LIMITED_HOLDS, list(posted)) if posted else ()
    used = [(row["workload"], row["scope"], min(row["micros"], posted[row["workload"]])) for row in rows]
    await _hold_less(tx, [one for one in used if one[2] > 0])


async def renew_hold(tx: Tx, workload: str, micros: Micros) -> None:
    """Limited work that is tried again sets aside the whole of it again."""
    missing = [
        (workload, row["scope"], micros - row["micros"])
        for row in await tx.rows_of(_LIMITED_HOLDS, [workload])
    ]
    await _hold_less(tx, [(workload, scope, -more) for workload, scope, more in missing if more > 0])


async def release_budgets(tx: Tx, workloads: Sequence[str]) -> None:
    """They may cost nothing any more."""
    held = await tx.rows_of(_HOLDS, workloads) if workloads else ()
    await _add_held(tx, [(row["scope"], -row["micros"]) for row in held])
    await tx.execute_many(_DROP_HOLD, [(row["workload"], row["scope"]) for row in held])


async def _hold_less(tx: Tx, used: Sequence[tuple[str, str, int]]) -> None:
    """By workload and scope."""
    await tx.execute_many(_USE_HOLD, used)
    await _add_held(tx, [(scope, -micros) for _, scope, micros in used])


async def _add_held(tx: Tx, amounts: Iterable[tuple[str, int]]) -> None:
    sums: dict[str, int] = {}
    for scope, micros in amounts:
        sums[scope] = sums.get(scope, 0) + micros
    await tx.execute_many(_HOLD, list(sums.items()))


def _holding(row: Row) -> Holding:
    return Holding(
        id=row["id"],
        tenant=row["tenant"],
        project=row["project"],
        env=row["env"],
        component=row["component"],
        gpu_class=row["gpu_class"],
        tier=row["tier"],
        currency=row["currency"],
        gpu_milli=MilliGpu(row["gpu_milli"]),
        since=row["since_ms"],
        until=row["until_ms"],
        type=row["type"],
    )
