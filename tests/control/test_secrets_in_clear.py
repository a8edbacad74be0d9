"""What an author wrote out that is known for a secret by its form is refused, and stays nowhere: neither in
the answer nor in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent
from tests.control.test_changes_of_types import trait_document, type_document
from tests.control.worlds import World, play, url

JOB = "nlp/prod/job"
TOKEN = "gh" + "p_" + "a1" * 18
KEY = "-----BEGIN " + "PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 4


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"variables": {"TOKEN": TOKEN}}, "spec.variables.TOKEN"),
        ({"command": ["sh", "-c", f"echo '{KEY}' > /tmp/key"]}, "spec.command[2]"),
        ({"parameters": {"anything": [{"at": TOKEN}]}}, "spec.parameters.anything[0].at"),
        ({"nodeSelector": {"x": TOKEN}}, "spec.nodeSelector"),
    ],
)
def test_a_secret_in_an_intent_is_refused_and_stays_nowhere(
    tmp_path: Path, wrong: dict[str, Any], field: str
) -> None:
    async def scene(world: World) -> None:
        reply = await world.apply(intent(JOB, 1, **wrong), idempotency_key="once")
        assert reply.status == 422
        told = reply.json["results"][0]["reasons"]
        assert [(reason["rule"], reason["field"]) for reason in told] == [("secret.in-clear", field)]
        assert "trait secret" in told[0]["remedy"]
        assert (await world.call("GET", url(JOB))).status == 404, "the intent is not kept"
        decision = await world.call("GET", f"/v1/decisions/{reply.json['results'][0]['decision']['id']}")
        assert decision.json["verdict"] == "rejected"
        everything = f"{reply.body!r} {decision.body!r} {world.dump()!r}"
        assert TOKEN not in everything and KEY[-64:] not in everything

    play(tmp_path, scene)


def test_a_change_to_a_secret_leaves_what_runs_as_it_was(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        assert (await world.apply(intent(JOB, 1, variables={"A": "b"}))).status == 200
        changed = await world.apply(intent(JOB, 1, variables={"A": TOKEN}))
        assert changed.status in (409, 422)
        shown = await world.call("GET", url(JOB))
        assert shown.json["spec"]["variables"] == {"A": "b"} and TOKEN not in repr(world.dump())

    play(tmp_path, scene)


def test_definitions_hold_none_either(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        before = world.dump()
        for document in (
            type_document("fetches", templates={"local": {"command": ["fetch", TOKEN]}}),
            type_document("signs", parameters={"type": "object", "properties": {"k": {"default": KEY}}}),
            trait_document("knows", patches={"local": {"variables": {"T": "${'" + TOKEN + "'}"}}}),
        ):
            reply = await world.apply(document)
            assert reply.status == 400 and "trait secret" in str(reply.json), reply.body
            assert TOKEN not in str(reply.body) and KEY[-64:] not in str(reply.body)
        assert world.dump() == before

    play(tmp_path, scene)
