"""apply, plan and run: files in, lines and exit codes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.experience.test_commands import Run, run
from tests.sdk import samples
from tests.sdk.canned_server import Asked, CannedServer, Reply, problem

from windlass.contracts import api
from windlass.experience.cli.exits import worst
from windlass.experience.cli.files import steps_of

__all__ = ["run"]  # a fixture

TIER = """\
apiVersion: windlass.dev/v1
kind: Tier
metadata: {name: gold}
spec: {priority: 1, preempts: false, preemptible: true}
"""
COMPONENT = """\
apiVersion: windlass.dev/v1
kind: Component
metadata: {name: sft-run, project: nlp}
spec:
  type: training-job
  env: prod
  image: ghcr.io/acme/sft:v3
  gpus: 0.25
"""
REJECTED = samples.result("rejected", decision=samples.decision("rejected", reasons=[samples.OVER]))


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def by_document(asked: Asked) -> Reply:
    """One result per document, all admitted."""
    sent = asked.json if isinstance(asked.json, list) else [asked.json]
    results: list[Any] = []
    for one in sent:
        if one["kind"] == "Component":
            results.append(samples.result(name=one["metadata"]["name"], decision=samples.decision()))
        else:
            results.append(api.Result(kind=one["kind"], name=one["metadata"]["name"], outcome="created"))
    return Reply(value=samples.applied(*results))


def test_the_catalog_goes_first_and_together_then_each_component(
    server: CannedServer, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    write(tmp_path / "docs", "a.yaml", COMPONENT)
    write(tmp_path / "docs", "b.yml", TIER + "---\n" + TIER.replace("gold", "silver"))
    write(tmp_path / "docs", "ignored.txt", "not: read")
    server.answer("POST", "/v1/apply", by_document)
    code, out, err = run("apply", "-f", str(tmp_path / "docs"))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "tier/gold created",
        "tier/silver created",
        "component/nlp/prod/sft-run admitted  dec_1  19.92 USD/h",
    ]
    first, second = (one.json for one in server.asked)
    assert [one["metadata"]["name"] for one in first] == ["gold", "silver"]
    assert second["spec"]["gpus"] == 0.25


def test_a_rejected_component_says_where_why_and_what_to_do(
    server: CannedServer, run: Run, tmp_path: Path
) -> None:
    file = write(tmp_path, "train.yaml", "# a comment\n" + COMPONENT)
    decision = REJECTED.decision
    server.answer("POST", "/v1/apply", problem(422, "rejected", "no", decision=decision, results=[REJECTED]))
    code, out, err = run("apply", "-f", file)
    assert code == 3
    assert out == "component/nlp/prod/sft-run rejected  dec_1\n"
    assert f"{file}:9: spec.gpus: 16 GPUs are more than 8 [entitlement.max]" in err
    assert "try: ask for 8 or fewer" in err
    code, out, _ = run("apply", "-f", file, "-o", "json")
    assert code == 3
    assert msgspec.json.decode(out, type=api.Problem).decision == decision


def test_a_refused_catalog_stops_the_components(server: CannedServer, run: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "all.yaml", f"{TIER}---\n{COMPONENT}")
    wrong = api.Reason(rule="document.invalid", field="spec.priority", message="must be higher")
    invalid = api.Result(kind="Tier", name="gold", outcome="invalid", reasons=[wrong])
    server.answer("POST", "/v1/apply", problem(400, "document.invalid", "1 problem", results=[invalid]))
    code, out, err = run("apply", "-f", file)
    assert code == 2
    assert out.splitlines() == [
        "tier/gold invalid",
        "component/nlp/prod/sft-run not applied  the catalog documents were not accepted",
    ]
    assert f"{file}:4: spec.priority: must be higher" in err
    assert len(server.asked) == 1


def test_the_document_to_blame_is_found_by_its_name_also_where_it_has_a_version(
    server: CannedServer, run: Run, tmp_path: Path
) -> None:
    trait = TIER.replace("Tier", "Trait").replace("gold", "hot")
    reason = api.Reason(rule="document.invalid", message="Trait hot@1.0.0: it is wrong", remedy="mend it")
    server.answer("POST", "/v1/apply", problem(400, "document.invalid", "no", reasons=[reason]))
    trait = trait[: trait.index("spec:")] + 'spec: {version: "1.0.0"}\n'
    code, out, _ = run("apply", "-f", write(tmp_path, "c.yaml", f"{TIER}---\n{trait}"))
    assert code == 2
    assert out.splitlines() == ["tier/gold not applied", "trait/hot invalid"]


def test_one_bad_component_does_not_stop_the_next(server: CannedServer, run: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "two.yaml", f"{COMPONENT}---\n{COMPONENT.replace('sft-run', 'next')}")
    server.answer("POST", "/v1/apply", problem(422, "rejected", "no", results=[REJECTED]), by_document)
    code, out, _ = run("apply", "-f", file, "-o", "json")
    found = msgspec.json.decode(out, type=api.Problem)
    assert code == 3
    assert [one.outcome for one in found.results or []] == ["rejected", "created"]


def test_all_faults_of_all_files_are_said_before_anything_is_sent(
    server: CannedServer, run: Run, tmp_path: Path
) -> None:
    one = write(tmp_path, "one.yaml", "kind: Tier\nmetadata:\n  name: [x]\n")
    two = write(tmp_path, "two.yaml", "a: [1\n")
    three = write(tmp_path, "three.json", '{"a": 1, "a": 2}')
    code, out, err = run("apply", "-f", one, "-f", two, "-f", three, "-f", str(tmp_path / "gone.yaml"))
    assert (code, out, server.asked) == (2, "", [])
    assert f"{one}:1: apiVersion is missing" in err
    assert f"{one}:3: metadata.name" in err
    assert f"{two}:" in err
    assert f"{three}:1: " in err
    assert "gone.yaml: no such file or directory" in err


def test_an_empty_folder_is_a_fault_and_not_a_success(run: Run, tmp_path: Path) -> None:
    code, _, err = run("apply", "-f", str(tmp_path))
    assert code == 2
    assert "holds no .yaml" in err


def test_a_dry_run_says_so(server: CannedServer, run: Run, tmp_path: Path) -> None:
    server.answer("POST", "/v1/apply", by_document)
    _, out, _ = run("apply", "-f", write(tmp_path, "t.yaml", TIER), "--dry-run")
    assert out == "tier/gold created (dry run)\n"
    assert server.asked[0].query == {"dryRun": "true"}


@pytest.mark.parametrize(
    ("workload", "phases", "code"),
    [("job", ["Running", "Succeeded"], 0), ("job", ["Failed"], 5), ("service", ["Starting", "Running"], 0)],
)
def test_apply_waits_for_the_end_of_jobs_and_the_start_of_services(
    server: CannedServer, run: Run, tmp_path: Path, workload: str, phases: list[api.Phase], code: int
) -> None:
    server.answer("POST", "/v1/apply", by_document)
    kind = samples.document("ComponentType", "training-job", {"workload": workload})
    server.answer("GET", "/v1/componenttypes/training-job", kind)
    server.answer("GET", samples.ROUTE, *(samples.component(phase) for phase in phases))
    assert run("apply", "-f", write(tmp_path, "c.yaml", COMPONENT), "--wait")[0] == code


def test_a_plan_says_where_when_and_the_price(server: CannedServer, run: Run, tmp_path: Path) -> None:
    plan = api.Plan(
        placement=[api.PlannedWorker(worker=0, node="n1", gpus=[0, 1, 2, 3])], after=["vision/prod/x"]
    )
    planned = samples.result(decision=samples.decision(), plan=plan)
    server.answer("POST", "/v1/apply", samples.applied(planned, dry_run=True))
    code, out, _ = run("plan", "-f", write(tmp_path, "c.yaml", COMPONENT))
    assert code == 0
    for needle in (
        "would be admitted",
        "19.92 USD/h",
        "worker 0 on n1 (GPUs 0-3)",
        "vision/prod/x",
        "revision 42",
    ):
        assert needle in out


def test_a_plan_of_what_is_there_already_says_so_and_promises_no_run(
    server: CannedServer, run: Run, tmp_path: Path
) -> None:
    same = samples.result(outcome="unchanged", decision=samples.decision(), message="it is succeeded")
    server.answer("POST", "/v1/apply", samples.applied(same, dry_run=True))
    code, out, _ = run("plan", "-f", write(tmp_path, "c.yaml", COMPONENT))
    assert (code, out) == (0, "component/nlp/prod/sft-run would be unchanged: it is succeeded\n")


def test_a_plan_that_would_be_rejected_is_exit_3_with_the_reasons(
    server: CannedServer, run: Run, tmp_path: Path
) -> None:
    file = write(tmp_path, "c.yaml", COMPONENT)
    server.answer("POST", "/v1/apply", problem(422, "rejected", "no", results=[REJECTED]))
    code, out, _ = run("plan", "-f", file)
    assert code == 3
    assert f"{file}:8: spec.gpus: 16 GPUs are more than 8 [entitlement.max]" in out
    code, out, _ = run("plan", "-f", file, "-o", "json")
    assert code == 3
    assert msgspec.json.decode(out, type=api.ApplyAnswer).results == [REJECTED]


@pytest.mark.parametrize(
    ("phase", "status", "code"),
    [
        ("Succeeded", {"exit_code": 0}, 0),
        ("Failed", {"exit_code": 17}, 17),
        ("Failed", {}, 1),
        ("Cancelled", {}, 130),
    ],
)
def test_run_copies_the_log_and_exits_with_the_jobs_code(
    server: CannedServer, run: Run, phase: api.Phase, status: dict[str, Any], code: int
) -> None:
    project = samples.document("Project", "nlp", {"environments": ["dev", "prod"]}, tenant="acme")
    path = "nlp/dev/hello"
    route = "/v1/projects/nlp/components/dev/hello"
    server.answer("GET", "/v1/projects/nlp", project)
    made = samples.result(name="hello", env="dev", decision=samples.decision())
    server.answer("POST", "/v1/apply", samples.applied(made))
    free = problem(404, "not-found", "gone")
    server.answer(
        "GET", route, free, samples.component("Running", path), samples.component(phase, path, **status)
    )
    server.answer("GET", f"{route}/logs", Reply(chunks=[b"hello\n"]))
    args = ["--gpus", "0.5", "--name", "hello", "--profile", "l40s-quarter", "-p", "nlp"]
    got, out, err = run("run", *args, "--", "python", "-c", "print('hello')", "--quiet")
    assert (got, out) == (code, "hello\n")
    assert "component/nlp/dev/hello admitted" in err
    assert server.requests("POST", "/v1/apply")[0].json["spec"] == {
        "type": "training-job",
        "env": "dev",
        "image": "docker.io/library/python:3.11-slim",
        "gpus": "0.5",
        "profile": "l40s-quarter",
        "command": ["python", "-c", "print('hello')", "--quiet"],
    }


def test_run_that_is_rejected_is_exit_3(server: CannedServer, run: Run) -> None:
    server.answer("POST", "/v1/apply", problem(422, "rejected", "no", results=[REJECTED]))
    assert run("run", "--gpus", "1", "-p", "nlp", "-e", "prod", "--", "true")[0] == 3


@pytest.mark.parametrize("gpus", ["many", "-1", "0.0001"])
def test_run_refuses_what_is_not_an_amount_of_gpus(run: Run, gpus: str) -> None:
    assert run("run", "--gpus", gpus, "-p", "nlp", "-e", "prod", "--", "true")[0] == 2


def test_the_worst_exit_code_is_the_one_a_person_must_look_at() -> None:
    assert worst([]) == 0
    assert worst([0, 6, 4]) == 4
    assert worst([6, 3, 5]) == 3
    assert worst([3, 1, 2]) == 1


@pytest.mark.parametrize(
    "path",
    [
        ("spec", "gpus"),
        ("spec", "gpus", 0, "max"),
        ("metadata", "labels", "cost/project"),
        ("a", 'q"uo]te.d', 3),
    ],
)
def test_a_field_of_a_reason_leads_back_to_its_place(path: tuple[str | int, ...]) -> None:
    from windlass.core.documents.problems import dotted

    assert steps_of(dotted(path)) == path
