"""site lost: what people read, what is sent, and how it exits."""

from __future__ import annotations

import json

import pytest
from tests.experience.test_commands import Run, run
from tests.sdk.canned_server import CannedServer, problem

from windlass.contracts import api

__all__ = ["run"]  # a fixture

ROUTE = "/v1/sites/fra1/lost"


def loss(waiting: int = 2, failed: int = 1) -> api.SiteLoss:
    heard = "2026-03-02T09:10:00.000Z"
    return api.SiteLoss(site="fra1", last_heard=heard, waiting=waiting, failed=failed, cancelled=0)


def test_what_became_of_the_work_is_told(server: CannedServer, run: Run) -> None:
    server.answer("POST", ROUTE, loss())
    code, out, err = run("site", "lost", "fra1", "--reason", "a fire")
    assert (code, out) == (0, "site/fra1 given up: 2 waiting again, 1 failed\n")
    assert "nothing there is billed after 2026-03-02T09:10:00.000Z" in err
    assert json.loads(server.asked[-1].body) == {"reason": "a fire"}
    assert run("site", "lost", "fra1", "--reason", "a fire", "-o", "name")[1] == "site/fra1\n"
    assert json.loads(run("site", "lost", "fra1", "--reason", "a fire", "-o", "json")[1])["failed"] == 1
    server.answer("POST", ROUTE, loss(0, 0))
    assert "no work was there" in run("site", "lost", "fra1", "--reason", "a fire")[1]


def test_a_site_that_answers_is_a_conflict(server: CannedServer, run: Run) -> None:
    server.answer("POST", ROUTE, problem(409, "conflict", "the site fra1 is not away"))
    code, out, err = run("site", "lost", "fra1", "--reason", "a fire")
    assert (code, out) == (5, "") and "not away" in err


@pytest.mark.parametrize("typed", [("fra1",), ("--reason", "a fire"), ("fra1", "--reason")])
def test_a_site_and_a_reason_are_needed(server: CannedServer, run: Run, typed: tuple[str, ...]) -> None:
    assert run("site", "lost", *typed)[0] == 2
    assert server.asked == []
