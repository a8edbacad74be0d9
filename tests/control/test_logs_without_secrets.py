"""The logs of a busy platform hold none of the secrets it was shown: in headers, queries, paths and bodies,
in variables of jobs, when it answers and when it fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.control.documents import intent
from tests.control.worlds import World, play

from windlass.contracts.agent import Assignment
from windlass.runtime.logging import JsonLines
from windlass.runtime.otlp import OtlpTracer

TOKEN = "hf_s3cr3tTokenOfAnAuthor"
PASSWORD = "correct-horse-battery-staple"
WRONG = "wdl_0123456789abcdef0123456789abcdef_n0tAKeyOfThisPlatform"
JOB = intent("nlp/prod/job", 1, variables={"HF_TOKEN": TOKEN}, command=["sh", "-c", f"login {PASSWORD}"])


@contextmanager
def everything_logged() -> Iterator[list[str]]:
    """Every line that any logger would write, down to debug."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler, root = Keep(), logging.getLogger()
    handler.setFormatter(JsonLines())
    own = logging.getLogger("windlass")
    levels = root.level, own.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    own.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        own.setLevel(levels[1])


async def careless_requests(world: World, key: str) -> None:
    """What people do with secrets."""
    assert (await world.call("GET", "/v1/whoami", by=WRONG)).status == 401
    assert (await world.call("GET", f"/v1/queue?key={key}")).status == 400
    assert (await world.call("GET", f"/v1/keys/{key}")).status in (404, 405)
    assert (await world.call("DELETE", f"/v1/keys/{key}")).status == 404
    assert (await world.call("POST", "/v1/keys", {"name": "x", "role": TOKEN})).status == 400
    assert (
        await world.apply(f"kind: Component\nspec: {{variables: {{T: {TOKEN}}}, oops: [}}\n")
    ).status == 400
    assert (await world.apply({**JOB, "spec": {**JOB["spec"], "nodeSelector": {"x": TOKEN}}})).status == 422
    assert (await world.apply(JOB, idempotency_key=f"{PASSWORD}-1")).status == 200
    made = await world.call("POST", "/v1/keys", {"name": "ci", "role": "developer", "tenant": "acme"})
    assert made.status == 201
    world.keys["ci"] = made.json["secret"]
    assert (await world.call("GET", "/v1/components", by="ci")).status == 200


async def broken_parts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the platform does when something in it fails, with secrets at hand."""

    async def fails(assignment: Assignment) -> None:
        assert assignment.variables["HF_TOKEN"] == TOKEN
        raise RuntimeError(f"cannot start {assignment}")

    with monkeypatch.context() as patch:
        patch.setattr(world.agent._orchestrator, "ensure", fails)
        await world.plane.scheduler.turn()
        with pytest.raises(Exception, match="Ensure failed"):
            await world.agent.converge()
    with monkeypatch.context() as patch:

        def explode(body: object) -> None:
            raise RuntimeError(f"bad luck with Bearer {world.keys['admin']}")

        patch.setattr("windlass.control.gateway.apply.parse_all", explode)
        assert (await world.apply(JOB)).status == 500
    with monkeypatch.context() as patch:
        patch.setattr(world.plane.scheduler, "state", None)
        assert (await world.call("GET", f"/v1/queue?project={TOKEN}")).status == 500
    await world.settle()


def test_no_secret_it_was_ever_shown_is_in_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = {TOKEN, PASSWORD, WRONG}

    async def story(world: World) -> None:
        world.tracer = OtlpTracer("http://127.0.0.1:9", goodbye_s=0.1)
        await world.restart()
        await careless_requests(world, world.keys["acme"])
        await broken_parts(world, monkeypatch)
        world.finish("nlp/prod/job", 1)
        await world.settle()
        world.tracer.close()
        used.update(world.keys.values())

    with everything_logged() as lines:
        play(tmp_path, story)
    text = "\n".join(lines)
    assert {secret for secret in used if secret in text} == set()
    for expected in (
        "component.submitted",
        "workload.failed",
        "key.created",
        "an action failed",
        "Traceback",
    ):
        assert expected in text, f"not busy enough: {expected}"


def test_values_that_carry_secrets_do_not_print_them() -> None:
    assignment = Assignment(
        workload="wl_1",
        attempt=1,
        want="run",
        tenant="acme",
        project="nlp",
        env="prod",
        component="job",
        kind="job",
        workers=(),
        gpu_milli=1000,
        command=("login", PASSWORD),
        variables={"HF_TOKEN": TOKEN},
    )
    assert TOKEN not in f"{assignment} {assignment!r}" and PASSWORD not in repr(assignment)


@pytest.mark.parametrize(
    "text", [f"key {WRONG}", "Authorization: Bearer abcdefgh12345678", f'{{"k":"{WRONG}"}}']
)
def test_what_looks_like_a_key_is_cut_out_of_a_line(text: str) -> None:
    record = logging.LogRecord("windlass", logging.INFO, "x.py", 1, text, (), None)
    line = JsonLines().format(record)
    assert WRONG not in line and "abcdefgh12345678" not in line
    assert "…" in line
