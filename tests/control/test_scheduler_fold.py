"""What a replica that follows makes of rows it sees late, in whatever order they last changed: the engine
ends up with exactly what the rows say is held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.core.scheduling.worlds import World as Engine
from tests.core.scheduling.worlds import on, shape

from windlass.control.db.workloads import WorkloadRecord
from windlass.control.scheduler.fold import Known, fold, freeing_first
from windlass.core.scheduling.engine import follow
from windlass.core.units import Ms


def row(name: str, **facts: Any) -> WorkloadRecord:
    """A run of `p/e/<name>` that waits for a GPU, or whatever `facts` make of it."""
    basis: dict[str, Any] = {
        "id": f"wl_{name}",
        "component": f"cmp_{name}",
        "tenant": "a",
        "path": f"p/e/{name}",
        "run": 1,
        "attempt": 0,
        "phase": "Pending",
        "generation": 1,
        "seq": 1,
        "line": "",
        "shape": shape("a"),
        "manifest": None,
        "tier": "gold",
        "currency": "USD",
        "submitted": Ms(0),
        "queued": Ms(0),
    }
    return WorkloadRecord(**{**basis, **facts})


def on_gpu(name: str, gpu: int, attempt: int = 1) -> WorkloadRecord:
    return row(name, phase="Running", attempt=attempt, want="run", placement=on(("n1", (gpu,))))


class Follower:
    def __init__(self) -> None:
        self.engine = Engine()
        self.known: dict[str, Known] = {}

    def sees(self, *rows: WorkloadRecord) -> None:
        events = [event for row in rows for event in fold(row, self.known)]
        self.engine.state = follow(self.engine.state, freeing_first(events), Ms(0))

    @property
    def taken(self) -> list[int]:
        """The GPUs the engine would give to nobody."""
        left = self.engine.state.fleet.rooms["n1"].left
        return [gpu for gpu, free in enumerate(left) if free < 1000]


def test_one_that_left_its_gpu_and_changed_again_frees_it_before_the_next_takes_it() -> None:
    follower = Follower()
    follower.sees(on_gpu("first", 3), row("second"))
    assert follower.taken == [3]
    # Released, then placed anew, then cancelled: its row changed after that of the one that has GPU 3 now.
    follower.sees(on_gpu("second", 3), row("first", phase="Cancelled", attempt=1, finished=Ms(9)))
    assert follower.taken == [3]


def test_one_that_waited_and_was_placed_anew_between_two_looks_holds_what_it_has_now() -> None:
    follower = Follower()
    follower.sees(on_gpu("job", 3))
    follower.sees(replace(on_gpu("job", 5, attempt=2), generation=4))
    assert follower.taken == [5]
    follower.sees(row("job", phase="Succeeded", attempt=2, finished=Ms(9)))
    assert follower.taken == []
