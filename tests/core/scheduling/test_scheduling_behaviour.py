"""What the engine does, case by case. Order, quota, preemption, promises and their endings."""

from __future__ import annotations

import pytest
from tests.core.scheduling.worlds import (
    ALL,
    TWO_NODES,
    TWO_TEAMS,
    World,
    check_laws,
    lent,
    node,
    on,
    quota,
    shape,
)

from windlass.core.scheduling.engine import (
    cause_of,
    estimate,
    line_of,
    position,
    usage,
    waiting_in_order,
    what_if,
)
from windlass.core.scheduling.model import (
    NodesChanged,
    Options,
    Position,
    QuotasChanged,
    Stopping,
    Topology,
    Waiting,
    Withdrawn,
)
from windlass.core.units import Ms

# --- starting -----------------------------------------------------------------------------------


def test_work_that_fits_starts_at_once_with_whole_gpus() -> None:
    world = World()
    world.submit("w", shape("a", 2))
    assert world.admitted == ["w"]
    assert world.outcome.admitted[0].placement == on(("n1", (0, 1)))
    assert not world.outcome.causes


def test_a_gang_starts_with_all_workers_or_with_none() -> None:
    world = World(TWO_NODES, (quota("a", None, 99),))
    world.submit("most", shape("a", 3))
    world.submit("gang", shape("a", 4, workers=4))
    assert world.cause("gang") == "capacity"
    world.release("most")
    assert [w.node for w in world.outcome.admitted[0].placement.workers] == ["n1", "n1", "n2", "n2"]


def test_higher_priority_goes_first_then_age_then_id() -> None:
    world = World(quotas=(quota("a", None, 99),))
    world.submit("full", shape("a", 8))
    world.send(
        world.arrival("late", shape("a", 4), 5),
        world.arrival("early", shape("a", 4), 1),
        world.arrival("urgent", shape("a", 4, priority=9, preempts=False), 7),
    )
    world.release("full")
    assert world.admitted == ["urgent", "early"]


def test_the_queue_that_borrows_less_goes_first() -> None:
    world = World((node("n1", 4),), (quota("a", None, 1), quota("b", None, 3)))
    world.submit("a0", shape("a", 3, preempts=False))
    world.submit("b0", shape("b", 1))
    world.send(
        world.arrival("a1", shape("a", 1, preempts=False), 1),
        world.arrival("b1", shape("b", 1, preempts=False), 2),
    )
    assert (world.ahead("b1"), world.ahead("a1")) == (0, 1)
    world.release("b0")
    assert world.admitted == ["b1"]


def test_fair_share_is_judged_anew_after_every_start() -> None:
    quotas = (quota("pool", None, 2), quota("a", "pool", 0), quota("b", "pool", 0))
    world = World((node("n1", 2),), quotas)
    world.submit("full", shape("a", 2, preempts=False))
    world.send(
        world.arrival("a1", shape("a", 1, expected=1, preempts=False), 1),
        world.arrival("a2", shape("a", 1, expected=2, preempts=False), 2),
        world.arrival("b1", shape("b", 1, preempts=False), 3),
    )
    world.release("full")
    assert world.admitted == ["a1", "b1"]


def test_without_fair_share_age_decides() -> None:
    quotas = (quota("pool", None, 4), quota("a", "pool", 0), quota("b", "pool", 0))
    world = World((node("n1", 4),), quotas, Options(fair_share=False))
    world.submit("a0", shape("a", 3, preempts=False))
    world.submit("b0", shape("b", 1))
    world.send(
        world.arrival("a1", shape("a", 1, preempts=False), 1),
        world.arrival("b1", shape("b", 1, preempts=False), 2),
    )
    world.release("b0")
    assert world.admitted == ["a1"]


def test_weight_and_past_use_count_in_fair_share() -> None:
    quotas = (
        quota("pool", None, 4),
        quota("a", "pool", 0, past_use=2000, weight=1),
        quota("b", "pool", 0, past_use=3000, weight=2),
    )
    world = World((node("n1", 4),), quotas)
    world.submit("full", shape("a", 4))
    world.send(world.arrival("a1", shape("a", 1), 1), world.arrival("b1", shape("b", 1), 2))
    world.release("full")
    assert world.admitted == ["b1", "a1"]


# --- promises -----------------------------------------------------------------------------------


def test_promised_gpus_go_to_nobody_else() -> None:
    world = lent()
    world.submit("b1", shape("b", 8))
    world.send(world.arrival("sneak", shape("b", 1, priority=99, preempts=False)))
    assert world.admitted == []
    world.release("a2")
    assert world.admitted == ["b1"]


def test_a_withdrawn_promise_frees_what_was_earmarked() -> None:
    world = lent()
    world.submit("b1", shape("b", 8))
    world.send(Withdrawn("b1"))
    assert position(world.state, "b1") is None
    world.release("a2")
    assert world.admitted == []
    world.submit("b2", shape("b", 8))
    assert world.admitted == ["b2"]
    check_laws(world.state)


def test_a_promise_on_a_node_that_goes_away_is_dropped_and_considered_anew() -> None:
    world = lent()
    world.submit("b1", shape("b", 8))
    world.send(NodesChanged((node("n1"), node("n2", state="down"), node("n3"))))
    assert world.promised == {"b1": ("a2",)}, "quota is still held by a2, room is on n3"
    world.release("a2")
    assert world.outcome.admitted[0].placement == on(("n3", ALL))


def test_after_a_restart_what_is_stopping_is_used_before_new_victims() -> None:
    world = World(TWO_NODES, TWO_TEAMS, now=100)
    world.adopt("a1", shape("a", 8), on(("n1", ALL)), since=30)
    world.adopt("a2", shape("a", 8), on(("n2", ALL)), since=10, stopping=True)
    world.submit("b1", shape("b", 8))
    assert world.preempted == {}
    assert world.promised == {"b1": ("a2",)}
    world.release("a2")
    assert world.admitted == ["b1"]


def test_promises_do_not_wait_for_each_others_victims() -> None:
    world = World(TWO_NODES, TWO_TEAMS, now=100)
    for i in range(8):
        world.adopt(f"x{i}", shape("a", 1), on(("n1", (i,))), since=i)
        world.adopt(f"y{i}", shape("a", 1), on(("n2", (i,))), since=10 + i)
    world.submit("b1", shape("b", 1))
    world.submit("b2", shape("b", 1))
    assert world.promised == {"b2": ("y6",)}
    world.release("y6")
    assert world.admitted == ["b2"]
    check_laws(world.state)


def test_what_a_victim_keeps_of_its_gpus_is_not_free_yet() -> None:
    world = World((node("n1"),), (quota("a", None, 99),))
    world.submit("low", shape("a", 8))
    world.submit("high", shape("a", 2, priority=5))
    assert world.promised == {"high": ("low",)}
    world.submit("w", shape("a", 4, preempts=False))
    assert world.cause("w") == "capacity"
    world.release("low")
    assert world.admitted == ["high", "w"]


def test_a_ceiling_holds_while_a_victim_of_somebody_else_is_leaving() -> None:
    """`next` has room and future quota, but its queue holds its whole maximum until `v` is gone."""
    quotas = (quota("org"), quota("a", "org", 0, 8), quota("b", "org", 8), quota("c", "org", 8))
    world = World((node("n1", site="s1"), node("n2", site="s2")), quotas)
    world.adopt("v", shape("a", 8), on(("n1", ALL)))
    world.submit("p", shape("b", 8, sites=("s1",)))
    assert world.promised == {"p": ("v",)}
    world.submit("next", shape("a", 8, sites=("s2",)))
    assert world.promised == {"next": ("v",)}
    check_laws(world.state)
    world.release("v")
    assert world.admitted == ["p", "next"]


def test_a_victim_that_comes_back_too_early_queues_when_its_gpus_are_free() -> None:
    world = lent()
    world.submit("b1", shape("b", 8))
    world.submit("a2", shape("a", 8), submitted=20)
    assert cause_of(world.state, "a2") is None
    world.release("a2")
    assert world.admitted == ["b1"]
    assert world.cause("a2") == "quota"


def test_changed_quotas_are_followed_and_promises_made_again() -> None:
    world = lent()
    world.submit("b1", shape("b", 8))
    world.send(QuotasChanged((quota("org"), quota("a", "org", 8, 8), quota("b", "org", 8, 16))))
    assert world.promised == {"b1": ("a2",)}
    assert world.preempted == {}


# --- the edges ----------------------------------------------------------------------------------


def test_adopted_work_whose_node_or_queue_is_gone_is_kept_and_charged() -> None:
    world = World()
    world.adopt("ghost", shape("a", 8), on(("gone", ALL)))
    world.adopt("stray", shape("nowhere", 1), on(("n1", (0,))))
    assert world.running == ["ghost", "stray"]
    assert usage(world.state)["a"]["h100"].used == 8000
    world.release("ghost", "stray")
    assert world.running == []
    assert all(left == 1000 for left in world.state.fleet.rooms["n1"].left)


def test_events_about_the_unknown_change_nothing() -> None:
    world = World()
    world.send(Withdrawn("x"), Stopping("x"))
    world.release("x")
    assert world.outcome.admitted == ()


@pytest.mark.parametrize("state", ["draining", "unverified", "down"])
def test_a_node_that_is_not_ready_takes_nothing_new_and_keeps_what_runs(state: str) -> None:
    world = World()
    world.submit("runs", shape("a", 1))
    world.send(NodesChanged((node("n1", state=state),)))
    world.submit("w", shape("a", 1))
    assert (world.cause("w"), world.running) == ("capacity", ["runs"])
    world.send(NodesChanged((node("n1"),)))
    assert world.admitted == ["w"]


def test_an_idle_cycle_decides_nothing() -> None:
    world = lent()
    world.submit("b1", shape("b", 8, preempts=False))
    assert world.send() == type(world.outcome)()


def test_what_if_answers_without_changing_anything() -> None:
    world = lent()
    world.submit("b0", shape("b", 8, preempts=False))
    asked = what_if(world.state, Waiting("b1", shape("b", 4), Ms(100_000)), Ms(100_000))
    assert (asked.after, asked.placement is not None) == (("a2",), True)
    asked = what_if(world.state, Waiting("b2", shape("b", 8, preempts=False), Ms(100_000)), Ms(100_000))
    assert asked.cause is not None
    assert (asked.cause.cause, asked.position) == ("quota", Position(1, 2))
    asked = what_if(world.state, Waiting("c", shape("nowhere", 1), Ms(0)), Ms(100_000))
    assert asked.cause is not None
    assert (asked.cause.cause, asked.position, asked.estimate) == ("entitlement", None, None)
    assert [work.id for work in waiting_in_order(world.state, 10)] == ["b0"]
    assert world.send() == type(world.outcome)()
    check_laws(world.state)


def test_pages_of_the_waiting_join_without_gaps() -> None:
    world = World(quotas=(quota("a", None, 4), quota("b", None, 4)))
    world.submit("full", shape("a", 8))
    for i in range(20):
        world.submit(f"w{i:02}", shape("ab"[i % 2], 8, priority=i % 3, preempts=False), submitted=i)
    whole = [work.id for work in waiting_in_order(world.state, 100)]
    paged: list[str] = []
    while page := waiting_in_order(world.state, 3, paged[-1] if paged else None):
        paged.extend(work.id for work in page)
    assert paged == whole
    assert [world.ahead(id) for id in whole] == list(range(20))


def test_estimates_follow_those_ahead() -> None:
    world = World(quotas=(quota("a", None, 99),))
    world.adopt("full", shape("a", 8, expected=100), on(("n1", ALL)))
    world.submit("w1", shape("a", 8, expected=50))
    world.submit("w2", shape("a", 8))
    first, second = (estimate(world.state, id, Ms(0)) for id in ("w1", "w2"))
    assert first is not None
    assert second is not None
    assert (first.starts, second.starts) == (100_000, 150_000)
    assert "stated" in first.basis


def test_an_unknown_duration_is_assumed_and_said_so() -> None:
    world = World(quotas=(quota("a", None, 99),))
    world.adopt("full", shape("a", 8), on(("n1", ALL)))
    world.submit("w", shape("a", 8))
    guess = estimate(world.state, "w", Ms(0))
    assert guess is not None
    assert guess.starts == 3_600_000
    assert guess.low < guess.starts < guess.high
    assert "1 h" in guess.basis


def test_the_name_of_a_line_is_the_same_in_every_process() -> None:
    assert line_of(shape("a", 4, workers=2)) == "line-3c20e3295ef618e4"
    assert line_of(shape("a", 4)) != line_of(shape("b", 4))


# --- one cycle with many ------------------------------------------------------------------------


def test_a_borrower_admitted_in_the_same_cycle_is_taken_back_not_preempted() -> None:
    """It stood first and has not begun; the lender whose guarantee it took comes in the same batch."""
    world = World((node("n1"),), (quota("b", None, 0), quota("z", None, 8)), now=100)
    world.send(world.arrival("b1", shape("b", 8), 1), world.arrival("z1", shape("z", 8), 2))
    assert world.admitted == ["z1"]
    assert not world.outcome.preempted
    assert world.cause("b1") in ("quota", "capacity")
    check_laws(world.state)


def test_work_in_a_scope_that_is_gone_still_counts_for_the_scope_above_it() -> None:
    tree = (quota("acme", None, 8, 8), quota("acme/nlp", "acme"), quota("acme/nlp/dev", "acme/nlp"))
    world = World(TWO_NODES, tree, now=100)
    world.submit("acme-dev", shape("acme/nlp/dev", 8))
    smaller = (quota("acme", None, 8, 8), quota("acme/nlp", "acme"), quota("acme/nlp/prod", "acme/nlp"))
    world.send(QuotasChanged(smaller))
    world.submit("acme-prod", shape("acme/nlp/prod", 8))
    assert world.cause("acme-prod") == "quota"


def test_what_could_never_be_together_can_when_a_node_gets_the_label() -> None:
    world = World((node("n1"), node("n2")), (quota("a", None, 16),))
    world.submit("gang", shape("a", 1, 2, topology=Topology("zone", "required")))
    assert position(world.state, "gang") is None
    world.send(NodesChanged((node("n1", labels={"zone": "z"}), node("n2"))))
    assert "gang" in world.admitted
