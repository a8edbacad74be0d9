"""Intents of the shipped types with the shipped traits, compiled: what the goldens are made of."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.core.compiler.kubernetes.worlds import KUBE, catalog

from windlass.core.admission.case import Case, Facts, open_case
from windlass.core.admission.traits import with_sharing
from windlass.core.catalog.snapshot import Catalog
from windlass.core.compiler.kubernetes.workload import finish
from windlass.core.compiler.names import site_values
from windlass.core.compiler.rendering import trait_patches, type_template
from windlass.core.compiler.wishes import wishes
from windlass.core.compiler.work import Work
from windlass.core.documents.definitions import Trait
from windlass.core.documents.kinds import Site
from windlass.core.documents.parse import parse_all
from windlass.core.documents.tree import Tree
from windlass.core.units import GPU, Ms

TYPES: dict[str, dict[str, Any]] = {
    "training-job": {"gpus": 4, "workers": 2, "timeLimit": "4h", "retries": 2, "variables": {"EPOCHS": "3"}},
    "training-job-jobset": {"gpus": 4, "workers": 2, "retries": 1, "parameters": {"kind": "jobset"}},
    "training-job-volcano": {"gpus": 4, "workers": 2, "timeLimit": "4h", "parameters": {"kind": "volcano"}},
    "batch-job": {"gpus": 1, "workers": 3, "command": ["python", "prepare.py"]},
    "sweep": {"gpus": 1, "workers": 4, "retries": 1, "parameters": {"runs": 50, "failuresAllowed": 5}},
    "inference-service": {"gpus": 1, "parameters": {"port": 8080, "maxReplicas": 4, "batchSize": 16}},
    "inference-service-keda": {
        "gpus": 1,
        "parameters": {
            "maxReplicas": 4,
            "autoscaler": "keda",
            "scaleOn": "requests",
            "readinessPath": "/healthz",
            "rollout": "recreate",
        },
    },
    "model-service": {
        "gpus": 2,
        "parameters": {"model": "acme/chat-8b", "revision": "v2", "weightsGib": 15, "minReplicas": 2},
    },
    "notebook": {"gpus": 1, "timeLimit": "8h", "parameters": {"idleTimeout": "30m"}},
    "raw": {"gpus": 1},
}
"""By the name of a golden, which begins with the type's."""

TRAITS: dict[str, dict[str, Any]] = {
    "spot-tolerant": {},
    "movable": {},
    "topology": {"level": "rack", "mode": "required"},
    "sharing": {"mode": "mig"},
    "nccl": {"fabric": "roce", "interface": "eth0"},
    "dedicated": {},
    "checkpoint": {"signal": "USR1", "graceSeconds": 90},
    "scratch": {"sizeGib": 200},
    "storage": {"name": "corpus", "mountPath": "/corpus", "readOnly": True},
    "secret": {"name": "hub", "variable": "HF_TOKEN", "key": "token"},
}


@cache
def known() -> Catalog:
    return catalog()


def type_of(golden: str) -> str:
    return max((name for name in known().known_types() if golden.startswith(name)), key=len)


def applies(golden: str, trait: str) -> bool:
    document = known().trait(trait)
    assert document is not None and isinstance(document.spec, Trait)
    return not document.spec.applies_to or type_of(golden) in document.spec.applies_to


def compiled(golden: str, *traits: str, site: Site = KUBE, **spec: Any) -> tuple[dict[str, Any], ...]:
    case = case_of(golden, *traits, **spec)
    values = site_values("fra1", site)
    template, patches = type_template(case, "kubernetes", values), trait_patches(case, "kubernetes", values)
    return finish(work_of(case, site), template, patches, author=type_of(golden) == "raw")


def case_of(golden: str, *traits: str, **spec: Any) -> Case:
    used = [{"name": name, "parameters": TRAITS[name]} for name in traits]
    body = {"type": type_of(golden), "env": "prod", "image": "ghcr.io/acme/work:v3", **TYPES[golden], **spec}
    intent = {
        "apiVersion": "windlass.dev/v1",
        "kind": "Component",
        "metadata": {
            "name": "-".join([golden, *traits[:1]]),
            "project": "nlp",
            "labels": {"team": "research"},
        },
        "spec": {"traits": used, **body},
    }
    parsed = parse_all([Tree(intent)])
    assert not parsed.problems, parsed.problems
    return with_sharing(open_case(parsed.intents[0].value, known(), Facts(now=Ms(0)), None))


def work_of(case: Case, site: Site) -> Work:
    assert case.project and case.tenant and case.tier and case.type and case.profile and case.profile_name
    spec, wanted = case.intent.spec, wishes(case)
    return Work(
        tenant=case.project.tenant,
        project=case.project.name,
        env=spec.env,
        name=case.intent.name,
        type=case.type.key.name,
        workload=case.type_spec.workload,
        tier=case.tenant.tier,
        priority=case.tier.priority,
        image=spec.image,
        units=spec.gpus // GPU,
        profile=case.profile_name,
        hardware=case.profile,
        site="fra1",
        at=site,
        workers=case.replicas,
        most_workers=case.most_replicas,
        traits=tuple(sorted(document.key.name for _, document in case.traits if document)),
        command=spec.command,
        variables=spec.variables,
        labels=case.intent.labels,
        topology=wanted.topology,
        dedicated=wanted.dedicated,
        checkpoint=wanted.checkpoint,
        time_limit=spec.time_limit,
        retries=spec.retries,
    )
