"""What a new user stumbled over: flags that were ignored, errors that hid others, words that misled."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.experience.test_apply import COMPONENT, TIER, by_document, write
from tests.experience.test_commands import COSTS, KEY, QUEUE, Run, run
from tests.sdk import samples
from tests.sdk.canned_server import Asked, CannedServer, Reply, problem

from windlass.contracts import api
from windlass.core.errors import Invalid
from windlass.experience.cli import tables
from windlass.experience.cli.phases import PHASES, find_phase
from windlass.experience.cli.session import Session

__all__ = ["run"]  # a fixture

ALL = ["-t", "acme", "-p", "nlp", "-e", "prod"]
WHOLE = {"tenant": "acme", "project": "nlp", "env": "prod"}
LOGS = f"{samples.ROUTE}/logs"


# --- -t, -p and -e ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "route", "value", "query"),
    [
        (["queue", *ALL], "/v1/queue", QUEUE, WHOLE),
        (["get", "queue", *ALL], "/v1/queue", QUEUE, WHOLE),
        (["usage", *ALL], "/v1/usage", api.UsageList(items=[]), WHOLE),
        (["cost", *ALL], "/v1/costs", COSTS, WHOLE),
        (["decisions", *ALL[:4]], "/v1/decisions", api.DecisionList(items=[]), {"project": "nlp"}),
        (["audit", "list", "-t", "acme"], "/v1/audit", api.AuditList(items=[]), {"tenant": "acme"}),
        (["key", "list", "-t", "acme"], "/v1/keys", api.KeyList(items=[]), {"tenant": "acme"}),
        (["get", "projects", "-t", "acme"], "/v1/projects", samples.documents(), {"tenant": "acme"}),
    ],
)
def test_a_flag_narrows_what_is_asked_for(
    server: CannedServer, run: Run, args: list[str], route: str, value: object, query: dict[str, str]
) -> None:
    server.answer("GET", route, value)
    assert run(*args)[0] == 0
    assert query.items() <= server.asked[0].query.items()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["whoami", "-e", "prod"], "whoami takes no --env"),
        (["-e", "prod", "whoami"], "whoami takes no --env"),
        (["audit", "list", "-p", "nlp"], "audit list takes no --project"),
        (["get", "tiers", "-t", "acme"], "get tiers takes no --tenant"),
        (["get", "envelopes", "-p", "nlp"], "get envelopes takes no --project"),
        (["decisions", "-e", "prod"], "decisions takes no --env"),
        (["node", "list", "-t", "a", "-e", "b"], "node list takes no --tenant and no --env"),
        (["delete", "tier", "gold", "-p", "nlp"], "delete tier takes no --project"),
        (["why", samples.PATH, "-p", "other"], f"{samples.PATH} and --project other contradict each other"),
    ],
)
def test_a_flag_that_means_nothing_is_refused(
    server: CannedServer, run: Run, args: list[str], words: str
) -> None:
    code, out, err = run(*args)
    assert (code, out, server.asked) == (2, "", [])
    assert err.splitlines()[0] == f"error: {words}"


def test_the_defaults_of_a_context_are_not_flags(
    server: CannedServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windlass.sdk.contexts import save_context

    monkeypatch.delenv("WINDLASS_SERVER")
    save_context("local", server.url, "wdl_x", project="nlp", env="prod", tenant="acme")
    server.answer("GET", "/v1/tiers", samples.documents(samples.document("Tier", "gold")))
    assert run("get", "tiers")[0] == 0
    assert "tenant" not in server.asked[0].query


# --- apply ------------------------------------------------------------------------------------


def test_a_document_without_a_kind_hides_nothing(server: CannedServer, run: Run, tmp_path: Path) -> None:
    one = write(tmp_path, "one.yaml", "metadata: {name: x}\n")
    two = write(tmp_path, "two.yaml", f"{TIER.replace('priority: 1', 'prio: 1')}---\n{COMPONENT}  wrong: 1\n")
    code, out, err = run("apply", "-f", one, "-f", two)
    assert (code, out, server.asked) == (2, "", [])
    for needle in (f"{one}:1: apiVersion", f"{one}:1: kind", f"{two}:4: ", f"{two}:14: ", "try: "):
        assert needle in err


def test_a_dry_run_is_one_request(server: CannedServer, run: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "all.yaml", f"{COMPONENT}---\n{TIER}")
    server.answer("POST", "/v1/apply", by_document)
    code, out, _ = run("apply", "-f", file, "--dry-run")
    assert code == 0
    assert [one["kind"] for one in server.asked[0].json] == ["Tier", "Component"]
    assert len(server.asked) == 1
    assert out.splitlines()[1].startswith("component/nlp/prod/sft-run admitted (dry run)")


def test_only_what_was_rejected_in_a_dry_run_is_blamed(
    server: CannedServer, run: Run, tmp_path: Path
) -> None:
    file = write(tmp_path, "all.yaml", f"{TIER}---\n{COMPONENT}")
    tier = api.Result(kind="Tier", name="gold", outcome="created")
    no = samples.result("rejected", decision=samples.decision("rejected", reasons=[samples.OVER]))
    server.answer("POST", "/v1/apply", problem(422, "rejected", "no", results=[tier, no]))
    code, out, err = run("apply", "-f", file, "--dry-run")
    assert code == 3
    assert out.splitlines()[0] == "tier/gold created (dry run)"
    assert err.count("entitlement.max") == 1


def test_a_conflict_marks_only_the_culprits(server: CannedServer, run: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "c.yaml", f"{TIER}---\n{TIER.replace('gold', 'silver')}")
    reasons = [
        {"rule": "conflict", "message": "Tier silver: is in the way", "remedy": "move it", "field": "spec"},
        {"rule": "conflict", "message": "Tier silver: and again", "remedy": "", "field": "spec.priority"},
    ]
    server.answer("POST", "/v1/apply", problem(409, "conflict", "first (and 1 more)", reasons=reasons))
    code, out, err = run("apply", "-f", file)
    assert code == 5
    assert out.splitlines() == ["tier/gold not applied", "tier/silver conflict"]
    assert f"{file}:9: spec: Tier silver: is in the way [conflict]" in err
    assert "try: move it" in err
    assert "and again" in err


def test_unchanged_finished_work_says_how_to_run_it_again(
    server: CannedServer, run: Run, tmp_path: Path
) -> None:
    message = "unchanged; it has Succeeded (`windlass rerun` runs it again)"
    result = samples.result("unchanged", decision=samples.decision(), message=message)
    server.answer("POST", "/v1/apply", samples.applied(result))
    _, out, _ = run("apply", "-f", write(tmp_path, "c.yaml", COMPONENT))
    assert out == f"component/{samples.PATH} {message}\n"


# --- logs -------------------------------------------------------------------------------------


def by_attempt(asked: Asked) -> Reply:
    return Reply(chunks=[f"attempt {asked.query['attempt']}\n".encode()])


def test_logs_are_followed_through_a_retry(server: CannedServer, run: Run) -> None:
    first, second = samples.component(attempt=1), samples.component(attempt=2)
    done = samples.component("Succeeded", attempt=2)
    again = [samples.component("Pending", attempt=1), samples.component("Starting", attempt=2), second]
    server.answer("GET", samples.ROUTE, first, first, *again, done)
    server.answer("GET", LOGS, by_attempt)
    code, out, err = run("logs", samples.PATH, "-f")
    assert (code, out) == (0, "attempt 1\nattempt 2\n")
    assert "will start again" in err


def test_a_retry_that_starts_at_once_is_waited_for(server: CannedServer, run: Run) -> None:
    """Its log is not there before it runs."""
    first, done = samples.component(attempt=1), samples.component("Succeeded", attempt=2)
    looks = [first, first, samples.component("Starting", attempt=2), samples.component(attempt=2), done]
    server.answer("GET", samples.ROUTE, *looks)
    server.answer("GET", LOGS, by_attempt)
    assert run("logs", samples.PATH, "-f")[1] == "attempt 1\nattempt 2\n"
    assert [one.query["attempt"] for one in server.requests("GET", LOGS)] == ["1", "2"]


def test_following_what_never_ran_is_not_found(server: CannedServer, run: Run) -> None:
    server.answer("GET", samples.ROUTE, samples.component("Cancelled"))
    server.answer("GET", LOGS, problem(404, "not-found", "it has not run"))
    assert run("logs", samples.PATH, "-f")[0] == 4


def test_attempts_that_came_and_went_between_two_looks_are_copied_too(server: CannedServer, run: Run) -> None:
    first, done = samples.component(attempt=1), samples.component("Failed", attempt=3)
    server.answer("GET", samples.ROUTE, first, first, done)
    server.answer("GET", LOGS, by_attempt)
    assert run("logs", samples.PATH, "-f")[1] == "attempt 1\nattempt 2\nattempt 3\n"


def test_following_what_waits_waits_too(server: CannedServer, run: Run) -> None:
    why = api.StatusReason(cause="quota", message="The project is full.")
    waits = samples.component("Pending", reason=why)
    server.answer(
        "GET", samples.ROUTE, waits, waits, waits, samples.component(), samples.component("Succeeded")
    )
    server.answer("GET", LOGS, Reply(chunks=[b"hello\n"]))
    code, out, err = run("logs", samples.PATH, "-f")
    assert (code, out) == (0, "hello\n")
    assert "is Pending, waiting for its start, because of quota: The project is full" in err


def test_a_log_is_taken_up_where_it_broke_off(server: CannedServer, run: Run) -> None:
    going = samples.component()
    server.answer("GET", samples.ROUTE, going, going, going, samples.component("Succeeded"))
    server.answer("GET", LOGS, Reply(chunks=[b"one\ntw"], cut=True), Reply(chunks=[b"one\n", b"two\n"]))
    code, out, err = run("logs", samples.PATH, "-f")
    assert (code, out) == (0, "one\ntwo\n")
    assert "broke off" in err


def test_a_log_without_output_says_so(server: CannedServer, run: Run) -> None:
    server.answer("GET", LOGS, Reply(chunks=[]))
    assert run("logs", samples.PATH) == (0, "", "(no output)\n")


# --- one of the records -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "out"),
    [
        (["get", "key", "key_1"], 0, "key/key_1\n"),
        (["get", "key", "ci"], 0, "key/key_1\n"),
        (["describe", "key", "key_1"], 0, "key/key_1\n"),
        (["get", "key", "nobody"], 4, ""),
        (["get", "event", "7"], 0, "event/7\n"),
        (["describe", "event", "7"], 0, "event/7\n"),
        (["get", "event", "6"], 4, ""),
        (["get", "event", "x"], 4, ""),
        (["get", "queue", "x"], 2, ""),
    ],
)
def test_a_name_means_one(server: CannedServer, run: Run, args: list[str], code: int, out: str) -> None:
    other = msgspec.structs.replace(KEY, id="key_2", name="else")
    server.answer("GET", "/v1/keys", api.KeyList(items=[KEY, other]))
    server.answer("GET", "/v1/events", api.EventList(items=[samples.event(7)]))
    assert run(*args, "-o", "name")[:2] == (code, out)


def test_a_key_is_revoked_and_not_deleted(run: Run) -> None:
    code, _, err = run("delete", "key", "key_1")
    assert code == 2
    assert "windlass key revoke" in err


# --- run --------------------------------------------------------------------------------------

RUN = ["run", "--gpus", "1", "-p", "nlp"]


def test_run_refuses_a_name_that_is_taken(server: CannedServer, run: Run) -> None:
    server.answer("GET", samples.ROUTE, samples.component("Succeeded"))
    code, out, err = run(*RUN, "-e", "prod", "--name", "sft-run", "--", "true")
    assert (code, out) == (5, "")
    assert "exists; choose another name, or rerun it" in err
    assert not server.requests("POST", "/v1/apply")


def test_a_rejected_run_names_its_decision_and_the_environment_it_picked(
    server: CannedServer, run: Run
) -> None:
    no = samples.decision("rejected", reasons=[samples.OVER])
    server.answer(
        "GET", "/v1/projects/nlp", samples.document("Project", "nlp", {"environments": ["dev", "prod"]})
    )
    server.answer("POST", "/v1/apply", problem(422, "rejected", "no", decision=no))
    code, _, err = run(*RUN, "--", "true")
    assert code == 3
    assert "rejected  dec_1" in err
    assert "in environment dev of nlp" in err


# --- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["get", "tenat"], "error: there is no kind 'tenat'; did you mean 'tenant'?"),
        (
            ["get", "components", "--phase", "pendng"],
            "error: 'pendng' is not a phase; did you mean 'pending'?",
        ),
        (
            ["wait", samples.PATH, "--for", "Succeeded"],
            f"error: {samples.PATH} ended as Failed, not Succeeded",
        ),
    ],
)
def test_what_the_command_line_says_itself_has_no_title(
    server: CannedServer, run: Run, args: list[str], line: str
) -> None:
    server.answer("GET", samples.ROUTE, samples.component("Failed"))
    assert run(*args)[2].splitlines()[0] == line


def test_without_a_key_it_says_how_to_get_one(
    server: CannedServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WINDLASS_API_KEY")
    server.answer("GET", "/v1/whoami", problem(401, "unauthenticated", "no bearer", remedy="send a header"))
    code, _, err = run("whoami")
    assert code == 7
    ways = "run 'windlass up' or 'windlass login', or set WINDLASS_API_KEY"
    assert err == f"error: you have no key for {server.url}; {ways}\n"


def test_phases_are_known_in_any_case(server: CannedServer, run: Run) -> None:
    server.answer("GET", "/v1/components", samples.components())
    assert run("get", "components", "--phase", "pENDING")[0] == 0
    assert server.asked[0].query["phase"] == "Pending"
    assert set(PHASES) == api.LIVE_PHASES | api.FINAL_PHASES
    assert find_phase("FINAL", or_final=True) == "final"
    with pytest.raises(Invalid):
        find_phase("final")


def test_finished_work_is_not_cancelled(server: CannedServer, run: Run) -> None:
    server.answer("POST", f"{samples.ROUTE}/actions/cancel", samples.component("Succeeded"))
    code, out, _ = run("cancel", samples.PATH)
    assert (code, out) == (0, f"component/{samples.PATH} already Succeeded; nothing to cancel\n")


# --- tables -----------------------------------------------------------------------------------


def rows_of(out: str) -> list[dict[str, str]]:
    """Cells by header; columns stand two blanks apart."""
    import re

    header, *rows = out.splitlines()
    names = re.split(r"  +", header)
    return [dict(zip(names, re.split(r"  +", row), strict=True)) for row in rows]


def test_a_cause_is_of_waiting_and_an_exit_code_of_the_end(server: CannedServer, run: Run) -> None:
    ended = api.StatusReason(cause="ended", message="exit 3")
    quota = api.StatusReason(cause="quota", message="full")
    server.answer(
        "GET",
        "/v1/components",
        samples.components(
            samples.component("Failed", reason=ended, exit_code=3),
            samples.component("Rejected"),
            samples.component("Pending", reason=quota),
        ),
    )
    rows = rows_of(run("get", "components", "-o", "wide")[1])
    assert [row["CAUSE"] for row in rows] == ["-", "rejected", "quota"]
    assert [row["EXIT"] for row in rows] == ["3", "-", "-"]


def service(**status: object) -> api.Component:
    spec = {"type": "model-service", "env": "prod", "gpus": 1, "parameters": {"minReplicas": 2}}
    return msgspec.structs.replace(samples.component(**status), spec=spec)  # type: ignore[arg-type]


def test_a_service_shows_its_replicas_and_where_they_listen(server: CannedServer, run: Run) -> None:
    workers = [
        api.WorkerStatus(worker=at, node="n1", gpus=[at], state="running", port=8000 + at, restarts=at)
        for at in range(2)
    ]
    one = service(placement=workers)
    server.answer("GET", "/v1/components", samples.components(one, service()))
    rows = rows_of(run("get", "components", "-o", "wide")[1])
    assert [row["GPUS"] for row in rows] == ["2x1", "2x1"]
    assert rows[0]["ADDRESS"] == "127.0.0.1:8000,127.0.0.1:8001"
    assert rows[0]["RESTARTS"] == "1"
    server.answer("GET", samples.ROUTE, one)
    server.answer("GET", f"{samples.ROUTE}/events", api.EventList(items=[]))
    assert "127.0.0.1:8001" in run("describe", "component", samples.PATH)[1]


def test_cells_wider_than_their_column_do_not_touch() -> None:
    assert tables.aligned(["Succeeded", "x"], [3, 1]) == "Succeeded  x"


def test_prices_are_of_the_tenant_whose_project_is_asked_for(server: CannedServer, run: Run) -> None:
    def price(tenant: str) -> api.ProfilePrice:
        return api.ProfilePrice(
            tenant=tenant,
            profile="h100",
            gpu_class="h100-80g",
            sharing="exclusive",
            share="1",
            per_unit_hour="2.49",
            currency="USD",
            entitled=True,
        )

    line = api.QuotaLine(
        scope="acme/nlp",
        gpu_class="h100-80g",
        guaranteed="8",
        max=None,
        used="0",
        borrowed="0",
        available="8",
    )
    answer = api.QuotaAnswer(quotas=[line], profiles=[price("acme"), price("beta")], budgets=[])
    server.answer("GET", "/v1/quota", answer)
    out = run("quota", "show", "-p", "nlp")[1]
    assert "ENTITLED" in out
    assert "acme    h100" in out
    assert "beta" not in out
    assert "beta" in run("quota", "show")[1]


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(tables, "_room", lambda: columns)


def test_a_narrow_terminal_loses_columns_and_breaks_at_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    headers = ["NAME", "COST", "PHASE", "MESSAGE"]
    rows = [["sft-run", "1.25 USD", "Pending", "the project may hold eight and holds eight"]]
    on_a_terminal(monkeypatch, 40)
    tables.print_table(Session(), headers, rows)
    out = capsys.readouterr().out
    assert "COST" not in out
    assert max(map(len, out.splitlines())) <= 40
    assert set(rows[0][-1].split()) <= set(out.split())
    on_a_terminal(monkeypatch, 200)
    tables.print_table(Session(), headers, rows)
    assert "COST" in capsys.readouterr().out


def test_a_narrow_terminal_shortens_ids_before_it_loses_what_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    id = "dec_" + "0123456789abcdef" * 2
    on_a_terminal(monkeypatch, 40)
    tables.print_table(Session(), ["DECISION", "REASONS"], [[id, "entitlement.max"]])
    assert capsys.readouterr().out.splitlines()[1].split() == ["dec_0123456789abcdef…", "entitlement.max"]


@pytest.mark.parametrize(("phase", "words"), [("Pending", "still waits"), ("Running", "still runs")])
def test_an_interrupted_run_says_what_it_does(
    server: CannedServer, run: Run, monkeypatch: pytest.MonkeyPatch, phase: api.Phase, words: str
) -> None:
    """Answered with `d`: it goes on by itself."""
    import click

    from windlass.experience.cli import following

    asked: list[str] = []

    def prompt(text: str, **_: object) -> str:
        asked.append(text)
        return "d"

    def interrupted(_: following.Follower) -> api.Component:
        raise KeyboardInterrupt

    monkeypatch.setattr(click, "prompt", prompt)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(following.Follower, "to_the_end", interrupted)
    free = problem(404, "not-found", "gone")
    server.answer("GET", samples.ROUTE, free, samples.component(phase))
    server.answer("POST", "/v1/apply", samples.applied(samples.result(decision=samples.decision())))
    assert run(*RUN, "-e", "prod", "--name", "sft-run", "--", "true")[0] == 0
    assert words in asked[0]


def test_a_list_that_was_cut_says_so(server: CannedServer, run: Run) -> None:
    server.answer("GET", "/v1/events", api.EventList(items=[samples.event(one) for one in (1, 2)]))
    assert run("events", "--limit", "2")[2] == "(2 shown; --limit shows more)\n"
    assert run("events", "--limit", "3")[2] == ""


# --- schedule, edit ---------------------------------------------------------------------------


def test_a_wrong_scenario_is_a_problem_on_stdout(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("schedule", "-f", write(tmp_path, "s.yaml", "queues: 1\n"), "-o", "json")
    assert code == 2
    assert msgspec.json.decode(out, type=api.Problem).reasons


@pytest.mark.parametrize(("script", "code"), [("exit 1", 2), ("true", 0)])
def test_an_edit_without_a_change_leaves_no_file(
    server: CannedServer, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, code: int
) -> None:
    import tempfile

    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    server.answer("GET", "/v1/tiers/gold", samples.document("Tier", "gold", {"priority": 1}))
    got, _, err = run("edit", "tier", "gold")
    assert got == code
    assert "correct it" not in err
    assert not list((tmp_path / "tmp").iterdir())
