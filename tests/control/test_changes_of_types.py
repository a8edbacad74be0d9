"""A change of the catalog takes effect at the next admission: who would be affected is told before, nothing
that runs is touched, and what would break stored components is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import API, envelope, intent, policy, quota
from tests.control.worlds import Reply, World, play, url

JOB = "nlp/prod/job"
NLP_PROD = {"tenant": "acme", "project": "nlp", "env": "prod"}


def type_document(name: str = "cruncher", version: str = "1.0.0", /, **spec: Any) -> dict[str, Any]:
    own = {
        "version": version,
        "workload": "job",
        "parameters": {
            "type": "object",
            "properties": {"depth": {"type": "integer", "default": 3}},
            "additionalProperties": False,
        },
        "templates": {"local": {"variables": {"DEPTH": "${string(parameters.depth)}"}}},
        **spec,
    }
    return {"apiVersion": API, "kind": "ComponentType", "metadata": {"name": name}, "spec": own}


def trait_document(name: str = "spot-kind", /, **spec: Any) -> dict[str, Any]:
    own = {"version": "1.0.0", **spec}
    return {"apiVersion": API, "kind": "Trait", "metadata": {"name": name}, "spec": own}


def granted(*traits: str) -> dict[str, Any]:
    spec = {"environments": ["dev", "prod"], "traits": list(traits), "defaultProfile": "h100-80g"}
    return {"apiVersion": API, "kind": "Project", "metadata": {"name": "nlp", "tenant": "acme"}, "spec": spec}


async def plan(world: World, *documents: object, by: str = "admin") -> Reply:
    before = world.dump()
    body = documents[0] if len(documents) == 1 else list(documents)
    reply = await world.call("POST", "/v1/apply?dryRun=true", body, by=by)
    assert world.dump() == before, "a plan commits nothing"
    return reply


async def affected(world: World, *documents: object, by: str = "admin") -> dict[str, Any]:
    reply = await plan(world, *documents, by=by)
    assert reply.status == 200, reply.body
    found: dict[str, Any] = reply.json["affected"]
    return found


def effects(found: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    return {
        one["component"]: (one["effect"], [reason["rule"] for reason in one["reasons"]])
        for one in found["items"]
    }


DEPTHS = type_document(templates={"local": {"variables": {"DEPTH": "deep"}}})
SHALLOW = type_document(rules=[{"name": "shallow", "require": "parameters.depth < 2"}])
SPOT = trait_document(patches={"local": {"variables": {"SPOT": "yes"}}})
NARROW = envelope("nlp-prod", NLP_PROD, gpus=quota(0, 1), sharing=["dedicated"])
REGISTRY = policy("registry", "spec.image.startsWith('quay.io/')")
FIRST = {"apiVersion": API, "kind": "Tier", "metadata": {"name": "standard"}}
FIRST["spec"] = {"priority": 60, "preempts": True, "preemptible": True}


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        (DEPTHS, ("rendered", [])),
        (SHALLOW, ("refused", ["parameter.invalid"])),
        (SPOT, ("rendered", [])),
        (NARROW, ("refused", ["entitlement.max"])),
        (REGISTRY, ("refused", ["policy.registry"])),
        (FIRST, ("scheduled", [])),
    ],
    ids=["template", "rule", "trait", "envelope", "policy", "tier"],
)
def test_a_change_lists_whom_it_would_affect_and_touches_nothing_that_runs(
    tmp_path: Path, change: dict[str, Any], effect: tuple[str, list[str]]
) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document(), trait_document(), granted("spot-kind"))
        assert (await world.apply(intent(JOB, 2, type="cruncher", traits=["spot-kind"]))).status == 200
        await world.settle()
        assert effects(await affected(world, change)) == {JOB: effect}
        before, ran = world.workload(JOB), dict(world.site.attempts)
        assert (await world.apply(change)).status == 200
        await world.settle()
        assert tuple(world.workload(JOB)) == tuple(before), "it runs on as it was made"
        assert dict(world.site.attempts) == ran
        assert (
            effects(await affected(world, change) if world.phase(JOB) != "Running" else {"items": []}) == {}
        )

    play(tmp_path, story)


def test_who_would_be_admitted_again_is_told_too(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(REGISTRY)
        assert (await world.apply(intent(JOB))).status == 422
        found = await affected(world, policy("registry", "true"))
        assert effects(found) == {JOB: ("admitted", ["policy.registry"])}
        assert found["items"][0]["phase"] == "Rejected"

    play(tmp_path, story)


def test_the_list_is_bounded_and_counts_all_and_shows_live_ones_first(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for at in range(103):
            assert (await world.apply(intent(f"nlp/dev/job{at:03}", 1))).status == 200
        await world.settle()
        running = {row["path"] for row in world.rows("SELECT path FROM workloads WHERE phase = 'Running'")}
        await world.act("nlp/dev/job000", "cancel")
        await world.settle()
        found = await affected(world, REGISTRY)
        assert (len(found["items"]), found["total"], found["judged"], found["concerned"]) == (
            100,
            103,
            103,
            103,
        )
        assert "nlp/dev/job000" not in [one["component"] for one in found["items"]]
        assert running - {"nlp/dev/job000"} <= {one["component"] for one in found["items"]}

    play(tmp_path, story)


def test_a_tenants_admin_is_told_of_its_own_components_only(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent(JOB))
        await world.apply(intent("chat/prod/job"))
        own = policy("ours", "false", "acme")
        assert effects(await affected(world, own, by="acme-admin")) == {JOB: ("refused", ["policy.ours"])}
        both = await affected(world, policy("all", "false"))
        assert set(effects(both)) == {JOB, "chat/prod/job"}

    play(tmp_path, story)


# --- what would break ---------------------------------------------------------------------------


def test_a_type_or_trait_in_use_is_not_deleted_and_its_users_are_named(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document(), trait_document(), granted("spot-kind"))
        await world.apply(intent(JOB, type="cruncher", traits=["spot-kind"]))
        await world.settle()
        await world.apply(granted())  # so that only the component stands in the way of the trait
        before = world.dump()
        for path, kind in (("componenttypes/cruncher", "ComponentType"), ("traits/spot-kind", "Trait")):
            reply = await world.call("DELETE", f"/v1/{path}")
            assert reply.status == 409, reply.body
            assert JOB in reply.json["detail"] and kind in reply.json["detail"]
            assert [reason["value"] for reason in reply.json["reasons"]] == [JOB]
        assert world.dump() == before
        world.finish(JOB)
        await world.settle()
        assert (await world.call("DELETE", "/v1/componenttypes/cruncher")).status == 409, (
            "it can be run again"
        )
        assert (await world.call("DELETE", url(JOB))).status == 204
        assert (await world.call("DELETE", "/v1/componenttypes/cruncher")).status == 204
        assert (await world.call("DELETE", "/v1/traits/spot-kind")).status == 204

    play(tmp_path, story)


def test_a_version_goes_when_another_answers_to_the_name_and_nothing_of_it_lives(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document())
        await world.apply(type_document("cruncher", "2.0.0"))
        await world.apply(intent(JOB, type="cruncher"), intent("nlp/prod/old", type="cruncher@1.0.0"))
        await world.settle()
        assert "is alive" in (await world.call("DELETE", "/v1/componenttypes/cruncher@2.0.0")).body.decode()
        world.finish(JOB)
        await world.settle()
        assert (await world.call("DELETE", "/v1/componenttypes/cruncher@2.0.0")).status == 204
        assert (await world.call("DELETE", "/v1/componenttypes/cruncher@1.0.0")).status == 409

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"workload": "interactive"}, "it was admitted as a job"),
        (
            {
                "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
                "templates": {},
            },
            "fit",
        ),
    ],
)
def test_a_change_that_a_stored_component_would_not_fit_is_refused_also_as_a_plan(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document())
        await world.apply(intent(JOB, type="cruncher", parameters={"depth": 4}))
        await world.settle()
        for reply in (await plan(world, type_document(**change)), await world.apply(type_document(**change))):
            assert reply.status == 409 and JOB in reply.json["detail"], reply.body
            assert why in reply.json["reasons"][0]["message"]
            assert "windlass type migrate" in reply.json["remedy"]
        assert (await world.apply(type_document("cruncher", "2.0.0", **change))).status == 200

    play(tmp_path, story)


def test_a_name_that_is_only_mentioned_is_no_use(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(type_document(), type_document("cruncher2"), trait_document())
        said = {"SAID": '"type":"cruncher"', "TOO": "spot-kind"}
        await world.apply(intent(JOB, type="cruncher2", variables=said, command=["spot-kind"]))
        assert (await world.call("DELETE", "/v1/componenttypes/cruncher")).status == 204
        assert (await world.call("DELETE", "/v1/traits/spot-kind")).status == 204

    play(tmp_path, story)
