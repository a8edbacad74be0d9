"""The whole API against its own description, by schemathesis, on a private platform with the demo's catalog.

No 5xx, no status, content type, header or body the description does not name; seeded, and bounded in
examples and time. schemathesis lives in the cache folder, not among the project's dependencies.

    python -m tools.api_fuzz [--seed N] [--examples N] [schemathesis options]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.wheels import environment_of

WHEEL = "schemathesis==4.32.5"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "refusals_are_known",
)
_MOST_S = 600
_PLATFORM = """
import json, sys
from pathlib import Path
from windlass.platform import UpOptions, run_up

def tell(news):
    print(json.dumps({"address": news.address, "secret": news.secret}), flush=True)

run_up(UpOptions(data=Path(sys.argv[1]), port=0, gpus="h100-80gx8", nodes=1, context=None, demo=True), tell)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="the API against its description")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=15)
    own, more = parser.parse_known_args()
    program = _schemathesis()
    with tempfile.TemporaryDirectory(prefix="windlass-api-") as folder, _platform(Path(folder)) as (at, key):
        asked = [
            *(str(program), "run", f"{at}/openapi.json", "--phases", "examples,coverage,fuzzing"),
            *("--checks", ",".join(CHECKS), "--max-examples", str(own.examples), "--seed", str(own.seed)),
            *("--header", f"Authorization: Bearer {key}", "--request-timeout", "20", "--warnings", "off"),
            *("--suppress-health-check", "all", "--workers", "1", "--continue-on-failure", *more),
        ]
        hooks = {"SCHEMATHESIS_HOOKS": "tools.api_hooks", "PYTHONPATH": str(Path(__file__).parents[1])}
        done = subprocess.run(asked, env={**os.environ, **hooks}, cwd=folder, timeout=_MOST_S, check=False)
    if done.returncode:
        print(f"repeat it with: python -m tools.api_fuzz --seed {own.seed} --examples {own.examples}")
    return done.returncode


@contextmanager
def _platform(folder: Path) -> Iterator[tuple[str, str]]:
    own = {**os.environ, "WINDLASS_CONFIG": str(folder / "config.yaml")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _PLATFORM, str(folder / "data")],
            stdout=subprocess.PIPE,
            stderr=log,
            env=own,
        )
    assert process.stdout is not None
    try:
        told = process.stdout.readline()
        if not told:
            raise SystemExit((folder / "log").read_text())
        news = json.loads(told)
        yield news["address"], news["secret"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        process.stdout.close()


def _schemathesis() -> Path:
    return environment_of(WHEEL, with_dependencies=True) / "bin" / "schemathesis"


if __name__ == "__main__":
    sys.exit(main())
