"""The laws of a container: whose image, which command, what it holds and what it may do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.core.compiler.checker.breaches import (
    Allowed,
    Breach,
    Law,
    Path,
    among,
    breach,
    listed,
    mapping,
    misshapen,
)
from windlass.core.compiler.work import Work

_FIELDS = frozenset(
    (
        *("name", "image", "command", "args", "env", "envFrom", "ports", "volumeMounts", "resources"),
        *("readinessProbe", "livenessProbe", "startupProbe", "lifecycle", "workingDir", "securityContext"),
        *("stdin", "tty", "terminationMessagePolicy", "restartPolicy"),
    )
)
_SECURITY = frozenset(
    (
        *("readOnlyRootFilesystem", "runAsNonRoot", "runAsUser", "runAsGroup"),
        *("allowPrivilegeEscalation", "capabilities"),
    )
)
_TOLD = frozenset(
    (
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("WINDLASS_COMPONENT", "WINDLASS_NODE", "WINDLASS_WORKER"),
    )
)
_MASTER_PORT = "29500"
_PLAIN = frozenset(("cpu", "memory", "ephemeral-storage"))


@dataclass(frozen=True, slots=True)
class Meeting:
    """How the workers of a gang find each other: where each reads its number, and the first one's address."""

    index: str
    master: str


def container_breaches(
    work: Work, pod: Mapping[str, Any], path: Path, allowed: Allowed, meeting: Meeting | None
) -> Iterator[Breach]:
    containers = listed(pod.get("containers"))
    authors = [at for at, one in enumerate(containers) if mapping(one).get("name") == "main"]
    if len(authors) != 1:
        yield breach("image", (*path, "containers"), f"{len(authors)} containers called main", "one")
    for part in ("initContainers", "containers"):
        for at, container in enumerate(listed(pod.get(part))):
            here: Path = (*path, part, at)
            main = part == "containers" and mapping(container).get("name") == "main"
            yield from _container(work, mapping(container), here, allowed, main=main)
            if main:
                yield from _author(work, mapping(container), here, meeting)
                yield from _told_to_leave(work, mapping(container), here)


def _container(
    work: Work, container: Mapping[str, Any], path: Path, allowed: Allowed, *, main: bool
) -> Iterator[Breach]:
    for key in sorted(str(key) for key in container if key not in _FIELDS):
        law: Law = "volume" if key == "volumeDevices" else "owned"
        yield breach(law, (*path, key), container[key], "no such part")
    yield from misshapen(
        container,
        path,
        lists=("env", "envFrom", "ports", "volumeMounts"),
        mappings=(
            "resources",
            "securityContext",
            "lifecycle",
            "readinessProbe",
            "livenessProbe",
            "startupProbe",
        ),
    )
    yield from misshapen(mapping(container.get("resources")), path, mappings=("requests", "limits"))
    image = container.get("image")
    if image != work.image and (main or not among(image, allowed.images)):
        yield breach("image", (*path, "image"), image, work.image)
    yield from _security(mapping(container.get("securityContext")), (*path, "securityContext"))
    yield from _resources(work, container.get("resources"), (*path, "resources"), main=main)
    yield from _reach(container, path)
    for at, variable in enumerate(listed(container.get("env"))):
        yield from _variable(mapping(variable), (*path, "env", at), allowed)
    for at, source in enumerate(listed(container.get("envFrom"))):
        name = mapping(mapping(source).get("secretRef")).get("name")
        if "secretRef" in mapping(source) and not among(name, allowed.secrets):
            yield breach("secret", (*path, "envFrom", at), name, "a secret that the project was granted")


def _security(security: Mapping[str, Any], path: Path) -> Iterator[Breach]:
    for key in sorted(str(key) for key in security if key not in _SECURITY):
        yield breach("privilege", (*path, key), security[key], "no such part")
    if security.get("allowPrivilegeEscalation") is not False:
        found = security.get("allowPrivilegeEscalation")
        yield breach("privilege", (*path, "allowPrivilegeEscalation"), found, "false")
    if security.get("capabilities") != {"drop": ["ALL"]}:
        yield breach(
            "privilege", (*path, "capabilities"), security.get("capabilities"), "all dropped, none added"
        )
    if not isinstance(security.get("readOnlyRootFilesystem"), bool):
        found = security.get("readOnlyRootFilesystem")
        yield breach("privilege", (*path, "readOnlyRootFilesystem"), found, "said outright")
    for key in ("runAsUser", "runAsGroup"):
        if security.get(key) == 0:
            yield breach("privilege", (*path, key), "root", "another user")


def _resources(work: Work, resources: Any, path: Path, *, main: bool) -> Iterator[Breach]:
    """The author's container holds what was decided, no other holds a GPU; requests and limits alike."""
    for part in sorted(str(part) for part in mapping(resources) if part not in ("requests", "limits")):
        yield breach("gpus", (*path, part), resources[part], "no such part")
    decided: dict[str, tuple[Law, str]] = {}
    if main:
        if work.units:
            decided[_gpu(work)] = ("gpus", str(work.units))
        if work.cpu:
            decided["cpu"] = ("amount", str(work.cpu))
        if work.memory_gib:
            decided["memory"] = ("amount", f"{work.memory_gib}Gi")
    for part in ("requests", "limits"):
        amounts = mapping(mapping(resources).get(part))
        for name in sorted({*map(str, amounts), *decided}):
            found = amounts.get(name)
            if name in decided:
                law, wanted = decided[name]
                if isinstance(found, bool) or str(found) != wanted:
                    yield breach(law, (*path, part, name), found, wanted)
            elif name not in _PLAIN or (
                name in ("cpu", "memory") and work.type.startswith("raw@") and not main
            ):
                yield breach("gpus" if "/" in name else "amount", (*path, part, name), found, None)


def _gpu(work: Work) -> str:
    match work.hardware.sharing:
        case "dedicated":
            return "nvidia.com/gpu"
        case "mig":
            return f"nvidia.com/mig-{work.hardware.mig_profile}"
        case "time-slice":
            return "nvidia.com/gpu.shared"


def _reach(container: Mapping[str, Any], path: Path) -> Iterator[Breach]:
    """Ports of the node, probes that the kubelet would send elsewhere, paths that leave a volume."""
    for at, port in enumerate(listed(container.get("ports"))):
        for key in sorted({"hostPort", "hostIP"} & set(mapping(port))):
            yield breach("host", (*path, "ports", at, key), port[key], "no port of the node")
    probes = [(name, container.get(name)) for name in ("readinessProbe", "livenessProbe", "startupProbe")]
    probes += [("lifecycle", hook) for hook in mapping(container.get("lifecycle")).values()]
    for name, probe in probes:
        for kind in ("httpGet", "tcpSocket"):
            if "host" in mapping(mapping(probe).get(kind)):
                yield breach("host", (*path, name, kind, "host"), "another host", "the pod itself")
    for at, mount in enumerate(listed(container.get("volumeMounts"))):
        below = str(mapping(mount).get("subPath", ""))
        if below.startswith("/") or ".." in below.split("/") or "subPathExpr" in mapping(mount):
            yield breach(
                "volume", (*path, "volumeMounts", at), below or "an expression", "a path inside its volume"
            )
        if mapping(mount).get("mountPropagation", "None") != "None":
            yield breach("host", (*path, "volumeMounts", at), "mounts that spread to the node", None)


def _variable(variable: Mapping[str, Any], path: Path, allowed: Allowed) -> Iterator[Breach]:
    name, source = str(variable.get("name")), mapping(variable.get("valueFrom"))
    if set(variable) not in ({"name"}, {"name", "value"}, {"name", "valueFrom"}):
        yield breach(
            "variable", path, sorted(map(str, variable)), "a name, and a value or where it comes from"
        )
    if name.endswith("_VISIBLE_DEVICES") and variable.get("value") not in ("void", "none"):
        yield breach("gpus", path, f"{name} is set", "the GPUs that the site hands out")
    reference = mapping(source.get("secretKeyRef"))
    if "secretKeyRef" in source and not among(reference.get("name"), allowed.secrets):
        yield breach("secret", path, reference.get("name"), "a secret that the project was granted")
    for kind in sorted(set(source) - {"secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef"}):
        yield breach("owned", (*path, str(kind)), "a source of its own", "no such source")


def _author(work: Work, main: Mapping[str, Any], path: Path, meeting: Meeting | None) -> Iterator[Breach]:
    """Values are not shown: one may be a secret."""
    if work.command:
        command = [_as_run(part) for part in listed(main.get("command"))]
        if command != list(work.command) and list(work.command) != listed(main.get("command")):
            yield breach("command", (*path, "command"), main.get("command"), list(work.command))
        if main.get("args"):
            yield breach("command", (*path, "args"), main["args"], None)
    found: dict[str, Any] = {}
    for variable in listed(main.get("env")):
        name = str(mapping(variable).get("name"))
        if name in found:
            yield breach("variable", (*path, "env", name), "written twice", "once")
        found[name] = variable
    for name, value in sorted(work.variables.items()):
        stated = mapping(found.get(name)).get("value")
        if name not in _TOLD and stated != value and _as_run(stated) != value:
            yield breach("variable", (*path, "env", name), "another value or none", "what the author wrote")
    yield from _told(work, found, (*path, "env"), meeting)


def _told(work: Work, found: Mapping[str, Any], path: Path, meeting: Meeting | None) -> Iterator[Breach]:
    """What the platform says: whose the work is and, in a gang, who is who and where they meet."""
    decided: dict[str, Any] = {"WINDLASS_COMPONENT": work.path, "WORLD_SIZE": None, "RANK": None}
    if meeting is not None:
        decided |= {"WORLD_SIZE": str(work.workers), "RANK": {"fieldRef": {"fieldPath": meeting.index}}}
        decided |= {"MASTER_ADDR": meeting.master, "MASTER_PORT": _MASTER_PORT}
        decided |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    for name, wanted in decided.items():
        variable = mapping(found.get(name))
        stated = variable.get("valueFrom", variable.get("value"))
        if stated != wanted:
            law: Law = "variable" if name == "WINDLASS_COMPONENT" else "gang"
            yield breach(law, (*path, name), stated, wanted)
    for name in sorted(found):
        if name.startswith("WINDLASS_") and name not in _TOLD:
            yield breach("owned", (*path, name), "set", "a variable of the platform")


def _told_to_leave(work: Work, main: Mapping[str, Any], path: Path) -> Iterator[Breach]:
    """Kubernetes says TERM by itself; another signal has to be sent before."""
    if work.checkpoint is None or work.checkpoint.signal == "TERM":
        return
    told = f"kill -s {work.checkpoint.signal} 1; while kill -0 1; do sleep 1; done"
    hook = mapping(main.get("lifecycle")).get("preStop")
    if hook != {"exec": {"command": ["/bin/sh", "-c", told]}}:
        yield breach("time", (*path, "lifecycle", "preStop"), hook, work.checkpoint.signal)


def _as_run(text: Any) -> Any:
    """Kubernetes reads `$$` as one `$`."""
    return text.replace("$$", "$") if isinstance(text, str) else text
