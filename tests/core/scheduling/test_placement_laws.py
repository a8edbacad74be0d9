"""Placement against brute force on small worlds, and what no placement may do."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.scheduling.geometry import STARTS, ways
from tests.core.scheduling.worlds import CLASS, node

from windlass.core.scheduling.gpus import parts_of
from windlass.core.scheduling.model import Node, Placement, Shape, Topology
from windlass.core.scheduling.nodes import Fleet, Take
from windlass.core.scheduling.placement import place
from windlass.core.units import GPU


def asks() -> st.SearchStrategy[Shape]:
    whole = st.sampled_from([0, 1, 1, 2, 3, 4]).map(lambda gpus: {"gpus": gpus * GPU})
    share = st.sampled_from([100, 250, 333, 500, 810]).map(
        lambda milli: {"gpus": milli, "unit": milli, "sharing": "time-slice"}
    )
    mig = st.tuples(st.sampled_from(sorted(STARTS)[:-1]), st.integers(1, 3)).map(
        lambda one: {
            "gpus": int(one[0][0]) * GPU // 7 * one[1],
            "unit": int(one[0][0]) * GPU // 7,
            "sharing": "mig",
            "mig_profile": one[0],
        }
    )
    host = st.fixed_dictionaries(
        {
            "workers": st.sampled_from([1, 1, 1, 2, 3]),
            "cpu_milli": st.sampled_from([0, 1000, 3000]),
            "memory_mib": st.sampled_from([0, 0, 512]),
            "topology": st.sampled_from([None, None, Topology("rack", "required"), Topology("rack")]),
            "sites": st.sampled_from([(), (), ("s1",), ("s2",)]),
        }
    )
    return st.builds(
        lambda need, more: Shape("a", CLASS, **{**need, **more}), st.one_of(whole, share, mig), host
    )


def fleets() -> st.SearchStrategy[list[Node]]:
    one = st.fixed_dictionaries(
        {
            "gpus": st.integers(1, 4),
            "cpu_milli": st.sampled_from([None, 4000, 8000]),
            "memory_mib": st.sampled_from([None, 1024]),
            "site": st.sampled_from(["s1", "s1", "s2"]),
            "price": st.sampled_from([0, 5]),
            "rack": st.sampled_from(["r1", "r2"]),
        }
    )

    def named(many: list[dict[str, Any]]) -> list[Node]:
        return [
            node(f"n{at}", labels={"rack": it["rack"]}, **{key: it[key] for key in it if key != "rack"})
            for at, it in enumerate(many)
        ]

    return st.lists(one, min_size=1, max_size=4).map(named)


@given(fleets(), st.lists(st.tuples(asks(), st.booleans()), max_size=14))
@settings(max_examples=300, deadline=None)
def test_nothing_is_given_twice_and_nothing_is_left_out(
    fleet: list[Node], steps: list[tuple[Shape, bool]]
) -> None:
    """Work comes and goes; after each step nobody has too much, and None is said only where it is true."""
    rooms = Fleet(fleet)
    placed: list[tuple[Shape, Placement, list[Take]]] = []
    for shape, stays in steps:
        rooms.mix(CLASS).note(shape)
        found = place(rooms, shape, shape.workers)
        assert (found is not None) == any_arrangement(rooms, fleet, shape), shape
        if found is None:
            continue
        assert len(found.workers) == shape.workers
        assert len({rooms.rooms[worker.node].node.site for worker in found.workers}) == 1
        takes = rooms.take(shape, found)
        placed.append((shape, found, takes))
        if not stays:
            gone = placed.pop(0)
            rooms.give_back(gone[2])
        nobody_has_too_much(fleet, [(shape, spots) for shape, spots, _ in placed])
    for _, _, takes in placed:
        rooms.give_back(takes)
    assert all(room.left == [GPU] * room.node.gpus and not any(room.slices) for room in rooms.rooms.values())


def nobody_has_too_much(fleet: list[Node], placed: list[tuple[Shape, Placement]]) -> None:
    gpus: Counter[tuple[str, int]] = Counter()
    instances: dict[tuple[str, int], tuple[str, ...]] = {}
    cpu: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for shape, placement in placed:
        for worker in placement.workers:
            cpu[worker.node] += shape.cpu_milli
            memory[worker.node] += shape.memory_mib
            for gpu, part in zip(worker.gpus, parts_of(shape), strict=True):
                gpus[worker.node, gpu] += part
                if shape.mig_profile is not None:
                    there = instances.get((worker.node, gpu), ())
                    instances[worker.node, gpu] = tuple(sorted((*there, shape.mig_profile)))
    assert all(amount <= GPU for amount in gpus.values())
    assert all(ways(found) for found in instances.values()), "MIG instances overlap"
    for one in fleet:
        assert one.cpu_milli is None or cpu[one.name] <= one.cpu_milli
        assert one.memory_mib is None or memory[one.name] <= one.memory_mib


def any_arrangement(rooms: Fleet, fleet: list[Node], shape: Shape) -> bool:
    """By trying everything: how many workers each node takes, then whether some place takes all of them."""
    sums: Counter[tuple[str, ...]] = Counter()
    for one in fleet:
        if shape.sites and one.site not in shape.sites:
            continue
        required = shape.topology is not None and shape.topology.mode == "required"
        where = (one.site, one.labels["rack"]) if required else (one.site,)
        sums[where] += most_workers(rooms, one, shape, shape.workers)
    return max(sums.values(), default=0) >= shape.workers


def most_workers(rooms: Fleet, one: Node, shape: Shape, want: int) -> int:
    room = rooms.rooms[one.name]
    most = want
    if shape.cpu_milli:
        most = min(most, room.cpu // shape.cpu_milli)
    if shape.memory_mib:
        most = min(most, room.memory // shape.memory_mib)
    parts = parts_of(shape)
    if not parts:
        return most
    pieces = 0
    for gpu in range(one.gpus):
        if room.modes[gpu] not in (None, shape.sharing):
            continue
        if shape.mig_profile is not None:
            pieces += instances_more(room.slices[gpu], shape.mig_profile)
        elif shape.sharing == "dedicated":
            pieces += room.left[gpu] == GPU
        else:
            pieces += room.left[gpu] // parts[0]
    return min(most, pieces // len(parts))


def instances_more(slices: int, profile: str) -> int:
    """How many more could lie beside the slices that are in use: all subsets of starts, the largest."""
    size, starts = STARTS[profile]
    free = [start for start in starts if not slices & (((1 << size) - 1) << start)]
    return min(len(free), (7 - (slices >> 9)) // int(profile[0]))


@given(fleets(), st.lists(asks(), min_size=1, max_size=10))
@settings(max_examples=60, deadline=None)
def test_a_question_changes_no_later_answer(fleet: list[Node], shapes: list[Shape]) -> None:
    quiet, asked = Fleet(fleet), Fleet(fleet)
    for shape in shapes:
        for other in shapes:
            place(asked, other, other.workers)
        for rooms in (quiet, asked):
            rooms.mix(CLASS).note(shape)
        found, again = place(quiet, shape, shape.workers), place(asked, shape, shape.workers)
        assert found == again
        if found is not None:
            quiet.take(shape, found)
            asked.take(shape, found)
