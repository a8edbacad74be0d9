"""What is correct passes; each single change that breaks a law is caught, and by that law."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import pytest
from tests.core.compiler import manifests
from tests.core.compiler.manifests import Manifests, on_kubernetes
from tests.core.compiler.mutations import ALLOWED, BASES, MUTATIONS, SECRET, Mutation, at, mutated

from windlass.core.compiler.checker.breaches import LAWS, Allowed, Law
from windlass.core.compiler.checker.check import check
from windlass.core.compiler.work import Checkpoint, Work
from windlass.core.documents.kinds import Site
from windlass.core.scheduling.model import Topology
from windlass.core.units import Ms

KUBERNETES_LAWS = set(get_args(Law)) - {"account", "script"}


@pytest.mark.parametrize("base", BASES)
def test_what_is_correct_has_no_breach(base: str) -> None:
    one, found = BASES[base]()
    assert check(one, "kubernetes", found, ALLOWED) == ()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.id)
def test_a_single_change_that_breaks_a_law_is_caught(mutation: Mutation) -> None:
    one, found = BASES[mutation.base]()
    breaches = check(one, "kubernetes", mutated(found, mutation), ALLOWED)
    assert mutation.law in {breach.law for breach in breaches}
    (shown, *_) = [breach for breach in breaches if breach.law == mutation.law]
    assert shown.path and shown.found and shown.decided and LAWS[mutation.law] in shown.message


def test_the_mutations_are_of_every_law_and_many() -> None:
    assert {mutation.law for mutation in MUTATIONS} == KUBERNETES_LAWS
    assert len(MUTATIONS) >= 60


@dataclass(frozen=True)
class Placed:
    """Work that was placed or kept apart in some way, with the part of a pod that says so."""

    changes: dict[str, Any]
    pod: dict[str, Any]
    law: Law
    annotations: dict[str, str] | None = None


def required(*expressions: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


OTHERS = {
    "labelSelector": {
        "matchExpressions": [
            {"key": "windlass.dev/tenant", "operator": "Exists"},
            {"key": "windlass.dev/tenant", "operator": "NotIn", "values": ["acme"]},
        ]
    },
    "namespaceSelector": {},
    "topologyKey": "kubernetes.io/hostname",
}
OWN_TAINT = {"key": "windlass.dev/tenant", "operator": "Equal", "value": "acme", "effect": "NoSchedule"}
PLACED: dict[str, Placed] = {
    "nodes": Placed(
        {"nodes": ("n2", "n1")},
        {"affinity": required({"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]})},
        "node",
    ),
    "tenant's nodes": Placed(
        {"at": Site("kubernetes", isolation="dedicated-nodes")},
        {
            "affinity": required({"key": "windlass.dev/tenant", "operator": "In", "values": ["acme"]}),
            "tolerations": [OWN_TAINT],
        },
        "isolation",
    ),
    "sandboxed": Placed(
        {"at": Site("kubernetes", isolation="sandboxed")},
        {"runtimeClassName": "windlass-sandboxed"},
        "isolation",
    ),
    "dedicated": Placed(
        {"dedicated": True},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [OTHERS]}}},
        "isolation",
    ),
    "checkpoint": Placed(
        {"checkpoint": Checkpoint("TERM", Ms(90_000))}, {"terminationGracePeriodSeconds": 90}, "time"
    ),
    "topology": Placed(
        {"topology": Topology("rack", "required")},
        {},
        "node",
        {"kueue.x-k8s.io/podset-required-topology": "windlass.dev/rack"},
    ),
}


def placed(case: Placed) -> tuple[Work, Manifests]:
    one = on_kubernetes(**case.changes)
    found = manifests.training(one)
    template = found[0]["spec"]["template"]
    template["spec"] |= case.pod
    template["metadata"]["annotations"] |= case.annotations or {}
    return one, found


@pytest.mark.parametrize("case", PLACED.values(), ids=PLACED)
def test_work_is_where_and_as_far_apart_as_was_decided(case: Placed) -> None:
    one, found = placed(case)
    assert check(one, "kubernetes", found, ALLOWED) == ()
    plain = manifests.training(one)
    assert {breach.law for breach in check(one, "kubernetes", plain, ALLOWED)} == {case.law}


@pytest.mark.parametrize("name", sorted(set(PLACED) - {"checkpoint"}))
def test_a_placement_that_nobody_decided_is_a_breach(name: str) -> None:
    _, found = placed(PLACED[name])
    assert check(on_kubernetes(), "kubernetes", found, ALLOWED)


Change = Callable[[list[Any]], Any]
LOOSENED: Sequence[tuple[str, str, Change]] = [
    (
        "a second way in",
        "nodes",
        lambda terms: terms.append({"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
    ),
    ("another node", "nodes", lambda terms: terms[0]["matchExpressions"][0]["values"].append("n3")),
    ("a field instead", "nodes", lambda terms: terms.append({"matchFields": []})),
    ("no wish at all", "nodes", lambda terms: terms.clear()),
    (
        "another tenant",
        "tenant's nodes",
        lambda terms: terms[0]["matchExpressions"][0]["values"].append("evil"),
    ),
]


@pytest.mark.parametrize(("case", "change"), [one[1:] for one in LOOSENED], ids=[one[0] for one in LOOSENED])
def test_a_placement_cannot_be_loosened(case: str, change: Change) -> None:
    one, found = placed(copy.deepcopy(PLACED[case]))
    affinity = found[0]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    change(affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"])
    assert {breach.law for breach in check(one, "kubernetes", found, ALLOWED)} & {"node", "isolation"}


@pytest.mark.parametrize(
    ("profile", "resource"),
    [("h100-mig-1g", "nvidia.com/mig-1g.10gb"), ("l40s-quarter", "nvidia.com/gpu.shared")],
)
def test_a_share_is_asked_for_by_its_own_name(profile: str, resource: str) -> None:
    one = on_kubernetes(profile)
    amounts = {"cpu": str(one.cpu), "memory": f"{one.memory_gib}Gi", resource: "2"}
    found = manifests.training(one)
    found[0]["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": amounts,
        "limits": amounts,
    }
    assert check(one, "kubernetes", found, ALLOWED) == ()
    whole = manifests.training(one)
    assert "gpus" in {breach.law for breach in check(one, "kubernetes", whole, ALLOWED)}


def test_a_sweep_has_the_runs_that_were_decided() -> None:
    one = on_kubernetes()
    found = manifests.sweep(one)
    assert check(one, "kubernetes", found, ALLOWED) == ()
    told = Allowed(claims=ALLOWED.claims, secrets=ALLOWED.secrets, runs=99)
    assert [breach.law for breach in check(one, "kubernetes", found, told)] == ["gang"]


@pytest.mark.parametrize("text", [SECRET, f"--token={SECRET}", "aHVudGVyMi1odW50ZXIyLWh1bnRlcjI="])
def test_a_secret_is_found_wherever_it_is_and_never_repeated(text: str) -> None:
    one, found = BASES["training"]()
    for where in (
        "/0/metadata/annotations/note",
        "/0/spec/template/spec/containers/0/lifecycle",
        "/1/spec/x",
    ):
        parent, key = at(changed := copy.deepcopy(found), where)
        parent[key] = [{"deep": text}]
        breaches = check(one, "kubernetes", changed, ALLOWED)
        assert "secret" in {breach.law for breach in breaches}
        assert not any(SECRET in breach.message for breach in breaches if breach.law == "secret")


def test_a_key_of_ours_is_known_by_its_form() -> None:
    key = f"wdl_{'0' * 32}_{'a' * 49}"
    one, found = BASES["training"]()
    found[0]["metadata"]["annotations"]["note"] = f"use {key}"
    (breach,) = check(one, "kubernetes", found, ALLOWED)
    assert breach.law == "secret" and key not in breach.message


@pytest.mark.parametrize("junk", [None, 3, "text", {}, [], [None], [[]], [{}], {"objects": []}])
def test_what_cannot_be_read_is_refused(junk: Any) -> None:
    assert check(on_kubernetes(), "kubernetes", junk, ALLOWED)


def test_a_target_that_is_unknown_is_refused() -> None:
    assert [breach.law for breach in check(on_kubernetes(), "nomad", [], ALLOWED)] == ["shape"]


def test_a_dollar_may_be_doubled_as_kubernetes_wants_it() -> None:
    one = on_kubernetes(command=("sh", "-c", "echo $$"), variables={"PRICE": "3$"})
    found = manifests.training(one)
    main = found[0]["spec"]["template"]["spec"]["containers"][0]
    main["command"] = ["sh", "-c", "echo $$$$"]
    main["env"].append({"name": "PRICE", "value": "3$$"})
    assert check(one, "kubernetes", found, ALLOWED) == ()
