"""What a template may not hold, whoever wrote it: everything that the platform decides.

Two readers: a platform engineer who uploads a type (before expressions are evaluated), and the compiler
itself, which looks again at what came out of them: an expression can bring in a whole tree. Pods are
read by lists of what *is* allowed, so that a field Kubernetes adds tomorrow is not open by accident.
`author` is for the escape hatch: what authors write themselves reaches no secret and no claim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from windlass.core.compiler.kubernetes import kinds
from windlass.core.compiler.kubernetes.containers import MAIN, container_refusals, mapping_refusals
from windlass.core.compiler.kubernetes.merging import Path
from windlass.core.compiler.kubernetes.words import is_key, is_label_value, reserved

Refusal = tuple[Path, str]

_POD_FIELDS = frozenset(
    {
        "containers",
        "initContainers",
        "volumes",
        "restartPolicy",
        "terminationGracePeriodSeconds",
        "securityContext",
        "enableServiceLinks",
        "dnsConfig",
    }
)
_POD_SECURITY = frozenset(
    {
        "runAsNonRoot",
        "runAsUser",
        "runAsGroup",
        "fsGroup",
        "fsGroupChangePolicy",
        "supplementalGroups",
    }
)
_VOLUMES = frozenset(
    {
        "emptyDir",
        "configMap",
        "secret",
        "persistentVolumeClaim",
        "downwardAPI",
        "projected",
        "ephemeral",
    }
)
_AUTHOR_VOLUMES = frozenset({"emptyDir", "downwardAPI"})
_MAX_GRACE_S = 3600
_TOP = frozenset({"apiVersion", "kind", "metadata", "spec", "data", "$if"})
_NO_SPEC = frozenset({kinds.CONFIG_MAP})


def refusals(
    template: Mapping[str, Any],
    *,
    author: bool = False,
    images: Collection[str] | None = (),
    tolerations: bool = False,
) -> Iterator[Refusal]:
    """Each thing wrong with `{objects: […]}`, with where it is. `images` are those that containers beside
    `main` may bring along, None: any that is written out, for a document of the platform's; `tolerations`
    allows them, for a template that traits were merged into."""
    objects = template.get("objects")
    for key in sorted(set(template) - {"objects"}):
        yield (key,), "a template for Kubernetes holds objects and nothing else"
    if isinstance(objects, str):
        return  # an expression: judged when it has a value
    if not isinstance(objects, (list, tuple)) or not objects:
        yield ("objects",), "a template lists the objects that a component is made of"
        return
    for at, thing in enumerate(objects):
        path: Path = ("objects", at)
        if isinstance(thing, str) and thing.startswith("${"):
            continue
        if not isinstance(thing, Mapping):
            yield path, "an object is a mapping with apiVersion and kind"
            continue
        yield from _object(thing, path, author=author, images=images, tolerations=tolerations)


def patch_refusals(patch: Mapping[str, Any]) -> Iterator[Refusal]:
    """Each thing that a trait's patch may not hold. Tolerations come from there."""
    for part in ("labels", "annotations"):
        yield from _metadata({part: patch.get(part)}, ())
        in_pods = f"pod{part.capitalize()}"
        for (_, key), message in _metadata({part: patch.get(in_pods)}, ()):
            yield (in_pods, key), message
    workload, pod, container = (patch.get(part) for part in ("workload", "pod", "container"))
    if isinstance(workload, Mapping):
        owned = frozenset[str]().union(*(facts.owned for facts in kinds.WORKLOADS.values()))
        for key in sorted(owned & set(workload)):
            yield ("workload", key), f"{key} is computed by the platform"
    if isinstance(pod, Mapping):
        yield from _pod(pod, ("pod",), author=False, images=None, tolerations=True)
    if isinstance(container, Mapping):
        if "name" in container:
            yield ("container", "name"), f"a patch is for the container {MAIN}"
        named = {**container, "name": MAIN}
        yield from container_refusals(named, ("container",), author=False, images=None, first=False)
    for at, thing in enumerate(_listed(patch.get("objects"))):
        if not isinstance(thing, Mapping) and not isinstance(thing, str):
            yield ("objects", at), "an object is a mapping with apiVersion and kind"
        elif isinstance(thing, Mapping) and kinds.kind_of(thing) not in kinds.WORKLOADS:
            yield from _object(thing, ("objects", at), author=False, images=None, tolerations=True)


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else []


def _object(
    thing: Mapping[str, Any], path: Path, *, author: bool, images: Collection[str] | None, tolerations: bool
) -> Iterator[Refusal]:
    kind = kinds.kind_of(thing)
    allowed = kinds.RAW_KINDS if author else {*kinds.WORKLOADS, *kinds.BESIDE}
    if kind not in allowed:
        known = ", ".join(sorted(" ".join(one) for one in allowed))
        yield (
            (*path, "kind"),
            f"{' '.join(kind).strip() or 'nothing'} is not among the kinds a component may hold: {known}",
        )
        return
    yield from _closed(thing, _TOP, path, "belongs to the platform")
    yield from _metadata(thing.get("metadata"), (*path, "metadata"), author=author)
    spec = thing.get("spec")
    if not isinstance(spec, Mapping):
        if kind not in _NO_SPEC:
            yield (*path, "spec"), "an object has a spec, as a mapping"
        return
    owned = kinds.WORKLOADS[kind].owned if kind in kinds.WORKLOADS else kinds.BESIDE[kind]
    for key in sorted(owned & set(spec)):
        yield (*path, "spec", key), f"{key} is computed by the platform"
    if kind in kinds.WORKLOADS:
        yield from _workload(thing, kind, path, author=author, images=images, tolerations=tolerations)
    elif kind == kinds.SERVICE:
        yield from _service(spec, (*path, "spec"))


def _closed(tree: Mapping[str, Any], allowed: Collection[str], path: Path, why: str) -> Iterator[Refusal]:
    for key in sorted(str(key) for key in tree if key not in allowed):
        yield (*path, key), f"{key} {why}"


def _metadata(metadata: Any, path: Path, *, author: bool = False) -> Iterator[Refusal]:
    """To an author's, the networks, meshes and runtimes of a cluster would listen too: an annotation can give
    a pod another network or a device of its node, a label under a domain can take it out of a mesh."""
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        yield path, "metadata is a mapping"
        return
    yield from _closed(metadata, ("labels", "annotations"), path, "is written by the platform")
    for part in ("labels", "annotations"):
        found = metadata.get(part)
        marks = found if isinstance(found, Mapping) else {}
        for key in sorted(map(str, marks)):
            value = marks.get(key) if part == "labels" else ""
            if not is_key(key):
                yield (*path, part, key), "no label or annotation can be called that"
            elif isinstance(value, str) and not value.startswith("${") and not is_label_value(value):
                yield (*path, part, key), "a label's value has at most 63 letters, digits, -, _ and ."
            elif reserved(key) or key.partition("/")[0].endswith("k8s.io"):
                yield (*path, part, key), f"{key} is reserved for the platform"
            elif author and (part == "annotations" or "." in key.partition("/")[0]):
                yield (
                    (*path, part, key),
                    f"{key} could speak to controllers of the cluster",
                )


def _workload(
    thing: Mapping[str, Any],
    kind: kinds.Kind,
    path: Path,
    *,
    author: bool,
    images: Collection[str] | None,
    tolerations: bool,
) -> Iterator[Refusal]:
    for at, part in enumerate(kinds.job_specs(thing)):
        below = (*path, "spec", "replicatedJobs" if kind == kinds.JOBSET else "tasks", at)
        if at:
            yield below, "a gang has one group of workers"
        yield from _sizes(part, below)
    if author and "completions" in thing["spec"]:
        yield (*path, "spec", "completions"), "completions is computed by the platform"
    if author and "volumeClaimTemplates" in thing["spec"]:
        why = "use the trait storage, which looks at what the project was granted"
        yield (*path, "spec", "volumeClaimTemplates"), why
    for at, claim in enumerate(_listed(thing["spec"].get("volumeClaimTemplates"))):
        yield from _claim(claim, (*path, "spec", "volumeClaimTemplates", at))
    template = kinds.pod_template(thing, kind)
    at_pods = (*path, *kinds.WORKLOADS[kind].pods)
    if template is None:
        yield at_pods, "a workload has a pod template"
        return
    if kind != kinds.POD:
        yield from _closed(template, ("metadata", "spec"), at_pods, "is not part of a pod template")
        yield from _metadata(template.get("metadata"), (*at_pods, "metadata"), author=author)
    pod = template.get("spec")
    if not isinstance(pod, Mapping):
        yield (*at_pods, "spec"), "a pod template has a spec"
        return
    yield from _pod(pod, (*at_pods, "spec"), author=author, images=images, tolerations=tolerations)


def _sizes(part: Any, path: Path) -> Iterator[Refusal]:
    if not isinstance(part, Mapping):
        yield path, "a group of workers is a mapping"
        return
    owned = {"name", "replicas", "minAvailable", "maxRetry", "dependsOn", "groupName", "topologyPolicy"}
    for key in sorted(owned & set(part)):
        yield (*path, key), f"{key} is computed by the platform"
    job = part.get("template", {})
    spec = job.get("spec", {}) if isinstance(job, Mapping) else {}
    if isinstance(spec, Mapping) and "template" in spec:  # a JobSet's job, not Volcano's pods
        yield from _metadata(job.get("metadata"), (*path, "template", "metadata"))
        owned_here = kinds.WORKLOADS[kinds.JOB].owned | {"completions"}
        for key in sorted(owned_here & set(spec)):
            yield (*path, "template", "spec", key), f"{key} is computed by the platform"


def _pod(
    pod: Mapping[str, Any], path: Path, *, author: bool, images: Collection[str] | None, tolerations: bool
) -> Iterator[Refusal]:
    allowed = _POD_FIELDS | {"tolerations"} if tolerations else _POD_FIELDS
    why = "comes from traits only" if not tolerations else "belongs to the platform"
    for key in sorted(str(key) for key in pod if key not in allowed):
        yield (*path, key), f"{key} {why if key == 'tolerations' else 'belongs to the platform'}"
    yield from mapping_refusals(pod.get("securityContext"), _POD_SECURITY, (*path, "securityContext"))
    security = pod.get("securityContext")
    if isinstance(security, Mapping) and 0 in (security.get("runAsUser"), security.get("runAsGroup")):
        yield (*path, "securityContext"), "no worker runs as root by its number"
    for part in ("initContainers", "containers"):
        listed = pod.get(part, [])
        if not isinstance(listed, (list, tuple)):
            if not isinstance(listed, str):
                yield (*path, part), f"{part} is a list"
            continue
        for at, container in enumerate(listed):
            yield from container_refusals(
                container, (*path, part, at), author=author, images=images, first=part == "initContainers"
            )
    yield from _volumes(pod.get("volumes", []), (*path, "volumes"), author=author)
    grace = pod.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace > _MAX_GRACE_S:
        yield (*path, "terminationGracePeriodSeconds"), f"work leaves within {_MAX_GRACE_S} seconds"


def _volumes(volumes: Any, path: Path, *, author: bool) -> Iterator[Refusal]:
    if not isinstance(volumes, (list, tuple)):
        if not isinstance(volumes, str):
            yield path, "volumes is a list"
        return
    allowed = _AUTHOR_VOLUMES if author else _VOLUMES
    for at, volume in enumerate(volumes):
        if not isinstance(volume, Mapping):
            yield (*path, at), "a volume is a mapping"
            continue
        for key in sorted(str(key) for key in volume if key not in {"name", "$if", *allowed}):
            yield (*path, at, key), f"a volume of kind {key} is not allowed: it could reach beyond the cell"
        ephemeral = volume.get("ephemeral")
        if isinstance(ephemeral, Mapping):
            below = (*path, at, "ephemeral", "volumeClaimTemplate")
            yield from _claim(ephemeral.get("volumeClaimTemplate"), below)
        projected = volume.get("projected")
        sources = projected.get("sources", []) if isinstance(projected, Mapping) else []
        for nth, source in enumerate(sources if isinstance(sources, (list, tuple)) else []):
            if isinstance(source, Mapping) and not set(source) <= {"configMap", "secret", "downwardAPI"}:
                yield (*path, at, "projected", "sources", nth), "a worker gets no token of the cluster"


def _claim(claim: Any, path: Path) -> Iterator[Refusal]:
    """A claim that is made with the work: a new volume, marked as nobody else's."""
    metadata = claim.get("metadata") if isinstance(claim, Mapping) else None
    if isinstance(metadata, Mapping):
        yield from _metadata({key: metadata[key] for key in metadata if key != "name"}, (*path, "metadata"))
    spec = claim.get("spec") if isinstance(claim, Mapping) else None
    for key in ("dataSource", "dataSourceRef", "selector", "volumeName"):
        if isinstance(spec, Mapping) and key in spec:
            yield (*path, "spec", key), "a claim that is made with the work is for a new volume"


def _service(spec: Mapping[str, Any], path: Path) -> Iterator[Refusal]:
    if spec.get("type", "ClusterIP") != "ClusterIP":
        yield (*path, "type"), "a component's Service is reached inside the cluster only"
    if spec.get("clusterIP", "None") != "None":
        yield (*path, "clusterIP"), "an address is given by the cluster; None makes the Service headless"
    ports = spec.get("ports")
    for at, port in enumerate(ports if isinstance(ports, (list, tuple)) else []):
        if isinstance(port, Mapping) and "nodePort" in port:
            yield (*path, "ports", at, "nodePort"), "a component opens no port of a node"
