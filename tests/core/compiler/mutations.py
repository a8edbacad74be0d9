"""Single changes to correct manifests, each of which breaks a law."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.core.compiler import manifests
from tests.core.compiler.manifests import Manifests, on_kubernetes

from windlass.core.compiler.checker.breaches import Allowed, Law
from windlass.core.compiler.work import Work

SECRET = "hunter2-hunter2-hunter2"
ALLOWED = Allowed(claims=frozenset({"corpus"}), secrets=frozenset({"hub"}), clear=frozenset({SECRET, "abc"}))

BASES: dict[str, Callable[[], tuple[Work, Manifests]]] = {
    "training": lambda: (one := on_kubernetes(), manifests.training(one)),
    "batch": lambda: (one := on_kubernetes(type="batch-job@1.0.0"), manifests.batch(one)),
    "sweep": lambda: (one := on_kubernetes(type="sweep@1.0.0"), manifests.sweep(one)),
    "jobset": lambda: (one := on_kubernetes(), manifests.job_set(one)),
    "volcano": lambda: (one := on_kubernetes(), manifests.volcano(one)),
    "serving": lambda: (one := on_kubernetes(workload="service", most_workers=4), manifests.serving(one)),
    "pod": lambda: (one := on_kubernetes(workload="interactive", workers=1), manifests.single(one)),
}


class Gone:
    """In the place of a value: the key is taken out."""


GONE = Gone()


@dataclass(frozen=True)
class Mutation:
    """`path` from the list of objects; `+` at its end adds to a list."""

    law: Law
    path: str
    value: Any
    base: str = "training"

    @property
    def id(self) -> str:
        shown = "gone" if self.value is GONE else str(self.value)[:24]
        return f"{self.law}-{self.base}{self.path.replace('/spec/template/spec', '~')}={shown}"


def at(found: Any, path: str) -> tuple[Any, Any]:
    """The parent of what the path names, and its key there. `~1` is a slash within a key."""
    *parents, last = [part.replace("~1", "/") for part in path.split("/")[1:]]
    for part in parents:
        found = found[int(part)] if isinstance(found, list) else found.setdefault(part, {})
    return found, int(last) if isinstance(found, list) and last != "+" else last


def mutated(found: Manifests, mutation: Mutation) -> Manifests:
    changed = copy.deepcopy(found)
    parent, key = at(changed, mutation.path)
    if key == "+":
        parent.append(mutation.value)
    elif mutation.value is GONE:
        del parent[key]
    else:
        assert not isinstance(parent, dict) or parent.get(key) != mutation.value, "nothing is changed"
        parent[key] = mutation.value
    return changed


POD = "/0/spec/template/spec"
MAIN = f"{POD}/containers/0"
JOBSET = "/0/spec/replicatedJobs/0/template/spec"
VOLCANO = "/0/spec/tasks/0/template"

_OBJECTS = [
    Mutation("shape", "/0", "text"),
    Mutation("shape", "/0/spec/template/spec/initContainers", {"0": {"image": "evil"}}),
    Mutation("shape", "/0/spec/template/spec/containers/0/ports", {"0": {"hostPort": 80}}),
    Mutation("shape", "/0/spec/template/spec/volumes", ["hostPath"]),
    Mutation("shape", "/0/spec/template/spec/affinity", ["nodeAffinity"]),
    Mutation("shape", "/1/spec/ports", {"nodePort": 1}),
    Mutation("kind", "/0/kind", "CronJob"),
    Mutation("kind", "/0/apiVersion", "batch/v2"),
    Mutation("kind", "/+", {"apiVersion": "v1", "kind": "Secret", "metadata": {}}),
    Mutation("kind", "/+", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}),
    Mutation("kind", "/+", {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}}),
    Mutation("kind", "/+", {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "kube-system"}}),
    Mutation("name", "/0/metadata/name", "other"),
    Mutation("name", "/1/metadata/name", GONE),
    Mutation("namespace", "/0/metadata/namespace", "kube-system"),
    Mutation("namespace", "/1/metadata/namespace", "vision-prod"),
    Mutation("namespace", "/0/metadata/namespace", GONE),
    Mutation("owned", "/0/metadata/finalizers", ["a/b"]),
    Mutation("owned", "/0/metadata/ownerReferences", [{}]),
    Mutation("owned", "/0/metadata/generateName", "x"),
    Mutation("owned", "/0/status", {}),
    Mutation("label", "/0/metadata/labels/windlass.dev~1tenant", "rival"),
    Mutation("label", "/0/metadata/labels/windlass.dev~1tier", GONE),
    Mutation("label", "/1/metadata/labels/windlass.dev~1project", "other"),
    Mutation("label", "/0/spec/template/metadata/labels/windlass.dev~1tenant", "rival"),
    Mutation("label", "/0/spec/template/metadata/labels/windlass.dev~1profile", GONE),
    Mutation("label", "/0/spec/template/metadata/labels", GONE),
    Mutation("label", "/0/metadata/labels/team", "other"),
    Mutation("label", "/0/metadata/labels/cost~1centre", "rival"),
    Mutation("label", "/0/metadata/labels/windlass.dev~1budget", "free"),
    Mutation("label", "/0/metadata/annotations/windlass.dev~1type-version", "training-job@9.9.9"),
    Mutation("label", "/0/spec/template/metadata/annotations/kueue.x-k8s.io~1elastic-job", "true"),
    Mutation(
        "label",
        "/0/spec/template/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1main",
        "x",
    ),
    Mutation("label", f"{VOLCANO}/metadata/labels/windlass.dev~1tenant", "rival", "volcano"),
    Mutation("label", f"{JOBSET}/template/metadata/labels/windlass.dev~1env", "prod", "jobset"),
    Mutation("queue", "/0/metadata/labels/kueue.x-k8s.io~1queue-name", "l40s-48g"),
    Mutation("queue", "/0/metadata/labels/kueue.x-k8s.io~1queue-name", GONE),
    Mutation("queue", "/0/spec/template/metadata/labels/kueue.x-k8s.io~1queue-name", "a100", "serving"),
    Mutation("queue", "/0/spec/queue", "root", "volcano"),
    Mutation("queue", "/1/spec/queue", "root", "volcano"),
    Mutation("priority", "/0/metadata/labels/kueue.x-k8s.io~1priority-class", "windlass-9000"),
    Mutation("priority", "/0/metadata/labels/kueue.x-k8s.io~1priority-class", GONE),
    Mutation("priority", "/0/spec/priorityClassName", "system-node-critical", "volcano"),
    Mutation("priority", f"{POD}/priorityClassName", "system-cluster-critical"),
    Mutation("priority", f"{POD}/preemptionPolicy", "Never"),
    Mutation("exposure", "/1/spec/type", "LoadBalancer"),
    Mutation("exposure", "/1/spec/selector", {"app": "other"}),
    Mutation("exposure", "/1/spec/externalIPs", ["10.0.0.1"]),
    Mutation("exposure", "/1/spec/externalName", "example.com"),
    Mutation("exposure", "/3/spec/podSelector", {}, "serving"),
    Mutation("owned", "/2/spec/selector", {}, "serving"),
    Mutation("owned", "/1/spec/scaleTargetRef/name", "other", "serving"),
    Mutation("host", "/1/spec/ports/0/nodePort", 30000),
]

_SIZES = [
    Mutation("gate", "/0/spec/suspend", False),
    Mutation("gate", "/0/spec/suspend", GONE),
    Mutation("gate", "/0/spec/suspend", "true"),
    Mutation("gate", "/0/spec/suspend", False, "jobset"),
    Mutation("gate", f"{POD}/schedulingGates", GONE, "serving"),
    Mutation("gate", f"{POD}/schedulingGates", [{"name": "other"}], "serving"),
    Mutation("gate", "/0/spec/schedulingGates", [], "pod"),
    Mutation("gate", f"{VOLCANO}/spec/schedulingGates", GONE, "volcano"),
    Mutation("gate", "/0/spec/template/metadata/labels/kueue.x-k8s.io~1managed", GONE, "serving"),
    Mutation("gang", "/0/spec/parallelism", 3),
    Mutation("gang", "/0/spec/parallelism", True),
    Mutation("gang", "/0/spec/parallelism", GONE),
    Mutation("gang", "/0/spec/completions", 1),
    Mutation("gang", "/0/spec/completions", 200),
    Mutation("gang", "/0/spec/completionMode", "NonIndexed"),
    Mutation("gang", "/0/spec/backoffLimitPerIndex", 0),
    Mutation("gang", "/0/spec/completions", 100, "batch"),
    Mutation("gang", f"{MAIN}/env/+", {"name": "WORLD_SIZE", "value": "2"}, "batch"),
    Mutation("gang", "/1/spec/clusterIP", GONE),
    Mutation("gang", "/0/spec/parallelism", 50, "sweep"),
    Mutation("gang", "/0/spec/completions", 0, "sweep"),
    Mutation("gang", "/0/spec/replicatedJobs/0/replicas", 2, "jobset"),
    Mutation("gang", f"{JOBSET}/parallelism", 4, "jobset"),
    Mutation("gang", f"{JOBSET}/completions", 4, "jobset"),
    Mutation("gang", "/0/spec/replicatedJobs/+", {"name": "x", "replicas": 1}, "jobset"),
    Mutation("gang", "/0/spec/minAvailable", 1, "volcano"),
    Mutation("gang", "/0/spec/tasks/0/replicas", 8, "volcano"),
    Mutation("gang", "/1/spec/minMember", 1, "volcano"),
    Mutation("gang", f"{VOLCANO}/metadata/annotations/kueue.x-k8s.io~1pod-group-total-count", "1", "volcano"),
    Mutation("gang", "/0/spec/replicas", 9, "serving"),
    Mutation("gang", "/1/spec/maxReplicas", 40, "serving"),
    Mutation("gang", "/1/spec/minReplicas", 1, "serving"),
    Mutation("gang", "/0/spec/replicatedJobs/0/name", "x", "jobset"),
    Mutation("gang", "/0/spec/network", GONE, "jobset"),
    Mutation("gang", "/0/spec/network/enableDNSHostnames", False, "jobset"),
    Mutation("gang", "/0/spec/tasks/0/name", "x", "volcano"),
    Mutation("gang", f"{POD}/subdomain", GONE),
    Mutation("gang", f"{POD}/subdomain", "other"),
    Mutation("gpus", "/0/spec/podReplacementPolicy", "TerminatingOrFailed"),
    Mutation("gpus", "/0/spec/strategy/rollingUpdate/maxSurge", "100%", "serving"),
    Mutation("retries", f"{POD}/restartPolicy", "Always"),
    Mutation("retries", f"{POD}/restartPolicy", GONE),
    Mutation("retries", "/0/spec/backoffLimit", 6),
    Mutation("retries", "/0/spec/backoffLimit", GONE),
    Mutation("retries", "/0/spec/failurePolicy/maxRestarts", 9, "jobset"),
    Mutation("retries", "/0/spec/maxRetry", 3, "volcano"),
    Mutation("time", "/0/spec/activeDeadlineSeconds", 999_999),
    Mutation("time", "/0/spec/activeDeadlineSeconds", GONE),
    Mutation("time", f"{JOBSET}/activeDeadlineSeconds", GONE, "jobset"),
    Mutation("time", f"{VOLCANO}/spec/activeDeadlineSeconds", GONE, "volcano"),
    Mutation("time", "/0/spec/activeDeadlineSeconds", 14401, "pod"),
    Mutation("time", f"{POD}/terminationGracePeriodSeconds", 86_400),
    Mutation(
        "retries",
        "/0/spec/podFailurePolicy",
        {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [0]}}]},
    ),
    Mutation("owned", "/0/spec/managedBy", "example.com/other"),
    Mutation("owned", "/0/spec/manualSelector", True),
    Mutation("owned", "/0/spec/selector", {"matchLabels": {}}, "serving"),
    Mutation("owned", "/0/spec/plugins", {"ssh": []}, "volcano"),
    Mutation("owned", "/0/spec/coordinator", {}, "jobset"),
]

_CLAIM = {
    "name": "c",
    "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"windlass.dev/tenant": "x"}}, "spec": {}}},
}
_PODS = [
    Mutation("image", f"{MAIN}/image", "ghcr.io/rival/miner:v1"),
    Mutation("image", f"{MAIN}/image", "ghcr.io/acme/sft:v4"),
    Mutation("image", f"{MAIN}/name", "mine"),
    Mutation("image", f"{POD}/initContainers/0/image", "ghcr.io/rival/miner:v1"),
    Mutation(
        "image", f"{POD}/containers/+", {"name": "x", "image": "b", "securityContext": manifests.hardened()}
    ),
    Mutation("command", f"{MAIN}/command", ["python", "other.py"]),
    Mutation("command", f"{MAIN}/command/1", "other.py"),
    Mutation("command", f"{MAIN}/command", GONE),
    Mutation("command", f"{MAIN}/args", ["--debug"]),
    Mutation("variable", f"{MAIN}/env/0/value", "4"),
    Mutation("variable", f"{MAIN}/env/0", {"name": "OTHER", "value": "3"}),
    Mutation("variable", f"{MAIN}/env/+", {"name": "EPOCHS", "value": "3"}),
    Mutation("variable", f"{MAIN}/env/1/value", "other/dev/sft-run"),
    Mutation("gang", f"{MAIN}/env/3/value", "16"),
    Mutation("gang", f"{MAIN}/env/2", {"name": "RANK", "value": "0"}),
    Mutation("gang", f"{MAIN}/env/4/value", "evil.example.com"),
    Mutation("gang", f"{MAIN}/env/4/value", "sft-run-0.other-cell.svc"),
    Mutation("gang", f"{MAIN}/env/2/valueFrom/fieldRef/fieldPath", "metadata.name"),
    Mutation("gang", f"{MAIN}/env/6/value", "1"),
    Mutation("gang", f"{MAIN}/env/7/value", "8"),
    Mutation("secret", f"{MAIN}/env/+", {"name": "KEY", "value": SECRET}),
    Mutation("secret", f"{MAIN}/env/+", {"name": "KEY", "value": "abc"}),
    Mutation("secret", f"{MAIN}/command/+", f"--token={SECRET}"),
    Mutation("secret", "/0/metadata/annotations/note", f"x{SECRET}x"),
    Mutation("secret", f"{MAIN}/env/8/valueFrom/secretKeyRef/name", "rivals-key"),
    Mutation("secret", f"{MAIN}/envFrom", [{"secretRef": {"name": "rivals-key"}}]),
    Mutation("secret", f"{POD}/volumes/2/secret/secretName", "rivals-key"),
    Mutation(
        "secret", f"{POD}/volumes/0", {"name": "p", "projected": {"sources": [{"secret": {"name": "x"}}]}}
    ),
    Mutation("secret", f"{POD}/imagePullSecrets", [{"name": "platform"}]),
    Mutation("volume", f"{POD}/volumes/0", {"name": "windlass-tmp", "hostPath": {"path": "/"}}),
    Mutation("volume", f"{POD}/volumes/+", {"name": "n", "nfs": {"server": "a", "path": "/"}}),
    Mutation("volume", f"{POD}/volumes/+", {"name": "c", "csi": {"driver": "x"}}),
    Mutation("volume", f"{POD}/volumes/0/hostPath", {"path": "/var/lib/kubelet"}),
    Mutation("volume", f"{POD}/volumes/1/persistentVolumeClaim/claimName", "rivals-data"),
    Mutation("volume", "/0/spec/volumes/+", {"name": "h", "hostPath": {"path": "/"}}, "pod"),
    Mutation("volume", f"{JOBSET}/template/spec/volumes/+", {"name": "h", "hostPath": {}}, "jobset"),
    Mutation("volume", f"{MAIN}/volumeMounts/0/subPath", "../../etc"),
    Mutation("volume", f"{MAIN}/volumeDevices", [{"name": "d", "devicePath": "/dev/sda"}]),
    Mutation("label", f"{POD}/volumes/0", _CLAIM),
    Mutation("host", f"{MAIN}/volumeMounts/0/mountPropagation", "Bidirectional"),
    Mutation("host", f"{POD}/hostNetwork", True),
    Mutation("host", f"{POD}/hostPID", True),
    Mutation("host", f"{POD}/hostIPC", True),
    Mutation("host", f"{POD}/shareProcessNamespace", True),
    Mutation("host", f"{VOLCANO}/spec/hostNetwork", True, "volcano"),
    Mutation("host", f"{MAIN}/ports/0/hostPort", 80),
    Mutation("host", f"{MAIN}/readinessProbe/httpGet/host", "169.254.169.254"),
    Mutation("privilege", f"{MAIN}/securityContext/privileged", True),
    Mutation("privilege", f"{MAIN}/securityContext/allowPrivilegeEscalation", True),
    Mutation("privilege", f"{MAIN}/securityContext", GONE),
    Mutation("privilege", f"{MAIN}/securityContext/readOnlyRootFilesystem", GONE),
    Mutation("privilege", f"{POD}/securityContext/runAsNonRoot", GONE),
    Mutation("privilege", f"{POD}/securityContext/runAsUser", GONE),
    Mutation("privilege", f"{MAIN}/securityContext/capabilities/add", ["SYS_ADMIN"]),
    Mutation("privilege", f"{MAIN}/securityContext/capabilities/drop", []),
    Mutation("privilege", f"{MAIN}/securityContext/procMount", "Unmasked"),
    Mutation("privilege", f"{MAIN}/securityContext/seccompProfile", {"type": "Unconfined"}),
    Mutation("privilege", f"{MAIN}/securityContext/runAsUser", 0),
    Mutation("privilege", f"{POD}/initContainers/0/securityContext/privileged", True),
    Mutation("privilege", f"{POD}/securityContext/seccompProfile", GONE),
    Mutation("privilege", f"{POD}/securityContext/sysctls", [{"name": "kernel.msgmax", "value": "1"}]),
    Mutation("privilege", f"{POD}/securityContext/runAsUser", 0),
    Mutation("token", f"{POD}/automountServiceAccountToken", True),
    Mutation("token", f"{POD}/automountServiceAccountToken", GONE),
    Mutation("token", f"{POD}/serviceAccountName", "admin"),
    Mutation(
        "token", f"{POD}/volumes/0", {"name": "t", "projected": {"sources": [{"serviceAccountToken": {}}]}}
    ),
    Mutation("toleration", f"{POD}/tolerations", [{"operator": "Exists"}]),
    Mutation("isolation", f"{POD}/runtimeClassName", "runc"),
    Mutation(
        "isolation",
        f"{POD}/affinity/podAntiAffinity",
        {"preferredDuringSchedulingIgnoredDuringExecution": []},
    ),
    Mutation("node", f"{POD}/nodeName", "n9"),
    Mutation("node", f"{POD}/nodeSelector", {"kubernetes.io/hostname": "n9"}),
    Mutation("node", f"{POD}/affinity/nodeAffinity", {"preferredDuringSchedulingIgnoredDuringExecution": []}),
    Mutation("owned", f"{POD}/affinity/podAffinity", {}),
    Mutation("owned", "/0/spec/template/metadata/finalizers", ["a/b"]),
    Mutation("owned", f"{VOLCANO}/metadata/namespace", "kube-system", "volcano"),
    Mutation("variable", f"{MAIN}/env/0/valueFrom", {"fieldRef": {"fieldPath": "spec.nodeName"}}),
    Mutation("owned", f"{POD}/schedulerName", "mine"),
    Mutation("owned", f"{POD}/overhead", {"cpu": "1"}),
    Mutation("owned", f"{POD}/aFieldOfTomorrow", True),
    Mutation("owned", f"{MAIN}/aFieldOfTomorrow", True),
    Mutation("owned", f"{MAIN}/env/+", {"name": "WINDLASS_TENANT", "value": "rival"}),
    Mutation("gpus", f"{MAIN}/resources/limits/nvidia.com~1gpu", "8"),
    Mutation("gpus", f"{MAIN}/resources/requests/nvidia.com~1gpu", "1"),
    Mutation("gpus", f"{MAIN}/resources/limits/nvidia.com~1gpu", GONE),
    Mutation("gpus", f"{MAIN}/resources/limits/nvidia.com~1mig-1g.10gb", "1"),
    Mutation("gpus", f"{MAIN}/resources/limits/amd.com~1gpu", "1"),
    Mutation("gpus", f"{MAIN}/resources/claims", [{"name": "gpu"}]),
    Mutation("gpus", f"{POD}/initContainers/0/resources", {"limits": {"nvidia.com/gpu": "2"}}),
    Mutation(
        "gpus", f"{POD}/ephemeralContainers", [{"name": "x", "resources": {"limits": {"nvidia.com/gpu": 8}}}]
    ),
    Mutation("gpus", f"{POD}/resourceClaims", [{"name": "gpu"}]),
    Mutation("gpus", f"{MAIN}/env/+", {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}),
    Mutation("gpus", f"{JOBSET}/template/spec/containers/0/resources/limits/nvidia.com~1gpu", "4", "jobset"),
    Mutation("amount", f"{MAIN}/resources/limits/cpu", "96"),
    Mutation("amount", f"{MAIN}/resources/requests/memory", "2048Gi"),
    Mutation("amount", f"{MAIN}/resources/requests/memory", GONE),
    Mutation("amount", f"{MAIN}/resources/limits/hugepages-1Gi", "64Gi"),
]

MUTATIONS = [*_OBJECTS, *_SIZES, *_PODS]
