"""run: a job followed to its end, through a preemption, a broken log and a Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.experience.test_commands import Run, run
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer, Reply, problem

from windlass.contracts import api

__all__ = ["run"]  # a fixture

ARGS = ["run", "--gpus", "1", "-p", "nlp", "-e", "prod", "--name", "sft-run"]


@pytest.fixture(autouse=True)
def accepted(server: CannedServer) -> None:
    server.answer("POST", "/v1/apply", samples.applied(samples.result(decision=samples.decision())))


def phases(server: CannedServer, *wanted: api.Phase) -> None:
    """The first look is whether the name is free."""
    looks = [samples.component(phase) for phase in wanted]
    server.answer("GET", samples.ROUTE, problem(404, "not-found", "gone"), *looks)


def test_a_preempted_job_is_followed_again(server: CannedServer, run: Run) -> None:
    phases(server, "Running", "Preempted", "Pending", "Running", "Succeeded")
    server.answer("GET", f"{samples.ROUTE}/logs", Reply(chunks=[b"first\n"]), Reply(chunks=[b"again\n"]))
    code, out, err = run(*ARGS, "--", "true")
    assert (code, out) == (0, "first\nagain\n")
    assert "will start again" in err


def test_with_a_form_of_output_stdout_has_the_component_as_it_ended(server: CannedServer, run: Run) -> None:
    for output, told in (("json", '"phase": "Succeeded"'), ("name", f"component/{samples.PATH}")):
        phases(server, "Running", "Succeeded")
        server.answer("GET", f"{samples.ROUTE}/logs", Reply(chunks=[b"done\n"]))
        code, out, err = run(*ARGS, "-o", output, "--", "true")
        assert code == 0 and told in out and "done\n" not in out
        assert "done\n" in err


def test_a_log_that_ends_before_the_work_is_noticed_is_waited_for(server: CannedServer, run: Run) -> None:
    phases(server, "Running", "Running", "Running", "Succeeded")
    server.answer("GET", f"{samples.ROUTE}/logs", Reply(chunks=[b"done\n"]))
    assert run(*ARGS, "--", "true")[:2] == (0, "done\n")
    assert len(server.requests("GET", f"{samples.ROUTE}/logs")) == 1


def test_a_log_that_breaks_off_does_not_end_the_wait(server: CannedServer, run: Run) -> None:
    phases(server, "Running", "Running", "Succeeded")
    server.answer("GET", f"{samples.ROUTE}/logs", Reply(chunks=[b"half"], cut=True))
    code, out, err = run(*ARGS, "--", "true")
    assert (code, out) == (0, "half")
    assert "the log broke off" in err


LISTENS = """\
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("windlass.experience.cli.main", run_name="__main__", alter_sys=True)
"""
"""The command as at a terminal: what a shell starts in the background is told to ignore Ctrl-C."""


def test_ctrl_c_cancels_where_nobody_can_be_asked(server: CannedServer) -> None:
    stop = threading.Event()

    def ticks() -> Iterator[bytes]:
        yield b"tick\n"
        stop.wait(20)

    phases(server, "Running")
    server.answer("GET", f"{samples.ROUTE}/logs", Reply(chunks=ticks()))
    server.answer("POST", f"{samples.ROUTE}/actions/cancel", samples.component("Cancelled"))
    child = subprocess.Popen(
        [sys.executable, "-c", LISTENS, *ARGS, "--", "true"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "WINDLASS_SERVER": server.url},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "tick\n"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=20)
    stop.set()
    assert child.returncode == 130
    assert len(server.requests("POST", f"{samples.ROUTE}/actions/cancel")) == 1
    assert "cancelled" in err
