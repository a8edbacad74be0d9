"""The value of a node is what offering it every sequence would tell, however much of that is remembered."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.scheduling.test_placement_laws import asks
from tests.core.scheduling.worlds import CLASS

from windlass.core.scheduling.gpus import GpuState, GpuStates
from windlass.core.scheduling.mix import Mix
from windlass.core.scheduling.model import Shape
from windlass.core.scheduling.offering import Offering
from windlass.core.scheduling.value import CPU_STEP, MEMORY_STEP, FillValue
from windlass.core.units import GPU, MilliGpu

LARGEST = 4
HOSTS = [
    (cpu, memory) for cpu in (0, 900, 2000, 4500, 8000, 64_000) for memory in (512, 9000, 30_000, 1 << 20)
]
"""CPU and memory of nodes."""


def works() -> st.SearchStrategy[list[Shape]]:
    """What has arrived: of every kind, or whole GPUs and shares by time alone."""
    plain = st.builds(
        lambda milli, cpu, memory: share(milli, cpu, memory) if milli < GPU else whole(milli, cpu, memory),
        st.sampled_from([100, 250, 330, 460, 500, 810, GPU, 2 * GPU]),
        st.sampled_from([1000, 1500, 3000, 7000]),
        st.sampled_from([0, 512, 5000, 10_000]),
    )
    return st.one_of(st.lists(asks(), min_size=1, max_size=12), st.lists(plain, min_size=1, max_size=12))


def share(milli: int, cpu_milli: int, memory_mib: int = 0) -> Shape:
    amount = MilliGpu(milli)
    return Shape(
        "a", CLASS, gpus=amount, unit=amount, sharing="time-slice", cpu_milli=cpu_milli, memory_mib=memory_mib
    )


def whole(milli: int, cpu_milli: int, memory_mib: int) -> Shape:
    return Shape("a", CLASS, gpus=MilliGpu(milli), cpu_milli=cpu_milli, memory_mib=memory_mib)


@given(
    works(),
    st.lists(st.tuples(st.integers(1, LARGEST), st.lists(st.integers(0, 11), max_size=4)), max_size=4),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_what_is_remembered_changes_no_value(
    arrived: list[Shape], left: list[tuple[int, list[int]]], chance: Random
) -> None:
    """Nodes on which some of the work has been placed, valued one after the other by the same memory."""
    table, mix = GpuStates(), Mix()
    for shape in arrived:
        mix.note(shape)
    value = FillValue(table, mix, LARGEST)
    needs = [table.number(offer.need) for offer in mix.counts]
    states = []
    for gpus, taken in left:
        state = table.wholly(LARGEST, gpus)
        for at in taken:
            after = state[needs[at % len(needs)]]
            state = state if after is None else after
        states.append(state)
    nodes = [(state, host, site) for state in states for host in HOSTS for site in ("s1", "s2", "s3")]
    for state, host, site in chance.sample(nodes, min(60, len(nodes))):
        expected = by_offering_everything(mix, table, state, host, site)
        assert value.value(state, *host, site) == pytest.approx(expected)


def by_offering_everything(
    mix: Mix, table: GpuStates, gpus: GpuState, host: tuple[int, int], site: str
) -> float:
    total, sequences = 0, mix.draw(LARGEST)
    for sequence in sequences:
        cpu, memory = host[0] // CPU_STEP * CPU_STEP, host[1] // MEMORY_STEP * MEMORY_STEP
        state = gpus
        for offer in sequence:
            after = state[table.number(offer.need)]
            allowed = not offer.sites or site in offer.sites
            if allowed and after is not None and offer.cpu_milli <= cpu and offer.memory_mib <= memory:
                state, cpu, memory = after, cpu - offer.cpu_milli, memory - offer.memory_mib
                total += offer.need.amount
    return total / len(sequences)


def test_nothing_is_offered_again_to_a_node_that_differs_in_nothing_that_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, mix = GpuStates(), Mix()
    for shape in [share(500, 1000)] * 4 + [share(300, 2000)] * 4:
        mix.note(shape)
    value = FillValue(table, mix, LARGEST)
    offered = 0
    really = Offering.offered

    def counted(self: Offering, whole: int, gaps: tuple[int, ...], cpu: int, memory: int) -> object:
        nonlocal offered
        offered += 1
        return really(self, whole, gaps, cpu, memory)

    monkeypatch.setattr(Offering, "offered", counted)
    known = value.value(table.state([0, 0, GPU, 650]), 30_000, 64_000, "s1")
    assert known and offered
    offered = 0
    alike = [
        (table.state([0, 0, GPU, 650]), 20_000, 64_000, "s1"),  # more CPU than two GPUs can use
        (table.state([0, 0, GPU, 650]), 30_000, 32_000, "s1"),
        (table.state([0, 0, GPU, 650]), 30_000, 64_000, "s2"),  # nothing asks for a site
        (table.state([0, 0, GPU, 690]), 30_000, 64_000, "s1"),  # 300 and 300, or 500
        (table.state([0, 250, GPU, 600]), 30_000, 64_000, "s1"),  # 250 is of no use
        (table.state([GPU, 650]), 30_000, 64_000, "s1"),
    ]
    assert [value.value(*one) for one in alike] == [known] * len(alike)
    assert not offered
