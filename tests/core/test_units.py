"""Units: text in, integers, the same text out; what does not fit is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core import units

YEAR_1 = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1000
YEAR_10000 = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()) * 1000 + 999


@given(st.integers(0, units.MAX_MILLI_GPU))
def test_a_gpu_amount_survives_being_written_and_read(amount: int) -> None:
    assert units.parse_gpus(units.format_gpus(amount)) == amount


@given(st.integers(0, units.MAX_MICROS), st.integers(0, 6))
def test_money_survives_being_written_and_read(micros: int, decimals: int) -> None:
    text = units.format_money(micros, decimals=decimals)
    assert units.parse_money(text) == micros
    assert len(text.partition(".")[2]) >= decimals


@given(st.integers(-units.MAX_MICROS, -1))
def test_a_debt_is_written_as_the_amount_with_a_sign(micros: int) -> None:
    assert units.format_money(micros) == "-" + units.format_money(-micros)
    assert units.format_gpus(micros) == "-" + units.format_gpus(-micros)


@given(st.integers(0, 10**12), st.integers(-40, 0))
def test_a_decimal_is_read_exactly_or_refused(digits: int, exponent: int) -> None:
    value = Decimal(digits).scaleb(exponent)
    exact = Fraction(digits) * Fraction(10) ** exponent * units.MICROS
    if exact.denominator == 1 and exact <= units.MAX_MICROS:
        assert units.parse_money(value) == exact
    else:
        with pytest.raises(ValueError):
            units.parse_money(value)


@pytest.mark.parametrize(
    "value",
    [
        Decimal("4.0000000000000000000000000000001"),  # more digits than Decimal computes with
        Decimal("1E-999999"),
        "0.0001",
        "1.00000000000001",
    ],
)
def test_too_many_decimals_are_refused_never_rounded(value: str | Decimal) -> None:
    with pytest.raises(ValueError, match="at most 3 decimals"):
        units.parse_gpus(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        "+1",
        "-1",
        "1e3",
        ".5",
        "1.",
        "0x1",
        "1_000",
        "٣",
        "nan",
        "inf",
        True,
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        Decimal("-0.001"),
        -1,
        Decimal("1E+999999"),
    ],
)
def test_what_is_no_plain_amount_is_refused(value: str | int | Decimal) -> None:
    with pytest.raises(ValueError):
        units.parse_gpus(value)
    with pytest.raises(ValueError):
        units.parse_money(value)


def test_the_greatest_amounts_are_accepted_and_nothing_above() -> None:
    assert units.parse_gpus("1000000") == units.MAX_MILLI_GPU
    assert units.parse_money("1000000000000.000000") == units.MAX_MICROS
    assert units.parse_gpus(Decimal("1E+3")) == 1_000_000
    with pytest.raises(ValueError, match="at most 1000000"):
        units.parse_gpus("1000000.001")
    with pytest.raises(ValueError, match="at most 1000000000000"):
        units.parse_money("1000000000000.000001")


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**15))
def test_rounding_is_half_even(numerator: int, denominator: int) -> None:
    assert units.round_half_even(numerator, denominator) == round(Fraction(numerator, denominator))


@given(st.integers(-(10**9), 10**9))
def test_a_tie_goes_to_the_even_neighbour(whole: int) -> None:
    rounded = units.round_half_even(2 * whole + 1, 2)
    assert rounded % 2 == 0
    assert rounded in (whole, whole + 1)


@pytest.mark.parametrize("denominator", [0, -2])
def test_rounding_refuses_a_denominator_that_is_not_above_zero(denominator: int) -> None:
    with pytest.raises(ValueError, match="above zero"):
        units.round_half_even(1, denominator)


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (5_000, "0.00"),
        (15_000, "0.02"),
        (25_000, "0.02"),
        (-15_000, "-0.02"),
        (-1, "0.00"),
        (19_920_000, "19.92"),
    ],
)
def test_cents_are_rounded_half_even(micros: int, text: str) -> None:
    assert units.format_cents(micros) == text


@given(st.integers(0, units.MAX_DURATION_S))
def test_a_duration_survives_being_written_and_read(seconds: int) -> None:
    assert units.parse_duration(units.format_duration(seconds * 1000)) == seconds * 1000


def test_a_duration_is_written_in_its_shortest_exact_form() -> None:
    lengths = [0, 90_000, 600_000, 14_400_000, 86_400_000, 1_500, 999]
    assert [units.format_duration(length) for length in lengths] == [
        "0s", "90s", "10m", "4h", "1d", "1500ms", "999ms",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "10", "s", "1.5h", "-1s", "10 m", "100ms", "1w", "1h30m", "3661d", "1s\n"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration is"):
        units.parse_duration(text)


@given(st.integers(YEAR_1, YEAR_10000))
def test_an_instant_survives_being_written_and_read(at: int) -> None:
    text = units.format_timestamp(at)
    assert units.parse_timestamp(text) == at
    assert len(text) == len("2026-01-31T12:00:00.000Z")


@given(st.integers(YEAR_1, YEAR_10000), st.integers(YEAR_1, YEAR_10000))
def test_instants_sort_as_their_texts_do(one: int, other: int) -> None:
    assert (one < other) == (units.format_timestamp(one) < units.format_timestamp(other))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1970-01-01T00:00:00.001999Z", 1),
        ("1970-01-01T00:00:00.001999999Z", 1),
        ("1969-12-31T23:59:59.9985Z", -2),
    ],
)
def test_an_instant_is_read_in_utc_and_cut_to_milliseconds(text: str, at: int) -> None:
    assert units.parse_timestamp(text) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-02-30T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a time"):
        units.parse_timestamp(text)
