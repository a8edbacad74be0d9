"""What `why` says of work that was refused, that runs, and that had to give way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.control.documents import envelope, intent, quota
from tests.control.worlds import World, play, url

POOR = {"amount": "0.01", "currency": "USD", "period": "month"}
NLP_DEV = {"tenant": "acme", "project": "nlp", "env": "dev"}


async def why(world: World, path: str) -> Any:
    return await world.get(f"{url(path)}/explanation")


@pytest.mark.parametrize(
    ("spec", "cause", "also"),
    [
        ({"gpus": 17}, "policy", ["entitlement"]),  # no node has so many, either
        ({"gpus": 8, "workers": 4}, "entitlement", []),
        ({"gpus": 1}, "budget", []),
        ({"traits": ["gang"]}, "policy", ["budget"]),
        ({"gpus": 8, "workers": 4, "priority": 7}, "policy", ["entitlement"]),
    ],
)
def test_a_rejection_has_the_cause_of_its_rules(
    tmp_path: Path, spec: dict[str, Any], cause: str, also: list[str]
) -> None:
    async def story(world: World) -> None:
        poor = cause == "budget" or "budget" in also
        await world.apply(envelope("dev", NLP_DEV, gpus=quota(0, 16), **({"budget": POOR} if poor else {})))
        assert (await world.apply(intent("nlp/dev/x", **spec))).status == 422
        told = await why(world, "nlp/dev/x")
        assert (told["phase"], told["cause"], told["also"]) == ("Rejected", cause, also)

    play(tmp_path, story)


def test_work_that_can_never_run_is_not_told_to_wait(tmp_path: Path) -> None:
    """14 of 16 are guaranteed or lent; each ceiling alone would allow more."""

    async def story(world: World) -> None:
        for name in ("acme", "globex"):
            await world.apply(
                envelope(name, {"tenant": name}, gpus=[*quota(7, 32), *quota(2, 4, "l40s-48g")])
            )
        await world.apply(envelope("nlp-prod", {**NLP_DEV, "env": "prod"}, gpus=quota(4, 32)))
        assert (await world.apply(intent("nlp/prod/wide", 8, workers=2))).status == 200
        await world.settle()
        told = await why(world, "nlp/prod/wide")
        assert told["cause"] == "quota" and told["position"] is None
        assert "can never run" in told["message"]
        (entry,) = (await world.get("/v1/queue"))["waiting"]
        assert (entry["cause"], entry["ahead"], entry["message"]) == ("quota", None, told["message"])
        assert told["remedy"].startswith("ask for fewer GPUs") and "it starts when" not in told["remedy"]
        assert (await world.get(url("nlp/prod/wide")))["status"]["reason"]["remedy"] == told["remedy"]

    play(tmp_path, story)


def test_a_service_says_where_it_listens_and_that_it_keeps_ending(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        path = "nlp/prod/web"
        await world.apply(intent(path, 1, type="inference-service", parameters={"port": 8000}))
        await world.settle()
        run = world.workload(path)
        workers = world.site.attempts[run["id"], 1].workers
        assert (await why(world, path))["message"] == f"runs on h1; listens on 127.0.0.1:{workers[0].port}"
        detail = "exited with 1, waiting to be restarted"
        workers[0] = msgspec.structs.replace(workers[0], state="starting", restarts=5, detail=detail)
        await world.settle()
        await world.agent.converge()
        assert (await why(world, path))["message"].endswith("; worker 0 exited with 1, 5 restarts")

    play(tmp_path, story)


def test_a_preemption_is_an_event_and_says_why(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        borrower, lender = "cheap/dev/job", "chat/prod/job"
        await world.apply(intent(borrower, 8, workers=2))
        await world.settle()
        await world.apply(intent(lender, 8))
        await world.plane.scheduler.turn()
        stopping = await why(world, borrower)
        assert "preempted, because a lender took back its guarantee (reclaim)" in stopping["message"]
        await world.settle()
        told = await why(world, borrower)
        assert told["phase"] == "Pending"
        assert told["message"].endswith(
            "It was preempted once, because a lender took back its guarantee (reclaim)."
        )
        events = (await world.get(f"{url(borrower)}/events", by="umbra"))["items"]
        (event,) = [one for one in events if one["type"] == "workload.preempted"]
        assert (event["data"]["reason"], event["data"]["phase"]) == ("reclaim", "Pending")
        assert lender not in str(events)
        world.finish(lender)
        await world.settle()
        assert world.phase(borrower) == "Running"
        assert "It was preempted once" in (await why(world, borrower))["message"]

    play(tmp_path, story)


def test_what_could_not_be_started_costs_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        path = "nlp/prod/empty"
        await world.apply(intent(path, 1, command=[]))
        await world.plane.scheduler.turn()
        world.advance(3600)
        await world.settle()
        assert world.phase(path) == "Failed"
        status = (await world.get(url(path)))["status"]
        assert (status["gpuHours"], status["cost"]) == ("0", "0.00")
        assert (await world.get("/v1/costs"))["totals"][0]["total"] == "0.00"

    play(tmp_path, story)
