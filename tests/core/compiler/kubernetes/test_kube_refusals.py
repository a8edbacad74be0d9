"""What no template may hold: one attack each, and that the shipped shapes are none."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.core.compiler.kubernetes.worlds import JOB, SERVICE

from windlass.core.compiler.kubernetes.refusals import refusals

POD = ("spec", "template", "spec")
MAIN = (*POD, "containers", 0)

EVERYBODY: list[tuple[tuple[str | int, ...], Any]] = [
    (("metadata",), {"name": "other"}),
    (("metadata",), {"namespace": "kube-system"}),
    (("metadata",), {"ownerReferences": [{}]}),
    (("metadata",), {"finalizers": ["x"]}),
    (("metadata",), {"labels": {"windlass.dev/tenant": "globex"}}),
    (("metadata",), {"labels": {"kueue.x-k8s.io/queue-name": "vip"}}),
    (("metadata",), {"annotations": {"sub.kubernetes.io/x": "y"}}),
    (("metadata",), {"annotations": {"scheduling.k8s.io/group-name": "y"}}),
    (("status",), {}),
    (("spec", "suspend"), False),
    (("spec", "parallelism"), 64),
    (("spec", "backoffLimit"), 64),
    (("spec", "managedBy"), "me"),
    (("spec", "template", "metadata"), {"labels": {"cost/project": "x"}}),
    ((*POD, "tolerations"), [{"operator": "Exists"}]),
    ((*POD, "priorityClassName"), "system-node-critical"),
    ((*POD, "hostNetwork"), True),
    ((*POD, "hostPID"), True),
    ((*POD, "hostIPC"), True),
    ((*POD, "hostUsers"), True),
    ((*POD, "serviceAccountName"), "admin"),
    ((*POD, "automountServiceAccountToken"), True),
    ((*POD, "nodeSelector"), {}),
    ((*POD, "nodeName"), "n1"),
    ((*POD, "affinity"), {}),
    ((*POD, "schedulerName"), "mine"),
    ((*POD, "schedulingGates"), []),
    ((*POD, "runtimeClassName"), "runc"),
    ((*POD, "ephemeralContainers"), []),
    ((*POD, "resourceClaims"), []),
    ((*POD, "a-field-of-tomorrow"), 1),
    ((*POD, "securityContext"), {"sysctls": []}),
    ((*POD, "securityContext"), {"runAsUser": 0}),
    ((*POD, "securityContext"), {"seccompProfile": {"type": "Unconfined"}}),
    ((*POD, "volumes"), [{"name": "x", "hostPath": {"path": "/"}}]),
    ((*POD, "volumes"), [{"name": "x", "nfs": {}}]),
    ((*POD, "volumes"), [{"name": "x", "csi": {"driver": "host"}}]),
    ((*POD, "volumes"), [{"name": "x", "projected": {"sources": [{"serviceAccountToken": {}}]}}]),
    ((*POD, "initContainers"), [{"name": "x", "image": "evil"}]),
    ((*POD, "initContainers"), [{"name": "main"}]),
    ((*MAIN, "image"), "evil"),
    ((*MAIN, "command"), ["sh"]),
    ((*MAIN, "resources"), {"limits": {"nvidia.com/gpu": 8}}),
    ((*MAIN, "resources"), {"limits": {"cpu": 8}}),
    ((*MAIN, "resources"), {"claims": []}),
    ((*MAIN, "ports"), [{"containerPort": 1, "hostPort": 1}]),
    ((*MAIN, "securityContext"), {"privileged": True}),
    ((*MAIN, "securityContext"), {"capabilities": {"add": ["SYS_ADMIN"]}}),
    ((*MAIN, "securityContext"), {"allowPrivilegeEscalation": True}),
    ((*MAIN, "securityContext"), {"runAsUser": 0}),
    ((*MAIN, "volumeDevices"), []),
    ((*MAIN, "volumeMounts"), [{"name": "x", "mountPath": "/x", "subPath": "../../etc"}]),
    ((*MAIN, "volumeMounts"), [{"name": "x", "mountPath": "/x", "subPathExpr": "$(X)"}]),
    ((*MAIN, "volumeMounts"), [{"name": "x", "mountPath": "/x", "mountPropagation": "Bidirectional"}]),
    ((*MAIN, "readinessProbe"), {"httpGet": {"host": "169.254.169.254", "port": 80}}),
    ((*MAIN, "lifecycle"), {"postStart": {"httpGet": {"host": "10.0.0.1", "port": 80}}}),
]
AUTHORS: list[tuple[tuple[str | int, ...], Any]] = [
    (("metadata",), {"annotations": {"k8s.v1.cni.cncf.io/networks": "host"}}),
    (("spec", "template", "metadata"), {"annotations": {"io.kubernetes.cri-o.Devices": "/dev/nvidia7"}}),
    (("spec", "template", "metadata"), {"labels": {"sidecar.istio.io/inject": "false"}}),
    (("spec", "completions"), 100),
    (
        ("spec", "volumeClaimTemplates"),
        [{"metadata": {"name": "mine"}, "spec": {"storageClassName": "fast"}}],
    ),
    ((*POD, "initContainers"), [{"name": "x", "resources": {"requests": {"cpu": "90"}}}]),
    ((*POD, "containers"), [{"name": "main"}, {"name": "x", "resources": {"limits": {"memory": "9Ti"}}}]),
    ((*POD, "volumes"), [{"name": "x", "secret": {"secretName": "neighbour"}}]),
    ((*POD, "volumes"), [{"name": "x", "persistentVolumeClaim": {"claimName": "neighbour"}}]),
    ((*MAIN, "env"), [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]),
]


def changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    template: dict[str, Any] = deepcopy({"objects": JOB["objects"][:1]})
    at: Any = template["objects"][0]
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return template


@pytest.mark.parametrize(("path", "value"), EVERYBODY, ids=lambda one: str(one)[-60:])
def test_what_is_the_platform_s_is_refused_at_its_place(path: tuple[str | int, ...], value: Any) -> None:
    found = list(refusals(changed(path, value)))
    assert found, "nothing was said against it"
    assert all(where[: len(path) + 2] == ("objects", 0, *path) for where, _ in found)


@pytest.mark.parametrize(("path", "value"), AUTHORS, ids=lambda one: str(one)[-60:])
def test_the_escape_hatch_reaches_nothing_of_its_neighbours(path: tuple[str | int, ...], value: Any) -> None:
    assert not list(refusals(changed(path, value)))
    assert list(refusals(changed(path, value), author=True))


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "Secret"), ("rbac.authorization.k8s.io/v1", "ClusterRole"), ("apps/v1", "DaemonSet"), ("", "")],
)
def test_a_kind_that_is_not_on_the_list_is_refused(api_version: str, kind: str) -> None:
    thing = {"apiVersion": api_version, "kind": kind, "spec": {}}
    assert [where for where, _ in refusals({"objects": [thing]})] == [("objects", 0, "kind")]


def test_authors_have_a_shorter_list_of_kinds() -> None:
    thing = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {}}
    assert not list(refusals({"objects": [thing]}))
    assert list(refusals({"objects": [thing]}, author=True))


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "LoadBalancer"},
        {"type": "ExternalName", "externalName": "x"},
        {"externalIPs": ["1.2.3.4"]},
        {"ports": [{"port": 1, "nodePort": 30000}]},
        {"selector": {"windlass.dev/component": "neighbour"}},
        {"clusterIP": "10.0.0.9"},
    ],
    ids=str,
)
def test_a_service_opens_nothing_outside_and_selects_nobody_else(spec: dict[str, Any]) -> None:
    assert list(refusals({"objects": [{"apiVersion": "v1", "kind": "Service", "spec": spec}]}))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"objects": []},
        {"objects": {}},
        {"objects": [1]},
        {"objects": [None]},
        {"objects": JOB["objects"], "x": 1},
    ],
    ids=str,
)
def test_what_is_not_a_list_of_objects_is_refused(wrong: dict[str, Any]) -> None:
    assert list(refusals(wrong))


@pytest.mark.parametrize("template", [JOB, SERVICE])
def test_an_ordinary_template_is_accepted(template: dict[str, Any]) -> None:
    assert not list(refusals(template)) and not list(refusals(template, author=True))


def test_a_container_beside_main_brings_only_images_that_are_known() -> None:
    path, beside = (*POD, "initContainers"), [{"name": "fetch", "image": "quay.io/ours/fetch:1"}]
    assert list(refusals(changed(path, beside)))
    assert not list(refusals(changed(path, beside), images={"quay.io/ours/fetch:1"}))


def test_groups_of_workers_have_no_size_of_their_own() -> None:
    pods = {"spec": {"containers": [{"name": "main"}]}}
    jobset = {"replicatedJobs": [{"replicas": 9, "template": {"spec": {"parallelism": 9, "template": pods}}}]}
    volcano = {"tasks": [{"template": pods}, {"replicas": 2, "template": pods}], "minAvailable": 1}
    for api_version, kind, spec, wrong in (
        ("jobset.x-k8s.io/v1alpha2", "JobSet", jobset, {"replicas", "parallelism"}),
        ("batch.volcano.sh/v1alpha1", "Job", volcano, {"minAvailable", "replicas", 1}),
    ):
        found = refusals({"objects": [{"apiVersion": api_version, "kind": kind, "spec": spec}]})
        assert {where[-1] for where, _ in found} == wrong
