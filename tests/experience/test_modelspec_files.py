"""apply -f of a ModelSpec: sent as it is, told as the component it becomes."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.control.test_modelspec import SPEC
from tests.experience.test_apply import write
from tests.experience.test_commands import Run, run
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer, problem

__all__ = ["run"]  # a fixture


def test_a_refusal_names_the_line_of_the_file(server: CannedServer, run: Run, tmp_path: Path) -> None:
    refused = samples.decision("rejected", reasons=[samples.OVER])
    result = samples.result("rejected", name="chat-8b", decision=refused)
    reply = problem(422, "rejected", "no", decision=msgspec.to_builtins(refused), results=[result])
    server.answer("POST", "/v1/apply", reply)
    file = write(tmp_path, "model.yaml", SPEC)
    code, out, err = run("apply", "-f", file)
    assert code == 3 and out.startswith("component/nlp/prod/chat-8b rejected")
    assert f"{file}:22: spec.gpus: 16 GPUs are more than 8" in err
    assert server.asked[0].json["kind"] == "ModelSpec"


def test_what_is_wrong_with_it_is_told_before_it_is_sent(
    server: CannedServer, run: Run, tmp_path: Path
) -> None:
    server.answer("POST", "/v1/apply", samples.applied(samples.result()))
    file = write(tmp_path, "model.yaml", SPEC.replace("protocol: http", "protocol: grpc"))
    code, _, err = run("apply", "-f", file)
    assert code == 2 and f"{file}:26: spec.operations.serving.protocol cannot be honoured" in err
    assert server.asked == []
