"""Policies of the platform and of a tenant: what they refuse is decided, stored and told; who may write and
see them; and that a new one takes effect at the next admission and kills nothing."""

from __future__ import annotations

from pathlib import Path

from tests.control.documents import intent, policy
from tests.control.worlds import World, play, url

JOB = "nlp/prod/job"
OURS = "spec.image.startsWith('quay.io/')"
REGISTRY = policy("registry", OURS, message="our registry only", remedy="push it")


def test_a_policy_refuses_with_its_own_words_and_the_decision_is_stored(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.apply(REGISTRY)).status == 200
        reply = await world.apply(intent(JOB), by="acme")
        assert reply.status == 422
        (reason,) = reply.json["decision"]["reasons"]
        assert (reason["rule"], reason["message"], reason["remedy"]) == (
            "policy.registry",
            "our registry only",
            "push it",
        )
        stored = await world.get(f"{url(JOB)}/decision", by="acme")
        assert stored["reasons"] == [reason]

    play(tmp_path, story)


def test_a_new_policy_takes_effect_at_the_next_admission_and_kills_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.apply(intent(JOB), by="acme")
        await world.settle()
        assert (await world.apply(REGISTRY)).status == 200
        await world.settle()
        assert world.phase(JOB) == "Running"
        assert (await world.apply(intent("nlp/prod/next"), by="acme")).status == 422
        assert (await world.call("DELETE", "/v1/policies/registry")).status == 204
        assert (await world.apply(intent("nlp/prod/next"), by="acme")).status == 200

    play(tmp_path, story)


def test_a_tenants_policy_is_its_admins_to_write_and_binds_nobody_else(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        own = policy("small", "spec.gpus <= 1", "acme")
        for by, status in (("acme", 403), ("globex-admin", 403), ("acme-admin", 200)):
            assert (await world.apply(own, by=by)).status == status, by
        assert (await world.apply(policy("all", "false"), by="acme-admin")).status == 403
        assert (await world.apply(intent(JOB, 2), by="acme")).status == 422
        assert (await world.apply(intent("chat/prod/job", 2), by="globex")).status == 200
        await world.apply(policy("wide", "tenant.name != 'umbra'"))
        for by, names in (("admin", ["small", "wide"]), ("acme", ["small"]), ("globex", [])):
            seen = await world.get("/v1/policies", by=by)
            assert [item["metadata"]["name"] for item in seen["items"]] == names, by

    play(tmp_path, story)


def test_a_policy_that_is_wrong_changes_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        before = world.dump()
        reply = await world.apply(policy("broken", "spec.gpu > 1"))
        assert reply.status == 400
        (reason,) = reply.json["reasons"]
        assert reason["field"] == "spec.rules[0].require" and "line 1, column 5" in reason["message"]
        assert world.dump() == before

    play(tmp_path, story)


def test_a_type_nobody_has_heard_of_runs_with_its_own_command_and_variables(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        new = {
            "apiVersion": "windlass.dev/v1",
            "kind": "ComponentType",
            "metadata": {"name": "etl"},
            "spec": {
                "version": "1.0.0",
                "workload": "job",
                "parameters": {
                    "type": "object",
                    "properties": {"shards": {"type": "integer", "default": 4}},
                },
                "templates": {
                    "local": {
                        "command": ["etl", "--shards", "${string(parameters.shards)}", "${metadata.name}"],
                        "variables": {"SHARDS": "${string(parameters.shards)}"},
                    }
                },
            },
        }
        assert (await world.apply(new)).status == 200
        wanted = intent(JOB, type="etl", parameters={"shards": 7})
        wanted["spec"].pop("command", None)
        assert (await world.apply(wanted, by="acme")).status == 200
        await world.settle()
        assert world.phase(JOB) == "Running"
        manifest = world.workload(JOB)["manifest"]
        assert '"command":["etl","--shards","7","job"]' in manifest and '"SHARDS":"7"' in manifest

    play(tmp_path, story)
