"""What it costs to turn intents into checked work: different ones, for Kubernetes, Slurm and a local site.

No store and no server. Every intent differs in what it asks for, so nothing is compiled from memory but the
types and traits themselves, which are read once.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import world
from benchmarks.reporting import Report, parser

TEN_THOUSAND_S, SNAPSHOT_S = 10.0, 1.0
TRAITS: tuple[tuple[dict[str, Any], ...], ...] = (
    (),
    ({"name": "spot-tolerant"},),
    ({"name": "topology", "parameters": {"level": "rack", "mode": "preferred"}},),
    ({"name": "checkpoint", "parameters": {"signal": "USR1", "graceSeconds": 90}},),
    ({"name": "scratch", "parameters": {"sizeGib": 100}}, {"name": "spot-tolerant"}),
)
TYPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("training-job", {}),
    ("batch-job", {}),
    ("inference-service", {"port": 8080, "maxReplicas": 2}),
    ("notebook", {"idleTimeout": "30m"}),
)


def measure(intents: int, documents: int) -> Report:
    from windlass.core.admission.case import Facts, open_case
    from windlass.core.compiler.compile import compile_component
    from windlass.core.documents.parse import parse_all
    from windlass.core.documents.tree import Tree
    from windlass.core.units import Ms

    report = Report("compiling", {"intents": intents, "documents": documents})
    known = _catalog()
    parsed = parse_all([Tree(one) for one in itertools.islice(_intents(), intents)])
    cases = [open_case(item.value, known, Facts(now=Ms(0)), None) for item in parsed.intents]
    for target, site in (("kubernetes", "helm"), ("slurm", "batch"), ("local", "local")):
        for case in cases[: len(TYPES) * len(TRAITS)]:
            compile_component(case, site)  # types and traits are read
        began = time.process_time()
        for case in cases:
            compile_component(case, site).canonical()
        seconds = (time.process_time() - began) / intents * 10_000
        budget = TEN_THOUSAND_S if target == "kubernetes" else None
        report.add(
            f"{target}S", f"10,000 intents for {target}, compiled and checked: CPU", seconds, "s", budget
        )
    report.add(
        "snapshotS", "a catalog of 1,000 documents, read: CPU", _snapshot_s(documents), "s", SNAPSHOT_S
    )
    return report


def _catalog() -> Any:
    from windlass.core.catalog.snapshot import Catalog
    from windlass.core.documents.parse import parse_all
    from windlass.core.documents.tree import Tree

    names = [trait["name"] for traits in TRAITS for trait in traits]
    sites = [world.document("Site", name, {"orchestrator": target}) for name, target in _SITES.items()]
    project: dict[str, object] = {
        "environments": ["prod"],
        "traits": sorted(set(names)),
        "defaultProfile": _profile(),
    }
    documents = [*world.catalog(), *sites, world.document("Project", "compiled", project, tenant=_tenant())]
    parsed = parse_all([Tree(one) for one in documents])
    assert not parsed.problems, parsed.problems
    return Catalog.build(1, [item.value for item in parsed.documents])


_SITES = {"helm": "kubernetes", "batch": "slurm"}


def _tenant() -> str:
    return _first("Tenant")


def _profile() -> str:
    return _first("HardwareProfile")


def _first(kind: str) -> str:
    documents: list[Any] = world.catalog()
    return next(str(one["metadata"]["name"]) for one in documents if one["kind"] == kind)


def _intents() -> Iterator[dict[str, Any]]:
    combinations = itertools.cycle(itertools.product(TYPES, TRAITS))
    for number, ((type, parameters), traits) in enumerate(combinations):
        spec = {
            "type": type,
            "env": "prod",
            "image": f"ghcr.io/acme/work:v{number}",
            "gpus": 1 + number % 8,
            "command": ["python", "train.py", "--step", str(number)],
            "variables": {"STEP": str(number)},
            "parameters": parameters,
            "traits": list(traits),
        }
        metadata = {"name": f"work-{number}", "project": "compiled"}
        yield {"apiVersion": "windlass.dev/v1", "kind": "Component", "metadata": metadata, "spec": spec}


def _snapshot_s(documents: int) -> float:
    """As a server reads its catalog: stored JSON to one snapshot; scaled to a thousand."""
    import msgspec

    from windlass.core.catalog.snapshot import Catalog
    from windlass.core.documents.parse import parse_all
    from windlass.core.documents.tree import read_json

    there = world.catalog()
    spec: dict[str, object] = {
        "version": "1.0.0",
        "workload": "job",
        "rules": [{"name": "small", "require": "spec.gpus < 9"}],
    }
    bodies = [
        msgspec.json.encode(
            there[number] if number < len(there) else world.document("ComponentType", f"own-{number}", spec)
        )
        for number in range(documents)
    ]
    began = time.process_time()
    parsed = parse_all([tree for body in bodies for tree in read_json(body)])
    Catalog.build(1, [item.value for item in parsed.documents])
    return (time.process_time() - began) / documents * 1000


def arguments() -> argparse.ArgumentParser:
    made = parser("compiling", __doc__)
    made.add_argument("--intents", type=int, default=10_000, help="how many, each different")
    made.add_argument("--documents", type=int, default=1000, help="of the catalog that is read")
    return made


def main() -> int:
    asked = arguments().parse_args()
    return measure(asked.intents, asked.documents).tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
