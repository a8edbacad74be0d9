"""What it costs to tell many: so many event streams (SSE) open, while so many events a second happen.

The events are made by submits at a steady pace. CPU is that of the platform with the watchers less that
without them, at the same pace; every watcher must have heard every event.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time

from benchmarks import world
from benchmarks.clients import Order, drive
from benchmarks.measuring import rss_mb, spending
from benchmarks.platforms import ROOT, Platform, running
from benchmarks.reporting import Report, parser

CORE_PERCENT = 50.0
_WATCH = "watch"
_OPENED = "opened"
_EACH = 50  # streams with one key


def measure(watchers: int, per_s: int, seconds: int) -> Report:
    report = Report("watchers", {"watchers": watchers, "perSecond": per_s, "seconds": seconds})
    with running() as platform:
        alone = _pace(platform, "alone", per_s, seconds)
        listening = _Listening(platform, watchers, per_s * seconds)
        together = _pace(platform, "heard", per_s, seconds)
        heard = listening.end()
        assert heard >= watchers * per_s * seconds, f"{heard} of {watchers * per_s * seconds} were heard"
        told = f"{watchers} watchers, {per_s} events/s"
        report.add("watchersPercent", f"{told}: CPU", max(0.0, together - alone), "%", CORE_PERCENT)
        report.add("memory", f"{told}: memory", rss_mb(platform.pid), "MB")
    return report


def _pace(platform: Platform, prefix: str, per_s: int, seconds: int) -> float:
    """The share of a core that so many submits a second take, in percent."""
    with spending(platform.pid) as spent:
        began = time.perf_counter()
        for second in range(seconds):
            bodies = [json.dumps(world.queued(second * per_s + each, prefix)) for each in range(per_s)]
            found = drive(platform.port, platform.secret, Order("POST", ["/v1/apply"], bodies))
            assert found.statuses == {"200": per_s}, found.statuses
            time.sleep(max(0.0, began + second + 1 - time.perf_counter()))
        took_s = time.perf_counter() - began
    return spent.cpu_s / took_s * 100


class _Listening:
    """Watchers in a process of their own: their work is not the platform's."""

    def __init__(self, platform: Platform, watchers: int, events: int) -> None:
        command = [sys.executable, "-m", "benchmarks.watchers", _WATCH, str(platform.port)]
        self._process = subprocess.Popen(
            [*command, str(watchers), str(events)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "BENCHMARK_SECRET": " ".join(_keys(platform, -(-watchers // _EACH)))},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode().strip()
        assert line == _OPENED, line

    def end(self) -> int:
        assert self._process.stdout is not None
        heard = json.loads(self._process.stdout.readline())
        self._process.stdout.close()
        self._process.wait(30)
        return int(heard)


def _keys(platform: Platform, count: int) -> list[str]:
    """Nobody may have a thousand streams alone."""
    asked = [json.dumps({"name": f"watcher {n}", "role": "platform-viewer"}) for n in range(count)]
    order = Order("POST", ["/v1/keys"], asked, keep=count)
    return [json.loads(one)["secret"] for one in drive(platform.port, platform.secret, order).kept]


async def _watch(port: int, watchers: int, events: int) -> None:
    """Open them all, say so, and count what each hears until it has heard enough or a minute has passed."""
    secrets = os.environ["BENCHMARK_SECRET"].split()
    heard = 0

    async def one(number: int) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        bearer = f"Authorization: Bearer {secrets[number // _EACH]}"
        lines = ["GET /v1/events?watch=true HTTP/1.1", "Host: localhost", bearer, "", ""]
        writer.write("\r\n".join(lines).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head, head
        kept.append(writer)
        return reader

    async def listen(reader: asyncio.StreamReader) -> None:
        nonlocal heard
        found = 0
        while found < events:
            found += (await reader.read(1 << 16)).count(b"event: component.submitted")
        heard += found

    kept: list[asyncio.StreamWriter] = []
    readers = [await one(number) for number in range(watchers)]
    print(_OPENED, flush=True)
    tasks = [asyncio.create_task(listen(reader)) for reader in readers]
    await asyncio.wait(tasks, timeout=120)
    print(heard, flush=True)


def arguments() -> argparse.ArgumentParser:
    made = parser("watchers", __doc__)
    made.add_argument("--watchers", type=int, default=1000, help="streams open at once")
    made.add_argument("--per-second", type=int, default=100, help="events a second")
    made.add_argument("--seconds", type=int, default=5, help="for so long, without and with them")
    return made


def main() -> int:
    if sys.argv[1:2] == [_WATCH]:
        asyncio.run(_watch(*map(int, sys.argv[2:5])))
        return 0
    asked = arguments().parse_args()
    return measure(asked.watchers, asked.per_second, asked.seconds).tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
