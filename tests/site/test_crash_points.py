"""Kill -9 at every point that touches the world, one after the other, and look what is left.

Python tells an audit hook before each open, rename, mkdir, lock, fork and exec. A hook that kills
its process at the n-th of them visits every crash point there is, without a clock or a chance.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest
from tests.site.worlds import LocalWorld, assignment, eventually

from windlass.contracts.agent import Assignment
from windlass.core.errors import Unavailable
from windlass.site.orchestrators.local.orchestrator import LocalOrchestrator
from windlass.site.orchestrators.local.processes import has_supervisor

COUNT = ("sh", "-c", "echo started >> ../count")

HOOK = """
import os, signal, sys
WATCHED = ("open", "os.", "fcntl.", "subprocess.Popen", "shutil.", "socket.bind", "socket.sendto")

def die_at(number):
    left = [number]
    def hook(event, arguments):
        if event.startswith(WATCHED):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
"""

# Forks one doomed server for each crash point, until one gets through; says how many there were.
SERVERS = HOOK + textwrap.dedent("""
    import asyncio, msgspec
    from pathlib import Path
    from windlass.contracts.agent import Assignment
    from windlass.site.nodes.inventory import simulated
    from windlass.site.orchestrators.local.orchestrator import LocalOrchestrator

    async def serve(data):
        site = LocalOrchestrator(data, simulated("h100-80gx8", nodes=2), clock=lambda: 0)
        await site.open()
        die_at(number)
        await site.ensure(assignment)
        os._exit(0)

    assignment = msgspec.json.decode(sys.argv[2], type=Assignment)
    number = 0
    while True:
        number += 1
        child = os.fork()
        if child == 0:
            asyncio.run(serve(Path(sys.argv[1]) / str(number)))
        if os.waitpid(child, 0)[1] == 0:
            break
    print(number)
""")


def starts(world: LocalWorld, worker: int) -> int:
    path = world.folder(worker) / "count"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_server_killed_anywhere_while_it_starts_a_gang_starts_each_worker_exactly_once(
    tmp_path: Path,
) -> None:
    wanted = assignment("wl_1", *COUNT, workers=2, gpus=(0, 1))
    doomed = subprocess.run(
        [sys.executable, "-c", SERVERS, str(tmp_path), msgspec.json.encode(wanted).decode()],
        check=True,
        capture_output=True,
        text=True,
    )
    points = int(doomed.stdout)
    assert points > 20  # else the hook sees nothing and this test proves nothing
    for number in range(1, points + 1):
        world = LocalWorld(tmp_path / str(number))
        world.ensure(wanted)
        seen = world.gone()
        assert (seen.exit_code, [starts(world, 0), starts(world, 1)]) == (0, [1, 1]), f"crash point {number}"
        assert world.orchestrator().holdings.held() == {}


class Doomed(LocalWorld):
    """Its supervisors die at their n-th touch of the world."""

    def __init__(self, data: Path, number: int) -> None:
        super().__init__(data)
        data.mkdir()
        self.python = data / "python"
        self.python.write_text(
            f"#!{sys.executable} -IS\n{HOOK}\ndie_at({number})\n"
            "path = sys.argv[3]\nsys.argv = sys.argv[3:]\n"
            "exec(compile(open(path).read(), path, 'exec'), {'__name__': '__main__'})\n"
        )
        self.python.chmod(0o755)

    def orchestrator(self) -> LocalOrchestrator:
        return LocalOrchestrator(self.data, self.inventory, clock=lambda: 0, python=str(self.python))


def ensure_despite(world: LocalWorld, wanted: Assignment) -> None:
    try:
        world.ensure(wanted)
    except Unavailable:
        return  # it died before it detached itself, and the server is told so


def test_a_supervisor_killed_anywhere_never_lets_the_worker_start_twice(tmp_path: Path) -> None:
    wanted = assignment("wl_1", *COUNT)
    outcomes = set()
    for number in range(1, 200):
        doomed = Doomed(tmp_path / str(number), number)
        ensure_despite(doomed, wanted)
        eventually(lambda doomed=doomed: not has_supervisor(doomed.folder()))  # type: ignore[misc]
        survived = (state := doomed.state()) is not None and state.ended_ms is not None
        world = LocalWorld(doomed.data)  # the next server has supervisors that live
        world.ensure(wanted)
        seen = world.gone()
        outcomes.add(seen.detail or "ran")
        if seen.exit_code == 0:
            assert starts(world, 0) == 1, f"crash point {number}"
        else:
            assert (starts(world, 0) <= 1, seen.detail in ("lost", "killed by SIGKILL")) == (True, True)
        if survived and seen.detail == "":
            break
    else:
        pytest.fail("no supervisor ever got through")
    assert number > 20
    assert outcomes >= {"ran", "lost"}
