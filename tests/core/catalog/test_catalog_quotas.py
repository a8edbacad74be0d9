"""Envelopes as a quota tree, and when it changes by itself."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.catalog.worlds import envelope, prices, project, quota, tenant, world

from windlass.core.catalog.quotas import next_change, quota_tree
from windlass.core.catalog.snapshot import Catalog
from windlass.core.scheduling.model import Limit, Quota
from windlass.core.units import MilliGpu, Ms, format_timestamp

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def limit(guaranteed: int, ceiling: int | None = None, lend: int | None = None) -> Limit:
    return Limit(
        MilliGpu(guaranteed * 1000),
        None if ceiling is None else MilliGpu(ceiling * 1000),
        None if lend is None else MilliGpu(lend * 1000),
    )


def test_every_scope_is_a_node_below_its_tenant() -> None:
    catalog = world(
        envelope("acme/nlp/prod", quota(8, max=8, lend=2), weight=3),
        envelope("acme/vision", quota(4)),
        tenant("b"),
        project("another", of="b", environments=["x"]),
    )
    assert quota_tree(catalog, Ms(0)) == (
        Quota("acme", None, limits={"h100": limit(16, 24)}),
        Quota("b", None),
        Quota("acme/nlp", "acme"),
        Quota("acme/nlp/dev", "acme/nlp"),
        Quota("acme/nlp/prod", "acme/nlp", weight=3, limits={"h100": limit(8, 8, 2)}),
        Quota("acme/vision", "acme", limits={"h100": limit(4)}),
        Quota("acme/vision/dev", "acme/vision"),
        Quota("acme/vision/prod", "acme/vision"),
        Quota("b/another", "b"),
        Quota("b/another/x", "b/another"),
    )


def burst(extra: int, since: int, until: int, gpu_class: str = "h100") -> dict[str, object]:
    start, end = format_timestamp(since), format_timestamp(until)
    return {"profileClass": gpu_class, "extra": extra, "from": start, "until": end}


def ceiling(catalog: Catalog, at: int) -> int:
    node = next(node for node in quota_tree(catalog, Ms(at)) if node.name == "acme/nlp")
    most = node.limits["h100"].max
    assert most is not None
    return most // 1000


def test_a_burst_raises_the_ceiling_from_its_first_to_before_its_last_moment() -> None:
    bursts = [burst(2, 10, 20), burst(3, 15, 30)]
    catalog = world(envelope("acme/nlp", quota(1, max=4), quota(0, "a100", max=9), burst=bursts))
    ceilings = {at: ceiling(catalog, at) for at in (9, 10, 14, 15, 19, 20, 29, 30)}
    assert ceilings == {9: 4, 10: 6, 14: 6, 15: 9, 19: 9, 20: 7, 29: 7, 30: 4}


def test_a_burst_of_what_has_no_ceiling_changes_nothing() -> None:
    catalog = world(envelope("acme/nlp", quota(1), burst=[burst(2, 10, 20)]))
    assert {node.name: node for node in quota_tree(catalog, Ms(15))}["acme/nlp"].limits["h100"].max is None


def test_the_next_change_is_the_next_edge() -> None:
    catalog = world(
        envelope("acme/nlp", quota(1, max=4), burst=[burst(2, 10, 20), burst(3, 15, 30)]),
        prices("list", effectiveFrom=format_timestamp(18)),
    )
    edges = {at: next_change(catalog, Ms(at)) for at in (0, 9, 10, 14, 15, 17, 18, 20, 29, 30, 99)}
    assert edges == {0: 10, 9: 10, 10: 15, 14: 15, 15: 18, 17: 18, 18: 20, 20: 30, 29: 30, 30: None, 99: None}
    assert next_change(world(), Ms(0)) is None


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 50), st.integers(1, 50)), max_size=4),
    st.integers(0, 110),
)
@RELAXED
def test_the_tree_is_constant_between_changes(windows: list[tuple[int, int, int]], now: int) -> None:
    """Law: nothing changes before the moment `next_change` names, and bursts never touch a guarantee."""
    bursts = [burst(extra, since, since + length) for extra, since, length in windows]
    catalog = world(envelope("acme/nlp", quota(1, max=4), burst=bursts))
    until = next_change(catalog, Ms(now)) or now + 100
    tree = quota_tree(catalog, Ms(now))
    assert all(quota_tree(catalog, Ms(at)) == tree for at in range(now, until))
    assert ceiling(catalog, now) == 4 + sum(
        extra for extra, since, length in windows if since <= now < since + length
    )
    nlp = next(node for node in tree if node.name == "acme/nlp")
    assert nlp.limits["h100"].guaranteed == 1000
