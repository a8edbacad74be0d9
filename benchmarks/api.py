"""What requests cost a real platform: CPU of its process per operation, over real HTTP.

A platform runs in a process of its own with its fleet held, so that what is submitted waits; clients
run in another. Per operation its CPU clock is read before the first request and after the last
answer, once the scheduler has caught up: the whole cost of a submit is counted, not only its answer.
At the end the platform is killed (-9) and started again, and a sample of what it had acknowledged
must be there.

With --peer the same work is asked of Windlass and of another platform in turns, and both are shown. The
peer is installed from the package index (once, under XDG_CACHE_HOME) and started on the loopback. If that
fails, the exit code is 2 and the reason is printed. SkyPilot without a cloud cannot hold work that waits: a
managed job ends as FAILED_PRECHECKS, and asking for GPUs fails with CloudError because its catalog is
not on a package index. Its submits and its queue are shown as '-'. dstack does all of it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys

from benchmarks import world
from benchmarks.clients import Found, Order
from benchmarks.clients import drive as carry_out
from benchmarks.measuring import rss_mb, spending
from benchmarks.peers.cache import Unavailable
from benchmarks.peers.comparing import PEERS, Sizes, compare
from benchmarks.platforms import Platform, running
from benchmarks.reporting import Report, parser

SUBMIT_MS, READ_MS, LIST_MS, SUBMITS_PER_S = 1.0, 0.5, 4.0, 800.0
UNAVAILABLE = 2  # exit code
_SAMPLE = 200


def measure(queued: int, submits: int, clients: int, reads: int, rounds: int) -> Report:
    report = Report(
        "api", {"queued": queued, "submits": submits, "clients": clients, "reads": reads, "rounds": rounds}
    )
    with running() as platform:
        platform.preload(queued)
        acknowledged = _submits(report, platform, submits, clients, rounds)
        _reads(report, platform, reads, rounds)
        report.add("memory", "memory after all that", rss_mb(platform.pid), "MB")
        _check_durable(platform, acknowledged)
    report.notes.append("after kill -9 and restart a sample of the acknowledged submits was there")
    return report


def _submits(report: Report, platform: Platform, submits: int, clients: int, rounds: int) -> list[str]:
    acknowledged: list[str] = []
    for key, many in (("submit", 1), ("submitParallel", clients)):
        best_ms, best_rate, median_ms, p99_ms = float("inf"), 0.0, float("inf"), float("inf")
        for number in range(rounds):
            prefix = f"{'one' if many == 1 else 'many'}{number}"
            documents = [world.queued(each, prefix) for each in range(max(1, submits // rounds))]
            order = Order("POST", ["/v1/apply"], [json.dumps(one) for one in documents], clients=many, keep=1)
            cpu_ms, found = _cost(platform, order)
            answer = json.loads(found.kept[0])["results"][0]
            assert answer["outcome"] == "created" and answer["decision"]["verdict"] == "admitted", answer
            acknowledged += [world.path_of(one) for one in documents]
            best_ms, best_rate = min(best_ms, cpu_ms), max(best_rate, len(documents) / found.seconds)
            median_ms, p99_ms = min(median_ms, found.median_s * 1e3), min(p99_ms, found.p99_s * 1e3)
        who = f"{many} client" + ("s" if many > 1 else "")
        budget = SUBMITS_PER_S if many > 1 else None
        report.add(f"{key}CpuMs", f"submit, {who}: server CPU", best_ms, "ms", SUBMIT_MS)
        report.add(
            f"{key}PerSecond", f"submit, {who}: rate", best_rate, "/s", budget, at_least=True, by_clock=True
        )
        report.add(f"{key}MedianMs", f"submit, {who}: median answer", median_ms, "ms")
        report.add(f"{key}P99Ms", f"submit, {who}: p99 answer", p99_ms, "ms")
    return acknowledged


def _reads(report: Report, platform: Platform, reads: int, rounds: int) -> None:
    waiting = world.path_of(world.queued(0, "one0"))
    done = world.path_of(world.finished())
    for key, what, path, budget, share in (
        ("readPending", "read a waiting component", waiting, READ_MS, 1),
        ("readFinished", "read a finished component", done, READ_MS, 1),
        ("list", "list of 100", "/v1/components?limit=100", LIST_MS, 8),
        ("explanation", "explanation of a waiting component", f"{waiting}/explanation", None, 2),
        ("queue", "queue, first 100", "/v1/queue?limit=100", None, 8),
    ):
        order = Order("GET", [path], requests=max(1, reads // share // rounds), keep=1)
        costs = []
        for _ in range(rounds):
            cpu_ms, found = _cost(platform, order)
            _check_read(key, json.loads(found.kept[0]))
            costs.append(cpu_ms)
        report.add(f"{key}CpuMs", f"{what}: server CPU", min(costs), "ms", budget)


def _cost(platform: Platform, order: Order) -> tuple[float, Found]:
    """Server CPU milliseconds per request."""
    with spending(platform.pid) as spent:
        found = carry_out(platform.port, platform.secret, order)
        platform.settle()
    assert set(found.statuses) == {"200"}, f"{order.paths[0]}: {found.statuses} {found.kept[:1]}"
    return spent.cpu_s * 1e3 / found.answers, found


def _check_read(key: str, answer: dict[str, object]) -> None:
    match key:
        case "readPending" | "readFinished":
            status = answer["status"]
            assert isinstance(status, dict)
            assert status["phase"] == ("Pending" if key == "readPending" else "Succeeded"), answer
        case "explanation":
            assert answer["cause"] == "capacity" and answer["position"], answer
        case _:
            listed = answer.get("items") or answer.get("waiting")
            assert isinstance(listed, list) and listed, answer


def _check_durable(platform: Platform, acknowledged: list[str]) -> None:
    platform.crash_and_restart()
    sample = random.Random(0).sample(acknowledged, min(_SAMPLE, len(acknowledged)))
    order = Order("GET", sample, requests=len(sample))
    found = carry_out(platform.port, platform.secret, order)
    assert found.statuses == {"200": len(sample)}, f"acknowledged and lost: {found.statuses}"


def arguments() -> argparse.ArgumentParser:
    made = parser("api", __doc__)
    made.add_argument("--queued", type=int, default=0, help="waiting before it begins; in full 100000")
    made.add_argument("--submits", type=int, default=4000, help="with one client, and again with many")
    made.add_argument("--clients", type=int, default=16, help="for the parallel submits")
    made.add_argument("--reads", type=int, default=4000, help="of a component; fewer of what costs more")
    made.add_argument("--rounds", type=int, default=3, help="the best of so many is shown")
    made.add_argument("--peer", choices=sorted(PEERS), help="compare with this one; its sizes are its own")
    return made


def _beside(peer: str, *, as_json: bool) -> int:
    try:
        return compare(peer, Sizes()).tell(as_json=as_json)
    except Unavailable as why:
        print(f"{peer} cannot be measured here. {why}", file=sys.stderr)
        return UNAVAILABLE


def main() -> int:
    asked = arguments().parse_args()
    if asked.peer:
        return _beside(asked.peer, as_json=asked.json)
    report = measure(asked.queued, asked.submits, asked.clients, asked.reads, asked.rounds)
    return report.tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
