"""What a type, a trait or a policy is wrong about is told when it is uploaded: all of it, with its place."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.catalog.worlds import component_type, policy, trait

from windlass.core.catalog.rules import check_document
from windlass.core.documents.kinds import Document
from windlass.core.documents.problems import Problems

PORT = {
    "type": "object",
    "properties": {"port": {"type": "integer", "default": 8000}, "note": {"type": "string"}},
}
SERVICE: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "spec": {}}
LEVEL = {"type": "object", "properties": {"level": {"type": "string"}}, "required": ["level"]}


PATCH, POD = "spec.patches.kubernetes", "spec.templates.kubernetes.objects[0].spec.template.spec"
TENANT, DEVICES, GRACE = "windlass.dev/tenant", "CUDA_VISIBLE_DEVICES", "terminationGracePeriodSeconds"
FORGED = {TENANT: "rival"}
HOST_PATH = {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "spec": {}}
SEES_ALL = {"name": "main", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
CLAIM = {"name": "c", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": FORGED}, "spec": {}}}}
CLAIMED = "volumes[0].ephemeral.volumeClaimTemplate"


SMALL = {"type": "integer", "maximum": 8}
PROPERTIES = "spec.parameters.properties"


def having(**declared: Any) -> dict[str, Any]:
    return {"type": "object", "properties": declared}


def pods(**pod: Any) -> dict[str, Any]:
    """A template for Kubernetes whose pods have this."""
    spec = {"template": {"spec": {"containers": [{"name": "main"}], **pod}}}
    return {"kubernetes": {"objects": [{"apiVersion": "batch/v1", "kind": "Job", "spec": spec}]}}


def rule(require: str, **more: str) -> dict[str, str]:
    return {"name": "small", "require": require, **more}


def command(*parts: Any) -> dict[str, Any]:
    return {"local": {"command": list(parts)}}


def problems_of(document: Document) -> list[tuple[str, str]]:
    problems = Problems()
    check_document(document, problems)
    return [(reason.field, f"{reason.message}; {reason.remedy}") for reason in problems.reasons()]


@pytest.mark.parametrize(
    "right",
    [
        component_type(templates=command("python", "x.py")),
        component_type(parameters=PORT, templates=command("serve", "${string(parameters.port)}")),
        component_type(parameters=PORT, rules=[rule("parameters.port > 1024")]),
        component_type(parameters=having(a=SMALL | {"default": 3}) | {"required": ["a"], "minProperties": 1}),
        component_type(parameters=PORT, rules=[rule("${parameters.port > 1024}", when="spec.gpus > 1")]),
        component_type(parameters=PORT, rules=[rule("parameters.note == null || parameters.note != ''")]),
        component_type(rules=[rule("spec.gpus <= 8", message="${'asked for ' + string(spec.gpus)}")]),
        component_type(templates={"kubernetes": {"objects": [{"$if": "${spec.gpus > 1}", **SERVICE}]}}),
        component_type(templates=command("echo", "$${not an expression}")),
        trait(constraints={"preemptible": True, "topology": {"level": "rack", "mode": "required"}}),
        trait(parameters=LEVEL, constraints={"topology": {"level": "${parameters.level}"}}),
        trait(patches={"kubernetes": {"pod": {"tolerations": [{"key": "${site.name}"}]}}}),
        trait(rules=[rule("type.workload == 'job'")], targets=["local"]),
        policy(rule("spec.image.startsWith('ghcr.io/')")),
        policy(rule("!has(parameters.port) || parameters.port > 1024", when="action == 'create-service'")),
        policy(rule("now < timestamp('2030-01-01T00:00:00Z')")),
    ],
)
def test_what_is_right_passes(right: Document) -> None:
    assert problems_of(right) == []


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        (
            trait(patches={"kubernetes": {"pod": {"hostNetwork": True}}}),
            f"{PATCH}.pod.hostNetwork",
            "belongs",
        ),
        (trait(patches={"kubernetes": {"pod": HOST_PATH}}), f"{PATCH}.pod.volumes[0].hostPath", "beyond"),
        (trait(patches={"kubernetes": {"container": {"image": "x"}}}), f"{PATCH}.container.image", "intent"),
        (trait(patches={"kubernetes": {"container": {"name": "x"}}}), f"{PATCH}.container.name", "main"),
        (
            trait(patches={"kubernetes": {"workload": {"replicas": 9}}}),
            f"{PATCH}.workload.replicas",
            "computed",
        ),
        (
            trait(patches={"kubernetes": {"objects": [ROLE]}}),
            f"{PATCH}.objects[0].kind",
            "not among the kinds",
        ),
        (trait(patches={"kubernetes": {"objects": [1]}}), f"{PATCH}.objects[0]", "is a mapping"),
        (trait(patches={"kubernetes": {"labels": FORGED}}), f'{PATCH}.labels["{TENANT}"]', "reserved"),
        (trait(patches={"kubernetes": {"podLabels": FORGED}}), f'{PATCH}.podLabels["{TENANT}"]', "reserved"),
        (trait(patches={"kubernetes": {"labels": {"a": "b c"}}}), f"{PATCH}.labels.a", "at most 63"),
        (trait(patches={"kubernetes": {"labels": {"a b": "c"}}}), f'{PATCH}.labels["a b"]', "can be called"),
        (
            trait(patches={"slurm": {"options": {"account": "x"}}}),
            "spec.patches.slurm.options.account",
            "decides",
        ),
        (
            trait(patches={"slurm": {"options": {"tmp": "a\n#SBATCH"}}}),
            "spec.patches.slurm.options.tmp",
            "not a",
        ),
        (trait(patches={"slurm": {"variables": {"RANK": "0"}}}), "spec.patches.slurm.variables.RANK", "sets"),
        (
            trait(patches={"local": {"variables": {DEVICES: "0"}}}),
            f"spec.patches.local.variables.{DEVICES}",
            "sets",
        ),
        (
            component_type(templates=pods(shareProcessNamespace=True)),
            f"{POD}.shareProcessNamespace",
            "belongs",
        ),
        (component_type(templates=pods(terminationGracePeriodSeconds=9999)), f"{POD}.{GRACE}", "within 3600"),
        (component_type(templates=pods(containers=[SEES_ALL])), f"{POD}.containers[0].env[0]", "platform's"),
        (
            component_type(templates=pods(volumes=[CLAIM])),
            f'{POD}.{CLAIMED}.metadata.labels["{TENANT}"]',
            "reserved",
        ),
        (component_type(rules=[rule("spec.gpu > 1")]), "spec.rules[0].require", "line 1, column 5"),
        (component_type(rules=[rule("spec.gpus >\n spec.gpu")]), "spec.rules[0].require", "line 2, column"),
        (component_type(rules=[rule("spec.gpus + 'a'")]), "spec.rules[0].require", "no matching overload"),
        (component_type(rules=[rule("spec.gpus")]), "spec.rules[0].require", "gives int"),
        (component_type(rules=[rule("true", when="spec.gpus")]), "spec.rules[0].when", "gives int"),
        (component_type(rules=[rule("(" * 40 + "true" + ")" * 40)]), "spec.rules[0].require", "recursion"),
        (component_type(rules=[rule("true || " * 700 + "true")]), "spec.rules[0].require", "at most 4096"),
        (component_type(rules=[rule("parameters.port > 1")]), "spec.rules[0].require", "undeclared"),
        (component_type(rules=[rule("true"), rule("false")]), "spec.rules", "small is there 2 times"),
        (
            component_type(rules=[rule("true", message="a ${spec.env}")]),
            "spec.rules[0].message",
            "mixes text",
        ),
        (component_type(rules=[rule("site.name == 'a'")]), "spec.rules[0].require", "undeclared"),
        (component_type(templates={"local": {"script": "x"}}), "spec.templates.local.script", "not a field"),
        (component_type(templates=command(1)), "spec.templates.local.command[0]", "must be text"),
        (component_type(templates={"local": {"command": "x"}}), "spec.templates.local.command", "a list"),
        (component_type(templates=command("${site.name}")), "spec.templates.local.command[0]", "undeclared"),
        (component_type(templates=command("${1 +}")), "spec.templates.local.command[0]", "Syntax error"),
        (
            component_type(templates={"kubernetes": {"objects": [{"$if": "yes", **SERVICE}]}}),
            'spec.templates.kubernetes.objects[0]["$if"]',
            "must be an expression",
        ),
        (component_type(templates={"slurm": {"script": "rm"}}), "spec.templates.slurm.script", "not a field"),
        (
            component_type(
                templates={"kubernetes": {"objects": [{**SERVICE, "metadata": {"namespace": "x"}}]}}
            ),
            "spec.templates.kubernetes.objects[0].metadata.namespace",
            "leave it out",
        ),
        (trait(constraints={"gpuDirect": True}), "spec.constraints.gpuDirect", "no constraint"),
        (trait(constraints={"preemptible": "yes"}), "spec.constraints.preemptible", "true or false"),
        (trait(constraints={"topology": "rack"}), "spec.constraints.topology", "a node label"),
        (trait(constraints={"topology": {"mode": "required"}}), "spec.constraints.topology", "level"),
        (trait(constraints={"topology": {"level": "r", "mode": "x"}}), "spec.constraints.topology", "mode"),
        (
            trait(constraints={"checkpoint": {"graceSeconds": 0}}),
            "spec.constraints.checkpoint",
            "a grace of 0",
        ),
        (trait(constraints={"sharing": "mps"}), "spec.constraints.sharing", "time-slice"),
        (
            trait(constraints={"topology": {"level": "${parameters.level}"}}),
            "spec.constraints.topology.level",
            "undeclared reference to 'parameters",
        ),
        (trait(patches={"kubernetes": {"spec": {}}}), "spec.patches.kubernetes.spec", "not a field"),
        (policy(), "spec.rules", "at least one rule"),
        (policy(rule("spec.gpu < 1")), "spec.rules[0].require", "undeclared reference"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(wrong: Document, field: str, words: str) -> None:
    ((where, told),) = problems_of(wrong)
    assert (where, words in told) == (field, True), (where, told)


def test_every_mistake_is_told_at_once() -> None:
    wrong = component_type(
        rules=[rule("spec.gpu > 1"), {**rule("1"), "name": "other"}], templates=command("${nothing}")
    )
    assert [field for field, _ in problems_of(wrong)] == [
        "spec.rules[0].require",
        "spec.rules[1].require",
        "spec.templates.local.command[0]",
    ]


LIMITED: dict[str, Any] = {
    "parameters": PORT,
    "rules": [rule("parameters.port > 1024", message="a low port")],
}


def example(**more: Any) -> dict[str, Any]:
    return {"name": "an example", **more}


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (example(), ""),
        (example(spec={"parameters": {"port": 80}}, expect="rejected", rule="small"), ""),
        (
            example(spec={"parameters": {"port": 80}}, expect="rejected", rule="other"),
            "the rule other to refuse",
        ),
        (example(spec={"parameters": {"port": 80}}, expect="rejected"), ""),
        (example(spec={"parameters": {"port": "x"}}, expect="rejected"), ""),
        (example(spec={"parameters": {"port": 80}}), "it is refused: a low port"),
        (example(expect="rejected"), "nothing refuses it"),
        (example(spec={"gpus": "many"}), "is no intent"),
        (example(target="local", holds=["rendered.command[0] == '8000'"]), ""),
        (example(target="local", holds=["rendered.command[0] == '80'"]), "is not true"),
        (example(target="local", holds=["rendered.nothing.at.all"]), "cannot be played"),
        (example(target="local", holds=["rendered +"]), "cannot be played"),
    ],
)
def test_the_examples_of_a_document_are_played_when_it_is_uploaded(test: dict[str, Any], words: str) -> None:
    document = component_type(**LIMITED, templates=command("${string(parameters.port)}"), tests=[test])
    told = problems_of(document)
    assert len(told) == bool(words) and all(words in text for _, text in told), told


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (example(spec={"gpus": 9}, expect="rejected", rule="small"), ""),
        (example(spec={"gpus": 9}, tenant={"name": "acme", "tier": "gold"}), ""),
        (example(spec={"gpus": 9}), "it is refused"),
        (example(spec={"gpus": 9}, expect="rejected", rule="other"), "expects the rule other"),
        (example(spec={"gpus": 9}, action="scale-service"), ""),
    ],
)
def test_a_policy_brings_examples_too(test: dict[str, Any], words: str) -> None:
    narrow = policy(
        rule("spec.gpus <= 8", when="tenant.tier != 'gold'"),
        appliesTo={"actions": ["submit-job"]},
        tests=[test],
    )
    told = problems_of(narrow)
    assert len(told) == bool(words) and all(words in text for _, text in told), told


@pytest.mark.parametrize(
    "test",
    [
        example(spec={"gpus": 9}, expect="rejected", rule="small"),
        example(spec={"gpus": 9, "type": "web-stack@2.0.0"}, expect="rejected", rule="small"),
        example(spec={"gpus": 9, "traits": ["infiniband", "spot-tolerant"]}, expect="rejected", rule="small"),
        example(spec={"gpus": 9, "type": "batch-job"}),
    ],
)
def test_a_policy_about_types_of_its_platform_is_played_with_them(test: dict[str, Any]) -> None:
    narrow = policy(
        rule("spec.gpus <= 8 && type.name == 'web-stack'"),
        appliesTo={"types": ["web-stack"], "actions": ["create-service"]},
        tests=[test],
    )
    assert problems_of(narrow) == []


def test_a_trait_for_types_of_its_platform_is_played_with_them() -> None:
    one = trait(
        appliesTo=["web-stack"],
        patches={"local": {"variables": {"OF": "${type.name}"}}},
        tests=[example(target="local", holds=["rendered.variables.OF == 'web-stack'"])],
    )
    assert problems_of(one) == []


def test_an_example_may_name_another_version_and_is_then_played_with_that() -> None:
    one = component_type("serve", tests=[example(spec={"type": "serve@2.0.0"}, target="local")])
    assert problems_of(one) == []


@pytest.mark.parametrize(
    ("templates", "test", "words"),
    [
        (
            {"slurm": {"options": {"array": "${'0-' + string(parameters.port)}"}, "command": ["x"]}},
            example(target="slurm"),
            "cannot run on slurm: type serve@1.0.0: '0-8000' is not a value of the Slurm option array",
        ),
        ({"slurm": {"options": {"array": "${parameters.port}"}}}, example(target="slurm"), ""),
        (
            pods(volumes="${[{'name': 'v', 'hostPath': {'path': '/'}}]}"),
            example(target="kubernetes"),
            "reach",
        ),
        (pods(terminationGracePeriodSeconds="${-5}"), example(target="kubernetes"), "at most 3600 seconds"),
        (pods(), example(target="kubernetes", holds=["rendered.objects.size() == 1"]), ""),
        (pods(), example(target="slurm", holds=["rendered == {}"]), ""),
    ],
)
def test_what_an_example_of_a_type_renders_must_be_able_to_run(
    templates: dict[str, Any], test: dict[str, Any], words: str
) -> None:
    told = problems_of(component_type("serve", parameters=PORT, templates=templates, tests=[test]))
    assert len(told) == bool(words) and all(words in text for _, text in told), told
