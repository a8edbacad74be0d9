"""The laws of what runs pods: when it starts, how many there are, how often and how long they run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.core.compiler.checker.breaches import Allowed, Breach, Law, Path, breach, listed, mapping, same
from windlass.core.compiler.checker.containers import Meeting
from windlass.core.compiler.checker.pods import claim_breaches, pod_breaches
from windlass.core.compiler.work import Work

Kind = tuple[str, str]
_JOB: Kind = ("batch/v1", "Job")
_REPLACED: frozenset[Kind] = frozenset({("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("v1", "Pod")})
"""Whose pods Kubernetes replaces for ever, or nobody does: how often is not theirs to say."""
Templates = Iterator[tuple[Path, Any]]


@dataclass(frozen=True, slots=True)
class Facts:
    """`templates`: where its pods are described. `known`: the fields of its spec that do no harm."""

    templates: Callable[[Mapping[str, Any]], Templates]
    sizes: Callable[[Work, Mapping[str, Any], Path, Allowed], Iterator[Breach]]
    known: frozenset[str]
    suspends: bool = False


def workload_breaches(
    work: Work, thing: Mapping[str, Any], kind: Kind, path: Path, allowed: Allowed, *, meets: bool
) -> Iterator[Breach]:
    """`meets`: there is a headless Service, by which the workers of a Job find each other."""
    facts = WORKLOADS[kind]
    spec, at = mapping(thing.get("spec")), (*path, "spec")
    if kind != ("v1", "Pod"):
        for key in sorted(str(key) for key in spec if key not in facts.known):
            law: Law = "queue" if key == "queue" else "priority" if key == "priorityClassName" else "owned"
            yield breach(law, (*at, key), spec[key], "no such part")
    if facts.suspends and spec.get("suspend") is not True:
        yield breach("gate", (*at, "suspend"), spec.get("suspend"), "true")
    yield from facts.sizes(work, spec, at, allowed)
    gang = kind in _MEET_BY_THEMSELVES or (kind == _JOB and meets)
    if gang and "backoffLimitPerIndex" in spec:
        yield breach("gang", (*at, "backoffLimitPerIndex"), "runs of their own", "a gang")
    found = 0
    for where, template in facts.templates(thing):
        found += 1
        pod = mapping(mapping(template).get("spec"))
        here: Path = (*path, *where, "spec")
        if where:
            yield from _closed(template, ("metadata", "spec"), (*path, *where))
            metadata = mapping(template).get("metadata")
            yield from _closed(metadata, ("labels", "annotations"), (*path, *where, "metadata"))
        gates = pod.get("schedulingGates")
        wanted = None if facts.suspends else [{"name": "kueue.x-k8s.io/admission"}]
        if gates != wanted:
            yield breach("gate", (*here, "schedulingGates"), gates, wanted)
        scheduler = "volcano" if kind in GROUPED else None
        if pod.get("schedulerName") != scheduler:
            yield breach("owned", (*here, "schedulerName"), pod.get("schedulerName"), scheduler)
        yield from pod_breaches(work, pod, here, allowed, _meeting(work, kind) if gang else None)
        wanted_below = _first_name(work.name) if gang and kind == _JOB else None
        if pod.get("subdomain") != wanted_below:
            yield breach("gang", (*here, "subdomain"), pod.get("subdomain"), wanted_below)
        once = ("Never", "OnFailure") if work.workload == "job" and kind not in _REPLACED else None
        if once is not None and pod.get("restartPolicy") not in once:
            yield breach("retries", (*here, "restartPolicy"), pod.get("restartPolicy"), once)
    if found != 1:
        yield breach("gang", at, f"{found} groups of workers", "one")


def _meeting(work: Work, kind: Kind) -> Meeting:
    """By the host names that the controllers of these kinds give to pods."""
    completion = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    if kind == _JOB:
        return Meeting(completion, f"{work.name}-0.{_first_name(work.name)}")
    if kind in GROUPED:
        return Meeting("metadata.annotations['volcano.sh/task-index']", f"{work.name}-w-0.{work.name}")
    return Meeting(completion, f"{work.name}-w-0-0.{work.name}")


def _first_name(component: str) -> str:
    """Of its Service, which may not begin with a digit."""
    return f"d-{component}" if re.match(r"(d-)*[0-9]", component) else component


def _pod_itself(thing: Mapping[str, Any]) -> Templates:
    yield (), thing


def _template(thing: Mapping[str, Any]) -> Templates:
    yield ("spec", "template"), mapping(thing.get("spec")).get("template")


def _jobset_templates(thing: Mapping[str, Any]) -> Templates:
    for at, group in enumerate(listed(mapping(thing.get("spec")).get("replicatedJobs"))):
        job = mapping(mapping(mapping(group).get("template")).get("spec"))
        yield ("spec", "replicatedJobs", at, "template", "spec", "template"), job.get("template")


def _volcano_templates(thing: Mapping[str, Any]) -> Templates:
    for at, group in enumerate(listed(mapping(thing.get("spec")).get("tasks"))):
        yield ("spec", "tasks", at, "template"), mapping(group).get("template")


def _equal(spec: Mapping[str, Any], path: Path, *wanted: tuple[Law, str, Any]) -> Iterator[Breach]:
    for law, key, value in wanted:
        if not same(spec.get(key), value):
            yield breach(law, (*path, key), spec.get(key), value)


def _seconds(work: Work) -> int | None:
    return None if work.time_limit is None else max(1, (work.time_limit + 999) // 1000)


def _job(work: Work, spec: Mapping[str, Any], path: Path, allowed: Allowed) -> Iterator[Breach]:
    """With a retry limit for each run it is many runs; with one for all it is a gang."""
    yield from _tried_again(spec, path)
    many = "backoffLimitPerIndex" in spec
    completions = spec.get("completions")
    if many:
        yield from _equal(spec, path, ("retries", "backoffLimitPerIndex", work.retries))
        runs = isinstance(completions, int) and not isinstance(completions, bool) and completions > 0
        if not runs or (allowed.runs is not None and completions != allowed.runs):
            yield breach("gang", (*path, "completions"), completions, allowed.runs or "a number of runs")
    else:
        yield from _equal(
            spec,
            path,
            ("gang", "completions", work.workers),
            ("retries", "backoffLimit", work.retries * work.workers),
        )
    yield from _equal(
        spec,
        path,
        ("gang", "parallelism", work.workers),
        ("gang", "completionMode", "Indexed"),
        ("gpus", "podReplacementPolicy", "Failed"),
        ("time", "activeDeadlineSeconds", _seconds(work)),
    )


def _tried_again(spec: Mapping[str, Any], path: Path) -> Iterator[Breach]:
    """A failure that is passed over does not count as a retry; only what the cluster itself did may be."""
    rules = listed(mapping(spec.get("podFailurePolicy")).get("rules"))
    for at, rule in enumerate(map(mapping, rules)):
        if rule.get("action") == "Ignore" and "onExitCodes" in rule:
            yield breach("retries", (*path, "podFailurePolicy", at), "failures that do not count", None)


def _jobset(work: Work, spec: Mapping[str, Any], path: Path, _: Allowed) -> Iterator[Breach]:
    named = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    yield from _equal(
        spec, path, ("retries", "failurePolicy", {"maxRestarts": work.retries}), ("gang", "network", named)
    )
    for at, group in enumerate(listed(spec.get("replicatedJobs"))):
        here: Path = (*path, "replicatedJobs", at)
        yield from _equal(mapping(group), here, ("gang", "replicas", 1), ("gang", "name", "w"))
        yield from _closed(group, ("name", "replicas", "template"), here)
        template = mapping(mapping(group).get("template"))
        yield from _closed(template, ("spec",), (*here, "template"))
        job, below = mapping(template.get("spec")), (*here, "template", "spec")
        yield from _closed(job, _JOB_FIELDS - {"suspend", "backoffLimitPerIndex"}, below)
        yield from _tried_again(job, below)
        yield from _equal(
            job,
            below,
            ("gang", "parallelism", work.workers),
            ("gang", "completions", work.workers),
            ("gang", "completionMode", "Indexed"),
            ("retries", "backoffLimit", 0),
            ("time", "activeDeadlineSeconds", _seconds(work)),
        )


def _volcano(work: Work, spec: Mapping[str, Any], path: Path, _: Allowed) -> Iterator[Breach]:
    yield from _equal(
        spec,
        path,
        ("gang", "minAvailable", work.workers),
        ("retries", "maxRetry", work.retries),
        ("owned", "schedulerName", "volcano"),
        ("owned", "plugins", {"svc": []}),
    )
    for at, group in enumerate(listed(spec.get("tasks"))):
        here: Path = (*path, "tasks", at)
        yield from _equal(mapping(group), here, ("gang", "replicas", work.workers), ("gang", "name", "w"))
        yield from _closed(group, ("name", "replicas", "template", "policies"), here)
        pod = mapping(mapping(mapping(group).get("template")).get("spec"))
        yield from _equal(pod, (*here, "template", "spec"), ("time", "activeDeadlineSeconds", _seconds(work)))


def _deployment(work: Work, spec: Mapping[str, Any], path: Path, allowed: Allowed) -> Iterator[Breach]:
    yield from _replicas(work, spec, path, allowed)
    strategy = mapping(spec.get("strategy"))
    surge = mapping(strategy.get("rollingUpdate")).get("maxSurge")
    if strategy.get("type") != "Recreate" and (surge != 0 or isinstance(surge, bool)):
        yield breach("gpus", (*path, "strategy"), surge, "no worker more while it is replaced")


def _stateful_set(work: Work, spec: Mapping[str, Any], path: Path, allowed: Allowed) -> Iterator[Breach]:
    yield from _replicas(work, spec, path, allowed)
    for at, claim in enumerate(listed(spec.get("volumeClaimTemplates"))):
        yield from claim_breaches(claim, (*path, "volumeClaimTemplates", at))
        if work.type.partition("@")[0] == "raw":
            yield breach("volume", (*path, "volumeClaimTemplates", at), "a claim", "one that was granted")


def _replicas(work: Work, spec: Mapping[str, Any], path: Path, _: Allowed) -> Iterator[Breach]:
    """Its end is the platform's doing: Kubernetes has no time limit for what is to run for ever. A number
    that is left out is the autoscaler's beside it, whose bounds are judged there."""
    if "replicas" in spec or work.most_workers == work.workers:
        yield from _equal(spec, path, ("gang", "replicas", work.workers))
    own = {"matchLabels": {"windlass.dev/component": work.name}}
    yield from _equal(spec, path, ("owned", "selector", own))


def _single(work: Work, spec: Mapping[str, Any], path: Path, _: Allowed) -> Iterator[Breach]:
    if work.workers != 1:
        yield breach("gang", path, "one pod", work.workers)
    yield from _equal(spec, path, ("time", "activeDeadlineSeconds", _seconds(work)))


def _closed(tree: Any, known: Any, path: Path) -> Iterator[Breach]:
    for key in sorted(str(key) for key in mapping(tree) if key not in known):
        yield breach("owned", (*path, key), tree[key], "no such part")


_JOB_FIELDS = frozenset(
    (
        *("suspend", "parallelism", "completions", "completionMode", "backoffLimit", "backoffLimitPerIndex"),
        *("maxFailedIndexes", "podFailurePolicy", "successPolicy", "ttlSecondsAfterFinished"),
        *("activeDeadlineSeconds", "podReplacementPolicy", "template"),
    )
)
_SET = frozenset(("replicas", "selector", "template", "minReadySeconds", "revisionHistoryLimit"))

WORKLOADS: Mapping[Kind, Facts] = {
    ("batch/v1", "Job"): Facts(_template, _job, _JOB_FIELDS, suspends=True),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): Facts(
        _jobset_templates,
        _jobset,
        frozenset(
            (
                *("suspend", "replicatedJobs", "failurePolicy", "successPolicy", "startupPolicy", "network"),
                "ttlSecondsAfterFinished",
            )
        ),
        suspends=True,
    ),
    ("batch.volcano.sh/v1alpha1", "Job"): Facts(
        _volcano_templates,
        _volcano,
        frozenset(
            (
                *("minAvailable", "maxRetry", "schedulerName", "plugins", "tasks", "policies", "minSuccess"),
                "ttlSecondsAfterFinished",
            )
        ),
    ),
    ("apps/v1", "Deployment"): Facts(_template, _deployment, _SET | {"strategy", "progressDeadlineSeconds"}),
    ("apps/v1", "StatefulSet"): Facts(
        _template,
        _stateful_set,
        _SET
        | {
            *("serviceName", "podManagementPolicy", "updateStrategy", "volumeClaimTemplates"),
            "persistentVolumeClaimRetentionPolicy",
        },
    ),
    ("v1", "Pod"): Facts(_pod_itself, _single, frozenset()),
}
_MEET_BY_THEMSELVES: frozenset[Kind] = frozenset(
    {("jobset.x-k8s.io/v1alpha2", "JobSet"), ("batch.volcano.sh/v1alpha1", "Job")}
)
GROUPED: frozenset[Kind] = frozenset({("batch.volcano.sh/v1alpha1", "Job")})
"""Whose pods wait as a group, and are placed by Volcano."""
