"""What a container in a template may not hold: see `refusals.py`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from windlass.core.compiler.kubernetes.merging import Path

MAIN = "main"
"""The container that is the author's: image, command, variables and resources are put there."""

_FIELDS = frozenset(
    {
        "name",
        "args",
        "env",
        "ports",
        "volumeMounts",
        "resources",
        "readinessProbe",
        "livenessProbe",
        "startupProbe",
        "lifecycle",
        "workingDir",
        "securityContext",
        "stdin",
        "tty",
        "terminationMessagePolicy",
        "$if",
    }
)
_BESIDE = _FIELDS | {"image", "command", "restartPolicy", "envFrom"}
_SECURITY = frozenset({"readOnlyRootFilesystem", "runAsNonRoot", "runAsUser", "runAsGroup"})
_PORT = frozenset({"name", "containerPort", "protocol"})
_MOUNT = frozenset({"name", "mountPath", "readOnly", "subPath"})
_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})


def container_refusals(
    container: Any, path: Path, *, author: bool, images: Collection[str] | None, first: bool
) -> Iterator[tuple[Path, str]]:
    """`first`: it is among those that run before the others. `images`: those that were approved by being
    written in a document of the platform's; None while that document is what is read."""
    if isinstance(container, str) and container.startswith("${"):
        return
    if not isinstance(container, Mapping):
        yield path, "a container is a mapping"
        return
    main = container.get("name") == MAIN and not first
    if container.get("name") == MAIN and first:
        yield (*path, "name"), f"{MAIN} is the container of the author, not one that runs before it"
    for key in sorted(str(key) for key in container if key not in (_FIELDS if main else _BESIDE)):
        why = "is put there from the intent" if main and key in ("image", "command") else "is the platform's"
        yield (*path, key), f"{key} {why}"
    if not main and "image" in container:
        yield from _image(container["image"], (*path, "image"), images)
    yield from mapping_refusals(container.get("securityContext"), _SECURITY, (*path, "securityContext"))
    for at, port in _listed(container.get("ports")):
        yield from mapping_refusals(port, _PORT, (*path, "ports", at))
    yield from _mounts(container.get("volumeMounts"), (*path, "volumeMounts"))
    yield from _resources(container.get("resources"), (*path, "resources"), decided=main or author)
    yield from _own_probes(container, path)
    yield from _told_elsewhere(container, path)
    if author:
        yield from _no_references(container, path)
    security = container.get("securityContext")
    if isinstance(security, Mapping) and 0 in (security.get("runAsUser"), security.get("runAsGroup")):
        yield (*path, "securityContext"), "no worker runs as root by its number"


def _image(image: Any, path: Path, images: Collection[str] | None) -> Iterator[tuple[Path, str]]:
    if images is None:
        if not isinstance(image, str) or image.startswith("${"):
            yield path, "the image of a container beside the author's is written out: parameters bring none"
    elif not isinstance(image, str) or image not in images:
        yield path, f"the image {image} is not among those that may run beside the author's"


def mapping_refusals(tree: Any, allowed: Collection[str], path: Path) -> Iterator[tuple[Path, str]]:
    if tree is None or (isinstance(tree, str) and tree.startswith("${")):
        return
    if not isinstance(tree, Mapping):
        yield path, "is a mapping"
        return
    for key in sorted(str(key) for key in tree if key not in allowed and key != "$if"):
        yield (*path, key), f"{key} belongs to the platform"


def _listed(values: Any) -> list[tuple[int, Any]]:
    return list(enumerate(values)) if isinstance(values, (list, tuple)) else []


def _mounts(mounts: Any, path: Path) -> Iterator[tuple[Path, str]]:
    for at, mount in _listed(mounts):
        yield from mapping_refusals(mount, _MOUNT, (*path, at))
        below = mount.get("subPath", "") if isinstance(mount, Mapping) else ""
        if not isinstance(below, str) or below.startswith("/") or ".." in below.split("/"):
            yield (*path, at, "subPath"), "a path below a volume stays inside it"


def _resources(resources: Any, path: Path, *, decided: bool) -> Iterator[tuple[Path, str]]:
    """`decided`: CPU and memory are the profile's. A type may bring helpers that have some of their own; an
    author would take a node's processors with them, which nobody admitted."""
    if not isinstance(resources, Mapping):
        return
    for part, amounts in resources.items():
        if part not in ("requests", "limits"):
            yield (*path, str(part)), f"{part} belongs to the platform"
        elif isinstance(amounts, Mapping):
            allowed = {"ephemeral-storage"} if decided else _RESOURCES
            for name in sorted(str(name) for name in amounts if name not in allowed):
                yield (*path, part, name), f"{name} is computed from the profile"


def _own_probes(container: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str]]:
    """A probe is sent by the node: with a host of its own it would look at the node's neighbours."""
    lifecycle = container.get("lifecycle")
    hooks = lifecycle if isinstance(lifecycle, Mapping) else {}
    probes: dict[tuple[str, ...], Any] = {
        (key,): container.get(key) for key in ("readinessProbe", "livenessProbe", "startupProbe")
    }
    probes |= {("lifecycle", str(key)): hook for key, hook in hooks.items()}
    for below, probe in probes.items():
        for way in ("httpGet", "tcpSocket"):
            asked = probe.get(way) if isinstance(probe, Mapping) else None
            if isinstance(asked, Mapping) and "host" in asked:
                yield (*path, *below, way, "host"), "a probe asks the worker itself"


def _told_elsewhere(container: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str]]:
    """Who a worker is and which GPUs it sees, the platform tells; a helper may be told that it sees none."""
    for at, variable in _listed(container.get("env")):
        name = variable.get("name") if isinstance(variable, Mapping) else None
        if not isinstance(name, str) or variable.get("value") in ("void", "none"):
            continue
        if name.startswith("WINDLASS_") or name.endswith("_VISIBLE_DEVICES"):
            yield (*path, "env", at), f"the variable {name} is the platform's to set"


def _no_references(container: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str]]:
    """An author who may write pods must not read another component's secrets with them."""
    if "envFrom" in container:
        yield (*path, "envFrom"), "use the trait secret, which looks at what the project was granted"
    for at, variable in _listed(container.get("env")):
        source = variable.get("valueFrom") if isinstance(variable, Mapping) else None
        if isinstance(source, Mapping) and not set(source) <= {"fieldRef", "resourceFieldRef"}:
            yield (
                (*path, "env", at, "valueFrom"),
                "use the trait secret, which looks at what the project was granted",
            )
