"""Everything the performance page shows, measured in one go: `make performance`.

Runs the comparison with each peer, and Windlass alone with a long queue; keeps what was found in
docs/performance.json and writes docs/performance.md and docs/performance.svg from that file. The page
is a function of the file, and a test keeps it so: numbers and sentences cannot drift apart.
`--render` writes page and picture again without measuring.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.measuring import machine
from benchmarks.peers.comparing import PEERS
from benchmarks.performance_page import page, picture
from benchmarks.platforms import ROOT

DOCS = ROOT / "docs"
_PATIENCE_S = 600
_ALONE = {
    "api": ["--queued", "10000", "--submits", "1200", "--reads", "900"],
    "idle": ["--queued", "10000", "--seconds", "4"],
}


def measure(day: str) -> dict[str, Any]:
    before = machine()
    began = time.monotonic()
    peers = [_run("api", ["--peer", peer]) for peer in sorted(PEERS)]
    alone = [_run(name, arguments) for name, arguments in _ALONE.items()]
    return {
        "date": day,
        "machine": {key: value for key, value in before.items() if key != "load"},
        "load": {"before": before["load"], "after": machine()["load"]},
        "seconds": round(time.monotonic() - began),
        "peers": [{key: value for key, value in one.items() if key != "machine"} for one in peers],
        "alone": [{"settings": one["settings"], "measures": one["measures"]} for one in alone],
    }


def _run(name: str, arguments: list[str]) -> dict[str, Any]:
    """In a process of its own, as `make bench` does; what it says of an installation is passed on."""
    print(f"{name} {' '.join(arguments)} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=_PATIENCE_S, check=False
    )
    if not done.stdout:
        raise SystemExit(done.returncode or 1)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def write(result: dict[str, Any], folder: Path) -> None:
    (folder / "performance.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (folder / "performance.md").write_text(page(result), encoding="utf-8")
    (folder / "performance.svg").write_text(picture(result), encoding="utf-8")


def arguments() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.performance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--date", type=date.fromisoformat, help="the day the page names, as 2026-01-31")
    made.add_argument("--render", action="store_true", help="only write the page from the stored result")
    made.add_argument("--json", action="store_true", help="print the result instead of writing files")
    return made


def main() -> int:
    made = arguments()
    asked = made.parse_args()
    if asked.render:
        write(json.loads((DOCS / "performance.json").read_text(encoding="utf-8")), DOCS)
        return 0
    if asked.date is None:
        made.error("say the day with --date, as 2026-01-31")
    result = measure(asked.date.isoformat())
    if asked.json:
        print(json.dumps(result, indent=1))
    else:
        write(result, DOCS)
        print(f"{DOCS / 'performance.md'}: written after {result['seconds']} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
