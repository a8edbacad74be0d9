"""What a quiet tenant notices when another floods the platform: its time to an answer, with and without.

A platform runs in a process of its own. One client of a quiet tenant submits, one request after the other:
first alone, then while sixteen clients of another tenant submit as fast as they can. Twice: with a limit
nobody reaches, so that only the store's fair turns protect the quiet one, and with a limit that the
flood meets. A flooding client does not heed Retry-After: it asks again at once. Then the same with reads:
the quiet one reads one component of its own while a crowd, with no limit it reaches, asks for long lists.

Answers are timed by the clock, and clients, platform and whatever else runs share the machine, so only
ratios have budgets: the quiet tenant's time with the flood, by its time without.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor

from benchmarks import world
from benchmarks.clients import Found, Order, drive
from benchmarks.platforms import UNREACHED, Platform, running
from benchmarks.reporting import Report, parser

LIMIT = "400:400"
QUIET, NOISY = 0, 1
"""Numbers of tenants, and of a project of each."""
MEDIAN_TIMES = {"fair": 20.0, "limited": 4.0, "reading": 60.0}
P99_TIMES = {"fair": 20.0, "limited": 8.0, "reading": 60.0}
"""Reading: an answer of a few tenths of a millisecond waits for a list or two of some milliseconds each, and
not for as many as there are clients."""
LISTED = 200


def measure(submits: int, flood: int, clients: int, readers: int) -> Report:
    report = Report("fairness", {"submits": submits, "flood": flood, "clients": clients, "limit": LIMIT})
    for key, what, limit in (("fair", "fair turns only", UNREACHED), ("limited", "and limits", LIMIT)):
        with running(limit=limit) as platform:
            _measure(report, platform, key, what, submits, flood, clients)
    with running(limit=UNREACHED) as platform:
        _measure_reads(report, platform, submits, readers)
    return report


def _measure_reads(report: Report, platform: Platform, reads: int, readers: int) -> None:
    """More lists are ordered than can be had while the quiet one reads."""
    quiet, noisy = _developer(platform, QUIET), _developer(platform, NOISY)
    drive(platform.port, quiet, _order(QUIET, "read", 1))
    drive(platform.port, noisy, _order(NOISY, "listed", LISTED))
    platform.settle()
    one = Order("GET", [f"/v1/projects/project-{QUIET}/components/prod/read-0"], requests=reads)
    lists = Order("GET", ["/v1/components?limit=500"], clients=readers, requests=max(10, reads) * 15)
    drive(platform.port, quiet, one)
    alone = drive(platform.port, quiet, one)
    with ThreadPoolExecutor(1) as beside:
        flooding = beside.submit(drive, platform.port, noisy, lists)
        crowded = drive(platform.port, quiet, one)
        outlasted = not flooding.done()
        flooding.result()
    assert set(alone.statuses) == set(crowded.statuses) == {"200"}
    _tell(report, "reading", f"{readers} clients ask for lists", alone, crowded)
    if not outlasted:
        report.notes.append("reading: the lists ended before the quiet tenant was done")


def _measure(
    report: Report, platform: Platform, key: str, what: str, submits: int, flood: int, clients: int
) -> None:
    quiet, noisy = _developer(platform, QUIET), _developer(platform, NOISY)
    drive(platform.port, quiet, _order(QUIET, "warm", 20))
    alone = drive(platform.port, quiet, _order(QUIET, "alone", submits))
    platform.settle()
    with ThreadPoolExecutor(1) as beside:
        flooding = beside.submit(drive, platform.port, noisy, _order(NOISY, "flood", flood, clients))
        crowded = drive(platform.port, quiet, _order(QUIET, "crowded", submits))
        outlasted = not flooding.done()
        flooded = flooding.result()
    for found in (alone, crowded):
        assert set(found.statuses) == {"200"}, f"the quiet tenant was refused: {found.statuses}"
    _tell(report, key, what, alone, crowded)
    refused = flooded.statuses.get("429", 0) / flooded.answers
    report.add(f"{key}RefusedPercent", f"flood refused, {what}", 100 * refused, "%")
    if not outlasted:
        report.notes.append(f"{what}: the flood ended before the quiet tenant was done; use a larger --flood")


def _tell(report: Report, key: str, what: str, alone: Found, crowded: Found) -> None:
    for name, title, before, after, budget in (
        ("Median", "median", alone.median_s, crowded.median_s, MEDIAN_TIMES[key]),
        ("P99", "p99", alone.p99_s, crowded.p99_s, P99_TIMES[key]),
    ):
        report.add(f"{key}Alone{name}Ms", f"quiet tenant alone, {what}: {title}", before * 1e3, "ms")
        report.add(f"{key}Flood{name}Ms", f"quiet tenant beside a flood, {what}: {title}", after * 1e3, "ms")
        times = f"{title} beside the flood by alone, {what}"
        report.add(f"{key}{name}Times", times, after / before, "x", budget, by_clock=True)


def _developer(platform: Platform, tenant: int) -> str:
    """The secret of a new key of a tenant's developer."""
    asked = {"name": f"dev-{tenant}", "role": "developer", "tenant": f"tenant-{tenant}"}
    made = platform.post("/v1/keys", asked)
    secret: str = made["secret"]
    return secret


def _order(tenant: int, prefix: str, count: int, clients: int = 1) -> Order:
    documents = [
        world.component(f"project-{tenant}", "prod", f"{prefix}-{each}", gpus=1) for each in range(count)
    ]
    return Order("POST", ["/v1/apply"], [json.dumps(one) for one in documents], clients=clients)


def arguments() -> argparse.ArgumentParser:
    made = parser("fairness", __doc__)
    made.add_argument("--submits", type=int, default=300, help="of the quiet tenant, alone and again")
    made.add_argument("--flood", type=int, default=40_000, help="requests of the other one")
    made.add_argument("--clients", type=int, default=16, help="of the flood")
    made.add_argument("--readers", type=int, default=64, help="clients that ask for lists")
    return made


def main() -> int:
    asked = arguments().parse_args()
    return measure(asked.submits, asked.flood, asked.clients, asked.readers).tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
