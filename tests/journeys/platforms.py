"""A real platform in a process of its own, which a test may kill and start again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, TypeVar

from tests.site.worlds import LocalWorld

T = TypeVar("T")
PATIENCE_S = 60.0

_PROGRAM = """
import json, sys
from pathlib import Path
from windlass.core.bounds import Bounds
from windlass.platform import UpOptions, run_up

def tell(news):
    print(json.dumps({"address": news.address, "secret": news.secret}), flush=True)

data, otlp, bounds = Path(sys.argv[1]), sys.argv[2], Bounds(**json.loads(sys.argv[3]))
run_up(UpOptions(data=data, port=0, gpus="h100-80gx4", nodes=1, context=None, otlp=otlp, bounds=bounds), tell)
"""


class Away(Exception):
    """The platform did not answer; nobody knows whether it heard."""


def ask(
    address: str,
    key: str,
    method: str,
    path: str,
    body: object = None,
    *,
    once: str = "",
    timeout_s: float = PATIENCE_S,
) -> tuple[int, Any]:
    """One request on a connection of its own. Raises Away when nobody knows whether it was heard."""
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    if once:
        headers["idempotency-key"] = once
    connection = HTTPConnection(address, timeout=timeout_s)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else b"", headers)
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, HTTPException) as error:
        raise Away(str(error)) from error
    finally:
        connection.close()
    is_json = "json" in (answer.headers["content-type"] or "")
    return answer.status, json.loads(content) if is_json and content else content.decode()


@dataclass
class Platform:
    folder: Path
    key: str = ""
    otlp: str = ""
    bounds: Mapping[str, float] = field(default_factory=dict)
    preface: str = ""  # what its process does first: a promise of minutes may be shortened
    address: str = ""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Returns the starter's own key, which is new each time."""
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        errors = (self.folder / "stderr").open("ab")
        with errors:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    self.preface + _PROGRAM,
                    str(self.folder / "data"),
                    self.otlp,
                    json.dumps(dict(self.bounds)),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "TMPDIR": str(scratch)},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.folder / "stderr").read_text()
        news = json.loads(line)
        self.address = news["address"].removeprefix("http://")
        secret: str = news["secret"]
        return secret

    def kill(self) -> None:
        """As a power cut would: no time to say goodbye."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        assert self.process is not None and self.process.stdout is not None
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        return code

    def call(
        self, method: str, path: str, body: object = None, *, key: str = "", once: str = ""
    ) -> tuple[int, Any]:
        return ask(self.address, key or self.key, method, path, body, once=once)

    def get(self, path: str) -> Any:
        status, answer = self.call("GET", path)
        assert status == 200, answer
        return answer


@contextmanager
def platform(folder: Path) -> Iterator[Platform]:
    """Whatever happens in the block, neither the platform nor a job outlives it."""
    subject = Platform(folder)
    try:
        yield subject
    finally:
        if subject.process is not None and subject.process.poll() is None:
            subject.kill()
        if (folder / "data" / "site").exists():
            LocalWorld(folder / "data").end_everything()


def eventually(look: Callable[[], T | None], what: str) -> T:
    """The first true answer. Polls: another process tells nobody when it gets somewhere."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true within {PATIENCE_S:.0f} s")
