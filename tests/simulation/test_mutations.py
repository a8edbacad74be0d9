"""The simulation finds bugs: each of these mistakes, put into the platform on purpose, breaks a promise
within so many stories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.story import Plot, a_frozen_leader, everything, simulate

from windlass.control.billing import settle
from windlass.control.catalog.keeper import CatalogKeeper
from windlass.control.components import actions, steps, submit
from windlass.control.db.pg_tail import Tail
from windlass.control.leadership import Leadership
from windlass.core.ledger import postings
from windlass.core.ledger.postings import Transfer

MOST = 20

Mutation = Callable[[pytest.MonkeyPatch], None]


async def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def no_lease_guard(patch: pytest.MonkeyPatch) -> None:
    """A leader that was frozen writes what it decided before."""
    patch.setattr(Leadership, "guard", _nothing)


def posted_twice(patch: pytest.MonkeyPatch) -> None:
    """The same GPU time under two ids."""
    real = postings.post

    def post(*args: Any, **kwargs: Any) -> tuple[Transfer, ...]:
        transfers = real(*args, **kwargs)
        return (*transfers, *(replace(one, id=f"{one.id}/again") for one in transfers))

    patch.setattr(settle, "post", post)


def no_idempotency_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(submit, "keep", _nothing)
    patch.setattr(actions, "keep", _nothing)


def meter_left_running(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "release", _nothing)


def own_events_told_past_a_gap(patch: pytest.MonkeyPatch) -> None:
    """What another replica committed in between is never told."""
    patch.setattr(Tail, "committed", Tail._tell)


def judged_by_an_old_catalog(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CatalogKeeper, "_catch_up", _nothing)


MUTATIONS: Mapping[str, tuple[Mutation, Plot, str]] = {
    "the lease is not shown": (no_lease_guard, a_frozen_leader, "held twice"),
    "a holding is posted twice": (posted_twice, everything, "billed once"),
    "the answer to a request is not kept": (no_idempotency_row, everything, "same answer"),
    "a released holding stays open": (meter_left_running, everything, "metered"),
    "a replica tells its own events past a gap": (own_events_told_past_a_gap, everything, "watchers"),
    "a replica misses a revision": (judged_by_an_old_catalog, everything, "never fails"),
}


@pytest.mark.parametrize("mistake", MUTATIONS)
def test_this_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, plot, law = MUTATIONS[mistake]
    mutate(monkeypatch)
    for seed in range(MOST):
        if any(law in breach.law for breach in simulate(seed, plot).breaches):
            return
    raise AssertionError(f"{MOST} stories did not show that {mistake}")


def test_without_a_mistake_a_frozen_leader_breaks_nothing() -> None:
    for seed in range(0, MOST, 2):
        told = simulate(seed, a_frozen_leader)
        assert not told.breaches, told
