"""The laws of a pod: what it may reach, where it may run, how it is kept apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    of_the_platform,
    same,
)
from windlass.core.compiler.checker.containers import Meeting, container_breaches
from windlass.core.compiler.work import Work

_KNOWN: Mapping[str, frozenset[str]] = {
    "judged": frozenset(
        (
            *("containers", "initContainers", "volumes", "tolerations", "affinity", "securityContext"),
            *("automountServiceAccountToken", "runtimeClassName", "schedulingGates", "schedulerName"),
            *("terminationGracePeriodSeconds", "activeDeadlineSeconds"),
        )
    ),
    "harmless": frozenset(("restartPolicy", "enableServiceLinks", "subdomain", "dnsConfig")),
}
_LAWS: Mapping[str, Law] = {
    "hostNetwork": "host",
    "hostPID": "host",
    "hostIPC": "host",
    "hostUsers": "host",
    "shareProcessNamespace": "host",
    "serviceAccountName": "token",
    "serviceAccount": "token",
    "nodeName": "node",
    "nodeSelector": "node",
    "priorityClassName": "priority",
    "priority": "priority",
    "preemptionPolicy": "priority",
    "resourceClaims": "gpus",
    "ephemeralContainers": "gpus",
    "imagePullSecrets": "secret",
}
_POD_SECURITY = frozenset(
    ("runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy", "supplementalGroups")
)
_MAX_GRACE_S = 3600
_HOSTNAME, _TENANT = "kubernetes.io/hostname", "windlass.dev/tenant"


def pod_breaches(
    work: Work, pod: Mapping[str, Any], path: Path, allowed: Allowed, meeting: Meeting | None
) -> Iterator[Breach]:
    known = _KNOWN["judged"] | _KNOWN["harmless"]
    for key in sorted(str(key) for key in pod if key not in known):
        if not (key == "shareProcessNamespace" and pod[key] is False):
            yield breach(_LAWS.get(key, "owned"), (*path, key), pod[key], "no such part")
    yield from misshapen(
        pod,
        path,
        lists=("containers", "initContainers", "volumes", "tolerations"),
        mappings=("affinity", "securityContext"),
    )
    if pod.get("automountServiceAccountToken") is not False:
        at = (*path, "automountServiceAccountToken")
        yield breach("token", at, pod.get("automountServiceAccountToken"), "false")
    yield from _security(mapping(pod.get("securityContext")), (*path, "securityContext"))
    yield from _tolerations(work, pod.get("tolerations"), (*path, "tolerations"), allowed)
    yield from _placement(work, mapping(pod.get("affinity")), (*path, "affinity"))
    runtime = "windlass-sandboxed" if work.at.isolation == "sandboxed" else None
    if pod.get("runtimeClassName") != runtime:
        yield breach("isolation", (*path, "runtimeClassName"), pod.get("runtimeClassName"), runtime)
    yield from _grace(
        work, pod.get("terminationGracePeriodSeconds"), (*path, "terminationGracePeriodSeconds")
    )
    for at_volume, volume in enumerate(listed(pod.get("volumes"))):
        yield from _volume(mapping(volume), (*path, "volumes", at_volume), allowed)
    yield from container_breaches(work, pod, path, allowed, meeting)


def _security(security: Mapping[str, Any], path: Path) -> Iterator[Breach]:
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield breach("privilege", (*path, "seccompProfile"), security.get("seccompProfile"), "RuntimeDefault")
    for key in sorted(str(key) for key in security if key not in {*_POD_SECURITY, "seccompProfile"}):
        yield breach("privilege", (*path, key), security[key], "no such part")
    for key in ("runAsUser", "runAsGroup"):
        if security.get(key) == 0:
            yield breach("privilege", (*path, key), "root", "another user")
    named, number = security.get("runAsNonRoot"), security.get("runAsUser")
    if not isinstance(named, bool) or (named and not isinstance(number, int)):
        yield breach("privilege", (*path, "runAsNonRoot"), named, "said outright, with the user's number")


def _tolerations(work: Work, found: Any, path: Path, allowed: Allowed) -> Iterator[Breach]:
    own = {"key": _TENANT, "operator": "Equal", "value": work.tenant, "effect": "NoSchedule"}
    apart = work.at.isolation == "dedicated-nodes"
    known = [dict(one) for one in allowed.tolerations] + ([own] if apart else [])
    for at, toleration in enumerate(listed(found)):
        if toleration not in known:
            yield breach("toleration", (*path, at), toleration, "one that a trait of the work declares")
    if apart and own not in listed(found):
        yield breach("isolation", path, "without its tenant's", "the taint of its tenant's nodes")


def _placement(work: Work, affinity: Mapping[str, Any], path: Path) -> Iterator[Breach]:
    for key in sorted(str(key) for key in affinity if key not in ("nodeAffinity", "podAntiAffinity")):
        yield breach("owned", (*path, key), "written", "no such part")
    yield from misshapen(affinity, path, mappings=("nodeAffinity", "podAntiAffinity"))
    yield from _nodes(work, mapping(affinity.get("nodeAffinity")), (*path, "nodeAffinity"))
    terms = mapping(affinity.get("podAntiAffinity"))
    others = [
        {
            "labelSelector": {
                "matchExpressions": [
                    {"key": _TENANT, "operator": "Exists"},
                    {"key": _TENANT, "operator": "NotIn", "values": [work.tenant]},
                ]
            },
            "namespaceSelector": {},
            "topologyKey": _HOSTNAME,
        }
    ]
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": others} if work.dedicated else {}
    if terms != wanted:
        yield breach(
            "isolation",
            (*path, "podAntiAffinity"),
            dict(terms),
            "away from other tenants" if wanted else None,
        )


def _nodes(work: Work, affinity: Mapping[str, Any], path: Path) -> Iterator[Breach]:
    """Terms are alternatives: each of them has to hold to what was decided."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for key in sorted(str(key) for key in affinity if key != required):
        yield breach("node", (*path, key), "written", "no such part")
    terms = listed(mapping(affinity.get(required)).get("nodeSelectorTerms"))
    for at, term in enumerate(terms):
        expressions = listed(mapping(term).get("matchExpressions"))
        if set(mapping(term)) != {"matchExpressions"} or not expressions:
            yield breach("node", (*path, required, at), term, "expressions over labels of nodes")
    decided: list[tuple[Law, str, list[str]]] = []
    if work.nodes:
        decided.append(("node", _HOSTNAME, sorted(set(work.nodes))))
    if work.at.isolation == "dedicated-nodes":
        decided.append(("isolation", _TENANT, [work.tenant]))
    for law, key, values in decided:
        wish = {"key": key, "operator": "In", "values": values}
        if not terms or not all(wish in listed(mapping(term).get("matchExpressions")) for term in terms):
            yield breach(law, (*path, required), "open to other nodes", f"{key} in {', '.join(values)}")
    known = {key for _, key, _ in decided}
    for term in terms:
        for expression in listed(mapping(term).get("matchExpressions")):
            if mapping(expression).get("key") not in known:
                yield breach("node", (*path, required), expression, "no such wish")


def _grace(work: Work, found: Any, path: Path) -> Iterator[Breach]:
    if work.checkpoint is not None:
        wanted = (work.checkpoint.grace + 999) // 1000
        if not same(found, wanted):
            yield breach("time", path, found, wanted)
    elif found is not None and not (isinstance(found, int) and 0 <= found <= _MAX_GRACE_S):
        yield breach("time", path, found, f"at most {_MAX_GRACE_S} seconds")


def _volume(volume: Mapping[str, Any], path: Path, allowed: Allowed) -> Iterator[Breach]:
    sources = [str(key) for key in volume if key != "name"]
    if len(sources) != 1:
        yield breach("volume", path, ", ".join(sources) or None, "one source")
        return
    yield from _source(sources[0], mapping(volume[sources[0]]), (*path, sources[0]), allowed)


def claim_breaches(claim: Any, path: Path) -> Iterator[Breach]:
    """A claim that is made with the work: for a new volume, and without a label of the platform's."""
    wanted, metadata = (mapping(mapping(claim).get(part)) for part in ("spec", "metadata"))
    for key in sorted({"volumeName", "dataSource", "dataSourceRef", "selector"} & set(wanted)):
        yield breach("volume", (*path, key), wanted[key], "a new volume")
    for key in sorted(str(key) for key in metadata if key not in ("name", "labels", "annotations")):
        yield breach("owned", (*path, "metadata", key), metadata[key], "no such part")
    for part in ("labels", "annotations"):
        for key in sorted(map(str, mapping(metadata.get(part)))):
            if of_the_platform(key):
                yield breach("label", (*path, "metadata", part, key), metadata[part][key], "no such label")


def _source(kind: str, source: Mapping[str, Any], path: Path, allowed: Allowed) -> Iterator[Breach]:
    match kind:
        case "emptyDir" | "configMap" | "downwardAPI":
            return
        case "secret":
            name = source.get("secretName", source.get("name"))
            if not among(name, allowed.secrets):
                yield breach("secret", path, name, "a secret that the project was granted")
        case "persistentVolumeClaim":
            if not among(source.get("claimName"), allowed.claims):
                yield breach("volume", path, source.get("claimName"), "a claim that the project was granted")
        case "ephemeral":
            yield from claim_breaches(source.get("volumeClaimTemplate"), path)
        case "projected":
            yield from misshapen(source, path, lists=("sources",))
            for at, one in enumerate(listed(source.get("sources"))):
                for part in sorted(map(str, mapping(one))):
                    if part in ("serviceAccountToken", "clusterTrustBundle", "podCertificate"):
                        yield breach("token", (*path, "sources", at, part), "mounted", "no token")
                    else:
                        yield from _source(part, mapping(one[part]), (*path, "sources", at, part), allowed)
        case _:
            yield breach("volume", path, kind, "a volume that does not reach beyond the cell")
