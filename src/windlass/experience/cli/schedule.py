"""`windlass schedule`: one offline run of the scheduling engine on a described world (contract §8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from windlass.experience.cli.session import Session, command, pass_session

if TYPE_CHECKING:
    from windlass.core.scheduling.scenario import Scenario


@command(
    "schedule",
    short_help="Run one cycle of the scheduling engine on a scenario and show what it decides and why.",
)
@click.option(
    "-f", "--file", "source", type=click.File("rb"), required=True, help="The scenario; - for stdin."
)
@pass_session
def schedule(session: Session, source: IO[bytes]) -> None:
    """Run one cycle of the scheduling engine on a scenario and show what it decides and why.

    Needs no server. The same scenario always gives the same answer.

    \b
      windlass schedule -f scenario.yaml
      windlass schedule -f scenario.yaml -o json
    """
    from windlass.core.scheduling.scenario_run import decide, to_json

    answer = decide(read_scenario(source))
    if session.output == "json":
        click.echo(to_json(answer))
    elif session.output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(answer, sort_keys=True, allow_unicode=True), nl=False)
    elif session.output == "name":
        for entry in answer["admitted"]:
            click.echo(entry["workload"])
    else:
        _show(answer)


def read_scenario(source: IO[bytes]) -> Scenario:
    """Raises Invalid with the file and line of everything that is wrong."""
    from windlass.core.errors import Invalid, Reason
    from windlass.core.scheduling.scenario import parse_scenario

    try:
        text = source.read().decode()
    except UnicodeDecodeError as error:
        reason = Reason("document.invalid", f"byte {error.start} is not UTF-8")
        raise Invalid("the scenario is not UTF-8 text", reasons=[reason]) from None
    try:
        return parse_scenario(text)
    except Invalid as error:
        lines = [f"{source.name}:{reason.line}" if reason.line else source.name for reason in error.reasons]
        raise Invalid(error.detail, reasons=error.reasons, extra={"where": lines}) from None


def _show(answer: dict[str, Any]) -> None:
    admitted = [
        (entry["workload"], _where(entry["placement"]), entry["borrowed"], ", ".join(entry["after"]) or "-")
        for entry in answer["admitted"]
    ]
    _table("ADMITTED", ("WORKLOAD", "PLACEMENT", "BORROWED", "AFTER"), admitted)
    preempted = [(entry["workload"], entry["for"], entry["reason"]) for entry in answer["preempted"]]
    _table("PREEMPTED", ("WORKLOAD", "FOR", "REASON"), preempted)
    waiting = [
        (
            entry["workload"],
            ", ".join([entry["cause"], *entry["also"]]),
            "never" if entry["ahead"] is None else str(entry["ahead"]),
            "-" if entry["estimatedStart"] is None else str(entry["estimatedStart"]),
            entry["message"],
        )
        for entry in answer["waiting"]
    ]
    _table("WAITING", ("WORKLOAD", "CAUSE", "AHEAD", "STARTS", "WHY"), waiting)
    used = [
        (queue, gpu_class, use["used"], use["borrowed"])
        for queue, classes in answer["usage"].items()
        for gpu_class, use in classes.items()
    ]
    _table("USAGE", ("QUEUE", "CLASS", "USED", "BORROWED"), used)


def _where(placement: list[dict[str, Any]]) -> str:
    return " ".join(f"{worker['node']}:{','.join(map(str, worker['gpus']))}" for worker in placement)


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if not rows:
        return
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    click.echo(title)
    for row in [header, *rows]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  " + "  ".join(cells).rstrip())
    click.echo()
