"""Elastic gangs: the fewest first, more with what nobody else can start with."""

from __future__ import annotations

from tests.core.scheduling.worlds import World, check_laws, node, on, quota, shape

from windlass.core.scheduling.engine import usage
from windlass.core.scheduling.model import Options, Topology

ALL = tuple(range(8))


def workers(world: World, id: str) -> list[str]:
    return [worker.node for worker in world.state.held[id].placement.workers]


def test_a_gang_grows_when_there_is_room_and_keeps_its_workers() -> None:
    world = World((node("n1"), node("n2")), (quota("a", None, 99),))
    world.submit("other", shape("a", 8))
    world.submit("gang", shape("a", 4, workers=4, min_workers=1))
    before = world.state.held["gang"].placement.workers
    assert len(before) == 2
    world.release("other")
    (grown,) = world.outcome.grown
    assert grown.placement.workers[:2] == before
    assert [worker.worker for worker in grown.placement.workers] == [0, 1, 2, 3]
    assert usage(world.state)["a"]["h100"].used == 16_000
    check_laws(world.state)
    world.release("gang")
    assert usage(world.state)["a"]["h100"].used == 0


def test_who_waits_starts_before_a_gang_grows() -> None:
    world = World((node("n1"),), (quota("a", None, 99),))
    world.send(
        world.arrival("gang", shape("a", 2, workers=4, min_workers=1), 0),
        world.arrival("late", shape("a", 4), 5),
    )
    assert sorted(world.admitted) == ["gang", "late"]
    assert len(workers(world, "gang")) == 2


def test_a_gang_does_not_grow_into_what_is_reserved() -> None:
    world = World((node("n1"),), (quota("a", None, 99),))
    world.submit("gang", shape("a", 1, workers=8, min_workers=4, expected=500))
    world.release("gang")
    world.adopt("half", shape("a", 4, expected=100), on(("n1", (0, 1, 2, 3))))
    world.send(
        world.arrival("head", shape("a", 8, priority=5, preempts=False), 0),
        world.arrival("gang", shape("a", 1, workers=4, min_workers=1, expected=50), 1),
    )
    assert workers(world, "gang") == ["n1"]


def test_a_gang_grows_inside_its_domain_and_at_its_site() -> None:
    rack = [node(f"n{i}", labels={"rack": f"r{i // 2}"}, site="s1") for i in range(4)]
    world = World((*rack, node("n9", site="s2")), (quota("a", None, 99),))
    for i in (1, 2, 3):
        world.adopt(f"x{i}", shape("a", 8), on((f"n{i}", ALL)))
    tied = shape("a", 8, workers=4, min_workers=1, topology=Topology("rack", "required"), sites=("s1",))
    world.submit("tied", tied)
    assert workers(world, "tied") == ["n0"]
    world.release("x2")
    assert workers(world, "tied") == ["n0"]
    world.release("x1")
    assert workers(world, "tied") == ["n0", "n1"]


def test_a_gang_grows_within_its_quota_only() -> None:
    world = World((node("n1"),), (quota("a", None, 4, 4), quota("b", None, 4, 8)))
    world.submit("gang", shape("a", 1, workers=8, min_workers=2))
    assert len(workers(world, "gang")) == 4
    check_laws(world.state)


def test_running_gangs_stay_as_they_are_where_nobody_can_make_them_grow() -> None:
    world = World((node("n1"),), (quota("a", None, 99),), Options(growth=False))
    world.submit("other", shape("a", 6))
    world.submit("gang", shape("a", 2, workers=4, min_workers=1))
    world.release("other")
    assert (len(workers(world, "gang")), world.outcome.grown) == (1, ())
    world.submit("second", shape("a", 1, workers=4, min_workers=1))
    assert len(workers(world, "second")) == 4


def test_what_a_gang_borrows_does_not_count_for_one_that_grew_before_it() -> None:
    world = World(quotas=(quota("a", None, 5), quota("c", None, 3)))
    firm = world.arrival("firm", shape("c", 1, workers=2, min_workers=1, preemptible=False))
    loose = world.arrival("loose", shape("c", 1, workers=2, min_workers=1))
    world.send(firm, loose)
    assert {admit.id: (len(admit.placement.workers), admit.borrowed) for admit in world.outcome.admitted} == {
        "firm": (2, 0),
        "loose": (2, 1000),
    }
