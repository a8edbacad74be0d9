"""A standby that was behind takes over: what was answered may be gone, and no server goes on as if it were
there."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml
from tests.control.documents import CATALOG, intent
from tests.control.engines import POSTGRES
from tests.journeys.platforms import Away, ask
from tools.postgres_server import PASSWORD, PostgresServer, Session, free_port, standby_of

pytestmark = pytest.mark.skipif(not POSTGRES, reason="about standbys of PostgreSQL: `make test-pg`")

WINDLASS = [sys.executable, "-m", "windlass.experience.cli"]
PATIENCE_S = 60.0


@pytest.fixture
def pair(place: Path) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    primary = PostgresServer(place / "one")
    primary.create()
    primary.start()
    standby = standby_of(primary, place / "two")
    try:
        yield primary, standby
    finally:
        for server in (primary, standby):
            server.stop("immediate")


def eventually(look: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if look():
                return
        except Away:
            pass
        time.sleep(0.05)
    raise AssertionError("it did not come true")


def test_a_server_whose_database_went_back_in_time_says_so_and_begins_anew(
    place: Path, pair: tuple[PostgresServer, PostgresServer]
) -> None:
    primary, standby = pair
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    url = f"postgresql://windlass:{PASSWORD}@{hosts}/postgres"
    key, log, address = place / "key", place / "log", f"127.0.0.1:{free_port()}"
    subprocess.run([*WINDLASS, "migrate", "--database", primary.url(), "--admin-key", str(key)], check=True)
    secret = key.read_text().strip()

    def call(method: str, path: str, body: object = None) -> tuple[int, Any]:
        return ask(address, secret, method, path, body, timeout_s=20)

    def status_of(name: str) -> int:
        return call("GET", f"/v1/projects/nlp/components/prod/{name}")[0]

    with log.open("wb") as written:
        command = [*WINDLASS, "server", "--database", url, "--listen", address]
        server = subprocess.Popen(command, stdout=written, stderr=written)
    try:
        eventually(lambda: call("GET", "/readyz")[0] == 200)
        assert call("POST", "/v1/apply", [one for one in yaml.safe_load_all(CATALOG) if one])[0] == 200
        assert call("POST", "/v1/apply", intent("nlp/prod/kept", 1))[0] == 200
        standby.start()
        eventually(lambda: _has(standby, "nlp/prod/kept"))
        standby.stop("fast")
        tier = {"apiVersion": "windlass.dev/v1", "kind": "Tier", "metadata": {"name": "late"}}
        assert (
            call(
                "POST", "/v1/apply", {**tier, "spec": {"priority": 1, "preempts": False, "preemptible": True}}
            )[0]
            == 200
        )
        assert call("POST", "/v1/apply", intent("nlp/prod/lost", 1))[0] == 200
        primary.stop("immediate")
        standby.start()
        standby.promote()
        eventually(lambda: log.read_text().count("Windlass serves at") == 2)
        eventually(lambda: call("GET", "/readyz")[0] == 200)
        assert "went back in time" in log.read_text()
        eventually(lambda: status_of("lost") == 404)
        assert status_of("kept") == 200
        assert call("GET", "/v1/tiers/late")[0] == 404, "the catalog is the stored one"
        assert call("POST", "/v1/apply", intent("nlp/prod/next", 1))[0] == 200
    finally:
        server.kill()
        server.wait()


def _has(standby: PostgresServer, path: str) -> bool:
    session = Session(standby.url())
    try:
        return bool(session.rows("SELECT 1 FROM workloads WHERE path = $1", path))
    except asyncpg.UndefinedTableError:
        return False  # so far behind
    finally:
        session.close()
