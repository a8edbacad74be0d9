"""The guide to types and policies works as it stands: its documents are applied in its order, and do what it
says of them."""

from __future__ import annotations

from pathlib import Path

from tests.control.worlds import World, play, url
from tests.docs.pages import ROOT, blocks

GUIDE = ROOT / "docs" / "guides" / "types-and-policies.md"
JOB = "nlp/prod/mmlu-nightly"


def test_the_documents_of_the_guide_are_accepted_in_its_order(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        told = blocks("yaml", pages=[GUIDE])
        assert len(told) == 7
        for block in told:
            reply = await world.apply(block.text)
            if "kind: ModelSpec" in block.text:
                assert reply.codes == ["target.unsupported"], block
            else:
                assert reply.status == 200, f"{block}: {reply.body.decode()}"
        await world.settle()
        assert world.phase(JOB) == "Running"
        manifest = (await world.call("GET", f"{url(JOB)}/manifests")).body
        assert b'["evaluate","--suite","mmlu","--shots=5"]' in manifest
        found = await world.get("/v1/componenttypes/evaluation@1.0.0/diff?to=evaluation@2.0.0")
        (one,) = found["items"]
        assert one["component"] == JOB and '-    "--shots=5"' in one["diff"]

    play(tmp_path, story)


def test_what_the_guide_says_is_refused_is_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        type_document, component, trait, project, policy, *_ = (
            one.text for one in blocks("yaml", pages=[GUIDE])
        )
        assert (await world.apply(type_document)).status == 200
        for change, rule in (
            (("suite: mmlu", "suite: 'a; rm -rf /'"), "parameter.invalid"),
            (("suite: mmlu", "suite: mmlu, shots: 9"), "parameter.invalid"),
            (("gpus: 1", "gpus: 1\n  workers: 2"), "parameter.invalid"),
        ):
            assert (await world.apply(component.replace(*change))).codes == [rule], change
        assert (await world.apply(trait)).status == 200
        quiet = component.replace("gpus: 1", "gpus: 1\n  traits: [quiet]")
        assert (await world.apply(quiet)).codes == ["trait.not-granted"]
        assert (await world.apply(project)).status == 200
        assert (await world.apply(quiet)).status == 200
        assert (await world.apply(policy)).status == 200
        other = component.replace("ghcr.io/acme/", "docker.io/acme/").replace("mmlu-nightly", "other")
        assert (await world.apply(other)).codes == ["policy.own-registry"]
        broken = type_document.replace("expect: rejected", "expect: admitted").replace("1.0.0", "3.0.0")
        assert "many shots without a time limit" in (await world.apply(broken)).json["detail"]

    play(tmp_path, story)
