"""What commands print and how they exit, against a real HTTP server with canned answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import msgspec
import pytest
import yaml
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer, Reply, problem

from windlass.contracts import api
from windlass.experience.cli.later import LATER
from windlass.experience.cli.main import main, make_root

Run = Callable[..., tuple[int, str, str]]

WHOAMI = api.WhoAmI(
    name="ada", role="developer", tenant="acme", key_id="key_1", expires_at=None, may=["component.read"]
)
KEY = api.Key(
    id="key_1",
    name="ci",
    role="viewer",
    tenant="acme",
    created_at=samples.AT,
    expires_at=None,
    revoked_at=None,
)
QUEUE = api.Queue(
    waiting=[
        api.QueueEntry(
            component=samples.PATH,
            tenant="acme",
            phase="Pending",
            gpus="4",
            gpu_class="h100-80g",
            workers=2,
            priority=50,
            submitted_at=samples.AT,
            ahead=3,
            cause="quota",
        )
    ],
    running=[],
    waiting_total=17,
    running_total=0,
)
TIER_SPEC = {"priority": 1, "preempts": False, "preemptible": True}
COSTS = api.CostAnswer(
    lines=[
        api.CostLine(
            tenant="acme",
            project=None,
            env=None,
            component=None,
            gpu_hours="2",
            cost="4.98",
            running="0.00",
            total="4.98",
            currency="USD",
        )
    ],
    totals=[],
    ledger_sum={"USD": "0.00"},
    at=samples.AT,
)


@pytest.fixture
def run(server: CannedServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("WINDLASS_SERVER", server.url)
    monkeypatch.setenv("WINDLASS_API_KEY", "wdl_test")

    def invoke(*args: str) -> tuple[int, str, str]:
        code = main(args)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return invoke


def json_of(text: str) -> object:
    return msgspec.json.decode(text)


def test_get_components_shows_a_plain_table_in_a_pipe(server: CannedServer, run: Run) -> None:
    one = samples.component("Pending", reason=api.StatusReason(cause="quota", message="full"))
    server.answer("GET", "/v1/components", samples.components(one))
    code, out, err = run("get", "components", "-p", "nlp")
    assert (code, err) == (0, "")
    header, row = out.splitlines()
    assert header.split()[:5] == ["COMPONENT", "TYPE", "GPUS", "PHASE", "CAUSE"]
    assert row.split()[:5] == [samples.PATH, "training-job", "2x4", "Pending", "quota"]
    assert server.asked[0].query["project"] == "nlp"


@pytest.mark.parametrize("place", ["before", "after"])
def test_common_flags_stand_before_or_after_the_command(server: CannedServer, run: Run, place: str) -> None:
    server.answer("GET", "/v1/components", samples.components(samples.component()))
    flags, words = ["-o", "name", "-p", "nlp", "-e", "prod"], ["get", "comp"]
    code, out, _ = run(*flags, *words) if place == "before" else run(*words, *flags)
    assert (code, out) == (0, f"component/{samples.PATH}\n")
    assert server.asked[0].query == {"project": "nlp", "env": "prod", "limit": "500"}


def test_json_is_what_the_api_says(server: CannedServer, run: Run) -> None:
    listed = samples.components(samples.component())
    server.answer("GET", "/v1/components", listed)
    server.answer("GET", f"{samples.ROUTE}/explanation", samples.explanation())
    _, out, _ = run("get", "components", "-o", "json")
    assert json_of(out) == msgspec.to_builtins(listed)
    _, out, _ = run("why", samples.PATH, "-o", "json")
    assert json_of(out) == msgspec.to_builtins(samples.explanation())


def test_yaml_reads_back_as_the_same_value(server: CannedServer, run: Run) -> None:
    import yaml

    tricky = {
        "a": "1e3",
        "b": "no",
        "c": "12:30:45",
        "d": "",
        "e": "two\nlines\n",
        "f": "2026-01-01",
        "g": ["- x"],
    }
    one = samples.document("Site", "fra1", tricky)
    server.answer("GET", "/v1/sites/fra1", one)
    _, out, _ = run("get", "site", "fra1", "-o", "yaml")
    assert yaml.safe_load(out) == msgspec.to_builtins(one)
    assert 'a: "1e3"' in out


@pytest.mark.parametrize(
    "word", ["hardwareprofiles", "HardwareProfile", "profile", "hp", "hardware-profiles"]
)
def test_kinds_are_known_by_many_names(server: CannedServer, run: Run, word: str) -> None:
    server.answer(
        "GET", "/v1/hardwareprofiles", samples.documents(samples.document("HardwareProfile", "h100"))
    )
    code, out, _ = run("get", word, "-o", "name")
    assert (code, out) == (0, "hardwareprofile/h100\n")


def test_an_unknown_kind_names_the_nearest(run: Run) -> None:
    code, out, err = run("get", "tenat")
    assert (code, out) == (2, "")
    assert "did you mean 'tenant'" in err


@pytest.mark.parametrize(
    ("status", "code"), [(400, 2), (401, 7), (403, 7), (404, 4), (409, 5), (412, 5), (422, 3), (500, 1)]
)
def test_each_failure_has_its_exit_code_and_says_why(
    server: CannedServer, run: Run, status: int, code: int
) -> None:
    server.answer(
        "GET",
        samples.ROUTE,
        problem(
            status, "some.code", "because", remedy="do that", reasons=[msgspec.to_builtins(samples.OVER)]
        ),
    )
    got, out, err = run("get", "component", samples.PATH)
    assert (got, out) == (code, "")
    assert "because" in err
    assert "spec.gpus: 16 GPUs are more than 8 [entitlement.max]" in err
    assert "try: do that" in err


def test_with_json_a_failure_prints_its_problem_on_stdout(server: CannedServer, run: Run) -> None:
    server.answer("GET", samples.ROUTE, problem(404, "not-found", "gone"))
    code, out, err = run("get", "component", samples.PATH, "-o", "json")
    found = msgspec.json.decode(out, type=api.Problem)
    assert (code, found.detail, found.request_id) == (4, "gone", "req_1")
    assert "gone" in err


def test_no_server_is_exit_6_with_what_to_do(run: Run) -> None:
    code, out, err = run("--server", "http://127.0.0.1:9", "queue", "-o", "json")
    assert code == 6
    assert "windlass up" in err
    assert msgspec.json.decode(out, type=api.Problem).code == "unavailable"


@pytest.mark.parametrize(
    "args",
    [
        ["qeue"],
        ["get"],
        ["get", "components", "-o", "xml"],
        ["wait", "x"],
        ["--server", "ftp://x", "queue"],
        [],
    ],
)
def test_wrong_usage_is_exit_2(run: Run, args: list[str]) -> None:
    assert run(*args)[0] == 2


def test_a_bug_is_one_line_and_exit_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import windlass.experience.cli.keys as keys

    def boom() -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(keys.key_list, "callback", boom)
    code, out, err = run("key", "list")
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == "error: RuntimeError: boom"
    assert "WINDLASS_DEBUG=1" in err
    assert "Traceback" not in err


def test_why_is_a_paragraph_with_remedy_and_history(server: CannedServer, run: Run) -> None:
    server.answer("GET", f"{samples.ROUTE}/explanation", samples.explanation())
    code, out, _ = run("why", samples.PATH)
    assert code == 0
    assert out.startswith(f"{samples.PATH} is Pending, because of quota (also: capacity).")
    assert "3 of 17 waiting are ahead of it." in out
    assert "try: wait, or ask for more" in out
    assert "FROM (UTC)" in out


def test_queue_shows_positions_and_causes(server: CannedServer, run: Run) -> None:
    server.answer("GET", "/v1/queue", QUEUE)
    _, out, _ = run("queue")
    assert "Waiting: 17, 1 shown" in out
    assert out.splitlines()[2].split()[:4] == ["3", samples.PATH, "4", "2"]


@pytest.mark.parametrize(
    ("args", "route", "value", "expected"),
    [
        (["whoami"], "/v1/whoami", WHOAMI, "ada, developer of tenant acme"),
        (["key", "list"], "/v1/keys", api.KeyList(items=[KEY]), "key_1"),
        (["get", "keys", "-o", "name"], "/v1/keys", api.KeyList(items=[KEY]), "key/key_1\n"),
        (["cost"], "/v1/costs", COSTS, "4.98"),
        (["decisions"], "/v1/decisions", api.DecisionList(items=[samples.decision()]), "dec_1"),
        (["events"], "/v1/events", api.EventList(items=[samples.event(7)]), "component.started"),
        (["get", "revision"], "/v1/revision", api.Revision(revision=42, at=samples.AT, actor="ada"), "42"),
        (["site", "list"], "/v1/sites", samples.documents(samples.document("Site", "fra1")), "fra1"),
        (["describe", "tier", "gold"], "/v1/tiers/gold", samples.document("Tier", "gold"), "kind: Tier"),
        (["describe", "decision", "dec_1"], "/v1/decisions/dec_1", samples.decision(), "was admitted"),
    ],
)
def test_reading_commands(
    server: CannedServer, run: Run, args: list[str], route: str, value: object, expected: str
) -> None:
    server.answer("GET", route, value)
    code, out, _ = run(*args)
    assert code == 0
    assert expected in out


def test_describe_component_shows_all_around_it(server: CannedServer, run: Run) -> None:
    worker = api.WorkerStatus(worker=0, node="n1", gpus=[0, 1, 2, 3], state="running")
    server.answer("GET", samples.ROUTE, samples.component(placement=[worker]))
    server.answer("GET", f"{samples.ROUTE}/events", api.EventList(items=[samples.event(1)]))
    _, out, _ = run("describe", "component", samples.PATH)
    assert f"component/{samples.PATH} is Running" in out
    assert "image:" in out
    assert "0-3" in out
    assert "component.started" in out


@pytest.mark.parametrize(
    ("args", "body", "line"),
    [
        (["cancel", samples.PATH], {}, "stopping"),
        (["rerun", samples.PATH], {}, "queued again"),
    ],
)
def test_actions(server: CannedServer, run: Run, args: list[str], body: object, line: str) -> None:
    server.answer("POST", f"{samples.ROUTE}/actions/{args[0]}", samples.component())
    code, out, _ = run(*args)
    assert (code, out) == (0, f"component/{samples.PATH} {line} (Running)\n")
    assert server.asked[0].json == body


def test_several_names_give_the_worst_exit_code(server: CannedServer, run: Run) -> None:
    server.answer("POST", f"{samples.ROUTE}/actions/cancel", samples.component("Cancelled"))
    server.answer(
        "POST", "/v1/projects/nlp/components/prod/b/actions/cancel", problem(409, "conflict", "done")
    )
    code, out, err = run("cancel", "nlp/prod/x", samples.PATH, "nlp/prod/b")
    assert code == 5
    assert samples.PATH in out
    assert "done" in err


@pytest.mark.parametrize(
    ("phase", "wanted", "code"),
    [("Succeeded", "succeeded", 0), ("Failed", "Succeeded", 5), ("Failed", "final", 0)],
)
def test_wait(server: CannedServer, run: Run, phase: api.Phase, wanted: str, code: int) -> None:
    server.answer("GET", samples.ROUTE, samples.component(phase))
    assert run("wait", samples.PATH, "--for", wanted)[0] == code


def test_wait_with_a_timeout_is_exit_6(server: CannedServer, run: Run) -> None:
    server.answer("GET", samples.ROUTE, samples.component("Pending"))
    code, _, err = run("wait", samples.PATH, "--for", "Running", "--timeout", "0s")
    assert code == 6
    assert "not yet Running" in err


def test_logs_are_copied_as_they_are(server: CannedServer, run: Run) -> None:
    server.answer("GET", f"{samples.ROUTE}/logs", Reply(chunks=[b"one\n", b"two"]))
    running = samples.component()
    server.answer("GET", samples.ROUTE, running, running, samples.component("Succeeded"))
    assert run("logs", samples.PATH, "-f") == (0, "one\ntwo", "")
    asked = server.requests("GET", f"{samples.ROUTE}/logs")
    assert [one.query for one in asked] == [{"worker": "0", "follow": "true"}]


def test_a_log_for_a_program_is_one_value_per_line(server: CannedServer, run: Run) -> None:
    server.answer("GET", f"{samples.ROUTE}/logs", Reply(chunks=[b"on", b"e\n\ntwo \xe2\x80\xa8", b"\nthree"]))
    code, out, err = run("logs", samples.PATH, "--worker", "1", "-o", "json")
    assert (code, err) == (0, "")
    assert [json_of(line) for line in out.rstrip("\n").split("\n")] == [
        {"worker": 1, "line": line} for line in ("one", "", "two \u2028", "three")
    ]
    again = run("logs", samples.PATH, "-o", "yaml")[1]
    assert [one["line"] for one in yaml.safe_load_all(again)] == ["one", "", "two \u2028", "three"]


def test_a_watched_queue_is_one_value_per_line(
    server: CannedServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    server.answer("GET", "/v1/queue", QUEUE, QUEUE, problem(404, "not-found", "it ends"))
    code, out, _ = run("queue", "--watch", "-o", "json")
    assert code == 4
    assert [json_of(line) for line in out.splitlines()[:2]] == [msgspec.to_builtins(QUEUE)] * 2


def test_the_last_lines_come_first_and_nothing_twice(server: CannedServer, run: Run) -> None:
    past, whole = Reply(chunks=[b"one\ntwo\nthr"]), Reply(chunks=[b"one\nt", b"wo\nthree\n", b"four\n"])
    server.answer("GET", f"{samples.ROUTE}/logs", past)
    assert run("logs", samples.PATH, "--tail", "2")[1] == "two\nthr"
    server.answer("GET", f"{samples.ROUTE}/logs", past, whole)
    running = samples.component()
    server.answer("GET", samples.ROUTE, running, running, samples.component("Succeeded"))
    assert run("logs", samples.PATH, "-f", "--tail", "1")[1] == "three\nfour\n"


def test_a_new_key_is_alone_on_stdout(server: CannedServer, run: Run) -> None:
    server.answer("POST", "/v1/keys", api.NewKey(key=KEY, secret="wl_secret"))
    code, out, err = run(
        "key", "create", "--name", "ci", "--role", "viewer", "-t", "acme", "--expires", "30d"
    )
    assert (code, out) == (0, "wl_secret\n")
    assert "not shown again" in err
    assert server.asked[0].json == {"name": "ci", "role": "viewer", "tenant": "acme", "expiresInS": 2_592_000}


def test_delete(server: CannedServer, run: Run) -> None:
    server.answer("DELETE", samples.ROUTE, Reply(204))
    assert run("delete", "component", samples.PATH) == (0, f"component/{samples.PATH} deleted\n", "")
    assert run("delete", "nodes", "n1")[0] == 2


@pytest.mark.parametrize(
    ("text", "code", "needle"),
    [
        ("sft-run", 0, "is Running"),
        ("nlp/sft-run", 0, "is Running"),
        ("twin", 2, "could be"),
        ("sft-rnu", 4, "sft-run"),
    ],
)
def test_a_name_is_found_or_the_choice_is_shown(
    server: CannedServer, run: Run, text: str, code: int, needle: str
) -> None:
    paths = (samples.PATH, "nlp/dev/twin", "nlp/prod/twin")
    server.answer(
        "GET", "/v1/components", samples.components(*(samples.component(path=path) for path in paths))
    )
    server.answer("GET", samples.ROUTE, samples.component())
    server.answer("GET", f"{samples.ROUTE}/events", api.EventList(items=[]))
    got, out, err = run("describe", "component", text)
    assert got == code
    assert needle in out + err


def test_edit_applies_with_the_version_it_read(
    server: CannedServer, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/priority: 1/priority: 2/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    server.answer("GET", "/v1/tiers/gold", samples.document("Tier", "gold", TIER_SPEC))
    server.answer("POST", "/v1/apply", samples.applied(samples.result("changed", kind="Tier", name="gold")))
    assert run("edit", "tier", "gold")[:2] == (0, "tier/gold changed\n")
    sent = server.requests("POST", "/v1/apply")[0]
    assert sent.headers["if-match"] == "7"
    assert sent.json == {
        "apiVersion": "windlass.dev/v1",
        "kind": "Tier",
        "metadata": {"name": "gold"},
        "spec": {**TIER_SPEC, "priority": 2},
    }


def test_version_does_not_need_a_server(run: Run) -> None:
    code, out, _ = run("version", "--server", "127.0.0.1:9", "-o", "json")
    assert code == 0
    assert json_of(out) == {"client": "0.1.0", "server": None, "api": None}


def test_contexts_are_listed_without_their_keys(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from windlass.sdk.contexts import save_context

    save_context("local", "http://127.0.0.1:7420", "wl_secret")
    save_context("prod", "https://gpu.example", "wl_secret", make_current=False)
    assert run("context", "use", "prod")[0] == 0
    code, out, _ = run("context", "list", "-o", "json")
    assert code == 0
    assert "wl_secret" not in out
    assert msgspec.json.decode(out)["current"] == "prod"
    assert run("context", "use", "nope")[0] == 4


@pytest.mark.parametrize("typed", sorted(LATER))
def test_a_command_of_a_later_release_says_so_and_what_to_do_today(run: Run, typed: str) -> None:
    code, out, err = run(*typed.split(), "something")
    assert (code, out) == (2, "")
    assert f"`windlass {typed}` comes in a later release" in err and LATER[typed] in err
    code, out, _ = run("-o", "json", *typed.split())
    assert code == 2 and msgspec.json.decode(out, type=api.Problem).remedy == LATER[typed]


def test_no_command_is_both_there_and_yet_to_come() -> None:
    root = make_root()
    context = click.Context(root, info_name="windlass")
    there = set(root.list_commands(context))
    for name in list(there):
        command = root.get_command(context, name)
        if isinstance(command, click.Group):
            there |= {f"{name} {below}" for below in command.commands}
    assert there.isdisjoint(LATER)


def test_a_word_near_a_command_of_a_group_is_understood(run: Run) -> None:
    code, _, err = run("key", "lst")
    assert code == 2 and "did you mean 'list'?" in err


def test_a_name_that_would_move_the_cursor_is_spelled_out(server: CannedServer, run: Run) -> None:
    evil = msgspec.structs.replace(KEY, name="a\x1b[2Jb\u202ec")
    server.answer("GET", "/v1/keys", api.KeyList(items=[evil]))
    code, out, _ = run("key", "list")
    assert code == 0 and r"a\x1b[2Jb\u202ec" in out and out.replace("\n", "").isprintable()
    server.answer("GET", "/v1/keys", problem(403, "not-permitted", "not \x1b[2J you"))
    _, _, err = run("key", "list")
    assert r"not \x1b[2J you" in err


def test_describe_prints_a_name_where_a_name_is_asked_for(server: CannedServer, run: Run) -> None:
    server.answer("GET", samples.ROUTE, samples.component())
    assert run("describe", "component", samples.PATH, "-o", "name")[1] == f"component/{samples.PATH}\n"
