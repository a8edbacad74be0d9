"""What the scheduling engine alone costs: one cycle per event on a full fleet with a long queue.

No store, no server, one process: `core/scheduling` and nothing else. Every event is given to a cycle
of its own, the dearest way there is (the platform folds many into one). Times are CPU, means over
many events, the garbage collector kept out; memory is what building the state added.
"""

from __future__ import annotations

import argparse
import gc
from dataclasses import replace
from itertools import count

from benchmarks.measuring import each_us, rss_mb, spending
from benchmarks.reporting import Report, parser
from windlass.core.scheduling.engine import (
    State,
    cause_of,
    cycle,
    estimate,
    new_state,
    position,
    waiting_in_order,
    what_if,
)
from windlass.core.scheduling.model import (
    Limit,
    Node,
    NodesChanged,
    Quota,
    QuotasChanged,
    Released,
    Shape,
    Submitted,
    Waiting,
    Withdrawn,
)
from windlass.core.units import HOUR_MS, MilliGpu, Ms

CLASS = "h100-80g"
GPUS = 8
QUEUES, SIZES = 30, (1, 2, 4, 8)
DURATIONS_H = (1, 4, 12, 24)


class World:
    """A full fleet, and a queue of 30 x 4 x 4 lines before it. Time passes by a second an event.

    Everybody who runs is within its minimum runtime: room appears only where work ends.
    """

    def __init__(self, queued: int, nodes: int) -> None:
        self.state: State = new_state()
        self.numbers = count()
        self.now = Ms(0)
        self.ids = [f"queued-{number}" for number in range(queued)]
        self.held = [f"held-{number}" for number in range(nodes)]
        fleet = nodes * GPUS * 1000
        fair = -(-nodes // QUEUES) * GPUS * 1000  # rounded up, so that nobody borrows and is reclaimed
        limit = Limit(MilliGpu(fair), MilliGpu(fleet))
        quotas = [Quota(f"team-{number}", limits={CLASS: limit}) for number in range(QUEUES)]
        machines = tuple(_node(number) for number in range(nodes))
        self._cycle(QuotasChanged(tuple(quotas)), NodesChanged(machines))
        whole = replace(_shape(0), gpus=MilliGpu(GPUS * 1000), expected=Ms(8 * HOUR_MS), priority=1)
        fill = (replace(whole, queue=f"team-{number % QUEUES}") for number in range(nodes))
        self._cycle(
            *(
                Submitted(Waiting(id, shape, Ms(number)))
                for number, (id, shape) in enumerate(zip(self.held, fill, strict=True))
            )
        )
        assert len(self.state.held) == nodes, "the fleet is full"
        self._cycle(*(self.submitted(id, number) for number, id in enumerate(self.ids)))
        assert len(self.state.lines.waiting) == queued, "all of them wait"

    def submitted(self, id: str, number: int, **different: object) -> Submitted:
        shape = _shape(number)
        if different:
            shape = replace(shape, **different)  # type: ignore[arg-type]  # fields by name
        return Submitted(Waiting(id, shape, Ms(self.now + number)))

    def submit_one(self, number: int) -> None:
        self._cycle(self.submitted(f"late-{next(self.numbers)}", number))

    def submit_new_shape(self, number: int) -> None:
        """Into a line of its own, and out again: the number of lines stays as it was."""
        id = f"other-{next(self.numbers)}"
        self._cycle(self.submitted(id, number, expected=Ms(HOUR_MS + number + 1)))
        self._cycle(Withdrawn(id))

    def release_one(self, _: int) -> None:
        """One whole node becomes free, and whoever is next gets it."""
        held = self.held.pop()
        self.held[:0] = self._cycle(Released(held))

    def _cycle(self, *events: Submitted | Released | Withdrawn | NodesChanged | QuotasChanged) -> list[str]:
        self.now = Ms(self.now + 1000)
        self.state, outcome = cycle(self.state, events, self.now)
        return [admitted.id for admitted in outcome.admitted]


def measure(queued: int, nodes: int, events: int) -> Report:
    report = Report("cycle", {"queued": queued, "nodes": nodes, "gpus": nodes * GPUS, "events": events})
    before = rss_mb()
    with spending() as spent:
        world = World(queued, nodes)
    gc.collect()
    report.add("buildS", "build the state from nothing", spent.cpu_s, "s")
    report.add("memoryMb", "memory the state takes", rss_mb() - before, "MB")
    lines = len(world.state.lines.by_shape)
    report.add("lines", "ways in which waiting work differs", lines, "lines")
    few = max(1, events // 20)
    report.add("submittedUs", "Submitted into a full fleet", each_us(world.submit_one, events), "us")
    new = each_us(world.submit_new_shape, few)
    report.add("newShapeUs", "Submitted of a shape never seen, and withdrawn", new, "us")
    report.add("releasedUs", "Released, and the next admitted", each_us(world.release_one, few), "us")
    _questions(report, world, events, few)
    return report


def _questions(report: Report, world: World, events: int, few: int) -> None:
    state, now = world.state, world.now
    ids = [id for id in world.ids if id in state.lines.waiting] or list(state.lines.waiting)

    def id_of(number: int) -> str:
        return ids[number * 7919 % len(ids)]

    def explain(number: int) -> object:
        id = id_of(number)
        return cause_of(state, id, now), position(state, id), estimate(state, id, now)

    def ask_what_if(number: int) -> object:
        return what_if(state, Waiting("new", _shape(number), now), now)

    for key, what, ask, times in (
        ("positionUs", "position of one that waits", lambda n: position(state, id_of(n)), events),
        ("causeUs", "cause of one that waits", lambda n: cause_of(state, id_of(n)), events),
        ("estimateUs", "estimate for one that waits", lambda n: estimate(state, id_of(n), now), few),
        ("explainUs", "all of it: cause, remedy, position, estimate", explain, few),
        ("whatIfUs", "what if one more came", ask_what_if, few),
        ("pageUs", "first 100 in order", lambda _: waiting_in_order(state, 100), few),
    ):
        report.add(key, what, each_us(ask, times), "us")


def _node(number: int) -> Node:
    labels = {"rack": f"r{number // 16}", "block": f"b{number // 128}"}
    return Node(f"node-{number:05}", CLASS, GPUS, 96_000, 1 << 20, labels)


def _shape(number: int) -> Shape:
    return Shape(
        queue=f"team-{number % QUEUES}",
        gpu_class=CLASS,
        gpus=MilliGpu(SIZES[number // QUEUES % len(SIZES)] * 1000),
        cpu_milli=8000,
        memory_mib=65_536,
        min_runtime=Ms(24 * HOUR_MS),  # victims are looked for, and none is found: nobody has to leave first
        expected=Ms(DURATIONS_H[number // QUEUES // len(SIZES) % len(DURATIONS_H)] * HOUR_MS),
    )


def arguments() -> argparse.ArgumentParser:
    made = parser("cycle", __doc__)
    made.add_argument("--queued", type=int, default=100_000, help="waiting workloads")
    made.add_argument("--nodes", type=int, default=10_000, help="nodes of 8 GPUs, all in use")
    made.add_argument("--events", type=int, default=2000, help="the mean is over so many; fewer of the dear")
    return made


def main() -> int:
    asked = arguments().parse_args()
    return measure(asked.queued, asked.nodes, asked.events).tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
