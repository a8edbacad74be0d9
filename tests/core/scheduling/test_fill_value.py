"""The value of a node is what offering it every sequence would tell, however much of that is remembered."""

from __future__ import annotations

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
Node = tuple[int, int, int, str]
"""Free GPUs before anything is taken, CPU, memory, site."""


def nodes() -> st.SearchStrategy[Node]:
    return st.tuples(
        st.integers(1, LARGEST),
        st.sampled_from([0, 900, 1000, 4500, 8000, 64_000]),
        st.sampled_from([0, 512, 5000, 1 << 20]),
        st.sampled_from(["s1", "s2", "s3"]),
    )


def share(milli: int, cpu_milli: int) -> Shape:
    amount = MilliGpu(milli)
    return Shape("a", CLASS, gpus=amount, unit=amount, sharing="time-slice", cpu_milli=cpu_milli)


@given(
    st.lists(asks(), min_size=1, max_size=12),
    st.lists(st.tuples(nodes(), st.lists(st.integers(0, 11), max_size=4)), min_size=1, max_size=20),
)
@settings(max_examples=200, deadline=None)
def test_what_is_remembered_changes_no_value(
    arrived: list[Shape], looked_at: list[tuple[Node, list[int]]]
) -> None:
    """Nodes on which some of the work has been placed, valued one after the other by the same memory."""
    table, mix = GpuStates(), Mix()
    for shape in arrived:
        mix.note(shape)
    value = FillValue(table, mix, LARGEST)
    needs = [table.number(offer.need) for offer in mix.counts]
    for (gpus, cpu, memory, site), taken in looked_at:
        state = table.wholly(LARGEST, gpus)
        for at in taken:
            state = state[needs[at % len(needs)]] or state
        expected = by_offering_everything(mix, table, state, (cpu, memory), site)
        assert value.value(state, cpu, memory, site) == pytest.approx(expected)


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
