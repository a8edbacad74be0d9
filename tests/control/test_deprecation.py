"""A type on its way out warns: in the decision, in its explanation, and wherever its components are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import API, intent
from tests.control.worlds import World, play, url

JOB = "nlp/prod/job"
WINDOW = {"since": "2026-01-01T00:00:00Z", "until": "2026-06-01T00:00:00Z", "replacedBy": "training-job"}


def old_type(**spec: Any) -> dict[str, Any]:
    own = {"version": "1.0.0", "workload": "job", **spec}
    return {"apiVersion": API, "kind": "ComponentType", "metadata": {"name": "old-job"}, "spec": own}


def test_a_decision_under_a_deprecated_type_warns_with_dates_and_replacement(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.apply(old_type(deprecated=WINDOW))).status == 200
        reply = await world.apply(intent(JOB, type="old-job"), by="acme")
        (warning,) = reply.json["results"][0]["decision"]["warnings"]
        assert warning["rule"] == "type.deprecated" and warning["field"] == "spec.type"
        assert "since 2026-01-01 and retired on 2026-06-01" in warning["message"]
        assert "use training-job" in warning["remedy"]
        assert (await world.get(f"{url(JOB)}/explanation", by="acme"))["warnings"] == [warning]
        assert (await world.get(url(JOB), by="acme"))["status"]["warnings"] == [warning]
        told = [one["type"] for one in (await world.get(f"{url(JOB)}/events", by="acme"))["items"]]
        assert told == ["component.submitted"], "it is no news of a budget"

    play(tmp_path, story)


def test_what_was_admitted_before_warns_from_the_day_its_type_is_deprecated(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(old_type())
        reply = await world.apply(intent(JOB, type="old-job"), by="acme")
        assert reply.json["results"][0]["decision"]["warnings"] == []
        assert (await world.apply(old_type(deprecated=WINDOW))).status == 200
        (listed,) = (await world.get("/v1/components", by="acme"))["items"]
        assert [one["rule"] for one in listed["status"]["warnings"]] == ["type.deprecated"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("since", "until"),
    [("2026-04-01T00:00:00Z", "2026-06-01T00:00:00Z"), ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")],
)
def test_outside_its_window_a_type_does_not_warn(tmp_path: Path, since: str, until: str) -> None:
    async def story(world: World) -> None:
        await world.apply(old_type(deprecated={"since": since, "until": until}))
        reply = await world.apply(intent(JOB, type="old-job"), by="acme")
        decision = reply.json["decision"] if reply.status == 422 else reply.json["results"][0]["decision"]
        assert decision["warnings"] == []

    play(tmp_path, story)
