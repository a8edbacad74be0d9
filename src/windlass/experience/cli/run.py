"""`run -- COMMAND`: a job without a document, followed to its end.

Everything Windlass itself says goes to stderr; stdout is the job's, unless a form of output is asked for:
then stdout has the component as it ended, and the log goes to stderr, too.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from typing import Any

import click

from windlass.core.errors import Conflict, Invalid, NotFound, Rejected, WindlassError
from windlass.core.units import format_gpus, parse_gpus
from windlass.experience.cli import columns
from windlass.experience.cli.apply import line_of
from windlass.experience.cli.following import Follower, copied
from windlass.experience.cli.listing import show_items
from windlass.experience.cli.phases import WAITING
from windlass.experience.cli.session import SCOPE, Session, command, pass_session
from windlass.sdk import api

DEFAULT_IMAGE = "docker.io/library/python:3.11-slim"
_ALPHABET = "abcdefghjkmnpqrstvwxyz23456789"


@command(
    "run",
    takes=SCOPE,
    short_help="Run a command on GPUs and follow its log.",
    # So that flags after COMMAND are the command's own, with or without `--`.
    context_settings={"allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
@click.option("--gpus", required=True, metavar="N", help="GPUs per worker (units of the profile).")
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="A gang: all or none."
)
@click.option("--profile", metavar="NAME", help="A hardware profile; else the project's default.")
@click.option("--name", metavar="NAME", help="How to call it; else run- and six characters.")
@click.option("--image", default=DEFAULT_IMAGE, show_default=True, help="Where containers are used.")
@click.option("--time-limit", metavar="DURATION", help="Stop it after this long, such as 30m.")
@pass_session
def run(session: Session, /, words: Sequence[str], **asked: Any) -> int:
    """Run a command on GPUs and follow its log.

    Exits with the code of the command; with 3 when the job was rejected, 130 when it was
    cancelled. Ctrl-C asks whether to detach or to cancel; a second one cancels. With -o json, yaml or
    name, the log goes to stderr and the component, as it ended, to stdout.

    \b
      windlass run --gpus 1 -p nlp -- python -c 'print("hello")'
      windlass run --gpus 8 --workers 2 -p nlp -e prod -- torchrun train.py --epochs 3
    """
    document = _document(session, words, asked)
    if asked["name"]:
        _refuse_existing(session, document)
    try:
        result = session.client.apply(document).results[0]
    except Rejected as rejected:
        decision = rejected.extra.get("decision")
        if decision is not None:
            session.complain(f"component/{decision.component} rejected  {decision.id}")
        raise
    path = f"{result.project}/{result.env}/{result.name}"
    session.say(line_of(result))
    if asked["workers"] > 1:
        session.say(f"following worker 0; `windlass logs {path} --worker 1 -f` follows another")
    plain = session.output in {"table", "wide"}
    log = Follower(session, path, 0, copied(sys.stdout if plain else sys.stderr))
    try:
        ended = log.to_the_end()
        if not plain:
            show_items(session, ended, columns.COMPONENTS, [ended], lambda _: f"component/{path}")
        return _exit_code(session, path, ended)
    except KeyboardInterrupt:
        return _interrupted(session, path)


def _document(session: Session, words: Sequence[str], asked: dict[str, Any]) -> dict[str, Any]:
    project = session.project or _only_project(session)
    spec: dict[str, Any] = {
        "type": "training-job",
        "env": session.env or _only_environment(session, project),
        "image": asked["image"],
        "gpus": _gpus(asked["gpus"]),
        "command": list(words),
    }
    if asked["workers"] != 1:
        spec["workers"] = asked["workers"]
    if asked["profile"]:
        spec["profile"] = asked["profile"]
    if asked["time_limit"]:
        spec["timeLimit"] = asked["time_limit"]
    name = asked["name"] or "run-" + "".join(secrets.choice(_ALPHABET) for _ in range(6))
    metadata = {"name": name, "project": project}
    return {"apiVersion": "windlass.dev/v1", "kind": "Component", "metadata": metadata, "spec": spec}


def _refuse_existing(session: Session, document: dict[str, Any]) -> None:
    """`apply` would change it, or do nothing; `run` means a new one."""
    metadata = document["metadata"]
    path = f"{metadata['project']}/{document['spec']['env']}/{metadata['name']}"
    try:
        session.client.component(path)
    except NotFound:
        return
    raise Conflict(
        f"{path} exists; choose another name, or rerun it", remedy=f"`windlass rerun {path}` runs it again"
    )


def _gpus(text: str) -> int | str:
    try:
        amount = parse_gpus(text)
    except ValueError as error:
        raise Invalid(f"--gpus {text}: {error}") from None
    return amount // 1000 if amount % 1000 == 0 else format_gpus(amount)


def _only_project(session: Session) -> str:
    found = session.client.documents("Project", tenant=session.tenant).items
    names = sorted(str(one.metadata["name"]) for one in found)
    if len(names) != 1:
        known = f"yours are {', '.join(names)}" if names else "you have none yet"
        raise Invalid("which project?", remedy=f"say it with -p; {known}")
    return names[0]


def _only_environment(session: Session, project: str) -> str:
    """The project's only environment, else its `dev`; a guess between others would be a risk."""
    found = session.client.document("Project", project, tenant=session.chosen_tenant)
    environments = [str(one) for one in found.spec.get("environments", [])]
    picked = environments[0] if len(environments) == 1 else "dev"
    if picked in environments:
        session.say(f"in environment {picked} of {project}; -e picks another")
        return picked
    raise Invalid(f"which environment of {project}?", remedy=f"say it with -e: {', '.join(environments)}")


def _exit_code(session: Session, path: str, component: api.Component) -> int:
    status = component.status
    # What the API adds up is of the component: with one run it is this run's.
    used = f", {status.gpu_hours} GPU-hours, {status.cost} {status.currency}" if status.run == 1 else ""
    session.say(f"{path} {status.phase}{used}".rstrip())
    if status.phase == "Failed" and status.reason:
        session.complain(f"error: {status.reason.message}", fg="red")
    if status.exit_code is not None:
        return status.exit_code
    match status.phase:
        case "Succeeded":
            return 0
        case "Cancelled":
            return 130
        case "Rejected":
            return 3
    return 1


def _still(session: Session, path: str) -> str:
    try:
        phase = session.client.component(path).status.phase
    except WindlassError:
        return "may still run"
    return "still waits" if phase in {*WAITING, "Admitted"} else "still runs"


def _interrupted(session: Session, path: str) -> int:
    """Asks once. Where nobody can answer, or a second Ctrl-C comes, the job is cancelled."""
    answer = "c"
    if sys.stdin.isatty():
        try:
            answer = click.prompt(
                f"\n{path} {_still(session, path)}. Detach (d) or cancel it (c)?",
                type=click.Choice(["d", "c"]),
                default="d",
                err=True,
            )
        except (KeyboardInterrupt, click.Abort):
            answer = "c"
    if answer == "d":
        session.say(f"detached; `windlass logs {path} -f` follows it, `windlass cancel {path}` stops it")
        return 0
    session.client.cancel(path)
    session.say(f"{path} cancelled")
    return 130
