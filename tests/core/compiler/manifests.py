"""Correct Kubernetes manifests, written by hand: what a mutation starts from."""

from __future__ import annotations

from typing import Any

from tests.core.compiler.works import KUBERNETES, work

from windlass.core.compiler.work import Work

Manifests = list[dict[str, Any]]

GATE = [{"name": "kueue.x-k8s.io/admission"}]
SELECTOR = {"windlass.dev/component": "sft-run"}


def on_kubernetes(profile: str = "h100-80g", **changes: Any) -> Work:
    return work(profile, **{"at": KUBERNETES, "priority": 1000, **changes})


def labels(one: Work, *, queued: bool = False, gated: bool = False) -> dict[str, str]:
    found = {
        "team": "core",
        "windlass.dev/tenant": "acme",
        "windlass.dev/project": "vision",
        "windlass.dev/env": "dev",
        "windlass.dev/component": "sft-run",
        "windlass.dev/type": one.type.partition("@")[0],
        "windlass.dev/tier": "gold",
        "windlass.dev/profile": one.profile,
    }
    if queued:
        found |= {
            "kueue.x-k8s.io/queue-name": one.hardware.gpu_class,
            "kueue.x-k8s.io/priority-class": "windlass-1000",
        }
    if gated:
        found["kueue.x-k8s.io/managed"] = "true"
    return found


def metadata(one: Work, *, queued: bool = False, gated: bool = False) -> dict[str, Any]:
    return {"name": "sft-run", "namespace": "vision-dev", **pod_metadata(one, queued=queued, gated=gated)}


def pod_metadata(one: Work, *, queued: bool = False, gated: bool = False) -> dict[str, Any]:
    return {
        "labels": labels(one, queued=queued, gated=gated),
        "annotations": {"windlass.dev/type-version": one.type},
    }


COMPLETION = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
MET = {"job": (COMPLETION, "sft-run-0.sft-run"), "jobset": (COMPLETION, "sft-run-w-0-0.sft-run")}
MET["volcano"] = ("metadata.annotations['volcano.sh/task-index']", "sft-run-w-0.sft-run")


def main(resource: str = "nvidia.com/gpu", *, gang: str | None = "job") -> dict[str, Any]:
    path, master = MET[gang or "job"]
    index = {"fieldRef": {"fieldPath": path}}
    amounts = {"cpu": "24", "memory": "256Gi", resource: "2"}
    ranks = [
        {"name": "RANK", "valueFrom": index},
        {"name": "WORLD_SIZE", "value": "2"},
        {"name": "MASTER_ADDR", "value": master},
        {"name": "MASTER_PORT", "value": "29500"},
        {"name": "LOCAL_RANK", "value": "0"},
        {"name": "LOCAL_WORLD_SIZE", "value": "1"},
    ]
    return {
        "name": "main",
        "image": "ghcr.io/acme/sft:v3",
        "command": ["python", "train.py"],
        "env": [
            {"name": "EPOCHS", "value": "3"},
            {"name": "WINDLASS_COMPONENT", "value": "vision/dev/sft-run"},
            *(ranks if gang else []),
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
        ],
        "ports": [{"name": "http", "containerPort": 8000}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8000}},
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "securityContext": hardened(),
        "volumeMounts": [{"name": "windlass-tmp", "mountPath": "/scratch"}],
    }


def hardened() -> dict[str, Any]:
    return {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def pod(*, gang: str | None = "job", **more: Any) -> dict[str, Any]:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [
            {"name": "fetch", "image": "ghcr.io/acme/sft:v3", "securityContext": hardened()},
        ],
        "containers": [main(gang=gang)],
        "volumes": [
            {"name": "windlass-tmp", "emptyDir": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "corpus"}},
            {"name": "keys", "secret": {"secretName": "hub"}},
        ],
        **more,
    }


def job_spec(one: Work, gang: str = "job") -> dict[str, Any]:
    below = {"subdomain": "sft-run"} if gang == "job" else {}
    return {
        "suspend": True,
        "completionMode": "Indexed",
        "parallelism": 2,
        "completions": 2,
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "activeDeadlineSeconds": 14400,
        "template": {"metadata": pod_metadata(one), "spec": pod(gang=gang, **below)},
    }


def training(one: Work) -> Manifests:
    """A gang of two, with the Service that its workers find each other by."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(one, queued=True),
        "spec": job_spec(one),
    }
    return [job, service(one)]


def service(one: Work) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(one),
        "spec": {"clusterIP": "None", "selector": dict(SELECTOR), "ports": [{"name": "http", "port": 8000}]},
    }


def batch(one: Work) -> Manifests:
    """Workers that do not meet."""
    (job, _) = training(one)
    job["spec"]["template"]["spec"] = pod(gang=None)
    return [job]


def sweep(one: Work) -> Manifests:
    (job, _) = training(one)
    job["spec"] |= {"completions": 100, "backoffLimitPerIndex": 0}
    del job["spec"]["backoffLimit"]
    job["spec"]["template"]["spec"] = pod(gang=None)
    return [job]


def job_set(one: Work) -> Manifests:
    inner = {
        key: value
        for key, value in job_spec(one, "jobset").items()
        if key not in ("suspend", "podReplacementPolicy")
    }
    return [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata(one, queued=True),
            "spec": {
                "suspend": True,
                "failurePolicy": {"maxRestarts": 0},
                "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
                "replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": inner}}],
            },
        }
    ]


def volcano(one: Work) -> Manifests:
    template = {
        "metadata": pod_metadata(one, queued=True, gated=True),
        "spec": pod(
            gang="volcano", schedulingGates=GATE, schedulerName="volcano", activeDeadlineSeconds=14400
        ),
    }
    template["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "sft-run"
    template["metadata"]["annotations"] |= {
        "kueue.x-k8s.io/pod-group-total-count": "2",
        "scheduling.k8s.io/group-name": "sft-run",
    }
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": metadata(one, queued=True),
        "spec": {
            "minAvailable": 2,
            "maxRetry": 0,
            "schedulerName": "volcano",
            "plugins": {"svc": []},
            "tasks": [{"name": "w", "replicas": 2, "template": template}],
        },
    }
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata(one),
        "spec": {"minMember": 2},
    }
    return [job, group]


def serving(one: Work) -> Manifests:
    """Two to four replicas, with all that may stand beside them."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "sft-run"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(one, queued=True),
        "spec": {
            "selector": {"matchLabels": dict(SELECTOR)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {
                "metadata": pod_metadata(one, queued=True, gated=True),
                "spec": pod(gang=None, schedulingGates=GATE, restartPolicy="Always"),
            },
        },
    }
    beside = {
        ("autoscaling/v2", "HorizontalPodAutoscaler"): {
            "scaleTargetRef": target,
            "minReplicas": 2,
            "maxReplicas": 4,
        },
        ("policy/v1", "PodDisruptionBudget"): {
            "selector": {"matchLabels": dict(SELECTOR)},
            "maxUnavailable": 1,
        },
        ("networking.k8s.io/v1", "NetworkPolicy"): {
            "podSelector": {"matchLabels": dict(SELECTOR)},
            "ingress": [{}],
        },
    }
    return [
        deployment,
        *(
            {"apiVersion": version, "kind": kind, "metadata": metadata(one), "spec": spec}
            for (version, kind), spec in beside.items()
        ),
        service(one),
    ]


def single(one: Work) -> Manifests:
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata(one, queued=True, gated=True),
            "spec": pod(gang=None, schedulingGates=GATE, activeDeadlineSeconds=14400),
        }
    ]
