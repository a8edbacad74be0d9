"""Each admission rule: what it must refuse, and the nearest thing it must let through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import envelope, intent, quota
from tests.core.admission.cases import (
    NLP_PROD,
    at,
    budget,
    catalog,
    codes,
    document,
    facts,
    granting,
    judged,
    retired,
    trait,
)

from windlass.core.admission.case import NodeSize
from windlass.core.admission.decide import decide
from windlass.core.admission.rules import RULES
from windlass.core.catalog.changes import apply_documents
from windlass.core.catalog.snapshot import EMPTY
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import read_yaml

EXAMPLES = Path(__file__).parents[4] / "shared" / "examples"
JOB = "nlp/prod/job"


def job(gpus: float = 1, /, path: str = JOB, **spec: Any) -> dict[str, Any]:
    return intent(path, gpus, **spec)


def service(gpus: int = 1, **parameters: Any) -> dict[str, Any]:
    return job(gpus, type="inference-service", parameters={"port": 8000, **parameters})


def spec(**fields: Any) -> dict[str, Any]:
    return job(1, **fields)


TOKEN = "gh" + "p_" + "a1" * 18
FAR = document("Site", "far", {"orchestrator": "local", "tenants": ["globex"]})
NEAR = document("Site", "near", {"orchestrator": "local"})
HOME = document("Site", "local", {"orchestrator": "local"})
BOUND = document("Tenant", "acme", {"tier": "standard", "sites": ["local"]})
SHORT = trait("short", parameters={"type": "object", "properties": {"level": {"enum": ["rack"]}}})
OPEN = {"type": "object"}
A, B = trait("hot"), trait("cold", conflictsWith=["hot"])
SERVES = trait("serves", appliesTo=["inference-service"])
FREE = document("ComponentType", "free", {"version": "1.0.0", "workload": "service", "parameters": OPEN})
NEWER = document("ComponentType", "training-job", {"version": "2.0.0", "workload": "job"})
FIRST = trait("first", appliesTo=["training-job@1.0"])
BURST = {
    "profileClass": "h100-80g",
    "extra": 4,
    "from": "2026-03-02T09:00:00Z",
    "until": "2026-03-02T10:00:00Z",
}
WINDOW = envelope("nlp-prod", NLP_PROD, gpus=quota(4, 8), burst=[{**BURST, "reason": "launch"}])
BOUNDLESS = (
    envelope("nlp-prod", NLP_PROD, gpus=[{"profileClass": "h100-80g"}]),
    envelope("acme", {"tenant": "acme"}, gpus=[{"profileClass": "h100-80g", "guaranteed": 8}]),
)
SPENDS = {"amount": "10.00", "currency": "USD", "period": "month"}
FRUGAL = envelope("nlp-prod", NLP_PROD, gpus=quota(4, 8), budget=SPENDS)
WARNED = envelope("nlp-prod", NLP_PROD, gpus=quota(4, 8), budget={**SPENDS, "onExhausted": "warn"})
OTHER = envelope("umbra", {"tenant": "umbra"}, gpus=quota(0, 4, "l40s-48g"))
PRICE = {"per_gpu_hour": 2_500_000}

HELM = document("Site", "helm", {"orchestrator": "kubernetes"})
CLUSTER = document("Site", "cluster", {"orchestrator": "slurm"})
HOMEBOUND = trait("homebound", targets=["local"])
MOUNTS = trait("mounts", constraints={"volumes": ["data"]})
SHOWS = trait("shows", constraints={"secrets": ["token"]})
SHARED = trait("shared", constraints={"sharing": "time-slice"})
BARE = {"local": {"command": ["run"], "variables": {"LAST": "${spec.command[9]}"}}}
KEPT = {"volumes": ["data"], "secrets": ["token"]}
KEEPS = {"environments": ["dev", "prod"], "traits": ["mounts", "shows"], "defaultProfile": "h100-80g", **KEPT}
KEEPER = document("Project", "nlp", KEEPS, tenant="acme")


def rule(require: str, **more: str) -> dict[str, str]:
    return {"name": "small", "require": require, **more}


def policy(require: str, tenant: str | None = None, **spec: Any) -> dict[str, Any]:
    owner = {"tenant": tenant} if tenant else {}
    return document("Policy", "narrow", {"rules": [rule(require)], **spec}, **owner)


def typed(**spec: Any) -> dict[str, Any]:
    return document(
        "ComponentType", "own", {"version": "1.0.0", "workload": "job", "parameters": OPEN, **spec}
    )


Case = tuple[str, dict[str, Any], tuple[dict[str, Any], ...], dict[str, Any]]

REFUSED: tuple[Case, ...] = (
    ("field.platform-owned", spec(hostNetwork=True), (), {}),
    ("field.platform-owned", spec(overrides={"tolerations": []}), (), {}),
    ("label.reserved", spec(labels={"windlass.dev/tenant": "globex"}), (), {}),
    ("label.reserved", spec(labels={"sub.kubernetes.io/x": "y"}), (), {}),
    ("project.unknown", job(1, path="nothing/prod/job"), (), {}),
    ("project.unknown", job(1, path="chat/prod/job"), (), {}),
    ("tenant.suspended", job(), (), {"suspended": frozenset({"acme"})}),
    ("environment.unknown", job(1, path="nlp/staging/job"), (), {}),
    ("type.unknown", spec(type="warehouse"), (), {}),
    ("type.unknown", spec(type="training-job@99.0.0"), (), {}),
    ("type.retired", spec(type="old-job"), (retired("2026-03-02T09:00:00Z"),), {}),
    ("type.not-granted", spec(type="raw"), (), {}),
    ("type.not-granted", job(), (granting(types=("notebook",)),), {}),
    ("trait.unknown", spec(traits=["root-on-host"]), (), {}),
    ("trait.not-granted", job(1, path="vision/prod/job", traits=["spot-tolerant"]), (), {}),
    ("trait.conflict", spec(traits=["hot", "cold"]), (A, B, granting("hot", "cold")), {}),
    ("trait.conflict", spec(traits=["hot", "hot"]), (A, granting("hot")), {}),
    ("trait.conflict", spec(traits=["serves"]), (SERVES, granting("serves")), {}),
    ("parameter.invalid", spec(parameters={"nothing": 1}), (), {}),
    ("parameter.invalid", service(port="high"), (), {}),
    ("parameter.invalid", service(minReplicas=3, maxReplicas=2), (), {}),
    (
        "parameter.invalid",
        spec(traits=[{"name": "short", "parameters": {"level": "moon"}}]),
        (SHORT, granting("short")),
        {},
    ),
    *(
        ("parameter.invalid", spec(type="free", parameters=wrong), (FREE,), {})
        for wrong in ({"minReplicas": 0}, {"minReplicas": -2}, {"maxReplicas": "two"}, {"maxReplicas": 0.5})
    ),
    ("parameter.invalid", spec(type="free", parameters={"minReplicas": 100_001}), (FREE, *BOUNDLESS), {}),
    (
        "parameter.invalid",
        spec(type="free", workers=400, parameters={"maxReplicas": 400}),
        (FREE, *BOUNDLESS),
        {},
    ),
    (
        "trait.not-granted",
        spec(traits=["hot"]),
        (A, granting("hot@1.0.0"), trait("hot", version="1.1.0")),
        {},
    ),
    ("trait.conflict", spec(traits=["first"]), (FIRST, granting("first"), NEWER), {}),
    ("image.invalid", spec(image="ghcr.io/acme/a..b"), (), {}),
    ("image.invalid", spec(image="GHCR.io/Acme/SFT:v3 --privileged"), (), {}),
    ("image.invalid", spec(image="ghcr.io/acme/sft@sha256:abc"), (), {}),
    ("profile.unknown", spec(profile="h900"), (), {}),
    (
        "profile.unknown",
        job(),
        (document("Project", "nlp", {"environments": ["prod", "dev"], "traits": []}, tenant="acme"),),
        {},
    ),
    ("profile.indivisible", job(0.5), (), {}),
    ("entitlement.class", job(1, path="chat/prod/job", profile="l40s-48g"), (), {"tenant": "globex"}),
    ("entitlement.class", job(1, path="cheap/dev/job", profile="h100-mig-1g"), (OTHER,), {"tenant": "umbra"}),
    ("entitlement.sharing", spec(profile="h100-mig-1g"), (), {}),
    ("entitlement.max", job(8, workers=2), (), {}),
    ("entitlement.max", service(1, minReplicas=1, maxReplicas=9), (), {}),
    ("entitlement.max", job(4, workers=3), (WINDOW,), {"now": at(-1)}),
    ("entitlement.max", job(4, workers=3), (WINDOW,), {"now": at(3_600_000)}),
    ("entitlement.site", spec(placement={"sites": ["nowhere"]}), (), {}),
    ("entitlement.site", spec(placement={"sites": ["far"]}), (FAR,), {}),
    ("entitlement.site", spec(placement={"sites": ["near"]}), (HOME, NEAR, BOUND), {}),
    ("gang.impossible", job(9, path="nlp/dev/job"), (), {}),
    ("gang.impossible", job(8), (), {"node_sizes": {"h100-80g": (NodeSize(4),)}}),
    ("gang.impossible", job(8), (), {"node_sizes": {"h100-80g": (NodeSize(8, cpu_milli=7000),)}}),
    ("priority.above-tier", spec(priority=1), (), {}),
    ("priority.above-tier", job(1, path="chat/prod/job", priority=11), (), {"tenant": "globex"}),
    ("budget.exhausted", job(), (FRUGAL,), {**PRICE, "budgets": budget("acme/nlp/prod", 7_500_001)}),
    (
        "budget.exhausted",
        job(),
        (FRUGAL,),
        {**PRICE, "budgets": budget("acme/nlp/prod", 5_000_000, 2_500_001)},
    ),
    ("budget.exhausted", job(1, timeLimit="5h"), (FRUGAL,), {**PRICE, "budgets": budget("acme/nlp/prod", 0)}),
    ("parameter.invalid", spec(type="own"), (typed(rules=[rule("spec.gpus > 1")]),), {}),
    ("parameter.invalid", spec(type="own"), (typed(rules=[rule("spec.command[3] == 'x'")]),), {}),
    (
        "parameter.invalid",
        spec(traits=["hot"]),
        (trait("hot", rules=[rule("type.workload == 'service'")]), granting("hot")),
        {},
    ),
    (
        "parameter.invalid",
        spec(traits=["hot"]),
        (trait("hot", constraints={"topology": {"level": "${spec.command[2]}"}}), granting("hot")),
        {},
    ),
    ("profile.unknown", spec(traits=["shared"]), (SHARED, granting("shared")), {}),
    (
        "volume.not-granted",
        spec(traits=["mounts"]),
        (MOUNTS, granting("mounts")),
        {},
    ),
    ("secret.not-granted", spec(traits=["shows"]), (SHOWS, granting("shows")), {}),
    ("secret.in-clear", spec(variables={"HF_TOKEN": TOKEN}), (), {}),
    ("target.unsupported", spec(type="own", placement={"sites": ["helm"]}), (HELM, typed()), {}),
    ("target.unsupported", spec(command=[], placement={"sites": ["cluster"]}), (CLUSTER,), {}),
    (
        "target.unsupported",
        spec(traits=["homebound"], placement={"sites": ["helm"]}),
        (HELM, HOMEBOUND, granting("homebound")),
        {},
    ),
    (
        "target.unsupported",
        spec(traits=["helmed"], placement={"sites": ["local"]}),
        (trait("helmed", patches={"kubernetes": {"pod": {}}}), granting("helmed")),
        {},
    ),
    (
        "template.invalid",
        spec(type="own"),
        (typed(templates=BARE),),
        {},
    ),
    (
        "template.invalid",
        spec(traits=["hot", "cold"]),
        (
            trait("hot", patches={"local": {"variables": {"T": "1"}}}),
            trait("cold", patches={"local": {"variables": {"T": "2"}}}),
            granting("hot", "cold"),
        ),
        {},
    ),
    ("policy.small", job(), (policy("spec.image.startsWith('quay.io/')"),), {}),
    ("policy.small", job(), (policy("spec.gpus > 1", "acme"),), {}),
    ("policy.small", job(), (policy("spec.command[9] == ''"),), {}),
    ("policy.small", service(), (policy("false", appliesTo={"actions": ["create-service"]}),), {}),
    ("policy.small", job(), (policy("false", appliesTo={"types": ["training-job@1.0"]}),), {}),
)

ADMITTED: tuple[Case, ...] = (
    ("field.platform-owned", job(), (), {}),
    ("trait.not-granted", spec(traits=["hot"]), (A, granting("hot@1.0.0")), {}),
    ("trait.not-granted", spec(traits=["hot"]), (A, granting("hot@1")), {}),
    ("type.not-granted", job(), (granting(types=("training-job@1.0",)),), {}),
    ("trait.conflict", spec(traits=["first"]), (FIRST, granting("first")), {}),
    ("image.invalid", spec(image="ghcr.io/acme/a---b__c.d"), (), {}),
    ("label.reserved", spec(labels={"acme.example/team": "nlp", "windlass.development/x": "y"}), (), {}),
    ("project.unknown", job(1, path="chat/prod/job"), (), {"tenant": None}),
    ("tenant.unknown", job(1, path="chat/prod/job"), (), {"tenant": "globex"}),
    ("tenant.suspended", job(), (), {"suspended": frozenset({"globex"})}),
    ("environment.unknown", job(1, path="nlp/dev/job"), (), {}),
    ("type.unknown", spec(type="training-job"), (), {}),
    ("type.retired", spec(type="old-job"), (retired("2026-03-02T09:00:00.001Z"),), {}),
    ("type.not-granted", spec(type="raw"), (granting(types=("raw",)),), {}),
    ("trait.unknown", spec(traits=["spot-tolerant"]), (), {}),
    ("trait.not-granted", spec(traits=["spot-tolerant"]), (granting("spot-tolerant"),), {}),
    ("trait.conflict", spec(traits=["hot"]), (A, B, granting("hot", "cold")), {}),
    ("parameter.invalid", service(minReplicas=2, maxReplicas=2), (), {}),
    ("image.invalid", spec(image="localhost:5000/a/b_c-d.e:V1_x@sha256:" + "a" * 64), (), {}),
    ("profile.unknown", spec(profile="l40s-48g"), (), {}),
    ("profile.indivisible", job(1), (), {}),
    ("entitlement.class", spec(profile="l40s-48g"), (), {}),
    ("entitlement.sharing", job(1, path="nlp/dev/job", profile="h100-mig-1g"), (), {}),
    ("entitlement.max", job(4, workers=2), (), {}),
    ("entitlement.max", job(4, workers=3), (WINDOW,), {}),
    ("entitlement.max", job(4, workers=3), (WINDOW,), {"now": at(3_599_999)}),
    ("entitlement.site", spec(placement={"sites": ["near"]}), (NEAR,), {}),
    ("gang.impossible", job(8), (), {}),
    ("gang.impossible", job(8), (), {"node_sizes": {}}),
    ("priority.above-tier", job(1, path="chat/prod/job", priority=-10), (), {"tenant": "globex"}),
    ("budget.exhausted", job(), (FRUGAL,), {**PRICE, "budgets": budget("acme/nlp/prod", 7_500_000)}),
    ("budget.exhausted", job(), (WARNED,), {**PRICE, "budgets": budget("acme/nlp/prod", 99_000_000)}),
    ("budget.exhausted", job(), (FRUGAL,), {"budgets": budget("acme/nlp/prod", 0)}),
    ("parameter.invalid", spec(type="own"), (typed(rules=[rule("false", when="spec.gpus > 1")]),), {}),
    (
        "volume.not-granted",
        spec(traits=["mounts"]),
        (MOUNTS, SHOWS, KEEPER),
        {},
    ),
    (
        "secret.not-granted",
        spec(traits=["shows"]),
        (MOUNTS, SHOWS, KEEPER),
        {},
    ),
    ("secret.in-clear", spec(variables={"HF_TOKEN_FILE": "/run/secrets/hf", "MODEL": "hf_base"}), (), {}),
    ("target.unsupported", spec(type="own"), (HELM, typed()), {}),
    ("target.unsupported", spec(command=[]), (CLUSTER,), {}),
    ("target.unsupported", spec(type="notebook", placement={"sites": ["cluster"]}), (CLUSTER,), {}),
    ("policy.<name>", job(), (policy("spec.image.startsWith('ghcr.io/')"),), {}),
    ("policy.<name>", job(), (policy("false", "globex"),), {}),
    ("policy.<name>", job(), (policy("false", appliesTo={"actions": ["create-service"]}),), {}),
    ("policy.<name>", job(), (policy("false", appliesTo={"types": ["notebook"]}),), {}),
)


@pytest.mark.parametrize(("rule", "wanted", "changes", "known"), REFUSED)
def test_it_is_refused_by_exactly_this_rule(
    rule: str, wanted: dict[str, Any], changes: tuple[dict[str, Any], ...], known: dict[str, Any]
) -> None:
    assert codes(wanted, *changes, **known) == [rule]


@pytest.mark.parametrize(("rule", "wanted", "changes", "known"), ADMITTED)
def test_the_nearest_thing_is_admitted(
    rule: str, wanted: dict[str, Any], changes: tuple[dict[str, Any], ...], known: dict[str, Any]
) -> None:
    assert codes(wanted, *changes, **known) == []


def test_every_rule_has_something_it_refuses_and_something_it_lets_through() -> None:
    known = {rule.code for rule in RULES} - {"policy.<name>"}  # theirs are the names of documents
    # A catalog that lacks a project's tenant cannot be made: the rule is for one that was damaged.
    assert known - {case[0] for case in REFUSED} == {"tenant.unknown"}
    assert known - {case[0] for case in ADMITTED} == set()


def test_a_sharing_trait_picks_the_smallest_profile_of_the_class_that_shares_so() -> None:
    shared = trait("shared", constraints={"sharing": "mig"})
    decided = judged(job(1, path="nlp/dev/job", traits=["shared"]), shared, granting("shared"))
    assert decided.work is not None
    assert (decided.work.shape.sharing, decided.work.shape.gpus) == ("mig", 142)


def test_a_variable_that_the_platform_sets_has_no_effect_and_is_told() -> None:
    decided = judged(spec(variables={"RANK": "7", "WINDLASS_X": "1", "CUDA_VISIBLE_DEVICES": "0", "A": "b"}))
    assert decided.work is not None and decided.work.manifest.variables == {"A": "b"}
    assert [one.value for one in decided.warnings] == ["CUDA_VISIBLE_DEVICES", "RANK", "WINDLASS_X"]


def test_a_trait_can_ask_for_nodes_without_other_tenants() -> None:
    alone = trait("alone", constraints={"dedicated": True})
    decided = judged(spec(traits=["alone"]), alone, granting("alone"))
    assert decided.work is not None and decided.work.shape.dedicated


STANDARD = {
    "apiVersion": "windlass.dev/v1",
    "kind": "Tier",
    "metadata": {"name": "standard"},
    "spec": {"priority": 50, "preempts": True, "preemptible": False},
}


@pytest.mark.parametrize("says", [{}, {"movable": True}])
def test_what_accepts_moving_gives_up_its_protection(says: dict[str, bool]) -> None:
    roams = trait("roams", constraints=says)
    decided = judged(spec(traits=["roams"]), STANDARD, roams, granting("roams"))
    assert decided.work is not None
    assert (decided.work.shape.movable, decided.work.shape.preemptible) == (bool(says), bool(says))


def test_every_requirement_that_is_not_met_is_told_and_none_hides_another() -> None:
    kind = typed(rules=[rule("spec.gpus > 1", message="${'asked for ' + string(spec.gpus)}")])
    decided = judged(spec(type="own", priority=9), kind, policy("spec.workers > 1"))
    assert [(reason.rule, reason.limit) for reason in decided.reasons] == [
        ("parameter.invalid", "spec.gpus > 1"),
        ("priority.above-tier", "0 to 0"),
        ("policy.small", "spec.workers > 1"),
    ]
    assert decided.reasons[0].message == "asked for 1"


def test_a_damaged_catalog_is_a_reason_and_not_a_crash() -> None:
    whole = catalog()
    damaged = type(whole).build(
        whole.revision,
        [d for d in whole.documents.values() if d.metadata.name != "acme" or d.kind != "Tenant"],
    )
    found = parse_all(read_yaml(str(job()).replace("'", '"'))).intents[0].value
    decided = decide(found, damaged, facts(), None)
    assert [reason.rule for reason in decided.reasons] == ["tenant.unknown"]


@pytest.mark.parametrize(
    ("wanted", "rules"),
    [
        # An unknown trait is not asked whether it is granted; the others still are.
        (
            job(1, path="vision/prod/job", traits=["none", "spot-tolerant"], priority=9),
            ["trait.unknown", "trait.not-granted", "priority.above-tier"],
        ),
        # An unknown type has no parameters to be wrong about.
        (spec(type="none", parameters={"x": 1}, image="!"), ["type.unknown", "image.invalid"]),
        # A class that is not entitled has no ceiling to exceed and no sharing to refuse.
        (job(99, path="chat/prod/job", profile="l40s-48g"), ["entitlement.class", "gang.impossible"]),
        # Without a place nothing about the place is said.
        (job(99, path="none/prod/job", hostNetwork=True), ["field.platform-owned", "project.unknown"]),
        (job(99, path="nlp/none/job", profile="h100-mig-1g"), ["environment.unknown"]),
        (job(99, profile="none"), ["profile.unknown"]),
        # Wrong replicas say nothing sure about how many there will be.
        (service(99, maxReplicas="many"), ["parameter.invalid", "gang.impossible"]),
        # Other wrong parameters have nothing to do with the size.
        (job(8, workers=2, parameters={"x": 1}), ["parameter.invalid", "entitlement.max"]),
        (job(8, workers=2, traits=["topology"]), ["parameter.invalid", "entitlement.max"]),
        (service(1, port=0, maxReplicas=9), ["parameter.invalid", "entitlement.max"]),
        # Everything that is wrong, at once.
        (
            job(
                9,
                workers=9,
                labels={"cost/project": "x"},
                queue="fast",
                traits=["none"],
                image="!",
                priority=3,
                placement={"sites": ["nowhere"]},
            ),
            [
                "field.platform-owned",
                "label.reserved",
                "trait.unknown",
                "image.invalid",
                "entitlement.max",
                "entitlement.site",
                "gang.impossible",
                "priority.above-tier",
            ],
        ),
    ],
)
def test_all_reasons_are_told_but_none_that_only_follows_from_another(
    wanted: dict[str, Any], rules: list[str]
) -> None:
    assert codes(wanted, tenant=None) == rules


def test_a_reason_says_what_was_found_what_is_allowed_and_what_to_do() -> None:
    (reason,) = judged(job(8, workers=2)).reasons
    assert (reason.field, reason.value, reason.limit) == ("spec.gpus", "16", "8")
    assert "nlp/prod" in reason.message and reason.remedy


def test_the_tightest_ceiling_of_the_path_is_the_one_that_is_named() -> None:
    (reason,) = judged(job(8, path="nlp/dev/job", workers=3)).reasons
    assert (reason.value, reason.limit) == ("24", "16") and "acme may hold" in reason.message


def test_the_price_is_that_of_what_starts_and_the_hold_of_as_long_as_it_may_run() -> None:
    decided = judged(job(2, workers=2, timeLimit="30m"), per_gpu_hour=2_000_000)
    assert decided.per_hour == 8_000_000
    assert decided.work is not None and decided.work.budget_hold == 4_000_000


# --- the examples everybody is given ----------------------------------------------------------


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the shared examples are not on this machine")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("intents/*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_admitted_or_refused_as_they_say(path: Path) -> None:
    documents = [
        tree for file in sorted(EXAMPLES.glob("catalog/*.yaml")) for tree in read_yaml(file.read_bytes())
    ]
    found = parse_all(documents)
    assert not found.problems
    whole = apply_documents(EMPTY, [item.value for item in found.documents]).catalog
    text = path.read_text()
    first = text.splitlines()[0]
    expected = (
        first.removeprefix("# refuse:").replace(",", " ").split() if first.startswith("# refuse:") else []
    )
    (wanted,) = parse_all(read_yaml(text)).intents
    decided = decide(wanted.value, whole, facts(), None)
    assert [reason.rule for reason in decided.reasons] == expected


def test_a_part_of_a_gpu_is_told_in_units_of_the_profile() -> None:
    profile = document(
        "HardwareProfile",
        "quarter",
        {
            "class": "h100-80g",
            "gpuModel": "H100",
            "memoryGib": 20,
            "sharing": "time-slice",
            "share": 250,
            "perGpu": {"cpu": 1, "memoryGib": 1},
            "maxPerWorker": 4,
        },
    )
    (reason,) = [
        one
        for one in judged(job(0.25, profile="quarter"), profile).reasons
        if one.rule == "profile.indivisible"
    ]
    assert reason.remedy == "one unit of quarter is 0.25 of a GPU; write gpus: 1"


def test_a_type_that_is_not_there_is_answered_with_those_the_project_may_use() -> None:
    (reason,) = judged(spec(type="rw")).reasons
    assert "raw" not in reason.limit and "training-job" in reason.limit
    (reason,) = judged(spec(type="nope"), granting(types=("raw", "training-job"))).reasons
    assert reason.limit == "raw, training-job"
