"""What the fields of a scenario mean, one small world each (contract §3, §6 and §8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.core.errors import Invalid
from windlass.core.scheduling.scenario import parse_scenario
from windlass.core.scheduling.scenario_run import decide

Doc = dict[str, Any]


def node(name: str, gpus: int = 8, **more: Any) -> Doc:
    return {"name": name, "class": "h", "gpus": gpus, **more}


def quota(name: str, guaranteed: float | None = None, parent: str | None = None, **limit: Any) -> Doc:
    entry = {"gpus": [{"class": "h", "guaranteed": guaranteed, **limit}]} if guaranteed is not None else {}
    return {"name": name, **({"parent": parent} if parent else {}), **entry}


def work(name: str, queue: str = "a", gpus: float = 1, **more: Any) -> Doc:
    return {"name": name, "queue": queue, "class": "h", "gpus": gpus, **more}


def runs(since: int, *on: tuple[str, list[int]], **more: Any) -> Doc:
    return {"since": since, "on": [{"node": name, "gpus": gpus} for name, gpus in on], **more}


def answer(nodes: list[Doc], quotas: list[Doc], workloads: list[Doc], **more: Any) -> Doc:
    world = {"now": 0, "nodes": nodes, "quotas": quotas, "workloads": workloads, **more}
    return decide(parse_scenario(json.dumps(world)))


def where(told: Doc, name: str) -> list[str]:
    (entry,) = [entry for entry in told["admitted"] if entry["workload"] == name]
    return [worker["node"] for worker in entry["placement"]]


def waits(told: Doc, name: str) -> Doc:
    (entry,) = [entry for entry in told["waiting"] if entry["workload"] == name]
    return {**entry, "causes": [entry["cause"], *entry["also"]]}


def test_a_gang_runs_at_one_site() -> None:
    nodes = [node("n1", site="fra1"), node("n2", site="ber1"), node("n3", site="ber1")]
    told = answer(nodes, [quota("a", 24)], [work("pair", gpus=8, workers=2), work("one", gpus=8)])
    assert where(told, "pair") == ["n2", "n3"]
    assert where(told, "one") == ["n1"]
    apart = answer(nodes[:2], [quota("a", 24)], [work("pair", gpus=8, workers=2)])
    assert waits(apart, "pair")["causes"] == ["fragmentation"]


@pytest.mark.parametrize("other", [{"site": "ber1"}, {"labels": {"rack": "r1", "block": "b2"}}])
def test_racks_of_one_name_in_other_blocks_or_sites_are_other_racks(other: Doc) -> None:
    labels = {"rack": "r1", "block": "b1"}
    nodes = [node("n1", labels=labels), node("n2", **{"labels": labels, **other})]
    gang = work("gang", gpus=8, workers=2, topology={"level": "rack", "mode": "required"})
    assert waits(answer(nodes, [quota("a", 16)], [gang]), "gang")["causes"] == ["fragmentation"]
    together = [node("n1", labels=labels), node("n2", labels=labels)]
    assert where(answer(together, [quota("a", 16)], [gang]), "gang") == ["n1", "n2"]


def test_keeping_apart_is_mutual() -> None:
    shy = work("shy", avoid=["loud"], submitted=0)
    told = answer([node("n1"), node("n2")], [quota("a", 16)], [shy, work("loud", submitted=1)])
    assert where(told, "shy") != where(told, "loud")
    running = {**shy, "running": runs(-5, ("n1", [0]))}
    told = answer([node("n1"), node("n2")], [quota("a", 16)], [running, work("loud")])
    assert where(told, "loud") == ["n2"]


def test_dedicated_work_has_no_other_tenant_on_its_nodes() -> None:
    quotas = [
        {"name": "org"},
        quota("t", 8, "org"),
        {"name": "t1", "parent": "t"},
        {"name": "t2", "parent": "t"},
        quota("u", 8, "org"),
    ]
    lone = work("lone", queue="t1", dedicated=True, running=runs(-5, ("n1", [0])))
    told = answer([node("n1", 4), node("n2", 8)], quotas, [lone, work("sister", "t2"), work("other", "u")])
    assert (where(told, "sister"), where(told, "other")) == (["n1"], ["n2"])
    shared = work("shared", queue="u", running=runs(-5, ("n1", [0])))
    told = answer([node("n1", 4)], quotas, [shared, work("lone", "t1", dedicated=True)])
    assert waits(told, "lone")["causes"] == ["capacity"]
    assert "other tenants" in waits(told, "lone")["message"]


def test_a_tenant_may_be_avoided_and_does_not_join_either() -> None:
    quotas = [quota("t", 8), {"name": "t1", "parent": "t"}, quota("u", 8)]
    shy = work("shy", queue="u", avoid=["t"], running=runs(-5, ("n1", [0])))
    told = answer([node("n1", 4), node("n2", 8)], quotas, [shy, work("loud", "t1")])
    assert where(told, "loud") == ["n2"]
    loud = work("loud", "t1", running=runs(-5, ("n1", [0])))
    told = answer([node("n1", 4), node("n2", 8)], quotas, [loud, work("shy", "u", avoid=["t"])])
    assert where(told, "shy") == ["n2"]


def test_a_worker_larger_than_every_node_never_runs_and_says_so() -> None:
    nodes = [node("n1"), node("n2", state="down"), node("n3")]
    told = waits(answer(nodes, [quota("a", 32)], [work("big", gpus=16)]), "big")
    assert (told["cause"], told["ahead"], told["estimatedStart"]) == ("fragmentation", None, None)
    assert "never" in told["message"]
    assert "16 GPUs" in told["message"]
    hungry = work("hungry", cpuMilli=9000)
    told = waits(answer([node("n1", cpuMilli=8000)], [quota("a", 8)], [hungry]), "hungry")
    assert told["ahead"] is None
    assert "9000 mCPU" in told["message"]


def test_a_class_without_a_node_yet_waits_for_capacity_in_its_place() -> None:
    told = waits(answer([], [quota("a", 32)], [work("big", gpus=16)]), "big")
    assert (told["cause"], told["ahead"]) == ("capacity", 0)


def test_work_that_has_no_room_on_this_fleet_hides_nobodys_estimate() -> None:
    """Two nodes will not be three, so the gang holds nobody up, in the cycle and in the estimates."""
    works = [
        work("runs", gpus=8, expectedDuration=60, running=runs(0, ("n1", list(range(8))))),
        work("too-many", gpus=8, workers=3, priority=5),
        work("next", gpus=8, priority=1),
        work("after", gpus=8),
    ]
    told = answer(
        [node("n1"), node("n2", state="down")], [quota("a", 99)], works, options={"preemption": False}
    )
    assert waits(told, "too-many")["estimatedStart"] is None
    assert waits(told, "next")["estimatedStart"] == 60
    assert waits(told, "after")["estimatedStart"] == 3660


def test_causes_that_bind_beside_the_first_are_told() -> None:
    full = work("full", queue="b", gpus=8, running=runs(-1, ("n1", list(range(8)))))
    quotas = [quota("a", 4, max=8), quota("b", 8), {"name": "c"}]
    works = [full, work("large", gpus=9), work("stranger", queue="c"), work("away", sites=["s9"], gpus=9)]
    told = answer([node("n1")], quotas, works)
    assert waits(told, "large")["causes"] == ["entitlement", "capacity"]
    assert waits(told, "stranger")["causes"] == ["entitlement", "capacity"]
    assert waits(told, "away")["causes"] == ["entitlement", "site"]


def test_work_that_can_never_run_says_so_whatever_else_is_in_its_way() -> None:
    fixed = work("fixed", gpus=4, preemptible=False, sites=["s9"])
    told = waits(answer([node("n1")], [quota("a", 2), quota("b", 8)], [fixed]), "fixed")
    assert told["causes"] == ["site", "quota"]
    assert told["ahead"] is None
    assert "never" in told["message"]


def test_of_equally_tight_nodes_the_cheapest_is_taken() -> None:
    nodes = [node("n1", pricePerGpuHour="2.49"), node("n2", pricePerGpuHour="1.99"), node("n3", 4)]
    assert where(answer(nodes, [quota("a", 8)], [work("w", gpus=8)]), "w") == ["n2"]
    assert where(answer(nodes, [quota("a", 8)], [work("w", gpus=4)]), "w") == ["n3"]


def test_of_equal_borrowers_the_one_that_loses_least_gives_way() -> None:
    old = work("old", gpus=4, running=runs(-600, ("n1", [0, 1, 2, 3]), lastCheckpoint=-10))
    new = work("new", gpus=4, running=runs(-300, ("n1", [4, 5, 6, 7])))
    told = answer([node("n1")], [quota("a", 4), quota("b", 4)], [old, new, work("back", queue="b", gpus=4)])
    assert told["preempted"] == [{"workload": "old", "for": "back", "reason": "reclaim"}]


def test_a_reservation_does_not_change_how_a_gpu_is_shared() -> None:
    """The head wants a MIG slice and waits for a GPU that is time-sliced; who time-slices beside it may."""
    works = [
        work("slice", gpus=0.25, expectedDuration=100, running=runs(0, ("n1", [0]))),
        {
            "name": "mig",
            "queue": "a",
            "class": "h",
            "migProfile": "3g.40gb",
            "priority": 5,
            "preempts": False,
        },
        work("long", gpus=0.25, submitted=1),
        work("short", gpus=0.25, submitted=2, expectedDuration=50),
    ]
    told = answer([node("n1", 1)], [quota("a", 8)], works)
    assert where(told, "short") == ["n1"]
    assert waits(told, "mig")["causes"] == ["fragmentation"]
    assert waits(told, "long")["causes"] == ["priority"]
    assert "mig" in waits(told, "long")["message"]


def test_small_work_does_not_take_the_quota_of_the_one_ahead() -> None:
    works = [
        work("runs", gpus=6, expectedDuration=100, running=runs(0, ("n1", [0, 1, 2, 3, 4, 5]))),
        work("head", gpus=4, priority=5, preempts=False),
        work("small", gpus=1),
    ]
    told = answer([node("n1"), node("n2", 2)], [quota("a", 10, max=10)], works)
    assert waits(told, "head")["causes"] == ["fragmentation"]
    assert waits(told, "small")["causes"] == ["priority"]


def test_a_queue_does_not_pay_with_guaranteed_work_for_what_it_was_only_promised() -> None:
    """`own` is all of a's guarantee. Going beyond it with `more`, in what `loan` leaves, must not cost a
    `own` when `late` comes for the guarantee of d."""
    works = [
        work("own", gpus=4, running=runs(-100, ("n2", [0, 1, 2, 3]))),
        work("loan", queue="c", gpus=8, running=runs(-50, ("n1", list(range(8))))),
        work("back", queue="b", gpus=2, submitted=-9),
        work("more", gpus=4, submitted=-8),
        work("late", queue="d", gpus=2, workers=3, submitted=-7),
    ]
    quotas = [quota("a", 4), quota("b", 2), quota("c", 0), quota("d", 6)]
    told = answer([node("n1"), node("n2", 4)], quotas, works, options={"fairShare": False})
    assert {entry["workload"]: entry["after"] for entry in told["admitted"]} == {
        "back": ["loan"],
        "more": ["loan"],
    }
    assert [entry["workload"] for entry in told["preempted"]] == ["loan"]
    assert waits(told, "late")["causes"] == ["quota", "capacity"]


def test_what_queues_borrow_adds_up() -> None:
    quotas = [
        quota("org", 8),
        quota("other", 8),
        {"name": "x", "parent": "org"},
        {"name": "y", "parent": "org"},
    ]
    works = [
        work("x1", queue="x", gpus=6, running=runs(-10, ("n1", [0, 1, 2, 3, 4, 5]))),
        work("y1", queue="y", gpus=6),
    ]
    told = answer([node("n1"), node("n2")], quotas, works)
    assert told["admitted"][0]["borrowed"] == "4"
    assert told["usage"]["x"]["h"] == {"used": "6", "borrowed": "0"}
    assert told["usage"]["y"]["h"] == {"used": "6", "borrowed": "4"}


def test_room_that_victims_leave_is_given_out_in_the_same_cycle() -> None:
    works = [
        work("loan", gpus=8, running=runs(-5, ("n1", list(range(8))))),
        work("more", gpus=4, submitted=-9),
        work("back", queue="b", gpus=4, submitted=-1),
    ]
    told = answer([node("n1")], [quota("a", 4), quota("b", 4)], works)
    assert {entry["workload"]: entry["after"] for entry in told["admitted"]} == {
        "back": ["loan"],
        "more": ["loan"],
    }
    assert waits(told, "loan")["causes"] == ["quota", "capacity"]


def test_a_borrowers_admission_taken_back_lets_others_go_in_their_order() -> None:
    """`wide` would borrow; `back` needs its guarantee. What is left is `high`'s before `low`'s."""
    works = [
        work("wide", gpus=2, priority=2),
        work("high", gpus=1, priority=1),
        work("back", queue="b", gpus=1),
        work("low", gpus=1),
    ]
    told = answer([node("n1", 2)], [quota("a", 1), quota("b", 1)], works)
    assert [entry["workload"] for entry in told["admitted"]] == ["back", "high"]


def test_null_is_absent() -> None:
    nulls = dict.fromkeys(["expectedDuration", "topology", "running", "avoid", "sites", "minWorkers"])
    told = answer([node("n1", labels=None)], [quota("a", 1, max=None, lend=None)], [{**work("w"), **nulls}])
    assert where(told, "w") == ["n1"]
    with pytest.raises(Invalid) as refused:
        answer([node("n1")], [quota("a", 1)], [{**work("w"), "class": None}])
    assert [reason.message for reason in refused.value.reasons] == ["workloads[0].class is required"]


@pytest.mark.parametrize(
    ("quotas", "works", "told"),
    [
        (
            [{"name": "org", "gpus": [{"class": "h", "max": 4}]}, quota("a", 8, "org")],
            [],
            "guaranteed 8 together",
        ),
        ([quota("a", 8)], [work("w", avoid=["w"])], "names the workload itself"),
        (
            [quota("a", 8)],
            [work("w", running=runs(-5, ("n1", [0]), lastCheckpoint=5))],
            "lastCheckpoint is later than now",
        ),
        ([quota("a", 8)], [work("w", running=runs(-5, ("n1", [0, 1])))], "holds 2 workers, not 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(quotas: list[Doc], works: list[Doc], told: str) -> None:
    with pytest.raises(Invalid) as refused:
        answer([node("n1")], quotas, works)
    assert [told in reason.message for reason in refused.value.reasons] == [True]


def test_every_fault_of_a_quota_tree_is_told_at_once() -> None:
    quotas = [quota("x", 1, "y"), quota("y", 1, "x"), quota("below", 1, "x"), quota("lost", 1, "nowhere")]
    with pytest.raises(Invalid) as refused:
        answer([node("n1")], quotas, [])
    assert [reason.message for reason in refused.value.reasons] == [
        "quotas[0].parent makes x its own ancestor",
        "quotas[1].parent makes y its own ancestor",
        "quotas[3].parent names nowhere, which is in no quota",
    ]


def test_a_label_that_no_node_has_is_never_there() -> None:
    nodes = [node("n1", labels={"rack": "r1"}), node("n2", state="down"), node("n3", site="ber1")]
    asks = work("gang", workers=2, topology={"level": "zone", "mode": "required"})
    told = answer(nodes, [quota("a", 24)], [asks])
    assert (waits(told, "gang")["causes"], waits(told, "gang")["ahead"]) == (["fragmentation"], None)
    assert "no node of h has a label zone" in waits(told, "gang")["message"]
    assert "never" in waits(told, "gang")["message"]
    down = [*nodes, node("n4", labels={"zone": "z1"}, state="down")]
    assert waits(answer(down, [quota("a", 24)], [asks]), "gang")["ahead"] == 0, "that node may come back"
    prefers = {**asks, "topology": {"level": "zone"}}
    assert len(where(answer(nodes, [quota("a", 24)], [prefers]), "gang")) == 2


def test_what_is_free_beside_somebody_avoided_is_told() -> None:
    there = work("there", preemptible=False, running=runs(-5, ("n1", [0])))
    told = answer([node("n1")], [quota("a", 16)], [there, work("shy", gpus=2, avoid=["there"])])
    assert waits(told, "shy")["causes"] == ["capacity"]
    assert waits(told, "shy")["message"] == (
        "It needs 2 GPUs of h; 0 are free on 0 nodes, 7 more beside what it keeps away from."
    )


def test_a_gang_larger_than_the_fleet_waits_for_nodes_and_says_so() -> None:
    nodes = [node("n1"), node("n2", state="draining")]
    told = waits(answer(nodes, [quota("a", 100)], [work("giant", gpus=8, workers=3)]), "giant")
    assert (told["causes"], told["estimatedStart"]) == (["capacity"], None)
    assert told["message"] == (
        "It needs 24 GPUs of h; 8 are free on 1 node, 8 on nodes that are not ready; "
        "there are 16 in all, in use or not."
    )
    assert told["remedy"] == (
        "No end of what runs makes room for it: it starts when nodes are added or become ready."
    )


def test_an_instance_that_does_not_fit_beside_the_others_is_told() -> None:
    """Three of `1g.20gb` leave four compute slices, and no start for a `3g.40gb`."""
    there = {"name": "there", "queue": "a", "class": "h100-80g", "migProfile": "1g.20gb", "units": 3}
    there |= {"priority": 9, "running": runs(-5, ("n1", [0, 0, 0]))}
    asks = {"name": "asks", "queue": "a", "class": "h100-80g", "migProfile": "3g.40gb"}
    quotas = [{"name": "a", "gpus": [{"class": "h100-80g", "guaranteed": 8}]}]
    told = answer([{"name": "n1", "class": "h100-80g", "gpus": 1}], quotas, [there, asks])
    assert waits(told, "asks")["causes"] == ["fragmentation"]
    assert "but no 3g.40gb fits beside the instances there" in waits(told, "asks")["message"]
