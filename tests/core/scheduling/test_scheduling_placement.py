"""Where work goes, why it waits for room, and what may start past a head that lacks it."""

from __future__ import annotations

import pytest
from tests.core.scheduling.worlds import World, node, on, quota, shape

from windlass.core.scheduling.engine import cause_of, estimate
from windlass.core.scheduling.model import Node, NodesChanged, Options, Topology, Withdrawn
from windlass.core.units import MilliGpu, Ms

PLENTY = (quota("a", None, 999),)
ALL = tuple(range(8))


def nodes_of(world: World) -> list[str]:
    return [worker.node for worker in world.outcome.admitted[0].placement.workers]


# --- best fit -----------------------------------------------------------------------------------


def test_work_goes_to_the_tightest_node_that_fits() -> None:
    world = World((node("n1"), node("n2"), node("n3")), PLENTY)
    world.adopt("x", shape("a", 3), on(("n2", (0, 1, 2))))
    world.adopt("y", shape("a", 6), on(("n3", (0, 1, 2, 3, 4, 5))))
    world.submit("w", shape("a", 4))
    assert nodes_of(world) == ["n2"]


def test_ties_break_by_name_whatever_order_the_fleet_was_told_in() -> None:
    world = World((node("n2"), node("n1")), PLENTY)
    world.submit("w", shape("a", 1))
    assert nodes_of(world) == ["n1"]


@pytest.mark.parametrize("host", [{"cpu_milli": 4000}, {"memory_mib": 100}])
def test_cpu_and_memory_are_respected_where_they_are_counted(host: dict[str, int]) -> None:
    small = node("n1", cpu_milli=1000, memory_mib=10)
    world = World((small, node("n2", cpu_milli=9000, memory_mib=1000)), PLENTY)
    world.submit("w1", shape("a", 1, **host))
    assert nodes_of(world) == ["n2"]
    world = World((small,), PLENTY)
    world.submit("w2", shape("a", 1, **host))
    assert world.cause("w2") == "capacity"
    world = World((node("n1"),), PLENTY)
    world.submit("w3", shape("a", 1, **host))
    assert nodes_of(world) == ["n1"]


def test_shares_fill_the_tightest_gpu_that_is_shared_the_same_way() -> None:
    world = World((node("n1", 2), node("n2", 2)), PLENTY)
    mig = shape("a", 0.25, unit=MilliGpu(250), sharing="mig")
    for name, work in (("half", shape("a", 0.5)), ("mig", mig), ("more", shape("a", 0.25))):
        world.submit(name, work)
        spot = world.outcome.admitted[0].placement.workers[0]
        assert (spot.node, spot.gpus) == ("n1", (1,) if name == "mig" else (0,))


def test_a_worker_with_several_shares_stays_on_one_node() -> None:
    world = World((node("n1", 2),), PLENTY)
    world.submit("w", shape("a", 1.284, unit=MilliGpu(428), sharing="mig"))
    assert world.outcome.admitted[0].placement == on(("n1", (0, 0, 1)))


def test_whole_gpus_do_not_land_on_shared_ones() -> None:
    world = World((node("n1", 2),), PLENTY)
    world.submit("share", shape("a", 0.5))
    world.submit("whole", shape("a", 2))
    assert (world.cause("whole"), world.also("whole")) == ("capacity", ())
    world.submit("both", shape("a", 1))
    assert world.outcome.admitted[0].placement == on(("n1", (1,)))


def test_work_keeps_away_from_the_nodes_of_those_it_avoids() -> None:
    world = World((node("n1"), node("n2")), PLENTY)
    world.submit("x", shape("a", 1))
    world.submit("w1", shape("a", 1, avoid=("x",)))
    assert nodes_of(world) == ["n2"]
    world.submit("w2", shape("a", 8, avoid=("x",)))
    assert world.cause("w2") == "capacity"


def test_sites_are_respected_and_a_site_without_a_ready_node_is_the_cause() -> None:
    world = World((node("n1"), node("n2", site="fra1")), PLENTY)
    world.submit("w1", shape("a", 1, sites=("fra1",)))
    assert nodes_of(world) == ["n2"]
    world.submit("w2", shape("a", 1, sites=("ams1",)))
    assert world.cause("w2") == "site"
    world.send(NodesChanged((node("n1"), node("n2", site="fra1"), node("n3", site="ams1"))))
    assert world.admitted == ["w2"]


# --- topology -----------------------------------------------------------------------------------


def racks(*gpus: int) -> tuple[Node, ...]:
    return tuple(node(f"n{i}", size, labels={"rack": f"r{i // 2}"}) for i, size in enumerate(gpus))


def test_a_required_topology_keeps_all_workers_in_the_smallest_domain_that_fits() -> None:
    world = World(racks(8, 8, 4, 4, 8, 4), PLENTY)
    world.submit("w", shape("a", 4, workers=2, topology=Topology("rack", "required")))
    assert nodes_of(world) == ["n2", "n3"]


def test_a_required_topology_that_no_domain_fits_is_fragmentation() -> None:
    world = World(racks(4, 4, 4, 4), PLENTY)
    world.submit("w", shape("a", 4, workers=3, topology=Topology("rack", "required")))
    assert world.cause("w") == "fragmentation"
    found = cause_of(world.state, "w")
    assert found is not None
    assert "one rack" in found.message


def test_a_preferred_topology_falls_back() -> None:
    world = World(racks(4, 4, 4, 4), PLENTY)
    world.submit("w", shape("a", 4, workers=3, topology=Topology("rack", "preferred")))
    assert len(nodes_of(world)) == 3


# --- causes -------------------------------------------------------------------------------------


def test_each_cause_is_told_where_it_binds() -> None:
    quotas = (
        quota("org", None, 8, 12),
        quota("a", "org", 8, 16),
        quota("b", "org", 0, 2),
        quota("c", None, 0),
    )
    world = World((node("n1"),), quotas)
    world.submit("no-queue", shape("x", 1))
    world.submit("no-class", shape("a", 1, gpu_class="l40s"))
    world.submit("over-ceiling", shape("b", 3))
    world.submit("over-tree", shape("a", 9))
    assert [world.cause(id) for id in ("no-queue", "no-class", "over-ceiling", "over-tree")] == [
        "entitlement",
        "entitlement",
        "entitlement",
        "quota",
    ]
    for id in ("no-queue", "no-class", "over-ceiling", "over-tree"):
        found = cause_of(world.state, id)
        assert found is not None
        assert "never" in found.message
        assert world.ahead(id) is None
        assert estimate(world.state, id, Ms(0)) is None


def test_a_class_without_a_node_is_lack_of_capacity() -> None:
    world = World((), PLENTY)
    world.submit("w", shape("a", 1))
    assert world.cause("w") == "capacity"
    assert estimate(world.state, "w", Ms(0)) is None


def test_a_cause_is_news_once_and_dates_from_the_submission() -> None:
    world = World((node("n1"),), PLENTY)
    world.submit("full", shape("a", 8, preempts=False))
    world.now = 50
    world.submit("w1", shape("a", 4), submitted=20)
    assert [(cause.cause, cause.since) for cause in world.outcome.causes] == [("capacity", 20_000)]
    world.submit("w2", shape("a", 4), submitted=30)
    assert not world.outcome.causes
    world.now = 60
    world.send(NodesChanged((node("n1"), node("n2", 2), node("n3", 2))))
    assert [(cause.cause, cause.since) for cause in world.outcome.causes] == [("fragmentation", 60_000)]


def test_an_arrival_that_takes_the_last_room_changes_the_causes_of_others() -> None:
    world = World((node("n1"), node("n2")), PLENTY)
    world.adopt("x", shape("a", 5), on(("n1", (0, 1, 2, 3, 4))))
    world.adopt("y", shape("a", 5), on(("n2", (0, 1, 2, 3, 4))))
    world.submit("w", shape("a", 6))
    assert world.cause("w") == "fragmentation"
    world.submit("z", shape("a", 1, priority=1))
    assert world.cause("w") == "capacity"


# --- backfill -----------------------------------------------------------------------------------


def blocked_head(**options: bool) -> World:
    """8 of 16 GPUs are free; the head wants both nodes and gets them when `long` ends at 1000."""
    world = World((node("n1"), node("n2")), PLENTY, Options(**options))
    world.adopt("long", shape("a", 8, expected=1000, priority=9), on(("n1", ALL)))
    world.submit("head", shape("a", 8, workers=2, priority=5))
    assert world.cause("head") == "capacity"
    return world


def test_work_that_is_over_before_the_head_starts_may_start() -> None:
    world = blocked_head()
    world.submit("short", shape("a", 8, expected=1000))
    assert world.admitted == ["short"]


@pytest.mark.parametrize("expected", [1001, None])
def test_work_that_would_delay_the_head_waits_with_cause_priority(expected: int | None) -> None:
    world = blocked_head()
    world.submit("w", shape("a", 1, expected=expected))
    assert world.cause("w") == "priority"
    found = cause_of(world.state, "w")
    assert found is not None
    assert "head" in found.message


def test_work_that_fits_beside_the_reservation_may_start() -> None:
    world = World((node("n1"), node("n2")), PLENTY)
    world.adopt("long", shape("a", 6, expected=1000, priority=9), on(("n1", ALL[:6])))
    world.adopt("longer", shape("a", 6, expected=9000, priority=9), on(("n2", ALL[:6])))
    world.submit("head", shape("a", 8, priority=5))
    world.submit("beside", shape("a", 2))
    assert nodes_of(world) == ["n2"]
    world.submit("inside", shape("a", 1))
    assert world.cause("inside") == "priority"


def test_without_backfill_nothing_passes_a_head_that_lacks_room() -> None:
    world = blocked_head(backfill=False)
    world.submit("short", shape("a", 1, expected=1))
    assert world.cause("short") == "priority"


def test_higher_priority_is_not_held_back_by_a_head() -> None:
    world = blocked_head()
    world.submit("urgent", shape("a", 8, priority=9))
    assert world.admitted == ["urgent"]


def test_a_head_that_can_never_have_room_holds_nobody_back() -> None:
    world = World((node("n1"),), PLENTY)
    world.submit("giant", shape("a", 8, workers=9, priority=5))
    world.submit("w", shape("a", 8))
    assert world.admitted == ["w"]


def test_a_head_without_quota_holds_nobody_back() -> None:
    world = World((node("n1"),), (quota("a", None, 4, 4), quota("b", None, 4)))
    world.submit("a0", shape("a", 4))
    world.submit("head", shape("a", 4, priority=5, preempts=False))
    assert world.cause("head") == "quota"
    world.submit("w", shape("b", 4))
    assert world.admitted == ["w"]


def test_when_the_head_leaves_those_it_held_back_start() -> None:
    world = blocked_head()
    world.submit("w", shape("a", 1))
    world.send(Withdrawn("head"))
    assert world.admitted == ["w"]
