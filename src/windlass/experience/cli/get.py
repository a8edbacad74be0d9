"""`get KIND [NAME]`: lists, or one thing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn

import click

from windlass.core.errors import Invalid, NotFound
from windlass.experience.cli import columns, completing, phrases
from windlass.experience.cli.complaints import warning_line
from windlass.experience.cli.kinds import KindName, find_kind
from windlass.experience.cli.listing import show_items, watch_items
from windlass.experience.cli.names import find_component, path_of
from windlass.experience.cli.output import show
from windlass.experience.cli.phases import find_phase
from windlass.experience.cli.session import SCOPE, Session, command, pass_session
from windlass.sdk import api

_NAMED = 5
"""Components that a warning names; the table has the others."""


@command("get", takes=SCOPE, short_help="List documents of a kind, or show one.")
@click.argument("kind", shell_complete=completing.complete_kind)
@click.argument("name", required=False, shell_complete=completing.complete_name)
@click.option("-w", "--watch", is_flag=True, help="Stay and print what changes.")
@click.option(
    "--phase",
    metavar="PHASE",
    shell_complete=completing.complete_phase,
    help="Components in this phase only.",
)
@click.option("--revision", type=int, metavar="N", help="Documents as of this catalog revision.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@pass_session
def get(
    session: Session,
    kind: str,
    name: str | None,
    *,
    watch: bool,
    phase: str | None,
    revision: int | None,
    limit: int | None,
) -> None:
    """List documents of a kind, or show one.

    Kinds: components, tiers, tenants, projects, envelopes, hardwareprofiles, componenttypes,
    traits, pricebooks, sites, decisions, events, nodes, keys, revision, queue. Singular, plural
    and short forms (comp, profile, type, …) are all good.

    \b
      windlass get components -p nlp --phase Running
      windlass get component sft-run -o yaml
      windlass get envelopes -t acme --revision 41
    """
    found = find_kind(kind)
    wanted = find_phase(phase) if phase else None
    if wanted and (found.kind != "Component" or name is not None):
        raise Invalid("--phase narrows lists of components only")
    session.takes(f"get {found.plural if name is None else found.kind.lower()}", *found.scope)
    if watch and found.kind not in {"Component", "Event", "Queue"}:
        raise Invalid(f"{found.plural} cannot be watched", remedy="components, events and the queue can")
    if found.document:
        _documents(session, found, name, revision=revision, limit=limit)
    elif found.kind == "Component":
        _components(session, name, phase=wanted, limit=limit, watch=watch)
    else:
        _record(session, found, name, revision=revision, limit=limit, watch=watch)


def _documents(
    session: Session, kind: KindName, name: str | None, *, revision: int | None, limit: int | None
) -> None:
    layout = columns.documents(kind.kind)
    if name is not None:
        one = session.client.document(kind.plural, name, tenant=kind.tenant_of(session), revision=revision)
        show_items(session, one, layout, [one], _document_name)
        return
    found = session.client.documents(
        kind.plural, tenant=kind.tenant_of(session), revision=revision, limit=limit
    )
    show_items(session, found, layout, found.items, _document_name)


def _components(
    session: Session, name: str | None, *, phase: str | None, limit: int | None, watch: bool
) -> None:
    if name is not None:
        path = find_component(session, name)
        if watch:
            _watch(session, lambda: [session.client.component(path)])
        one = session.client.component(path)
        show_items(session, one, columns.COMPONENTS, [one], component_name)
        _warn(session, [one])
        return

    def listed() -> api.ComponentList:
        return session.client.components(
            project=session.project, env=session.env, tenant=session.tenant, phase=phase, limit=limit
        )

    if watch:
        _watch(session, lambda: listed().items)
    found = listed()
    show_items(session, found, columns.COMPONENTS, found.items, component_name)
    _warn(session, found.items)


def _warn(session: Session, found: list[api.Component]) -> None:
    """Each warning once, with the components it is about. A program finds them in `status.warnings`."""
    about: dict[api.Reason, list[str]] = {}
    for one in found:
        for warning in one.status.warnings:
            about.setdefault(warning, []).append(path_of(one))
    for warning, paths in about.items():
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        session.say(f"warning: {', '.join(paths[:_NAMED])}{more}: {warning_line(warning)}", fg="yellow")


def _watch(session: Session, fetch: Callable[[], list[api.Component]]) -> NoReturn:
    watch_items(session, fetch, columns.COMPONENTS, component_name, time.sleep)


def _record(
    session: Session,
    kind: KindName,
    name: str | None,
    *,
    revision: int | None,
    limit: int | None,
    watch: bool,
) -> None:
    """What the platform wrote; the commands named after it do the work."""
    from windlass.experience.cli import capacity, keys, queue, records

    match kind.kind:
        case "Decision" if name is not None:
            one = session.client.decision(name)
            show_items(session, one, columns.DECISIONS, [one], lambda dec: f"decision/{dec.id}")
        case "Decision":
            records.show_decisions(session, component=None, limit=limit or 50)
        case "Queue" if name is not None:
            raise Invalid(
                "there is one queue; it has no name", remedy="`windlass why NAME` tells of one in it"
            )
        case "Event" if name is not None:
            records.show_event(session, name)
        case "Event" if watch:
            records.watch_events(session, None)
        case "Event":
            records.show_events(session, since=None, limit=limit or 50)
        case "Node":
            capacity.show_nodes(session, name)
        case "Key":
            keys.show_keys(session, name)
        case "Revision":
            _revision(session, revision if name is None else _number(name))
        case "Queue":
            queue.show_queue(session, limit=limit, watch=watch)


def _revision(session: Session, at: int | None) -> None:
    found = session.client.revision(at)
    row = [str(found.revision), phrases.clock(found.at), found.actor]
    show(session, found, ["REVISION", "AT (UTC)", "ACTOR"], [row], [f"revision/{found.revision}"])


def _number(text: str) -> int:
    if not text.isdigit():
        raise NotFound(f"{text!r} is not a revision", remedy="a revision is a number")
    return int(text)


def component_name(component: api.Component) -> str:
    return f"component/{path_of(component)}"


def _document_name(document: api.Document) -> str:
    return f"{document.kind.lower()}/{document.metadata['name']}"
