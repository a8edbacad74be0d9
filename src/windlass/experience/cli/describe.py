"""`describe KIND NAME`: one thing with everything around it, for reading."""

from __future__ import annotations

import click
import msgspec

from windlass.core.errors import WindlassError
from windlass.experience.cli import completing, phrases
from windlass.experience.cli.columns import address_of
from windlass.experience.cli.complaints import reason_line, warning_line
from windlass.experience.cli.kinds import find_kind
from windlass.experience.cli.names import find_component, path_of
from windlass.experience.cli.output import print_value, to_yaml, write
from windlass.experience.cli.session import SCOPE, Session, command, pass_session
from windlass.experience.cli.tables import print_table
from windlass.sdk import api

_RECENT_EVENTS = 10


@command("describe", takes=SCOPE, short_help="Show one thing with everything around it.")
@click.argument("kind", shell_complete=completing.complete_kind)
@click.argument("name", shell_complete=completing.complete_name)
@pass_session
def describe(session: Session, kind: str, name: str) -> None:
    """Show one thing with everything around it.

    \b
      windlass describe component sft-run
      windlass describe decision dec_…
      windlass describe envelope nlp-prod -t acme
    """
    found = find_kind(kind)
    session.takes(f"describe {found.kind.lower()}", *found.scope)
    match found.kind:
        case "Component":
            _component(session, find_component(session, name))
        case "Decision":
            _decision(session, session.client.decision(name))
        case _ if found.document:
            _value(session, session.client.document(found.plural, name, tenant=found.tenant_of(session)))
        case _:
            from windlass.experience.cli.get import get

            click.get_current_context().invoke(
                get, kind=kind, name=name, watch=False, phase=None, revision=None, limit=None
            )


def _value(session: Session, value: api.Document) -> None:
    if session.output == "name":
        write(f"{value.kind.lower()}/{value.metadata['name']}")
        return
    print_value(value, "json" if session.output == "json" else "yaml")


def _decision(session: Session, decision: api.Decision) -> None:
    if session.machine:
        print_value(decision, session.output)
        return
    if session.output == "name":
        write(f"decision/{decision.id}")
        return
    write(f"{decision.id}: {decision.action} of {decision.component} was {decision.verdict}")
    _lines(
        ("by", decision.actor),
        ("at", phrases.clock(decision.at)),
        ("catalog", f"revision {decision.catalog_revision}"),
        ("price", _price(decision)),
        ("trace", decision.trace_id or ""),
    )
    for reason in decision.reasons:
        write(f"  - {reason_line(reason)}")
        if reason.remedy:
            write(f"    try: {reason.remedy}")
    for warning in decision.warnings:
        write(f"  warning: {warning_line(warning)}")


def _component(session: Session, path: str) -> None:
    component = session.client.component(path)
    if session.machine:
        print_value(component, session.output)
        return
    if session.output == "name":
        write(f"component/{path_of(component)}")
        return
    status, now = component.status, session.now_ms()
    write(f"component/{path_of(component)} is {status.phase}")
    reason = status.reason
    _lines(
        ("tenant", component.metadata.tenant),
        ("because", f"{reason.cause}: {reason.message}" if reason else ""),
        ("try", reason.remedy if reason else ""),
        ("position", f"{status.position.ahead} of {status.position.of} ahead" if status.position else ""),
        ("starts", phrases.when(status.estimated_start, now) if not status.started_at else ""),
        ("created", phrases.when(component.metadata.created_at, now)),
        ("started", phrases.when(status.started_at, now)),
        ("finished", phrases.when(status.finished_at, now)),
        ("exit code", "" if status.exit_code is None else str(status.exit_code)),
        ("run", f"{status.run}, attempt {status.attempt}, preempted {status.preemptions} times"),
        ("used", f"{status.gpu_hours} GPU-hours, {status.cost} {status.currency}".strip()),
        ("decision", status.decision),
        ("trace", status.trace_id or ""),
        *(("note", note) for note in status.notes),
        *(("warning", text) for text in _warnings(session, component)),
    )
    write("\nspec:")
    for line in to_yaml(component.spec).splitlines():
        write(f"  {line}")
    if status.placement:
        write("")
        headers = ["WORKER", "NODE", "GPUS", "STATE", "EXIT", "RESTARTS", "ADDRESS"]
        print_table(session, headers, _workers(status))
    _events(session, path)


def _warnings(session: Session, component: api.Component) -> list[str]:
    """What its decision warned of, and what there is to warn of since."""
    now = component.status.warnings
    try:
        then = session.client.why(path_of(component)).warnings
    except WindlassError:
        then = []  # an older server, or one that answers no questions now: the rest is worth showing
    return [warning_line(one) for one in dict.fromkeys((*now, *then))]


def _workers(status: api.ComponentStatus) -> list[list[str]]:
    return [
        [
            str(one.worker),
            one.node,
            phrases.ranges(one.gpus),
            one.state,
            "" if one.exit_code is None else str(one.exit_code),
            str(one.restarts),
            address_of(one),
        ]
        for one in status.placement
    ]


def _events(session: Session, path: str) -> None:
    try:
        events = session.client.component_events(path).items
    except WindlassError as error:
        session.say(f"note: its events cannot be shown: {error.detail}")
        return
    if events:
        write("")
        rows = [[phrases.clock(one.at), one.type, one.actor] for one in events[-_RECENT_EVENTS:]]
        print_table(session, ["AT (UTC)", "EVENT", "BY"], rows)


def _price(decision: api.Decision) -> str:
    estimate = decision.estimate
    return phrases.price(estimate.per_hour, estimate.currency) if estimate else ""


def _lines(*facts: tuple[str, str]) -> None:
    for label, text in facts:
        if text:
            write(f"  {label:<10} {text}")


def document_text(value: api.Document | api.Component) -> str:
    """A document as its author would write it: without what the platform added."""
    wire = msgspec.to_builtins(value)
    mine = ["name", "project", "labels", "annotations"]
    if value.kind != "Component":  # a component's tenant follows from its project
        mine.insert(1, "tenant")
    metadata = {key: wire["metadata"][key] for key in mine if wire["metadata"].get(key)}
    return to_yaml(
        {"apiVersion": wire["apiVersion"], "kind": wire["kind"], "metadata": metadata, "spec": wire["spec"]}
    )
