"""Who gives way to whom, and who is next where shares decide."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.scheduling.worlds import ALL, TWO_NODES, TWO_TEAMS, World, lent, node, on, quota, shape

from windlass.core.scheduling.engine import position, wake_at
from windlass.core.scheduling.model import Limit, Options, PastUseChanged, Quota
from windlass.core.units import MilliGpu

# --- giving way ---------------------------------------------------------------------------------


def test_a_lender_takes_back_its_guarantee_from_the_newest_borrower() -> None:
    world = lent()
    world.submit("b1", shape("b", 4, workers=2))
    assert world.promised == {"b1": ("a2",)}
    assert world.preempted == {"a2": "reclaim"}
    assert world.cause("b1") == "starting"
    world.release("a2")
    assert world.admitted == ["b1"]
    assert world.outcome.admitted[0].after == ()


def test_a_lender_gets_its_guarantee_back_from_higher_priority_too() -> None:
    world = World(TWO_NODES, TWO_TEAMS, now=100)
    world.adopt("a1", shape("a", 8, priority=90), on(("n1", ALL)))
    world.adopt("a2", shape("a", 8, priority=90), on(("n2", ALL)))
    world.submit("b1", shape("b", 8, priority=0))
    assert set(world.preempted.values()) == {"reclaim"}


def test_within_a_queue_only_higher_priority_preempts() -> None:
    world = World(quotas=(quota("a", None, 8, 8),))
    world.submit("low", shape("a", 8, priority=1))
    world.submit("same", shape("a", 8, priority=1))
    assert world.preempted == {}
    world.submit("high", shape("a", 8, priority=2))
    assert world.preempted == {"low": "priority"}


@pytest.mark.parametrize(
    "victim",
    [{"preemptible": False}, {"min_runtime": 1000}],
    ids=["may not be preempted", "inside its minimum runtime"],
)
def test_protected_work_is_no_victim(victim: dict[str, Any]) -> None:
    world = World(quotas=(quota("a", None, 8, 8),))
    world.adopt("low", shape("a", 8, priority=1, **victim), on(("n1", ALL)), since=0)
    world.now = 999
    world.submit("high", shape("a", 8, priority=2))
    assert world.preempted == {}
    assert world.cause("high") == "quota"


def test_the_engine_asks_to_be_woken_when_a_minimum_runtime_ends() -> None:
    world = World(quotas=(quota("a", None, 8, 8),))
    world.adopt("low", shape("a", 8, priority=1, min_runtime=600), on(("n1", ALL)), since=0)
    world.submit("high", shape("a", 8, priority=2))
    assert wake_at(world.state) == 600_000
    world.now = 600
    world.send()
    assert world.preempted == {"low": "priority"}
    assert wake_at(world.state) is None


def test_looking_again_before_anything_changed_does_not_forget_when_to_wake() -> None:
    world = World(quotas=(quota("a", None, 8, 8),), now=100)
    world.adopt("low", shape("a", 8, priority=1, min_runtime=600), on(("n1", ALL)), since=0)
    world.submit("high", shape("a", 8, priority=2))
    world.send(*(world.arrival(f"behind-{size}", shape("a", size, priority=1)) for size in (1, 2)))
    assert wake_at(world.state) == 600_000


def test_work_that_does_not_preempt_waits() -> None:
    world = lent()
    world.submit("b1", shape("b", 8, preempts=False))
    assert world.preempted == {}
    assert (world.cause("b1"), world.also("b1")) == ("quota", ("capacity",))


def test_without_preemption_nobody_gives_way() -> None:
    world = World(TWO_NODES, TWO_TEAMS, Options(preemption=False))
    world.submit("a1", shape("a", 8))
    world.submit("a2", shape("a", 8))
    world.submit("b1", shape("b", 8))
    assert world.preempted == {}


def test_no_more_victims_than_needed() -> None:
    world = World(TWO_NODES, TWO_TEAMS, now=100)
    for i in range(8):
        world.adopt(f"small{i}", shape("a", 1), on(("n1", (i,))), since=10 + i)
        world.adopt(f"other{i}", shape("a", 1), on(("n2", (i,))), since=20 + i)
    world.submit("b1", shape("b", 2))
    assert world.preempted == {"other7": "reclaim", "other6": "reclaim"}


def test_of_equal_priority_one_victim_is_better_than_two_that_lose_less() -> None:
    world = World(TWO_NODES, TWO_TEAMS, now=100)
    world.adopt("big", shape("a", 8), on(("n1", ALL)), since=1)
    for i in range(8):
        world.adopt(f"small{i}", shape("a", 1), on(("n2", (i,))), since=10 + i)
    world.submit("b1", shape("b", 2))
    assert world.preempted == {"big": "reclaim"}


def test_two_of_lower_priority_leave_before_one_of_higher() -> None:
    world = World(TWO_NODES, TWO_TEAMS, now=100)
    world.adopt("big", shape("a", 8, priority=5), on(("n1", ALL)), since=1)
    for i in range(4):
        world.adopt(f"small{i}", shape("a", 2), on(("n2", (2 * i, 2 * i + 1))), since=10 + i)
    world.submit("b1", shape("b", 4))
    assert world.preempted == {"small3": "reclaim", "small2": "reclaim"}


def test_fewer_victims_are_found_among_many_too() -> None:
    world = World((*TWO_NODES, node("n3")), (quota("a", None, 24),), now=100)
    for i in range(8):
        world.adopt(f"x{i}", shape("a", 1), on(("n1", (i,))), since=50 + i)
    for i in range(4):
        world.adopt(f"y{i}", shape("a", 2), on(("n2", (2 * i, 2 * i + 1))), since=10 + i)
        world.adopt(f"z{i}", shape("a", 2), on(("n3", (2 * i, 2 * i + 1))), since=20 + i)
    world.submit("w", shape("a", 4, priority=5))
    assert set(world.preempted) == {"z3", "z2"}


def test_a_borrower_is_not_pushed_below_its_own_guarantee() -> None:
    quotas = (quota("org"), quota("a", "org", 2), quota("b", "org", 2), quota("c", "org", 0))
    world = World((node("n1", 4),), quotas, now=100)
    for i in range(3):
        world.adopt(f"a{i}", shape("a", 1, priority=0), on(("n1", (i,))), since=i)
    world.adopt("c0", shape("c", 1, priority=1), on(("n1", (3,))))
    world.submit("b", shape("b", 2))
    assert world.preempted == {"a2": "reclaim", "c0": "reclaim"}


def test_preemption_frees_the_node_that_is_needed() -> None:
    world = World(TWO_NODES, (quota("a", None, 16),), now=100)
    for i in range(6):
        world.adopt(f"x{i}", shape("a", 1, priority=0), on(("n1", (i,))), since=i)
        world.adopt(f"y{i}", shape("a", 1, priority=0), on(("n2", (i,))), since=10 + i)
    world.submit("w", shape("a", 4, priority=5))
    assert set(world.preempted) == {"y5", "y4"}


def test_work_that_may_not_be_preempted_does_not_borrow() -> None:
    world = World(TWO_NODES, TWO_TEAMS)
    world.submit("own", shape("a", 8, preemptible=False))
    world.submit("more", shape("a", 1, preemptible=False))
    assert world.cause("more") == "quota"
    world.submit("borrower", shape("a", 8))
    assert world.admitted == ["borrower"]


def test_work_that_may_not_be_preempted_reclaims_its_guarantee() -> None:
    world = lent()
    world.submit("b1", shape("b", 8, preemptible=False))
    assert world.preempted == {"a2": "reclaim"}


def test_a_scope_without_quota_uses_its_parents_guarantee() -> None:
    quotas = (quota("org", None, 16), quota("team", "org", 8), quota("cell1", "team"), quota("cell2", "team"))
    world = World(TWO_NODES, quotas)
    world.submit("w1", shape("cell1", 6, preemptible=False))
    assert world.admitted == ["w1"]
    assert world.outcome.admitted[0].borrowed == 0
    world.submit("low", shape("cell2", 2, priority=0))
    world.submit("high", shape("cell1", 2, priority=5, preemptible=False))
    assert world.admitted == ["high"]  # the rest of org's guarantee, which is promised to no child


def test_scopes_without_quota_of_their_own_share_a_home_where_priority_decides() -> None:
    world = World((node("n1"),), (quota("team", None, 8, 8), quota("cell1", "team"), quota("cell2", "team")))
    world.submit("low", shape("cell1", 8, priority=1))
    world.submit("same", shape("cell2", 8, priority=1))
    assert world.cause("same") == "quota"
    world.submit("high", shape("cell2", 8, priority=2))
    assert world.preempted == {"low": "priority"}


def test_guarantees_of_siblings_are_not_open_to_work_that_stays() -> None:
    quotas = (quota("org", None, 16), quota("a", "org", 8), quota("b", "org", 8))
    world = World(TWO_NODES, quotas)
    world.submit("w", shape("a", 8, workers=2, preemptible=False))
    assert world.cause("w") == "quota"
    assert position(world.state, "w") is None


# --- fair share ---------------------------------------------------------------------------------


POOL = (quota("org", None, 8), quota("a", "org", 0), quota("b", "org", 0, weight=1))


def test_a_borrower_takes_from_one_with_a_larger_share() -> None:
    world = World((node("n1"),), POOL, now=100)
    for i in range(4):
        world.adopt(f"a{i}", shape("a", 2), on(("n1", (2 * i, 2 * i + 1))), since=i)
    world.submit("b1", shape("b", 2))
    assert world.preempted == {"a3": "fair-share"}
    world.release("a3")
    world.submit("b2", shape("b", 2))
    assert world.preempted == {"a2": "fair-share"}
    world.release("a2")
    world.submit("b3", shape("b", 2))
    assert world.preempted == {}, "both have four now, and b would have more"


def test_without_fair_share_borrowers_do_not_take_from_each_other() -> None:
    world = World((node("n1"),), POOL, Options(fair_share=False), now=100)
    world.adopt("a0", shape("a", 8), on(("n1", ALL)))
    world.submit("b1", shape("b", 2))
    assert world.preempted == {}


def test_who_was_asked_to_leave_for_fair_share_does_not_come_back_for_it() -> None:
    world = World((node("n1"),), POOL, now=100)
    world.adopt("a0", shape("a", 8), on(("n1", ALL)))
    world.submit("b1", shape("b", 6))
    assert world.preempted == {"a0": "fair-share"}
    world.release("a0")
    assert "b1" in world.running
    world.submit("a0", shape("a", 8), 0)
    assert world.preempted == {}


def test_a_larger_weight_is_a_smaller_share() -> None:
    heavy = (quota("org", None, 8), quota("a", "org", 0, weight=3), quota("b", "org", 0))
    world = World((node("n1"),), heavy, now=100)
    for i in range(4):
        world.adopt(f"a{i}", shape("a", 2), on(("n1", (2 * i, 2 * i + 1))), since=i)
    world.submit("b1", shape("b", 4))
    assert world.preempted == {}
    world.submit("b2", shape("b", 2))
    assert world.preempted == {"a3": "fair-share"}


def test_a_guarantee_is_no_fair_share_and_stays() -> None:
    world = World((node("n1"),), (quota("a", None, 8), quota("b", None, 0)), now=100)
    world.adopt("a0", shape("a", 8), on(("n1", ALL)))
    world.submit("b1", shape("b", 2))
    assert world.preempted == {}


def test_the_dominant_share_counts_whatever_class_is_asked_for() -> None:
    """a has borrowed all of another class; of this one both have nothing, and b is asked for first."""
    limits = {"h100": Limit(MilliGpu(2000)), "l40s": Limit(MilliGpu(8000))}
    quotas = (Quota("org", limits=limits), Quota("a", "org"), Quota("b", "org"))
    nodes = (node("n1", 2), node("n2", gpu_class="l40s"))
    world = World(nodes, quotas, now=100)
    for name in ("full", "hog"):
        gpus, at = (2, "n1") if name == "full" else (8, "n2")
        held = shape("a", gpus, gpu_class="h100" if name == "full" else "l40s", preemptible=name == "hog")
        world.adopt(name, held, on((at, tuple(range(gpus)))))
    world.send(world.arrival("a1", shape("a", 2), 1), world.arrival("b1", shape("b", 2), 2))
    assert (world.ahead("b1"), world.ahead("a1")) == (0, 1)


def test_past_use_decides_who_is_next_and_never_who_leaves() -> None:
    world = World((node("n1"),), POOL, now=100)
    world.adopt("a0", shape("a", 4), on(("n1", (0, 1, 2, 3))))
    world.adopt("b0", shape("b", 4), on(("n1", (4, 5, 6, 7))))
    world.send(PastUseChanged({"a": MilliGpu(3000)}))
    world.send(world.arrival("a1", shape("a", 4), 1), world.arrival("b1", shape("b", 4), 2))
    assert world.preempted == {}
    assert (world.ahead("b1"), world.ahead("a1")) == (0, 1)
    world.send(PastUseChanged({"b": MilliGpu(9000)}))
    assert (world.ahead("b1"), world.ahead("a1")) == (1, 0)
