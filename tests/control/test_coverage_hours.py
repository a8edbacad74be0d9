"""GPU hours through types against raw: from what was held, by tenant and type, over a period; and that each
use of raw is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.control.documents import API, intent
from tests.control.worlds import World, play

from windlass.runtime.metrics import REGISTRY

RAW = {"apiVersion": API, "kind": "Project", "metadata": {"name": "vision", "tenant": "acme"}}
RAW["spec"] = {"environments": ["prod"], "types": ["raw"], "defaultProfile": "h100-80g"}


async def running(world: World) -> None:
    """One GPU each: nlp by a type, vision raw, and globex by a type."""
    assert (await world.apply(RAW)).status == 200
    for path, type in (
        ("nlp/prod/job", "training-job"),
        ("vision/prod/raw", "raw"),
        ("chat/prod/job", "training-job@1.0.0"),
    ):
        assert (await world.apply(intent(path, 1, type=type))).status == 200
    await world.settle()


def lines(found: dict[str, Any]) -> dict[tuple[str, str | None], str]:
    return {(one["tenant"], one["type"]): one["gpuHours"] for one in found["lines"]}


def measured(name: str, type: str) -> float:
    return REGISTRY.get_sample_value(name, {"type": type}) or 0.0


def test_held_hours_are_told_by_tenant_and_type_to_this_instant(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world)
        world.advance(3600)
        world.finish("vision/prod/raw")
        await world.settle()
        world.advance(3600)
        found = await world.get("/v1/coverage")
        assert lines(found) == {
            ("acme", "raw"): "1",
            ("acme", "training-job"): "2",
            ("globex", "training-job"): "2",
        }
        assert (found["percent"], found["rawGpuHours"], found["typesGpuHours"]) == ("80.00", "1", "4")
        assert lines(await world.get("/v1/coverage?window=90m")) == {
            ("acme", "raw"): "0.5",
            ("acme", "training-job"): "1.5",
            ("globex", "training-job"): "1.5",
        }
        assert set(lines(await world.get("/v1/coverage?project=vision"))) == {("acme", "raw")}
        assert (await world.call("GET", "/v1/coverage?window=367d")).status == 400

    play(tmp_path, story)


def test_a_tenant_sees_its_own_and_time_without_a_type_counts_for_neither(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await running(world)
        world.advance(3600)
        own = await world.get("/v1/coverage", by="globex")
        assert (lines(own), own["percent"]) == ({("globex", "training-job"): "1"}, "100.00")
        assert (await world.get("/v1/coverage?tenant=acme", by="globex"))["lines"] == []
        world.rows("UPDATE holdings SET type = '' WHERE project = 'nlp'")
        acme = await world.get("/v1/coverage", by="acme")
        assert lines(acme) == {("acme", None): "1", ("acme", "raw"): "1"}
        assert (acme["percent"], acme["unknownGpuHours"]) == ("0.00", "1")

    play(tmp_path, story)


def test_each_use_of_raw_is_counted_audited_and_an_event(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        runs, hours = measured("windlass_component_runs_total", "raw"), "windlass_gpu_seconds_total"
        before = measured(hours, "raw")
        await running(world)
        world.advance(1800)
        world.finish("vision/prod/raw")
        await world.settle()
        assert measured("windlass_component_runs_total", "raw") == runs + 1
        assert measured(hours, "raw") == before + 1800
        told = [one for one in (await world.get("/v1/events"))["items"] if one["type"] == "component.raw"]
        assert [(one["subject"], one["data"]["type"]) for one in told] == [("vision/prod/raw", "raw@1.0.0")]
        audit = (await world.get("/v1/audit"))["items"]
        assert [one["subject"] for one in audit if one["detail"].get("type") == "raw"] == ["vision/prod/raw"]

    play(tmp_path, story)
