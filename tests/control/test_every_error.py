"""Every error at once: what is malformed does not hide what is wrong with the rest, nor invents it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.control.documents import API, envelope, intent, project, quota
from tests.control.worlds import World, play

NLP = {"tenant": "acme", "project": "nlp"}


def tenant(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "Tenant", "metadata": {"name": name}, "spec": spec}


def told(world_reply: Any) -> list[tuple[str, str]]:
    assert world_reply.status == 400, world_reply.body
    return [(reason.get("field", ""), reason["message"]) for reason in world_reply.json["reasons"]]


def test_the_well_formed_are_judged_beside_the_malformed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        before = world.dump()
        found = told(
            await world.apply(
                project("new", "acme", defaultProfile="nope"),
                tenant("fresh", teer="gold"),
                envelope("nlp", NLP, gpus=quota(99, 99)),
                intent("nlp/prod/x", 0),
            )
        )
        fields = [field for field, _ in found]
        assert fields[0] == "spec.defaultProfile"
        assert {"spec.teer", "spec.gpus[0].guaranteed", "spec.gpus"} <= set(fields)
        assert all(
            message.startswith(("Project ", "Tenant ", "Envelope ", "Component ")) for _, message in found
        )
        assert world.dump() == before

    play(tmp_path, story)


def test_a_malformed_document_is_not_missed_by_those_that_name_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        found = told(
            await world.apply(
                tenant("fresh", teer="gold"),
                project("new", "fresh"),
                envelope("new", {"tenant": "fresh", "project": "new", "env": "prod"}, gpus=quota(1, 1)),
                envelope("fresh", {"tenant": "fresh"}, gpuz=[]),
            )
        )
        assert {message.partition(":")[0] for _, message in found} == {"Tenant fresh", "Envelope fresh"}
        twice = told(await world.apply(intent("nlp/prod/x", 0), project("new"), project("new")))
        assert [message.endswith("is given twice") for _, message in twice] == [False, True]
        nameless = {"apiVersion": API, "kind": "Tenant", "metadata": {}, "spec": {"tier": "gold"}}
        found = told(await world.apply(nameless, project("new", "fresh")))
        assert [field for field, _ in found] == ["metadata.name"]

    play(tmp_path, story)


def test_who_may_not_write_documents_learns_nothing_of_the_catalog(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        sent = (intent("nlp/prod/x", 0), project("new", "acme", defaultProfile="nope"))
        assert len(told(await world.apply(*sent, by="acme"))) == 1
        assert len(told(await world.apply(*sent, by="acme-admin"))) == 2
        sent = (intent("nlp/prod/x", 0), project("chat", "globex", defaultProfile="nope"))
        assert len(told(await world.apply(*sent, by="acme-admin"))) == 1

    play(tmp_path, story)
