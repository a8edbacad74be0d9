"""What has which form in rendered objects: a list where Kubernetes has a list, text where it has text.

An expression gives whatever its author made of it, and the escape hatch takes an author's own objects. The
compiler writes into these parts, so it looks at their form first; that they mean something to Kubernetes is
for Kubernetes to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.core.compiler.kubernetes import kinds
from windlass.core.compiler.kubernetes.merging import Path

_TEXTS = {"*": str}
_MARKS: Mapping[str, Any] = {"labels": _TEXTS, "annotations": _TEXTS}
_PROBE: Mapping[str, Any] = {"httpGet": {}, "tcpSocket": {}, "exec": {}}
_CONTAINER: Mapping[str, Any] = {
    "name": str,
    "image": str,
    "args": [str],
    "command": [str],
    "env": [{"name": str, "value": str, "valueFrom": {"*": {}}}],
    "envFrom": [{}],
    "ports": [{}],
    "volumeMounts": [{"name": str, "mountPath": str}],
    "resources": {"requests": {}, "limits": {}},
    "securityContext": {},
    "readinessProbe": _PROBE,
    "livenessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": {"*": _PROBE},
}
_PODS: Mapping[str, Any] = {
    "metadata": _MARKS,
    "spec": {
        "containers": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "volumes": [{"name": str}],
        "tolerations": [{}],
        "securityContext": {},
        "dnsConfig": {},
    },
}
_BESIDE: Mapping[kinds.Kind, Mapping[str, Any]] = {
    kinds.SERVICE: {"spec": {"ports": [{}]}},
    kinds.CONFIG_MAP: {"data": _TEXTS},
    kinds.DEPLOYMENT: {"spec": {"strategy": {"rollingUpdate": {}}}},
    kinds.STATEFUL_SET: {"spec": {"volumeClaimTemplates": [{"metadata": {"name": str}, "spec": {}}]}},
}
_REQUIRED = frozenset({"name", "mountPath"})
"""Without it a part of a list cannot be told from its neighbours, nor a mount have a place."""


def misshapen(objects: Any) -> Iterator[tuple[Path, str]]:
    """Of objects whose kinds are known and whose workloads have pods."""
    yield from _against([{}], objects, ("objects",))
    for at, thing in enumerate(objects if isinstance(objects, (list, tuple)) else ()):
        if not isinstance(thing, Mapping):
            continue
        path: Path = ("objects", at)
        kind = kinds.kind_of(thing)
        yield from _against({"metadata": _MARKS, "spec": {}, **_BESIDE.get(kind, {})}, thing, path)
        if kind in kinds.WORKLOADS:
            where = kinds.WORKLOADS[kind].pods
            yield from _against(_PODS, kinds.pod_template(thing, kind), (*path, *where))


def _against(form: Any, value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if form is str:
        if not isinstance(value, str):
            yield path, "is text"
    elif isinstance(form, list):
        if not isinstance(value, (list, tuple)):
            yield path, "is a list"
            return
        for at, item in enumerate(value):
            yield from _against(form[0], item, (*path, at))
            if isinstance(form[0], Mapping) and isinstance(item, Mapping):
                for name in sorted(_REQUIRED & set(form[0]) - set(item)):
                    yield (*path, at), f"has no {name}"
    elif not isinstance(value, Mapping):
        yield path, "is a mapping"
    else:
        for key, item in value.items():
            if key in form or "*" in form:
                yield from _against(form.get(key, form.get("*")), item, (*path, str(key)))
