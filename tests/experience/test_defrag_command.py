"""defrag: what people read, what is sent, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.experience.test_commands import Run, run
from tests.sdk.canned_server import CannedServer

from windlass.contracts import api

__all__ = ["run"]  # a fixture

PATH = "nlp/prod/wide"
SCENARIO = """
now: 3600
nodes: [{name: n1, class: h100, gpus: 8}, {name: n2, class: h100, gpus: 8}]
quotas: [{name: a, gpus: [{class: h100, guaranteed: 16}]}]
workloads:
- {name: m1, queue: a, class: h100, gpus: 4, movable: true,
   running: {since: 0, lastCheckpoint: 1800, on: [{node: n1, gpus: [0, 1, 2, 3]}]}}
- {name: m2, queue: a, class: h100, gpus: 4, running: {since: 0, on: [{node: n2, gpus: [0, 1, 2, 3]}]}}
- {name: wide, queue: a, class: h100, gpus: 8, submitted: 3000, preempts: false}
"""


def workers(node: str, *gpus: int) -> list[dict[str, Any]]:
    return [{"worker": 0, "node": node, "gpus": list(gpus)}]


def proposal(**more: Any) -> api.DefragProposal:
    moves = [
        {
            "workload": "nlp/prod/small",
            "from": workers("n1", 0, 1),
            "to": workers("n2", 6, 7),
            "lostGpuHours": "0.5",
            "restartedWorkers": 1,
        }
    ]
    told = {
        "for": PATH,
        "wanted": {
            "class": "h100",
            "gpus": "4",
            "workers": 2,
            "topology": {"level": "rack", "mode": "required"},
        },
        "digest": "d1",
        "hole": workers("n1", 0, 1, 2, 3),
        "moves": moves,
        "lostGpuHours": "0.5",
        "restartedWorkers": 1,
        "why": "",
    }
    return msgspec.convert({**told, **more}, api.DefragProposal)


NONE = {"hole": [], "moves": [], "digest": "", "why": "Nothing that runs on h100 accepts moving."}


def offers(server: CannedServer, *items: api.DefragProposal) -> None:
    server.answer("GET", "/v1/defrag", api.DefragProposals(items=list(items)))


def test_a_plan_shows_the_moves_the_place_and_the_cost(server: CannedServer, run: Run) -> None:
    offers(server, proposal(), proposal(**{"for": "nlp/prod/other", **NONE}))
    code, out, _ = run("defrag", "--plan")
    assert code == 0
    assert "nlp/prod/wide: 2 times 4 of h100 on one node, in one rack (required)" in out
    assert "place: n1:0,1,2,3" in out
    assert "cost: 0.5 GPU-hours are lost, 1 worker restarted" in out
    assert "nlp/prod/small  n1:0,1  n2:6,7  0.5" in out
    assert "no plan: Nothing that runs on h100 accepts moving." in out
    assert json.loads(run("defrag", "--plan", "-o", "json")[1])["items"][0]["for"] == PATH
    assert run("defrag", "--plan", "-o", "name")[1] == "component/nlp/prod/small\n"
    offers(server)
    assert "nobody waits because of fragmentation" in run("defrag", "--plan")[2]


def test_a_plan_is_asked_for_a_component_or_a_hole(server: CannedServer, run: Run) -> None:
    offers(server, proposal(**{"for": None, "moves": []}))
    assert "nobody has to move" in run("defrag", "--plan", "wide", "-p", "nlp", "-e", "prod")[1]
    run("defrag", "--plan", "--class", "h100", "--gpus", "4", "--workers", "2", "--topology", "rack")
    assert [one.query for one in server.asked] == [
        {"component": PATH},
        {"class": "h100", "gpus": "4", "workers": "2", "topology": "rack"},
    ]


def test_what_was_shown_is_what_is_carried_out(server: CannedServer, run: Run) -> None:
    offers(server, proposal())
    server.answer("POST", "/v1/defrag", proposal())
    code, out, err = run("defrag", PATH, "--yes")
    assert (code, out) == (0, "component/nlp/prod/small moves to n2:6,7\n")
    assert "nlp/prod/wide starts on n1:0,1,2,3" in err
    assert json.loads(server.asked[-1].body) == {"component": PATH, "digest": "d1"}
    assert json.loads(run("defrag", PATH, "--yes", "-o", "json")[1])["digest"] == "d1"


def test_nothing_is_moved_without_a_yes(server: CannedServer, run: Run) -> None:
    offers(server, proposal())
    code, _, err = run("defrag", PATH)
    assert (code, "--yes" in err) == (2, True)
    assert [one.method for one in server.asked] == ["GET"]


@pytest.mark.parametrize(("typed", "sent"), [("y\n", ["GET", "POST"]), ("n\n", ["GET"])])
def test_at_a_terminal_it_asks(
    server: CannedServer, run: Run, monkeypatch: pytest.MonkeyPatch, typed: str, sent: list[str]
) -> None:
    offers(server, proposal())
    server.answer("POST", "/v1/defrag", proposal())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _="": typed.strip())
    assert run("defrag", PATH)[0] == 0
    assert [one.method for one in server.asked] == sent


def test_where_nothing_can_be_moved_it_is_a_conflict(server: CannedServer, run: Run) -> None:
    offers(server, proposal(**NONE))
    code, _, err = run("defrag", PATH, "--yes")
    assert (code, "accepts moving" in err) == (5, True)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--plan", "--yes"),
        ("--class", "h100"),
        ("--plan", "wide", "--class", "h100"),
        ("wide", "-f", "SCENARIO"),
        ("--plan", "-f", "SCENARIO", "--profile", "p"),
        ("--plan", "-f", "SCENARIO", "--class", "h100", "--gpus", "1.5"),
        ("--plan", "-f", "SCENARIO", "--class", "h100", "--gpus", "many"),
    ],
)
def test_what_makes_no_sense_is_a_mistake_of_use(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO)
    assert run("defrag", *(str(file) if word == "SCENARIO" else word for word in words))[0] == 2


def test_a_scenario_needs_no_server(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO)
    whole = json.loads(run("defrag", "--plan", "-f", str(file), "-o", "json")[1])
    named = json.loads(run("defrag", "--plan", "-f", str(file), "wide", "-o", "json")[1])
    hole = json.loads(
        run("defrag", "--plan", "-f", str(file), "--class", "h100", "--gpus", "8", "-o", "json")[1]
    )
    assert whole == named
    assert hole["items"][0]["moves"] == whole["items"][0]["moves"]
    (move,) = whole["items"][0]["moves"]
    assert (move["workload"], move["lostGpuHours"]) == ("m1", "2")
    assert run("defrag", "--plan", "-f", str(file), "nobody")[0] == 4
    file.write_text("nodes: [{name: n1}]")
    assert run("defrag", "--plan", "-f", str(file))[0] == 2
