"""What one document alone can be wrong about beyond its shape."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.catalog.worlds import (
    component_type,
    envelope,
    prices,
    profile,
    project,
    quota,
    site,
    tier,
    trait,
)

from windlass.core.catalog.rules import check_document
from windlass.core.catalog.shipped import SHIPPED
from windlass.core.documents.kinds import Document
from windlass.core.documents.problems import Problems

DAY = "2026-01-0{}T00:00:00Z"


def burst(since: int, until: int, gpu_class: str = "h100") -> dict[str, Any]:
    return {"profileClass": gpu_class, "extra": 1, "from": DAY.format(since), "until": DAY.format(until)}


def mig(size: str, share: int) -> Document:
    return profile(sharing="mig", migProfile=size, share=share)


@pytest.mark.parametrize(
    "right",
    [
        *SHIPPED.values(),
        tier(priorityRange={"min": -5, "max": 10}),
        envelope("acme", quota(4, max=4, lend=9), quota(0, "a100"), burst=[burst(1, 2), burst(1, 3)]),
        mig("1g.10gb", 142),
        mig("1g.10gb+me", 142),
        mig("1g.20gb", 250),
        mig("2g.20gb", 333),
        mig("3g.40gb", 500),
        mig("4g.40gb", 1000),
        mig("7g.80gb", 1000),
        profile(sharing="time-slice", share=250),
        site("local", region="here", tenants=["acme"], containers="auto"),
        site("fra1", orchestrator="kubernetes", queueing="site", isolation="sandboxed"),
        profile(sharing="time-slice", share=300),
        prices(
            "p",
            {"profileClass": "a", "perGpuHour": "1"},
            {"profileClass": "a", "tier": "gold", "perGpuHour": "2"},
        ),
        component_type(templates={"local": {"command": ["python", "x.py"]}}),
        component_type(
            parameters={"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}}
        ),
        trait(constraints={"preemptible": True, "topology": {"level": "rack", "mode": "required"}}),
        trait(
            parameters={"properties": {"where": {"type": "string"}}},
            constraints={"topology": {"level": "${parameters.where}"}},
        ),
    ],
    ids=lambda document: str(document.key),
)
def test_what_is_right_passes(right: Document) -> None:
    problems = Problems()
    check_document(right, problems)
    assert not problems, problems.reasons()


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        (tier(priorityRange={"min": 1, "max": 2}), "spec.priorityRange", "does not hold 0"),
        (tier(priorityRange={"min": 2, "max": -2}), "spec.priorityRange", "does not hold 0"),
        (project(environments=[]), "spec.environments", "at least one environment"),
        (project(environments=["dev", "dev"]), "spec.environments[1]", "repeats dev"),
        (project(traits=["topology", "topology"]), "spec.traits[1]", "repeats topology"),
        (envelope("acme", quota(1), quota(2)), "spec.gpus[1]", "repeats h100"),
        (envelope("acme", quota(5, max=4)), "spec.gpus[0].guaranteed", "guaranteed 5 is more than max 4"),
        (envelope("acme", quota(5, site="fra1")), "spec.gpus[0].site", "not supported by this release"),
        (envelope("acme", quota(1), burst=[burst(2, 2)]), "spec.burst[0].until", "ends before it begins"),
        (envelope("acme", quota(1), burst=[burst(1, 2, "a100")]), "spec.burst[0].profileClass", "no a100"),
        (profile(share=500), "spec.share", "share is 1000 and not 500"),
        (profile(migProfile="1g.10gb"), "spec.migProfile", "sharing: mig"),
        (profile(sharing="mig", share=100), "spec.migProfile", "it is missing"),
        (mig("5g.50gb", 100), "spec.migProfile", "5g.50gb is not one"),
        (mig("all", 100), "spec.migProfile", "all is not one"),
        (mig("1g.10gb", 143), "spec.share", "would use 1001 of 1000"),
        (mig("2g.20gb", 334), "spec.share", "write share: 333"),
        (mig("3g.40gb", 501), "spec.share", "write share: 500"),
        (mig("1g.20gb", 251), "spec.share", "write share: 250"),
        (site("local", orchestrator="slurm"), "spec.orchestrator", "the machine the platform runs on"),
        (site("local", isolation="sandboxed"), "spec.isolation", "is namespace"),
        (site("local", queueing="site"), "spec.queueing", "is platform"),
        (prices(prices=[]), "spec.prices", "at least one price"),
        (
            prices("p", *[{"profileClass": "a", "perGpuHour": "1"}] * 2),
            "spec.prices[1]",
            "repeats a for every tier",
        ),
        (
            prices("p", *[{"profileClass": "a", "tier": "g", "perGpuHour": "1"}] * 2),
            "spec.prices[1]",
            "repeats a for tier g",
        ),
        (component_type(parameters={"type": "nope"}), "spec.parameters", "is not a JSON Schema"),
        (component_type(parameters={"pattern": "("}), "spec.parameters", "is not a JSON Schema"),
        (
            component_type(parameters={"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}),
            'spec.parameters.properties.a["$ref"]',
            "points outside the document",
        ),
        (
            component_type(
                deprecated={"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
            ),
            "spec.deprecated.until",
            "retired before it is deprecated",
        ),
    ],
)
def test_what_is_wrong_is_refused(wrong: Document, field: str, words: str) -> None:
    problems = Problems()
    check_document(wrong, problems)
    (reason,) = problems.reasons()
    assert (reason.rule, reason.field) == ("document.invalid", field)
    assert words in f"{reason.message}; {reason.remedy}"
    assert reason.remedy
