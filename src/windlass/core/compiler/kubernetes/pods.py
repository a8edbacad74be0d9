"""The pod of a component: what the author asked for, in the container `main`, and around it all that the
platform decides: resources, environment, placement, isolation, security.

Defaults of security can be loosened by a type in the few fields `refusals.py` lets it write; nothing can
be loosened by an author.
"""

from __future__ import annotations

import re
from typing import Any

from windlass.core.compiler.kubernetes import words
from windlass.core.compiler.kubernetes.containers import MAIN
from windlass.core.compiler.kubernetes.kinds import JOB, JOBSET, VOLCANO_JOB, Kind
from windlass.core.compiler.work import Checkpoint, Work

MASTER_PORT = 29500
"""Where rank 0 listens: what PyTorch's launcher uses by itself."""
GROUP_OF_WORKERS = "w"
"""The one group of a JobSet or a Volcano Job. One letter: it is part of host names, which are short."""
_USER = 1000
_INDEX = {
    JOB: "metadata.annotations['batch.kubernetes.io/job-completion-index']",
    JOBSET: "metadata.annotations['batch.kubernetes.io/job-completion-index']",
    VOLCANO_JOB: "metadata.annotations['volcano.sh/task-index']",
}
_SCRATCH = "windlass-tmp"
_DEVICES = "_VISIBLE_DEVICES"
"""Ends the names of the variables by which a runtime hands out GPUs: an author who sets one takes others'."""
_EXPANDED = re.compile(r"\$(?=[$(])")
_SIGNALS = frozenset(["HUP", "INT", "QUIT", "USR1", "USR2", "TERM"])


def finish_pod(work: Work, template: dict[str, Any], kind: Kind, *, gang: bool) -> None:
    """In place: `template` is a copy of our own. `gang`: its workers find each other."""
    pod = template.setdefault("spec", {})
    main = _main(pod)
    main["image"] = work.image
    if work.command:
        main["command"] = [_literal(part) for part in work.command]
        main.pop("args", None)
    main["env"] = _environment(work, main.get("env", []), kind, gang=gang)
    _resources(work, main)
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        container.setdefault("image", work.image)
        _harden(container)
        _writable_tmp(pod, container)
    _identity(pod)
    _place(work, pod)
    _leave(work, pod, main)
    if gang and kind == JOB:
        pod["subdomain"] = words.service_name(work.name)


def pod_labels(work: Work, *, gated: bool) -> dict[str, str]:
    """With the queue where the pod itself is what waits in it."""
    labels = {**words.author_labels(work, pods=True), **words.attribution(work)}
    if gated:
        labels |= queue_labels(work) | {words.KUEUE_MANAGED: "true"}
    return labels


def queue_labels(work: Work) -> dict[str, str]:
    return {
        words.QUEUE: words.queue_of(work),
        words.PRIORITY_CLASS: words.priority_class(work.priority),
    }


def topology_annotations(work: Work) -> dict[str, str]:
    if work.topology is None:
        return {}
    wish = words.REQUIRED_TOPOLOGY if work.topology.mode == "required" else words.PREFERRED_TOPOLOGY
    return {wish: words.LEVELS[work.topology.level]}


def _main(pod: dict[str, Any]) -> dict[str, Any]:
    containers = pod.setdefault("containers", [])
    for container in containers:
        if container.get("name") == MAIN:
            return container  # type: ignore[no-any-return]
    main: dict[str, Any] = {"name": MAIN}
    containers.insert(0, main)
    return main


def _environment(work: Work, stated: list[dict[str, Any]], kind: Kind, *, gang: bool) -> list[dict[str, Any]]:
    """By name, the strongest last: what type and traits set, what the author set, what the platform sets."""
    variables = {
        "HOME": {"name": "HOME", "value": "/tmp"},  # noqa: S108 - a user without a home of its own
        "USER": {"name": "USER", "value": "worker"},  # nor a name: many images know no user 1000
    }
    variables |= {variable["name"]: variable for variable in stated}
    variables |= {
        name: {"name": name, "value": _literal(value)}
        for name, value in work.variables.items()
        if not name.startswith("WINDLASS_") and not name.endswith(_DEVICES)
    }
    variables |= {variable["name"]: variable for variable in _told(work, kind, gang=gang)}
    return [variables[name] for name in sorted(variables)]


def _literal(text: str) -> str:
    """So that it arrives as it was written: Kubernetes puts a variable's value for `$(NAME)`, and `$` for
    `$$`, in every value and argument."""
    return _EXPANDED.sub("$$", text)


def _told(work: Work, kind: Kind, *, gang: bool) -> list[dict[str, Any]]:
    """What the platform tells a worker about itself, in the words of the local site."""
    told: list[dict[str, Any]] = [
        {"name": "WINDLASS_COMPONENT", "value": work.path},
        {"name": "WINDLASS_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    if kind in _INDEX:
        index = {"valueFrom": {"fieldRef": {"fieldPath": _INDEX[kind]}}}
        told.append({"name": "WINDLASS_WORKER", **index})
        if gang:
            told += [
                {"name": "RANK", **index},
                {"name": "WORLD_SIZE", "value": str(work.workers)},
                {"name": "LOCAL_RANK", "value": "0"},
                {"name": "LOCAL_WORLD_SIZE", "value": "1"},
                {"name": "MASTER_ADDR", "value": _master(work, kind)},
                {"name": "MASTER_PORT", "value": str(MASTER_PORT)},
            ]
    return told


def _master(work: Work, kind: Kind) -> str:
    """The host name of rank 0, through the headless Service of the gang."""
    if kind == JOB:
        return f"{work.name}-0.{words.service_name(work.name)}"
    if kind == JOBSET:
        return f"{work.name}-{GROUP_OF_WORKERS}-0-0.{work.name}"
    return f"{work.name}-{GROUP_OF_WORKERS}-0.{work.name}"


def _resources(work: Work, main: dict[str, Any]) -> None:
    """Requests and limits are the same: what was decided is what a worker gets, and no more."""
    amounts: dict[str, Any] = dict(main.get("resources", {}).get("limits", {}))
    amounts |= dict(main.get("resources", {}).get("requests", {}))
    if work.cpu:
        amounts["cpu"] = str(work.cpu)
    if work.memory_gib:
        amounts["memory"] = f"{work.memory_gib}Gi"
    if work.units:
        amounts[words.gpu_resource(work.hardware)] = str(work.units)
    main["resources"] = {"requests": amounts, "limits": dict(amounts)}


def _harden(container: dict[str, Any]) -> None:
    security = container.setdefault("securityContext", {})
    security.setdefault("readOnlyRootFilesystem", True)
    security["allowPrivilegeEscalation"] = False
    security["capabilities"] = {"drop": ["ALL"]}


def _writable_tmp(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """A read-only root needs one place to write; without it hardly any program starts."""
    mounts = container.setdefault("volumeMounts", [])
    if container["securityContext"]["readOnlyRootFilesystem"] and not any(
        mount["mountPath"] == "/tmp"  # noqa: S108 - a path inside the container
        for mount in mounts
    ):
        mounts.append({"name": _SCRATCH, "mountPath": "/tmp"})  # noqa: S108
        volumes = pod.setdefault("volumes", [])
        if not any(volume["name"] == _SCRATCH for volume in volumes):
            volumes.append({"name": _SCRATCH, "emptyDir": {}})
    if not mounts:
        del container["volumeMounts"]


def _identity(pod: dict[str, Any]) -> None:
    """A number for the user, so that an image made to run as root runs as somebody else, not never."""
    pod["automountServiceAccountToken"] = False
    pod.setdefault("enableServiceLinks", False)
    security = pod.setdefault("securityContext", {})
    security["seccompProfile"] = {"type": "RuntimeDefault"}
    if security.setdefault("runAsNonRoot", True):
        for key in ("runAsUser", "runAsGroup", "fsGroup"):
            security.setdefault(key, _USER)


def _place(work: Work, pod: dict[str, Any]) -> None:
    required: list[dict[str, Any]] = []
    if work.nodes:
        required.append({"key": words.HOSTNAME, "operator": "In", "values": sorted(set(work.nodes))})
    if work.at.isolation == "dedicated-nodes":
        required.append({"key": words.TENANT, "operator": "In", "values": [work.tenant]})
        pod.setdefault("tolerations", []).append(
            {"key": words.TENANT, "operator": "Equal", "value": work.tenant, "effect": "NoSchedule"}
        )
    if work.at.isolation == "sandboxed":
        pod["runtimeClassName"] = words.SANDBOX
    affinity: dict[str, Any] = {}
    if required:
        terms = [{"matchExpressions": required}]
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    if work.dedicated:
        affinity["podAntiAffinity"] = _no_other_tenant(work)
    if affinity:
        pod["affinity"] = affinity


def _no_other_tenant(work: Work) -> dict[str, Any]:
    """Kubernetes reads a required anti-affinity both ways: whoever comes later stays away as well."""
    others = [
        {"key": words.TENANT, "operator": "Exists"},
        {"key": words.TENANT, "operator": "NotIn", "values": [work.tenant]},
    ]
    term = {
        "labelSelector": {"matchExpressions": others},
        "namespaceSelector": {},
        "topologyKey": words.HOSTNAME,
    }
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _leave(work: Work, pod: dict[str, Any], main: dict[str, Any]) -> None:
    """How it is told to go. Kubernetes itself says TERM; another signal is sent by a hook that then waits
    until the first process is gone, because TERM would follow the hook at once."""
    wish = work.checkpoint
    if wish is None:
        return
    pod["terminationGracePeriodSeconds"] = -(-wish.grace // 1000)
    if _signal(wish) != "TERM":
        told = f"kill -s {_signal(wish)} 1; while kill -0 1; do sleep 1; done"
        main.setdefault("lifecycle", {})["preStop"] = {"exec": {"command": ["/bin/sh", "-c", told]}}


def _signal(wish: Checkpoint) -> str:
    name = wish.signal.removeprefix("SIG")
    if name not in _SIGNALS:
        raise ValueError(f"{wish.signal} is not a signal that work can be told to leave with")
    return name
