"""Coverage: what went through types, of what is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from windlass.core.coverage import Coverage, Held, coverage, together
from windlass.core.units import GpuUs

ROWS = some.lists(
    some.builds(
        Held,
        tenant=some.sampled_from(["acme", "globex"]),
        type=some.sampled_from(["", "raw@1.0.0", "raw@2.0.0", "job@1.0.0", "job@1.1.0", "rawest@1.0.0"]),
        gpu_us=some.integers(0, 10**18).map(GpuUs),
    )
)


@given(ROWS)
def test_no_time_is_lost_and_versions_do_not_matter(rows: list[Held]) -> None:
    total = coverage(rows)
    assert total.through_types + total.raw + total.unknown == sum(row.gpu_us for row in rows)
    assert coverage(together(rows)) == total
    merged = together(rows)
    assert len({(row.tenant, row.type) for row in merged}) == len(merged)


@given(ROWS)
def test_a_percentage_is_of_what_is_known_and_within_bounds(rows: list[Held]) -> None:
    total = coverage(rows)
    if total.percent is None:
        assert total.through_types == total.raw == 0
    else:
        assert 0 <= float(total.percent) <= 100
        assert (total.percent == "100.00") or total.raw > 0


def test_a_percentage_has_two_decimals() -> None:
    assert Coverage(GpuUs(2), GpuUs(1), GpuUs(50)).percent == "66.67"
    assert Coverage(GpuUs(0), GpuUs(1), GpuUs(0)).percent == "0.00"
