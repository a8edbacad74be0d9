"""`windlass schedule`: scenarios in, decisions out as contract §8 writes them; every error at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.core.scheduling.worlds import SHARED

from windlass.core.errors import Invalid
from windlass.core.scheduling.scenario import parse_scenario
from windlass.core.scheduling.scenario_run import decide, to_json
from windlass.experience.cli.schedule import schedule

GOLDENS = Path(__file__).parents[2] / "golden" / "schedule"
SCENARIOS = sorted(path.stem for path in GOLDENS.glob("*.yaml"))

BASE = """
nodes: [{name: n1, class: h100, gpus: 8}]
quotas: [{name: org}, {name: a, parent: org, gpus: [{class: h100, guaranteed: 8}, {class: l40s}]}]
workloads: []
"""


@pytest.mark.golden
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_scenario_gives_the_same_bytes(name: str) -> None:
    text = (GOLDENS / f"{name}.yaml").read_text()
    answer = to_json(decide(parse_scenario(text)))
    assert answer == to_json(decide(parse_scenario(text)))
    readable = json.dumps(json.loads(answer), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    golden = GOLDENS / f"{name}.json"
    if os.environ.get("WINDLASS_GOLDENS") == "write":
        golden.write_text(readable)
    assert readable == golden.read_text()


@pytest.mark.parametrize("name", ["fragmentation", "reclaim"])
def test_the_shared_examples_are_the_ones_kept_here(name: str) -> None:
    shared = SHARED / "examples" / "scenarios" / f"{name}.yaml"
    if not shared.exists():
        pytest.skip(f"{shared} is absent")
    assert shared.read_text() == (GOLDENS / f"{name}.yaml").read_text()


def run(text: str) -> dict[str, Any]:
    return decide(parse_scenario(text))


def test_fragmentation_is_told_from_lack_of_capacity() -> None:
    answer = run((GOLDENS / "fragmentation.yaml").read_text())
    assert [entry["workload"] for entry in answer["admitted"]] == ["w3"]
    assert [(w["workload"], w["cause"], w["ahead"], w["estimatedStart"]) for w in answer["waiting"]] == [
        ("w1", "fragmentation", 0, 1800),
        ("w2", "capacity", 1, 3600),
    ]


def test_a_lender_takes_back_its_guarantee() -> None:
    answer = run((GOLDENS / "reclaim.yaml").read_text())
    assert [(entry["workload"], entry["after"]) for entry in answer["admitted"]] == [("b1", ["a2"])]
    assert answer["preempted"] == [{"workload": "a2", "for": "b1", "reason": "reclaim"}]
    assert [(w["workload"], w["cause"], w["ahead"]) for w in answer["waiting"]] == [("a2", "quota", 0)]
    assert "b1" in answer["waiting"][0]["message"]
    assert answer["usage"] == {
        "team-a": {"h100-80g": {"used": "8", "borrowed": "0"}},
        "team-b": {"h100-80g": {"used": "8", "borrowed": "0"}},
    }


def test_defaults_are_what_the_contract_says() -> None:
    scenario = parse_scenario(BASE.replace("[]", "[{name: w, queue: a, class: h100, gpus: 1}]"))
    assert scenario.now == 0
    (workload,) = scenario.waiting
    shape = workload.shape
    assert (shape.workers, shape.priority, shape.min_runtime, workload.submitted) == (1, 0, 0, 0)
    assert (shape.preempts, shape.preemptible, shape.expected) == (True, True, None)
    assert scenario.nodes[0].cpu_milli is None
    assert scenario.quotas[0].weight == 1
    assert (scenario.options.fair_share, scenario.options.preemption, scenario.options.backfill) == (
        True,
    ) * 3


@pytest.mark.parametrize(
    ("profile", "share"),
    [("1g.10gb", 142), ("2g.20gb", 285), ("3g.40gb", 428), ("4g.40gb", 571), ("7g.80gb", 1000)],
)
def test_a_mig_profile_is_its_share_of_seven(profile: str, share: int) -> None:
    text = BASE.replace("[]", f"[{{name: w, queue: a, class: h100, migProfile: {profile}, units: 2}}]")
    shape = parse_scenario(text).waiting[0].shape
    assert (shape.gpus, shape.unit, shape.sharing) == (2 * share, share, "mig")


WRONG = {
    "not YAML": ("a: [", "not YAML"),
    "nothing": ("", "exactly one"),
    "two documents": ("now: 1\n---\nnow: 2", "exactly one"),
    "a list": ("[]", "mapping"),
    "unknown field": ("nowe: 1", "nowe is not a field"),
    "a field twice": ("now: 1\nnow: 2", "written twice"),
    "a text for a number": ("now: soon", "number"),
    "an unknown option": ("options: {fairshare: true}", "fairshare"),
    "a number for a flag": ("options: {backfill: 1}", "true or false"),
    "a list that is none": ("nodes: {}", "is a list"),
    "no gpus": ("nodes: [{name: n, class: c}]", "gpus is required"),
    "negative gpus": ("nodes: [{name: n, class: c, gpus: -1}]", "at least 0"),
    "a state there is not": ("nodes: [{name: n, class: c, gpus: 1, state: broken}]", "is one of"),
    "a price that is none": ("nodes: [{name: n, class: c, gpus: 1, pricePerGpuHour: x}]", "money"),
    "one node twice": ("nodes: [{name: n, class: c, gpus: 1}, {name: n, class: c, gpus: 1}]", "second time"),
    "a parent there is not": ("quotas: [{name: q, parent: p}]", "in no quota"),
    "a cycle": ("quotas: [{name: q, parent: p}, {name: p, parent: q}]", "own ancestor"),
    "a class twice": ("quotas: [{name: q, gpus: [{class: c}, {class: c}]}]", "second time"),
    "max below guaranteed": ("quotas: [{name: q, gpus: [{class: c, guaranteed: 2, max: 1}]}]", "less than"),
    "children above parent": (
        "quotas: [{name: p, gpus: [{class: c, guaranteed: 1}]},"
        " {name: q, parent: p, gpus: [{class: c, guaranteed: 2}]}]",
        "together",
    ),
    "lend above guaranteed": (
        "quotas: [{name: q, gpus: [{class: c, guaranteed: 2, lend: 3}]}]",
        "lends 3 of c, but is guaranteed 2",
    ),
    "negative guarantee": ("quotas: [{name: q, gpus: [{class: c, guaranteed: -2}]}]", "guaranteed"),
    "four decimals": ("quotas: [{name: q, gpus: [{class: c, guaranteed: 0.0001}]}]", "3 decimals"),
    "a self-containing alias": ("&a [*a]", "endless"),
}

WRONG_WORK = {
    "unknown queue": ("queue: x, class: h100, gpus: 1", "in no quota"),
    "a queue that is no leaf": ("queue: org, class: h100, gpus: 1", "leaf"),
    "unknown class": ("queue: a, class: h10, gpus: 1", "no node and no quota"),
    "one and a half GPUs": ("queue: a, class: h100, gpus: 1.5", "fraction"),
    "no amount": ("queue: a, class: h100", "gpus is required"),
    "two amounts": ("queue: a, class: h100, gpus: 1, migProfile: 1g.10gb", "exclude"),
    "units without a profile": ("queue: a, class: h100, gpus: 1, units: 2", "migProfile"),
    "no such profile": ("queue: a, class: h100, migProfile: 9g.1gb", "MIG profile"),
    "more than all workers": ("queue: a, class: h100, gpus: 1, minWorkers: 2", "more than workers"),
    "no workers": ("queue: a, class: h100, gpus: 1, workers: 0", "at least 1"),
    "unknown node": (
        "queue: a, class: h100, gpus: 1, running: {since: 0, on: [{node: x, gpus: [0]}]}",
        "no node",
    ),
    "a GPU there is not": (
        "queue: a, class: h100, gpus: 1, running: {since: 0, on: [{node: n1, gpus: [8]}]}",
        "does not have",
    ),
    "another class": (
        "queue: a, class: l40s, gpus: 1, running: {since: 0, on: [{node: n1, gpus: [0]}]}",
        "not l40s",
    ),
    "too few GPUs": (
        "queue: a, class: h100, gpus: 2, running: {since: 0, on: [{node: n1, gpus: [0]}]}",
        "a worker needs 2",
    ),
    "too few workers": (
        "queue: a, class: h100, gpus: 1, workers: 2, running: {since: 0, on: [{node: n1, gpus: [0]}]}",
        "not 2",
    ),
    "a GPU twice": (
        "queue: a, class: h100, gpus: 2, running: {since: 0, on: [{node: n1, gpus: [0, 0]}]}",
        "held already",
    ),
    "from the future": (
        "queue: a, class: h100, gpus: 1, running: {since: 5, on: [{node: n1, gpus: [0]}]}",
        "later than now",
    ),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_scenario_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_scenario(text)
    assert any(told in reason.message for reason in refused.value.reasons), refused.value.reasons
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(("fields", "told"), WRONG_WORK.values(), ids=WRONG_WORK.keys())
def test_a_wrong_workload_is_refused_with_the_reason(fields: str, told: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_scenario(BASE.replace("[]", f"[{{name: w, {fields}}}]"))
    assert [told in reason.message for reason in refused.value.reasons] == [True]
    (reason,) = refused.value.reasons
    assert reason.line == 4
    assert reason.field.startswith("workloads[0]")


def test_all_errors_are_told_at_once_with_the_nearest_name() -> None:
    text = "nodes:\n- {name: n, clas: c, gpus: x}\nworkload: []\n"
    with pytest.raises(Invalid) as refused:
        parse_scenario(text)
    told = {reason.field: (reason.line, reason.remedy) for reason in refused.value.reasons}
    assert told["nodes[0].clas"] == (2, "Did you mean class?")
    assert told["workload"] == (3, "Did you mean workloads?")
    assert set(told) == {"nodes[0].clas", "nodes[0].class", "nodes[0].gpus", "workload"}


def test_the_command_prints_json_and_nothing_else() -> None:
    text = (GOLDENS / "reclaim.yaml").read_text()
    ran = CliRunner().invoke(schedule, ["-f", "-", "-o", "json"], input=text)
    assert ran.exit_code == 0
    assert ran.stdout == to_json(run(text)) + "\n"
    ran = CliRunner().invoke(schedule, ["-f", "-", "-o", "yaml"], input=text)
    assert yaml.safe_load(ran.stdout) == run(text)


def test_the_command_shows_a_table_by_default() -> None:
    ran = CliRunner().invoke(schedule, ["-f", str(GOLDENS / "reclaim.yaml")])
    assert ran.exit_code == 0
    assert [line for line in ran.stdout.splitlines() if line.isupper() and line.isalpha()] == [
        "ADMITTED",
        "PREEMPTED",
        "WAITING",
        "USAGE",
    ]


def test_the_command_refuses_what_is_not_text() -> None:
    ran = CliRunner().invoke(schedule, ["-f", "-"], input=b"\xff\xfe")
    assert isinstance(ran.exception, Invalid)


def test_the_command_tells_the_line_of_every_error(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("now: soon\nquotas:\n- {name: a, parent: b}\n")
    ran = CliRunner().invoke(schedule, ["-f", str(wrong), "-o", "json"])
    assert isinstance(ran.exception, Invalid)
    assert ran.exception.extra["where"] == [f"{wrong}:1", f"{wrong}:3"]
    assert ran.stdout == ""
