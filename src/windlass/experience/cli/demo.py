"""`windlass demo`: the whole story on a private platform, with what is typed and what comes back.

Each step types a real command line and then checks, through the SDK, that what it tells is so. The
first step that does not hold ends the demo with its reason and exit code 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from windlass.sdk import Client

_START_S = 30.0
_WAIT_S = 60.0


class StepFailed(Exception):
    """A claim of the demo does not hold."""


@dataclass(slots=True)
class Stage:
    """The private platform, the folder with the intents, and a client to check with."""

    folder: Path
    environment: dict[str, str]
    client: Client
    color: bool
    typed: int = 0
    failures: list[str] = field(default_factory=list)

    def tell(self, text: str) -> None:
        """What the next step is about."""
        click.echo()
        click.echo(click.style(textwrap.fill(text, 100), fg="cyan", bold=True) if self.color else f"# {text}")

    def types(self, *arguments: str, exits: int = 0) -> str:
        """Type a command, show it with its output, and insist on its exit code."""
        shown = " ".join(f"'{part}'" if " " in part else part for part in arguments)
        click.echo(click.style(f"$ windlass {shown}", bold=True) if self.color else f"$ windlass {shown}")
        done = subprocess.run(
            [sys.executable, "-m", "windlass.experience.cli", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_WAIT_S,
            check=False,
        )
        output = done.stdout + done.stderr
        click.echo(textwrap.indent(output.rstrip(), "  "))
        self.typed += 1
        self.holds(done.returncode == exits, f"`windlass {shown}` exits {done.returncode}, not {exits}")
        return output

    def writes(self, name: str, text: str) -> str:
        """An intent on disk, shown as its author would write it."""
        (self.folder / name).write_text(textwrap.dedent(text))
        return name

    def holds(self, claim: bool, otherwise: str) -> None:  # noqa: FBT001 (it reads as a claim)
        if not claim:
            raise StepFailed(otherwise)

    def until(self, what: str, check: Callable[[], bool]) -> None:
        """Wait for the platform to get there."""
        end = time.monotonic() + _WAIT_S
        while not check():
            if time.monotonic() > end:
                raise StepFailed(f"{what} did not happen within {_WAIT_S:.0f} s")
            time.sleep(0.05)

    def phase(self, path: str) -> str:
        return self.client.component(path).status.phase


def run_demo() -> int:
    """0 only if every step held."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="windlass-demo-") as folder:
        try:
            with _platform(Path(folder)) as stage:
                for step in STORY:
                    step(stage)
                seconds = time.monotonic() - began
                click.echo()
                click.echo(f"Every step held: {stage.typed} commands in {seconds:.0f} s.")
        except StepFailed as failure:
            click.echo(f"\nThis step did not hold: {failure}", err=True)
            return 1
    return 0


# --- the story --------------------------------------------------------------------------------


def tenants(stage: Stage) -> None:
    stage.tell(
        "Two tenants share 16 GPUs: aurora is best-effort, borealis is gold."
        " Each is guaranteed 8 and may hold 16; what one leaves idle, the other may borrow."
    )
    stage.types("get", "tenants")
    stage.types("quota", "show")


def refusals(stage: Stage) -> None:
    stage.tell("Policy says no, by rule, with a remedy. Over the entitlement:")
    _refused(stage, "greedy.yaml", "entitlement.max", "greedy", "gpus: 8, workers: 4")
    stage.tell("A trait the project was not granted:")
    _refused(
        stage,
        "picky.yaml",
        "trait.not-granted",
        "picky",
        "gpus: 1, traits: [{name: topology, parameters: {level: rack}}]",
    )
    stage.tell("A forged cost label:")
    _refused(
        stage,
        "forged.yaml",
        "label.reserved",
        "forged",
        "gpus: 1",
        labels=", labels: {cost/project: somebody-else}",
    )


def plan(stage: Stage) -> None:
    stage.tell("What would happen, where, when and at what price, before anything is committed:")
    stage.writes("pretrain.yaml", _job("pretrain", "atlas", 8, _work("pretrain", 9.0)))
    stage.types("plan", "-f", "pretrain.yaml")
    stage.holds(not _exists(stage, "atlas/prod/pretrain"), "a plan has left something behind")


def borrowing(stage: Stage) -> None:
    stage.tell("aurora takes its own 8 GPUs, then borrows borealis' idle 8. A third job has to wait.")
    stage.types("apply", "-f", "pretrain.yaml")
    stage.until("pretrain runs", lambda: stage.phase("atlas/prod/pretrain") == "Running")
    stage.writes("sweep.yaml", _job("sweep", "atlas", 8, _work("sweep", 4.0)))
    stage.writes("later.yaml", _job("later", "atlas", 4, _work("later", 0.5)))
    stage.types("apply", "-f", "sweep.yaml")
    stage.until("sweep runs", lambda: stage.phase("atlas/prod/sweep") == "Running")
    stage.types("apply", "-f", "later.yaml")
    stage.until("later is explained", lambda: stage.client.why("atlas/prod/later").position is not None)
    stage.types("why", "later", "-p", "atlas", "-e", "prod")
    why = stage.client.why("atlas/prod/later")
    stage.holds(why.cause in ("quota", "capacity"), f"later waits for {why.cause}")
    stage.holds(why.estimate is not None, "later has no estimate")
    stage.types("queue")


def reclaim(stage: Stage) -> None:
    stage.tell(
        "borealis comes back for its guarantee. The borrower's newest job gives way, at once and with"
        " a reason, and waits in its old place."
    )
    stage.writes("serve.yaml", _job("rollout", "beacon", 8, _work("rollout", 2.0)))
    stage.types("apply", "-f", "serve.yaml")
    stage.until("sweep gives way", lambda: stage.client.component("atlas/prod/sweep").status.preemptions == 1)
    stage.until("rollout runs", lambda: stage.phase("beacon/prod/rollout") in ("Running", "Succeeded"))
    stage.types("why", "sweep", "-p", "atlas", "-e", "prod")


def results(stage: Stage) -> None:
    stage.tell("Real processes, with their logs:")
    stage.types("wait", "beacon/prod/rollout", "--for", "Succeeded")
    stage.types("logs", "beacon/prod/rollout")
    stage.tell("The borrower finishes later, once there is room again:")
    for name in ("pretrain", "sweep", "later"):
        stage.types("wait", f"atlas/prod/{name}", "--for", "Succeeded")
    stage.types("get", "components")


def money(stage: Stage) -> None:
    stage.tell("What each tenant owes, to the cent. Preempted work paid for what it held, once.")
    stage.types("cost", "--by", "tenant")
    stage.types("cost", "--by", "component")
    answer = stage.client.costs(by="tenant")
    owing = {line.tenant for line in answer.lines if float(line.total) > 0}
    stage.holds(owing == {"aurora", "borealis"}, f"only {sorted(owing)} owe something")
    zero = all(float(total) == 0 for total in answer.ledger_sum.values())
    stage.holds(zero, f"the ledger does not sum to zero: {answer.ledger_sum}")
    click.echo(f"  the ledger sums to {', '.join(f'{v} {k}' for k, v in answer.ledger_sum.items())}")


STORY: tuple[Callable[[Stage], None], ...] = (tenants, refusals, plan, borrowing, reclaim, results, money)


# --- the props --------------------------------------------------------------------------------


def _refused(stage: Stage, file: str, rule: str, name: str, spec: str, labels: str = "") -> None:
    stage.writes(
        file,
        f"""\
        apiVersion: windlass.dev/v1
        kind: Component
        metadata: {{name: {name}, project: atlas{labels}}}
        spec: {{type: training-job, env: prod, image: ghcr.io/aurora/train:v1, {spec}}}
        """,
    )
    output = stage.types("apply", "-f", file, exits=3)
    stage.holds(rule in output, f"{file} was not refused by {rule}")


def _job(name: str, project: str, gpus: int, command: str) -> str:
    return f"""\
        apiVersion: windlass.dev/v1
        kind: Component
        metadata: {{name: {name}, project: {project}}}
        spec:
          type: training-job
          env: prod
          image: ghcr.io/{project}/{name}:v1
          gpus: {gpus}
          command: [{sys.executable}, -c, "{command}"]
          timeLimit: 2m
        """


def _work(name: str, seconds: float) -> str:
    says = f"print('{name} on GPUs', os.environ['CUDA_VISIBLE_DEVICES'], flush=True)"
    return f"import os,time; {says}; time.sleep({seconds}); print('{name} is done')"


def _exists(stage: Stage, path: str) -> bool:
    from windlass.core.errors import NotFound

    try:
        stage.client.component(path)
    except NotFound:
        return False
    return True


@contextmanager
def _platform(folder: Path) -> Iterator[Stage]:
    """`windlass up` in a process and a folder of its own, with a configuration of its own."""
    from windlass.sdk import Client
    from windlass.sdk.contexts import load_contexts

    environment = {key: value for key, value in os.environ.items() if not key.startswith("WINDLASS_")}
    environment["WINDLASS_CONFIG"] = str(folder / "config.toml")
    log = folder / "platform.log"
    arguments = ["up", "--demo", "--data", str(folder / "data"), "--listen", "127.0.0.1:0"]
    arguments += ["--gpus", "h100-80gx8", "--nodes", "2"]
    with log.open("wb") as sink:
        platform = subprocess.Popen(
            [sys.executable, "-m", "windlass.experience.cli", *arguments],
            env=environment,
            stdout=sink,
            stderr=sink,
        )
    try:
        end = time.monotonic() + _START_S
        while "Windlass is up" not in log.read_text():
            if platform.poll() is not None or time.monotonic() > end:
                raise StepFailed(f"the platform did not start:\n{log.read_text()}")
            time.sleep(0.05)
        access = load_contexts(folder / "config.toml").contexts["local"]
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        yield Stage(folder, environment, Client(access.server, access.api_key), color)
    finally:
        platform.terminate()
        platform.wait(timeout=20)
