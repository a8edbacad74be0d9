"""Types, traits and policies that are wrong or mean harm: each a clear error with its place, and nothing
changes; and parameters that would be more than values, which stay values."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent, policy
from tests.control.test_changes_of_types import granted, trait_document, type_document
from tests.control.worlds import Reply, World, play, url

JOB = "nlp/prod/job"


async def refused(world: World, *documents: object) -> Reply:
    before = world.dump()
    reply = await world.apply(*documents)
    assert reply.status == 400, reply.body
    assert world.dump() == before, "nothing changed"
    return reply


# --- expressions --------------------------------------------------------------------------------

SEVERAL = """\
apiVersion: windlass.dev/v1
kind: Policy
metadata: {name: fine}
spec:
  rules: [{name: fine, require: "true"}]
---
apiVersion: windlass.dev/v1
kind: Policy
metadata: {name: broken}
spec:
  rules:
  - name: unknown
    require: spec.gpu <= 4
  - name: types
    require: spec.gpus + 'a' == 'b'
  - name: syntax
    require: spec.gpus <=
---
apiVersion: windlass.dev/v1
kind: ComponentType
metadata: {name: broken}
spec:
  version: 1.0.0
  workload: job
  templates:
    local:
      variables:
        A: "${parameters.nothing}"
"""


def test_every_bad_expression_of_a_file_is_told_with_line_and_column(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        reasons = (await refused(world, SEVERAL)).json["reasons"]
        told = {reason["field"]: (reason["line"], reason["message"]) for reason in reasons}
        assert {field: line for field, (line, _) in told.items()} == {
            "spec.rules[0].require": 13,
            "spec.rules[1].require": 15,
            "spec.rules[2].require": 17,
            "spec.templates.local.variables.A": 28,
        }
        assert "column 5" in told["spec.rules[0].require"][1], told
        assert all("column" in message for _, message in told.values()), told
        assert "ComponentType broken" in told["spec.templates.local.variables.A"][1]

    play(tmp_path, story)


BOMB = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, %s)))"


@pytest.mark.parametrize(
    "require",
    ["(" * 500 + "true" + ")" * 500, "!" * 5000 + "true", " || ".join(["spec.gpus > 0"] * 1000)],
    ids=["parentheses", "negations", "length"],
)
def test_an_expression_that_is_too_deep_or_too_long_is_refused_at_upload(
    tmp_path: Path, require: str
) -> None:
    async def story(world: World) -> None:
        await refused(world, policy("bomb", require))

    play(tmp_path, story)


def test_an_expression_that_would_go_on_too_long_whatever_it_is_asked_is_refused_at_upload(
    tmp_path: Path,
) -> None:
    async def story(world: World) -> None:
        inner = "[1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, d + e > 0))"
        await refused(world, policy("bomb", BOMB % inner))

    play(tmp_path, story)


def test_an_expression_that_goes_on_too_long_refuses_the_request_and_says_so(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        bomb = "spec.command.all(a, spec.command.all(b, spec.command.all(c, a + b + c != 'x')))"
        assert (await world.apply(policy("bomb", bomb))).status == 200
        assert (await world.apply(intent(JOB, command=["true"]))).status == 200
        reply = await world.apply(intent("nlp/prod/other", command=["true"] * 500))
        assert reply.codes == ["policy.bomb"]
        assert "cannot be evaluated" in reply.json["reasons"][0]["message"]

    play(tmp_path, story)


# --- parameters that would be more than values --------------------------------------------------

SMUGGLED = (
    "${tenant.name}",
    "$(touch /tmp/x); `id`; $HOME",
    'x"\n  hostNetwork: true\n#',
    "--- {a: [&x *x]}",
    '", "command": ["sh"], "x": "',
    "'; DROP TABLE components; --",
    "\\u0000 \u202e <<: {}",
)


@pytest.mark.parametrize("value", SMUGGLED)
def test_a_parameter_stays_one_value_in_one_place(tmp_path: Path, value: str) -> None:
    async def story(world: World) -> None:
        any_text = {"type": "object", "properties": {"say": {"type": "string"}}, "required": ["say"]}
        templates = {
            "local": {"command": ["echo", "${parameters.say}"], "variables": {"S": "${parameters.say}"}}
        }
        await world.apply(type_document("sayer", parameters=any_text, templates=templates))
        asked = intent(JOB, type="sayer", parameters={"say": value})
        del asked["spec"]["command"]
        assert (await world.apply(asked)).status == 200
        manifest = json.loads((await world.call("GET", f"{url(JOB)}/manifests")).body)
        held = manifest.get("manifest", manifest)
        assert held["command"] == ["echo", value] and held["variables"]["S"] == value
        assert set(held) == await _plain(world), "no field more than of a harmless word"

    play(tmp_path, story)


async def _plain(world: World) -> set[str]:
    asked = intent("nlp/prod/plain", type="sayer", parameters={"say": "hello"})
    del asked["spec"]["command"]
    await world.apply(asked)
    found = json.loads((await world.call("GET", f"{url('nlp/prod/plain')}/manifests")).body)
    return set(found.get("manifest", found))


# --- schemas ------------------------------------------------------------------------------------


@contextmanager
def listening() -> Iterator[tuple[str, socket.socket]]:
    """An address, and the socket that would hear of a call to it."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield f"http://127.0.0.1:{server.getsockname()[1]}/schema.json", server


@pytest.mark.parametrize(
    "where",
    [
        lambda far: {"$ref": far},
        lambda far: {"$schema": far, "type": "object"},
        lambda far: {"properties": {"a": {"allOf": [{"$ref": f"{far}#/x"}]}}},
        lambda far: {"$id": far, "properties": {"a": {"$ref": "other.json"}}},
        lambda far: {"$defs": {"a": {"$schema": far, "$id": "urn:a", "$dynamicRef": far}}},
    ],
    ids=["ref", "schema", "nested", "relative", "dynamic"],
)
def test_a_schema_that_points_elsewhere_is_refused_and_nobody_calls(tmp_path: Path, where: Any) -> None:
    async def story(world: World) -> None:
        with listening() as (address, server):
            for kind in (type_document, trait_document):
                reply = await refused(world, kind("far", parameters=where(address)))
                assert "points outside the document" in reply.json["reasons"][0]["message"]
            with pytest.raises(BlockingIOError):
                server.accept()

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"$ref": "#"}, "spec.parameters"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "spec.parameters.properties.a"),
        (
            {"$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"allOf": [{"$ref": "#/$defs/x"}]}}},
            'spec.parameters["$defs"].y.allOf[0]',
        ),
    ],
)
def test_a_reference_that_leads_back_to_itself_is_refused(
    tmp_path: Path, parameters: dict[str, Any], field: str
) -> None:
    async def story(world: World) -> None:
        reasons = (await refused(world, type_document("circle", parameters=parameters, templates={}))).json[
            "reasons"
        ]
        assert any("leads back to itself" in one["message"] and one["field"] == field for one in reasons), (
            reasons
        )

    play(tmp_path, story)


def test_a_schema_of_a_tree_is_no_circle(tmp_path: Path) -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}

    async def story(world: World) -> None:
        assert (await world.apply(type_document("tree", parameters=tree, templates={}))).status == 200
        deep: dict[str, Any] = {"left": {"right": {"left": {}}}}
        assert (await world.apply(intent(JOB, type="tree", parameters=deep))).status == 200

    play(tmp_path, story)


def test_types_that_replace_each_other_are_refused(tmp_path: Path) -> None:
    def gone(name: str, by: str) -> dict[str, Any]:
        window = {"since": "2026-01-01T00:00:00Z", "until": "2027-01-01T00:00:00Z", "replacedBy": by}
        return type_document(name, deprecated=window)

    async def story(world: World) -> None:
        reply = await refused(world, gone("one", "two"), gone("two", "one"))
        assert {reason["field"] for reason in reply.json["reasons"]} == {"spec.deprecated.replacedBy"}
        await refused(world, gone("self", "self"))
        assert (await world.apply(gone("one", "two"), gone("two", "training-job"))).status == 200

    play(tmp_path, story)


# --- traits and templates -----------------------------------------------------------------------


def test_traits_that_do_not_go_together_are_refused_in_either_order(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        hot = trait_document("hot", conflictsWith=["cold"])
        await world.apply(hot, trait_document("cold"), granted("hot", "cold"))
        for names in (["hot", "cold"], ["cold", "hot"], ["hot", "hot"]):
            reply = await world.apply(intent(JOB, traits=names))
            assert (reply.status, set(reply.codes)) == (422, {"trait.conflict"})

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("where", "value"),
    [("hostNetwork", True), ("serviceAccountName", "admin"), ("tolerations", [{"operator": "Exists"}])],
)
def test_a_template_that_writes_what_is_the_platforms_is_refused(
    tmp_path: Path, where: str, value: Any
) -> None:
    async def story(world: World) -> None:
        pod = {"containers": [{"name": "main"}], where: value}
        job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}
        reply = await refused(world, type_document(templates={"kubernetes": {"objects": [job]}}))
        assert where in reply.json["reasons"][0]["field"]
        assert reply.json["reasons"][0]["rule"] == "document.invalid"

    play(tmp_path, story)
