"""Small worlds for the ledger's laws, as hypothesis draws them for `Holding` and `PriceTimeline`.

Instants lie within some hours and often coincide, so that changes, effective times, placements and
releases meet; most work has a price, and prices are odd, so that almost every total needs rounding.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from windlass.core.documents.kinds import Price, PriceBook
from windlass.core.ledger.prices import PriceChange, PriceTimeline
from windlass.core.metering import Holding
from windlass.core.units import Micros, MilliGpu, Ms

settings.register_profile("unhurried", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("unhurried")

instants = (st.integers(0, 12).map(lambda step: step * 1_800_000) | st.integers(0, 21_600_000)).map(Ms)
CLASSES = ("h100-80g", "l40s-48g")
classes = st.sampled_from(CLASSES)
tiers = st.sampled_from(["gold", "bronze"])
currencies = st.sampled_from(["USD", "USD", "USD", "EUR"])

prices = st.builds(
    Price,
    profile_class=classes,
    per_gpu_hour=st.integers(0, 9_999_999).map(Micros),
    tier=st.none() | tiers,
)
books = st.builds(
    PriceBook,
    currency=currencies,
    effective_from=instants,
    prices=st.lists(prices, min_size=1, max_size=4, unique_by=lambda p: (p.profile_class, p.tier)).map(tuple),
)
everything = st.builds(
    lambda at, micros: PriceBook("USD", at, tuple(Price(name, Micros(micros)) for name in CLASSES)),
    st.just(Ms(0)) | instants,
    st.integers(1, 9_999_999),
)
changes = st.builds(
    PriceChange,
    at=instants,
    books=st.dictionaries(st.sampled_from(["a", "b", "c"]), books | everything, max_size=3).map(
        lambda d: tuple(d.items())
    ),
)
listed = everything.map(lambda book: PriceChange(Ms(0), (("list", book),)))
timelines = st.builds(
    lambda first, later: PriceTimeline((*first, *later)),
    st.lists(listed, max_size=1),
    st.lists(changes, max_size=4).map(lambda found: sorted(found, key=lambda change: change.at))
    | st.lists(changes, max_size=4),
)


@st.composite
def holdings(draw: st.DrawFn) -> Holding:
    since = draw(instants)
    until = draw(st.none() | instants.map(lambda at: max(at, since)))
    number = draw(st.integers(1, 10**6))
    return Holding(
        id=f"wl_{number}/1",
        tenant=draw(st.sampled_from(["acme", "umbra"])),
        project=draw(st.sampled_from(["nlp", "vision"])),
        env="prod",
        component=draw(st.sampled_from(["sft", "eval"])),
        gpu_class=draw(classes),
        tier=draw(tiers),
        currency=draw(currencies),
        gpu_milli=MilliGpu(draw(st.integers(1, 64_000))),
        since=since,
        until=until,
    )


st.register_type_strategy(Holding, holdings())
st.register_type_strategy(PriceChange, changes)
st.register_type_strategy(PriceTimeline, timelines)
