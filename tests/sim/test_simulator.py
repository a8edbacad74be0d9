"""The engine in virtual time: what a run tells is true, and the same run tells the same."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from windlass.core.errors import Invalid
from windlass.core.scheduling.model import Limit, Node, Options, Quota, Shape
from windlass.core.scheduling.scenario import parse_scenario
from windlass.core.units import HOUR_MS, MilliGpu, Ms
from windlass.sim.charts import WIDTH, bars
from windlass.sim.page import page
from windlass.sim.run import ESTIMATED_EVERY, GRACE, TICK, simulate
from windlass.sim.trace import described, read_trace, traced
from windlass.sim.world import Arrival, World, seeded

CLASS = "h100"
SCENARIO = """
now: 100
nodes:
- {name: n1, class: h100, gpus: 2}
quotas:
- {name: a, gpus: [{class: h100, guaranteed: 2}]}
workloads:
- {name: r, queue: a, class: h100, gpus: 2, submitted: 0, expectedDuration: 3600,
   running: {since: 50, on: [{node: n1, gpus: [0, 1]}]}}
- {name: w, queue: a, class: h100, gpus: 1, submitted: 10, expectedDuration: 60}
"""
TRACE = "name,queue,class,submitted,duration,gpus\nt1,a,h100,200,300,1\nt2,a,h100,201,300,0.5\n"


def shape(queue: str = "a", gpus: int = 1, **more: object) -> Shape:
    return Shape(queue, CLASS, MilliGpu(gpus * 1000), **more)  # type: ignore[arg-type]


def world(*arrivals: Arrival, nodes: int = 1, hours: float = 10, **more: object) -> World:
    limit = {CLASS: Limit(MilliGpu(4000), MilliGpu(99_000))}
    quotas = (Quota("a", limits=limit), Quota("b", limits=limit))
    machines = tuple(Node(f"n{at}", CLASS, 8) for at in range(nodes))
    return World(machines, quotas, arrivals, Ms(round(hours * HOUR_MS)), **more)  # type: ignore[arg-type]


def hours(count: float) -> Ms:
    return Ms(round(count * HOUR_MS))


def test_work_runs_as_long_as_it_takes_and_the_fleet_is_as_full_as_that() -> None:
    told = simulate(world(Arrival("w", Ms(0), shape(gpus=8), hours(5)))).report()
    assert (told["started"], told["finished"], told["neverStarted"]) == (1, 1, 0)
    assert told["utilisation"] == pytest.approx(0.5, abs=TICK / hours(10))
    assert told["fairness"]["queues"]["a"]["gpuHours"] == pytest.approx(40, rel=0.01)


def test_what_waits_is_told_by_tier_from_its_arrival_to_its_first_start() -> None:
    first = Arrival("first", Ms(0), shape(gpus=8, priority=50), hours(1))
    second = Arrival("second", Ms(0), shape(gpus=8, priority=50), hours(1))
    waits = simulate(world(first, second)).report()["waitSeconds"]
    assert waits["standard"]["count"] == 2
    assert waits["standard"]["p99"] == pytest.approx(3600, abs=TICK / 1000)
    assert waits["standard"]["p50"] in (0, waits["standard"]["p99"])


def test_preempted_work_loses_what_it_did_since_its_checkpoint_and_ends_all_the_same() -> None:
    spot = Arrival("spot", Ms(0), shape(gpus=8, priority=0), hours(2))
    firm = Arrival("firm", hours(1.25), shape(gpus=8, priority=100), hours(1))
    told = simulate(world(spot, firm)).report()
    assert told["preemptions"]["byReason"] == {"priority": 1}
    assert told["preemptions"]["lostGpuHours"] == pytest.approx(8 * 0.25, rel=0.05)
    assert told["finished"] == 2
    assert told["waitSeconds"]["firm"]["mean"] <= (GRACE + 2 * TICK) / 1000


def test_an_elastic_gang_is_done_sooner_for_having_grown() -> None:
    gang = Arrival("gang", Ms(0), shape(gpus=4, workers=2, min_workers=1), hours(2))
    other = Arrival("other", Ms(0), shape(gpus=4, priority=100), hours(1))
    alone = simulate(world(gang, other, hours=3.2)).report()
    assert alone["finished"] == 2
    assert simulate(world(gang, other, hours=2.2)).report()["finished"] == 1


def test_estimates_are_scored_against_what_happened() -> None:
    blocker = Arrival("blocker", Ms(0), shape(gpus=8, expected=hours(1), preempts=False), hours(1))
    many = [
        Arrival(
            f"w{at:03}", Ms(60_000 + at), shape(gpus=8, expected=hours(0.01), preempts=False), hours(0.01)
        )
        for at in range(120)
    ]
    told = simulate(world(blocker, *many)).report()["estimates"]
    assert told["scored"] == len(many) // ESTIMATED_EVERY
    assert told["medianErrorSeconds"] is not None


def test_the_same_seed_tells_the_same_bytes_and_another_seed_others() -> None:
    def told(seed: int) -> str:
        return json.dumps(simulate(seeded(nodes=8, sites=2, hours=6, seed=seed, load=1.2)).report())

    assert told(1) == told(1)
    assert told(1) != told(2)


def test_a_seeded_world_asks_for_what_it_should() -> None:
    made = seeded(nodes=20, sites=3, hours=12, seed=3, load=0.9)
    asked = sum(arrival.shape.total * arrival.duration for arrival in made.arrivals)
    assert asked >= 0.9 * 20 * 8 * 1000 * hours(12)
    assert {node.site for node in made.nodes} == {"site-1", "site-2", "site-3"}
    assert list(made.arrivals) == sorted(made.arrivals, key=lambda arrival: arrival.at)


def test_without_preemption_nobody_has_to_leave() -> None:
    made = seeded(nodes=4, sites=1, hours=6, seed=1, load=1.5)
    quiet = World(made.nodes, made.quotas, made.arrivals, made.until, Options(preemption=False))
    assert simulate(quiet).report()["preemptions"]["byReason"] == {}


def test_a_scenario_is_a_world_what_runs_ends_and_what_waits_starts() -> None:
    told = simulate(described(parse_scenario(SCENARIO), hours=2)).report()
    assert (told["started"], told["finished"], told["neverStarted"]) == (1, 2, 0)
    assert told["waitSeconds"]["spot"]["mean"] == pytest.approx(3550, abs=TICK / 1000)


def test_a_trace_comes_beside_the_scenarios_own_work() -> None:
    scenario = parse_scenario(SCENARIO)
    arrivals = read_trace(TRACE, scenario)
    assert [(one.id, one.at, one.duration, one.shape.gpus) for one in arrivals] == [
        ("t1", 200_000, 300_000, 1000),
        ("t2", 201_000, 300_000, 500),
    ]
    told = simulate(traced(scenario, arrivals, hours=3)).report()
    assert told["finished"] == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,queue\nx,a\n", "the trace has no column class"),
        (TRACE.replace("gpus", "gpu"), "the trace has an unknown column gpu"),
        (TRACE.replace("300,1", "soon,1"), "line 2: could not convert string to float"),
        (TRACE.replace("t2,a", "t2,b"), "line 3: queue names b, which is in no quota"),
        ("", "the trace has no column name"),
    ],
)
def test_a_trace_that_is_wrong_says_where(text: str, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_trace(text, parse_scenario(SCENARIO))
    assert any(message in reason.message for reason in refused.value.reasons)


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_nothing_else_and_shows_everything() -> None:
    text = page(simulate(seeded(nodes=8, sites=2, hours=6, seed=1, load=1.2)).report())
    found = Links()
    found.feed(text)
    assert not found.links and not {"script", "link", "img", "iframe"} & found.tags
    assert "@import" not in text and "url(" not in text
    assert text.count("<svg") == 4
    for told in ("How full", "How many waited", "by tier", "Who had what", "Preemptions and estimates"):
        assert told in text


def test_names_from_a_scenario_are_text_on_the_page() -> None:
    evil = "<script>alert(1)</script>"
    limit = {CLASS: Limit(MilliGpu(8000))}
    made = World(
        (Node("n", CLASS, 8),),
        (Quota(evil, limits=limit),),
        (Arrival("w", Ms(0), shape(evil), hours(1)),),
        hours(2),
    )
    assert "<script>" not in page(simulate(made).report())


def test_what_is_written_behind_a_bar_ends_within_the_picture() -> None:
    told = "12,903 GPU h, 26.1 %"
    drawn = bars([("atlas/research", 12_903.0, told), ("b", 1.0, "1 GPU h")], label="hours")
    begins = max(float(x) for x in re.findall(r'class="dim" x="([\d.]+)"', drawn))
    assert begins + 8 * len(told) <= WIDTH
