"""top and budget: what the GPUs do now, and what money is left for more."""

from __future__ import annotations

import msgspec
import pytest
from tests.experience.test_commands import Run, run
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer, problem

from windlass.contracts import api

__all__ = ["run"]  # a fixture


def node(name: str, gpu_class: str, gpus: int, free: str, state: str = "ready") -> api.NodeInfo:
    return api.NodeInfo(
        name=name,
        site="local",
        gpu_class=gpu_class,
        gpus=gpus,
        free=free,
        state=state,
        simulated=True,
        labels={},
    )


NODES = api.NodeList(
    items=[
        node("h1", "h100-80g", 8, "1.5"),
        node("h2", "h100-80g", 8, "6", "down"),
        node("l1", "l40s-48g", 4, "4"),
    ]
)


def line(scope: str, used: str) -> api.QuotaLine:
    return api.QuotaLine(
        scope=scope, gpu_class="h100-80g", guaranteed="8", max="16", used=used, borrowed="0", available="2"
    )


def entry(name: str, gpus: str) -> api.QueueEntry:
    return api.QueueEntry(
        component=f"nlp/prod/{name}",
        tenant="acme",
        phase="Running",
        gpus=gpus,
        gpu_class="h100-80g",
        workers=1,
        priority=50,
        submitted_at=samples.AT,
        since=samples.AT,
    )


@pytest.fixture(autouse=True)
def platform(server: CannedServer) -> None:
    budget = api.BudgetLine(
        scope="acme",
        amount="5.00",
        currency="USD",
        period="month",
        spent="1.000001",
        held="3.5",
        on_exhausted="stop-admission",
    )
    quotas = [line("acme", "8.5"), line("acme/nlp/prod", "8.5"), line("globex", "0")]
    server.answer("GET", "/v1/quota", api.QuotaAnswer(quotas=quotas, profiles=[], budgets=[budget]))
    running = [entry("small", "0.5"), entry("large", "6"), entry("middle", "2")]
    server.answer(
        "GET", "/v1/queue", api.Queue(waiting=[], running=running, waiting_total=0, running_total=3)
    )
    server.answer("GET", "/v1/nodes", NODES)


def test_top_shows_classes_tenants_and_the_largest_first(run: Run) -> None:
    code, out, err = run("top", "--limit", "2")
    assert code == 0 and "2 of 3 shown" in err
    assert "h100-80g: 8.5 of 16 GPUs held, 1.5 free, 2 nodes, 1 not ready\n" in out
    assert "l40s-48g: 0 of 4 GPUs held, 4 free, 1 node\n" in out
    assert [one.split()[:3] for one in out.splitlines() if one.startswith("acme")] == [
        ["acme", "h100-80g", "8.5"]
    ]
    assert "globex" not in out, "it holds nothing"
    assert run("top", "--limit", "2", "-o", "name")[1].split() == [
        "component/nlp/prod/large",
        "component/nlp/prod/middle",
    ]


def test_top_for_a_program_says_the_same(run: Run) -> None:
    told = msgspec.json.decode(run("top", "-o", "json")[1])
    assert told["classes"][0] == {
        "class": "h100-80g",
        "nodes": 2,
        "ready": 1,
        "gpus": "16",
        "held": "8.5",
        "free": "1.5",
    }
    assert told["components"][0]["component"] == "nlp/prod/large"
    assert told["tenants"] == [{"tenant": "acme", "class": "h100-80g", "used": "8.5", "borrowed": "0"}]


def test_top_is_for_those_too_who_may_not_see_the_machines(server: CannedServer, run: Run) -> None:
    server.answer("GET", "/v1/nodes", problem(403, "not-permitted", "the role developer may not read nodes"))
    code, out, err = run("top")
    assert (code, err) == (0, "")
    assert out.startswith("TENANT") and "nlp/prod/large" in out


def test_a_budget_shows_what_is_left_to_the_last_unit(run: Run) -> None:
    code, out, _ = run("budget", "-t", "acme")
    assert code == 0 and "0.499999" in out.splitlines()[1].split()
    assert msgspec.json.decode(run("budget", "-o", "json")[1])["items"][0]["scope"] == "acme"
