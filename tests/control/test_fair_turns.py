"""One tenant's flood of changes delays nobody else's: lanes take turns, and each has an end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control.documents import intent
from tests.control.worlds import World, play

from windlass.control.db.port import Tx
from windlass.control.db.turns import Turns
from windlass.control.identity.scopes import Scope, _scope, system_scope
from windlass.core.errors import Unavailable


@dataclass(frozen=True)
class Unit:
    scope: Scope
    number: int


@given(st.lists(st.sampled_from("abc"), max_size=200))
def test_lanes_take_turns_and_each_keeps_its_order(tenants: list[str]) -> None:
    turns: Turns[Unit] = Turns()
    for number, tenant in enumerate(tenants):
        turns.append(Unit(_scope("x", tenant), number))
    assert len(turns) == len(tenants) == len(list(turns))
    served = [turns.popleft() for _ in tenants]
    for tenant in "abc":
        own = [unit.number for unit in served if unit.scope.tenant == tenant]
        assert own == sorted(own)
    left = {tenant: tenants.count(tenant) for tenant in "abc"}
    for first, second in pairwise(served):
        left[str(first.scope.tenant)] -= 1
        others = sum(count > 0 for tenant, count in left.items() if tenant != first.scope.tenant)
        assert others == 0 or first.scope.tenant != second.scope.tenant, "nobody twice while others wait"


def test_a_full_lane_refuses_its_own_and_nobody_else() -> None:
    turns: Turns[Unit] = Turns(most_each=3, most=5)
    for number in range(3):
        turns.append(Unit(_scope("x", "acme"), number))
    with pytest.raises(Unavailable) as refused:
        turns.append(Unit(_scope("x", "acme"), 3))
    assert refused.value.retry_s == 2 and refused.value.remedy
    turns.append(Unit(_scope("x", "globex"), 4))
    turns.append(Unit(system_scope("scheduler"), 5))
    with pytest.raises(Unavailable):
        turns.append(Unit(_scope("x", "umbra"), 6))


def test_a_change_behind_a_flood_of_another_tenants_is_stored_at_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        done: list[str] = []
        flood, quiet = _scope("noisy", "acme"), _scope("quiet", "globex")

        async def change(scope: Scope) -> None:
            async def unit(tx: Tx) -> None:
                done.append(str(tx.scope.tenant))

            await world.plane.store.unit(scope, unit)

        tasks = [asyncio.create_task(change(flood)) for _ in range(500)]
        await asyncio.sleep(0)  # they wait now
        await change(quiet)
        await asyncio.gather(*tasks)
        assert done.index("globex") <= 300, "within the batch under way and the next"
        assert len(done) == 501

    play(tmp_path, story)


def test_when_the_queue_is_full_a_submit_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.plane.store._pending._most_each = 0  # type: ignore[attr-defined]
        world.plane.store._pending._most = 0  # type: ignore[attr-defined]
        reply = await world.apply(intent("nlp/prod/job"), by="acme")
        assert (reply.status, reply.json["code"]) == (503, "unavailable")
        assert reply.headers["retry-after"] == "2"
        world.plane.store._pending._most_each = world.plane.store._pending._most = 10  # type: ignore[attr-defined]
        assert (await world.apply(intent("nlp/prod/job"), by="acme")).status == 200

    play(tmp_path, story)
