"""Did the platform keep its promises? Judged from outside, by what clients saw and what is stored.

This module shares no code with the platform, so a mistake there cannot excuse itself here. It takes
what clients sent and what they were answered, and a function that reads rows of the database; whoever
has both can use it: the simulation, or a harness of real processes.

    breaches = check_history(records, rows, now_ms=…)   # at a quiet point: everything
    breaches = check_state(rows)                        # at any instant: what must always hold
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Rows = Callable[..., Sequence[Any]]
"""`rows(statement)`: the committed rows, each readable by column name."""

HOLDING = ("Admitted", "Starting", "Running")
_GPU_US_PER_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Record:
    """One request as its client knows it. `status` None: no answer came. Times are the observer's own.
    Requests that share `key` (an Idempotency-Key) are one request, sent again."""

    method: str
    path: str
    sent_ms: int
    answered_ms: int | None = None
    status: int | None = None
    body: Any = None
    answer: Any = None
    key: str = ""
    credential: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """What one watcher of all events was told: ids in the order of their coming, after `after`. `live`:
    it was still connected at the quiet point, so it must know the newest."""

    after: int
    ids: tuple[int, ...]
    live: bool = True


@dataclass(frozen=True, slots=True)
class Breach:
    law: str
    detail: str

    def __str__(self) -> str:
        return f"{self.law}: {self.detail}"


def check_state(rows: Rows) -> list[Breach]:
    """What holds after every commit."""
    return [*_held_once(rows), *_within_max(rows), *_meters_match_work(rows)]


def check_history(
    records: Sequence[Record],
    rows: Rows,
    *,
    now_ms: int,
    starts: Iterable[tuple[str, int, int]] = (),
    watches: Iterable[Watch] = (),
) -> list[Breach]:
    """What holds at a quiet point. `starts`: each (workload, attempt, worker) a site really started."""
    return [
        *check_state(rows),
        *_no_failures(records),
        *_acknowledged_is_present(records, rows),
        *_at_most_once(records, rows),
        *_same_key_same_answer(records),
        *_started_once(starts, rows),
        *_billed_once(rows),
        *_sums_to_zero(rows),
        *_numbers_without_holes(rows),
        *_watchers_miss_nothing(watches, rows),
        *_every_second_has_a_cause(records, rows, now_ms),
    ]


# --- at every instant -----------------------------------------------------------------------------------


def _held(rows: Rows) -> list[tuple[Any, dict[str, Any], dict[str, Any]]]:
    live = rows("SELECT id, attempt, phase, path, shape, placement FROM workloads WHERE finished_ms IS NULL")
    return [
        (row, json.loads(row["shape"]), json.loads(row["placement"]))
        for row in live
        if row["phase"] in HOLDING
    ]


def _held_once(rows: Rows) -> Iterable[Breach]:
    """No GPU is given out beyond its thousand thousandths, no node beyond its GPUs."""
    taken: Counter[tuple[str, int]] = Counter()
    for _, shape, placement in _held(rows):
        for worker in placement["workers"]:
            for gpu in worker["gpus"]:
                taken[worker["node"], gpu] += min(shape["gpus"], 1000)
    sizes = {row["name"]: json.loads(row["body"])["gpus"] for row in rows("SELECT name, body FROM nodes")}
    for (node, gpu), amount in sorted(taken.items()):
        if amount > 1000:
            yield Breach("no GPU is held twice", f"{node}/{gpu} is given out {amount} thousandths")
        if gpu >= sizes.get(node, 0):
            yield Breach("no GPU is held twice", f"{node} has no GPU {gpu}")


def _within_max(rows: Rows) -> Iterable[Breach]:
    """Nothing is admitted above a max. A max that was lowered below what is held throws nobody out; but
    nothing may have been admitted there since."""
    used: Counter[tuple[str, str]] = Counter()
    members: defaultdict[str, list[str]] = defaultdict(list)
    for row, shape, placement in _held(rows):
        tenant, project, env = shape["queue"].split("/")
        for scope in (tenant, f"{tenant}/{project}", f"{tenant}/{project}/{env}"):
            used[scope, shape["gpu_class"]] += shape["gpus"] * len(placement["workers"])
            members[scope].append(row["id"])
    statement = (
        "SELECT name, from_revision, body FROM documents WHERE kind = 'Envelope' AND to_revision IS NULL"
    )
    for document in rows(statement):
        spec = json.loads(document["body"])["spec"]
        place = spec["scope"]
        scope = "/".join(place[part] for part in ("tenant", "project", "env") if place.get(part))
        for quota in spec["gpus"]:
            most = quota.get("max")
            amount = used[scope, quota["profileClass"]]
            if most is None or amount <= round(float(most) * 1000):
                continue
            since = _event_of_revision(rows, document["from_revision"])
            late = [id for id in members[scope] if _admitted_event(rows, id) > since]
            if late:
                what = f"{scope} holds {amount} thousandths of {quota['profileClass']}, max {most}"
                yield Breach("held never above a max", f"{what}; admitted since: {', '.join(late)}")


def _event_of_revision(rows: Rows, revision: int) -> int:
    told = rows("SELECT id, data FROM events WHERE type LIKE 'catalog.%' ORDER BY id DESC")
    return max((row["id"] for row in told if json.loads(row["data"]).get("revision") == revision), default=0)


def _admitted_event(rows: Rows, workload: str) -> int:
    told = rows("SELECT id, data FROM events WHERE type = 'workload.admitted' ORDER BY id DESC")
    return next((row["id"] for row in told if json.loads(row["data"])["workload"] == workload), 0)


def _meters_match_work(rows: Rows) -> Iterable[Breach]:
    """Who holds GPUs has exactly one open meter, of that many GPUs; nobody else has one."""
    meters = {
        row["id"]: row["gpu_milli"]
        for row in rows("SELECT id, gpu_milli FROM holdings WHERE until_ms IS NULL")
    }
    holders = {
        f"{row['id']}/{row['attempt']}": shape["gpus"] * len(placement["workers"])
        for row, shape, placement in _held(rows)
    }
    if meters != holders:
        yield Breach("who holds GPUs is metered", f"meters {meters}, holders {holders}")


# --- what clients were told -----------------------------------------------------------------------------


def _no_failures(records: Sequence[Record]) -> Iterable[Breach]:
    for record in records:
        if record.status is not None and record.status >= 500 and record.status != 503:
            yield Breach("the platform never fails", f"{record.method} {record.path}: {record.answer}")


def _acknowledged_is_present(records: Sequence[Record], rows: Rows) -> Iterable[Breach]:
    """What was answered with success is stored: decisions, runs, documents, keys, wishes to stop."""
    law = "acknowledged, therefore present"
    decisions = {row["id"] for row in rows("SELECT id FROM decisions")}
    newest = max((row["revision"] for row in rows("SELECT revision FROM revisions")), default=0)
    keys = {row["id"]: row for row in rows("SELECT id, revoked_ms FROM api_keys")}
    for record in records:
        if record.status not in (200, 201, 204, 422) or record.method == "GET":
            continue
        for decision in _decisions_in(record.answer):
            if decision not in decisions:
                yield Breach(law, f"{record.method} {record.path} was told of {decision}, which is not there")
        answer = record.answer if isinstance(record.answer, dict) else {}
        if record.path == "/v1/apply" and (answer.get("revision") or 0) > newest:
            yield Breach(law, f"revision {answer['revision']} is not there")
        if record.path == "/v1/keys" and record.status == 201 and answer["key"]["id"] not in keys:
            yield Breach(law, f"the key {answer['key']['id']} is not there")
        if record.method == "DELETE" and record.path.startswith("/v1/keys/"):
            row = keys.get(record.path.rpartition("/")[2])
            if row is not None and row["revoked_ms"] is None:
                yield Breach(law, f"{record.path} was revoked, and is in force")
    yield from _cancelled_is_cancelled(records, rows)


def _decisions_in(answer: Any) -> Iterable[str]:
    if isinstance(answer, dict):
        for result in answer.get("results") or ():
            if result.get("decision") and result.get("outcome") != "unchanged":
                yield result["decision"]["id"]


def _cancelled_is_cancelled(records: Sequence[Record], rows: Rows) -> Iterable[Breach]:
    """A cancelled run ends, or is on its way to. Runs of one path are in order, so each run that was
    there when the cancel was answered is over or told to stop."""
    live = {
        row["path"]: row
        for row in rows("SELECT path, submitted_ms, want, phase FROM workloads WHERE finished_ms IS NULL")
    }
    for record in records:
        if record.status != 200 or not record.path.endswith("/actions/cancel"):
            continue
        row = live.get(_component_of(record.path))
        if row is not None and row["want"] != "stop":
            later = [
                other
                for other in records
                if other.method == "POST"
                and _component_of(other.path, other.body) == _component_of(record.path)
                and not other.path.endswith("/actions/cancel")
                and (other.answered_ms is None or other.answered_ms >= record.sent_ms)
            ]
            if not later:
                yield Breach("acknowledged, therefore present", f"{record.path}, and it is {row['phase']}")


def _component_of(path: str, body: Any = None) -> str:
    """`project/env/name` of a request: from its address, or from the one document it applies."""
    parts = path.split("/")
    if "components" in parts and len(parts) >= 7:
        return f"{parts[3]}/{parts[5]}/{parts[6]}"
    if isinstance(body, Mapping) and body.get("kind") == "Component":
        return f"{body['metadata']['project']}/{body['spec']['env']}/{body['metadata']['name']}"
    return ""


def _at_most_once(records: Sequence[Record], rows: Rows) -> Iterable[Breach]:
    """However often a request was sent, and answered or not, it happened once at the most; and every
    request that was answered with success happened."""
    law = "not acknowledged, therefore at most once"
    asked: defaultdict[str, set[str]] = defaultdict(set)
    done: defaultdict[str, set[str]] = defaultdict(set)
    for number, record in enumerate(records):
        path = _component_of(record.path, record.body)
        if record.method != "POST" or not path or record.path.endswith("/actions/cancel"):
            continue
        name = record.key or f"#{number}"
        asked[path].add(name)
        outcomes = [one.get("outcome") for one in (_of(record.answer, "results") or ())]
        if record.status == 200 and (
            record.path.endswith("/rerun") or set(outcomes) & {"created", "changed"}
        ):
            done[path].add(name)
    runs = Counter(row["path"] for row in rows("SELECT path FROM workloads"))
    for path in sorted({*runs, *asked}):
        if runs[path] > len(asked[path]):
            yield Breach(law, f"{path} ran {runs[path]} times, asked for {len(asked[path])} times")
        if runs[path] < len(done[path]):
            told = "acknowledged, therefore present"
            yield Breach(told, f"{path} has {runs[path]} runs, {len(done[path])} were acknowledged")
    decisions = Counter(row["component"] for row in rows("SELECT component FROM decisions"))
    for path, count in sorted(decisions.items()):
        if count > len(asked[path]):
            yield Breach(law, f"{path} was decided {count} times, asked for {len(asked[path])} times")


def _of(answer: Any, name: str) -> Any:
    return answer.get(name) if isinstance(answer, dict) else None


def _same_key_same_answer(records: Sequence[Record]) -> Iterable[Breach]:
    """Of one request sent several times, every success says the same."""
    told: dict[tuple[str, str], Record] = {}
    for record in records:
        if not record.key or record.status is None or not 200 <= record.status < 300:
            continue
        before = told.setdefault((record.credential, record.key), record)
        if (before.status, _lasting(before.answer)) != (record.status, _lasting(record.answer)):
            yield Breach("same request, same answer", f"{record.key}: {before.answer} / {record.answer}")


def _lasting(answer: Any) -> str:
    return json.dumps(answer, sort_keys=True)


# --- work, money, numbers -------------------------------------------------------------------------------


def _started_once(starts: Iterable[tuple[str, int, int]], rows: Rows) -> Iterable[Breach]:
    law = "nothing is started twice"
    admitted: Counter[tuple[str, int]] = Counter()
    for row in rows("SELECT data FROM events WHERE type = 'workload.admitted'"):
        data = json.loads(row["data"])
        admitted[data["workload"], data["attempt"]] += 1
    for key, count in sorted(admitted.items()):
        if count > 1:
            yield Breach(law, f"attempt {key} was admitted {count} times")
    for start, count in sorted(Counter(starts).items()):
        if count > 1:
            yield Breach(law, f"worker {start} was started {count} times")
        if not admitted[start[0], start[1]]:
            yield Breach(law, f"worker {start} was started and never admitted")


def _billed_once(rows: Rows) -> Iterable[Breach]:
    """A closed holding is charged exactly the time between its beginning and its end, each segment at
    its price, rounded once; an open one not beyond what was posted in order."""
    law = "every GPU-millisecond is billed once"
    posted: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows("SELECT * FROM transfers ORDER BY holding, segment_ms, sequence"):
        posted[row["holding"]].append(row)
    holdings = {row["id"]: row for row in rows("SELECT * FROM holdings")}
    for unknown in sorted(posted.keys() - holdings.keys()):
        yield Breach(law, f"{unknown} was charged and never held")
    for id, holding in sorted(holdings.items()):
        if holding["until_ms"] is None:
            continue
        segments: defaultdict[int, list[Any]] = defaultdict(list)
        for row in posted[id]:
            segments[row["segment_ms"]].append(row)
        held = (holding["until_ms"] - holding["since_ms"]) * holding["gpu_milli"]
        charged = sum(row["gpu_us"] for row in posted[id])
        if charged != held and not _too_little_to_charge(held, charged, posted[id]):
            yield Breach(law, f"{id} held {held} GPU-us and is charged {charged}")
        for since, parts in sorted(segments.items()):
            if [part["sequence"] for part in parts] != list(range(len(parts))):
                yield Breach(law, f"{id}/{since} has postings {[part['sequence'] for part in parts]}")
            amount, price = sum(part["gpu_us"] for part in parts), parts[-1]["per_gpu_hour"] or 0
            exact = _half_even(amount * price, _GPU_US_PER_HOUR)
            if sum(part["micros"] for part in parts) != exact:
                yield Breach(law, f"{id}/{since} costs {exact}, posted in {len(parts)} parts")


def _too_little_to_charge(held: int, charged: int, parts: Sequence[Any]) -> bool:
    """Less than half a millionth of the currency is no posting."""
    price = max((part["per_gpu_hour"] or 0 for part in parts), default=10_000_000)
    return held - charged >= 0 and (held - charged) * price <= _GPU_US_PER_HOUR


def _half_even(numerator: int, denominator: int) -> int:
    whole, rest = divmod(numerator, denominator)
    return whole + (2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1))


def _sums_to_zero(rows: Rows) -> Iterable[Breach]:
    sums: Counter[tuple[str, str, str]] = Counter()
    for row in rows("SELECT source, id, currency, micros FROM entries"):
        sums[row["source"], row["id"], row["currency"]] += row["micros"]
    for name, micros in sorted(sums.items()):
        if micros:
            yield Breach("the ledger sums to zero", f"{'/'.join(name)} sums to {micros}")
    charged = {(row["source"], row["id"]) for row in rows("SELECT source, id FROM transfers")}
    if charged != {(source, id) for source, id, _ in sums}:
        yield Breach("the ledger sums to zero", "a transfer without entries, or entries without a transfer")
    spent: Counter[str] = Counter()
    for row in rows("SELECT tenant, micros FROM transfers"):
        spent[row["tenant"]] += row["micros"]
    budgets: Counter[str] = Counter()
    for row in rows("SELECT scope, spent FROM budgets"):
        if "/" not in row["scope"]:
            budgets[row["scope"]] += row["spent"]
    if +spent != +budgets:
        yield Breach("budgets are what was posted", f"posted {dict(spent)}, in budgets {dict(budgets)}")


def _numbers_without_holes(rows: Rows) -> Iterable[Breach]:
    for table, counter in (("events", "event"), ("audit", "audit")):
        ids = [row["id"] for row in rows(f"SELECT id FROM {table} ORDER BY id")]  # noqa: S608 (two names)
        newest = next(row["value"] for row in rows("SELECT * FROM counters") if row["name"] == counter)
        if ids != list(range(1, newest + 1)):
            missing = sorted({*range(1, newest + 1)} - {*ids})[:5]
            yield Breach("numbers have no holes", f"{table}: missing {missing}, newest {newest}")


def _watchers_miss_nothing(watches: Iterable[Watch], rows: Rows) -> Iterable[Breach]:
    newest = max((row["id"] for row in rows("SELECT id FROM events")), default=0)
    for watch in watches:
        last = newest if watch.live else (watch.ids[-1] if watch.ids else watch.after)
        if list(watch.ids) != list(range(watch.after + 1, last + 1)):
            heard = f"after {watch.after}: {len(watch.ids)} events to {watch.ids[-1:]}, newest {newest}"
            yield Breach("watchers miss nothing", heard)


def _every_second_has_a_cause(records: Sequence[Record], rows: Rows, now_ms: int) -> Iterable[Breach]:
    """The newest explanation of every component covers the whole time of its newest run, without a gap,
    and names a cause while it waits."""
    law = "every pending second has a cause"
    newest: dict[str, Record] = {}
    for record in records:
        if record.method == "GET" and record.path.endswith("/explanation") and record.status == 200:
            newest[_component_of(record.path)] = record
    present = "SELECT * FROM workloads WHERE id IN (SELECT workload FROM components)"
    runs = {row["path"]: row for row in rows(present)}
    for path, record in sorted(newest.items()):
        run = runs.get(path)
        if run is None or record.sent_ms < max(run["queued_ms"], run["finished_ms"] or 0):
            continue
        spans = record.answer["history"]
        at = run["submitted_ms"]
        for span in spans:
            if not span["cause"] or _ms(span["from"]) != at:
                yield Breach(law, f"{path}: {span} does not follow {at} ({spans})")
                break
            at = _ms(span["to"]) if span.get("to") else now_ms
        if run["phase"] == "Pending" and not record.answer.get("cause"):
            yield Breach(law, f"{path} waits without a cause")
        if not spans and (run["finished_ms"] or now_ms) > run["submitted_ms"]:
            yield Breach(law, f"{path} has no history")


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
