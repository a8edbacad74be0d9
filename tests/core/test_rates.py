"""Buckets let no more through than they say, over any window, alone and shared."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.rates import UNIT, Bucket, Rate, charge, first_grant, full, level_at, settle, take
from windlass.core.shares import Share
from windlass.core.units import Ms

rates = st.builds(Rate, st.integers(1, 5000), st.integers(1, 20_000))
START = Ms(1_772_442_000_000)


def most_in_any_window(passed: list[tuple[int, int]], rate: Rate) -> int:
    """How far any window of these (time, thousandths) goes beyond its rate * t."""
    worst = 0
    for index, (begin, _) in enumerate(passed):
        total = 0
        for at, amount in passed[index:]:
            total += amount
            worst = max(worst, total - rate.per_s * (at - begin))
    return worst


@given(rates, st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 500)), max_size=60))
def test_no_window_sees_more_than_a_burst_and_the_rate(rate: Rate, asked: list[tuple[int, int]]) -> None:
    bucket, now, passed = full(rate, START), START, list[tuple[int, int]]()
    for after, cost in asked:
        now = Ms(now + after)
        bucket, wait_ms = take(bucket, rate, cost, now)
        if not wait_ms:
            passed.append((now, min(cost, rate.burst) * UNIT))
    assert most_in_any_window(passed, rate) <= rate.burst * UNIT


@given(rates, st.integers(0, 10**7), st.integers(1, 30_000))
def test_who_waits_as_long_as_told_passes_and_a_millisecond_less_is_too_little(
    rate: Rate, level: int, cost: int
) -> None:
    bucket = Bucket(min(level, rate.burst * UNIT), START)
    _, wait_ms = take(bucket, rate, cost, START)
    assert take(bucket, rate, cost, Ms(START + wait_ms))[1] == 0
    if wait_ms:
        assert take(bucket, rate, cost, Ms(START + wait_ms - 1))[1] > 0


@given(rates, st.integers(0, 10**6))
def test_a_clock_that_is_set_back_fills_nothing(rate: Rate, back: int) -> None:
    assert level_at(Bucket(0, START), rate, Ms(START - back)) == 0


@given(rates, st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 50), st.integers(0, 500)), max_size=60))
def test_what_is_charged_afterwards_is_waited_for_by_who_asks_next(
    rate: Rate, asked: list[tuple[int, int, int]]
) -> None:
    """A request may pass beyond the burst by what its own answer turns out to cost, and by nothing else."""
    bucket, now, passed = full(rate, START), START, list[tuple[int, int]]()
    for after, cost, more in asked:
        now = Ms(now + after)
        bucket, wait_ms = take(bucket, rate, cost, now)
        if not wait_ms:
            bucket = charge(bucket, rate, more, now)
            passed.append((now, min(cost, rate.burst) * UNIT + min(more, rate.burst) * UNIT))
    assert bucket.level >= -rate.burst * UNIT
    assert most_in_any_window(passed, rate) <= (rate.burst + min(500, rate.burst)) * UNIT


@given(st.integers(1, 1000), st.lists(st.integers(0, 5000), min_size=1, max_size=20), st.booleans())
def test_a_share_owes_what_was_charged_and_no_more_than_a_burst(
    burst: int, prices: list[int], owed: bool
) -> None:
    share = Share(burst, owed=owed)
    for price in prices:
        share.charge(price, most=burst)
    assert share.left == max(-burst, burst - sum(prices))
    returned = share.offer().returned
    spent = burst - max(-burst, burst - sum(prices))
    if owed:
        assert returned == -spent
    else:
        assert returned <= burst - spent


# --- shared ---------------------------------------------------------------------------------------


@dataclass
class Group:
    """Replicas of one bucket, and the pool between them. An exchange may be lost on either way."""

    rate: Rate
    replicas: int
    now: int = START
    pool: Bucket | None = None
    shares: dict[int, Share] = field(default_factory=dict)
    passed: list[tuple[int, int]] = field(default_factory=list)

    def ask(self, who: int, cost: int) -> None:
        if who not in self.shares:
            self.shares[who] = Share(first_grant(self.rate, self.replicas))
        price = min(cost, self.rate.burst) * UNIT
        if self.shares[who].spend(price):
            self.passed.append((self.now, price))

    def exchange(self, who: int, lost: str, meanwhile: int) -> None:
        share = self.shares.setdefault(who, Share(0, owed=False))
        offer, now = share.offer(), Ms(self.now)
        if meanwhile:
            self.ask(who, meanwhile)
        grant = 0
        if lost != "before":
            before = self.pool or full(self.rate, now)
            self.pool, grant = settle(
                before,
                self.rate,
                now,
                returned=offer.returned,
                wanted=offer.wanted,
                replicas=self.replicas,
            )
        if lost:
            share.doubt()
        else:
            share.accept(grant)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 900)),
        st.tuples(st.just("ask"), st.integers(0, 2), st.integers(1, 3000)),
        st.tuples(
            st.just("exchange"),
            st.integers(0, 2),
            st.sampled_from(["", "", "", "before", "after"]),
            st.sampled_from([0, 0, 50]),
        ),
    ),
    max_size=80,
)


@given(st.builds(Rate, st.integers(1, 2000), st.integers(10, 5000)), st.integers(1, 3), steps)
def test_replicas_let_no_more_through_than_two_bursts_and_the_rate(
    rate: Rate, replicas: int, told: list[tuple[object, ...]]
) -> None:
    group = Group(rate, replicas)
    for step in told:
        match step:
            case ("wait", int(ms)):
                group.now += ms
            case ("ask", int(who), int(cost)):
                group.ask(who % replicas, cost)
            case ("exchange", int(who), str(lost), int(meanwhile)):
                group.exchange(who % replicas, lost, meanwhile)
    assert most_in_any_window(group.passed, rate) <= 2 * rate.burst * UNIT


def test_in_the_long_run_three_flooded_replicas_pass_the_rate_and_little_less() -> None:
    rate = Rate(100, 200)
    group = Group(rate, 3)
    for _ in range(200):  # ten a second each way, over 60 s
        for who in range(3):
            group.now += 100
            for _ in range(10):
                group.ask(who, 2)
            if group.now // 100 % 10 == 3 * who:
                group.exchange(who, "", 0)
    total = sum(amount for _, amount in group.passed) // UNIT
    whole = rate.per_s * (group.now - START) // 1000
    assert 0.9 * whole <= total <= whole + 2 * rate.burst


def test_one_busy_replica_gets_nearly_all_of_the_rate() -> None:
    rate = Rate(100, 200)
    group = Group(rate, 3)
    for _ in range(60):
        for tenth in range(10):
            group.now += 100
            for _ in range(20):
                group.ask(0, 1)
            if tenth % 3 == 0 and tenth < 9:
                group.exchange(tenth // 3, "", 0)
    total = sum(amount for _, amount in group.passed) // UNIT
    assert total >= 0.85 * rate.per_s * 60


@given(st.builds(Rate, st.integers(3, 2000), st.integers(10, 5000)), st.lists(st.integers(1, 2000)))
def test_a_replica_that_is_cut_off_keeps_to_its_equal_part(rate: Rate, waits: list[int]) -> None:
    share, now, passed = Share(0, owed=False), 0, list[tuple[int, int]]()
    for wait in waits:
        now += wait
        share.grow(rate, 3, wait)
        while share.spend(UNIT):
            passed.append((now, UNIT))
    third = Rate(-(-rate.per_s // 3), rate.burst)
    assert most_in_any_window(passed, third) <= rate.burst * UNIT // 3
