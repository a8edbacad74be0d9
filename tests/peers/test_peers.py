"""Peers are measured fairly and leave nothing behind. None is installed here: that needs an index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.peers import cache
from benchmarks.peers.comparing import PEERS, Line
from benchmarks.peers.family import Family

ROOT = Path(__file__).parents[2]
# A server with a child in a session of its own, as daemons have; both wait for nobody.
SERVER = """
import subprocess, sys
child = [sys.executable, "-c", "print(flush=True); import signal; signal.pause()"]
detached = subprocess.Popen(child, stdout=subprocess.PIPE, start_new_session=True)
detached.stdout.readline()
sum(range(2_000_000))
print(detached.pid, flush=True)
import signal; signal.pause()
"""


@pytest.mark.slow
def test_a_server_s_family_counts_and_ends_with_its_detached_children(tmp_path: Path) -> None:
    environ = {**os.environ, "HOME": str(tmp_path)}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdout is not None
    family = Family(server.pid, tmp_path)
    try:
        detached = int(server.stdout.readline())
        assert set(family.members()) == {server.pid, detached}
        assert family.cpu_s() > 0
        assert family.memory_mb() > 1
    finally:
        family.end(server)
        server.stdout.close()
    assert family.members() == []
    assert not Path(f"/proc/{detached}/exe").exists()


@pytest.mark.parametrize("peer", sorted(PEERS))
def test_a_peer_is_pinned_completely_and_cached_where_the_user_says(
    peer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lines = cache.pins(peer).splitlines()
    assert all("==" in line and "@" not in line and "//" not in line for line in lines)
    assert cache.folder_of(peer).is_relative_to(tmp_path)
    assert cache.pinned_version(peer) in cache.folder_of(peer).name


def test_times_say_how_much_better_windlass_is_whichever_way_better_lies() -> None:
    assert Line("a", "cost", "ms", 2.0, 6.0).times == 3.0
    assert Line("a", "rate", "/s", 600.0, 200.0, more_is_better=True).times == 3.0
    assert Line("a", "cost", "ms", 6.0, 2.0).times == pytest.approx(1 / 3)
    assert Line("a", "cost", "ms", 6.0, None).times is None


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_is_explained_with_exit_code_2(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.api", "--peer", "dstack"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "dstack cannot be measured here" in done.stderr
    assert "No matching distribution" in done.stderr
