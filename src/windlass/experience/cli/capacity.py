"""`node list`, `site list` and `site render`: what there is to run on, and what a site needs for it."""

from __future__ import annotations

import click
import msgspec

from windlass.core.errors import NotFound
from windlass.experience.cli import columns
from windlass.experience.cli.listing import show_items
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.render import catalog_option, read_catalog
from windlass.experience.cli.session import Session, group, pass_session


@group("node", short_help="Show the machines.")
def node() -> None:
    """Show the machines.

    \b
      windlass node list
    """


@node.command("list")
@pass_session
def node_list(session: Session) -> None:
    """List the machines, their GPUs and what is free.

    \b
      windlass node list -o wide
    """
    show_nodes(session)


def show_nodes(session: Session, name: str | None = None) -> None:
    found = session.client.nodes()
    items = [one for one in found.items if name is None or one.name == name]
    if name is not None and not items:
        raise NotFound(f"no node {name!r}", remedy="`windlass node list` shows them")
    value = found if name is None else items[0]
    show_items(session, value, columns.NODES, items, lambda one: f"node/{one.name}")


@group("site", short_help="Show the sites.")
def site() -> None:
    """Show the sites.

    \b
      windlass site list
      windlass site render fra1
    """


@site.command("list")
@pass_session
def site_list(session: Session) -> None:
    """List the sites and what runs them.

    \b
      windlass site list -o yaml
    """
    found = session.client.documents("Site")
    show_items(
        session, found, columns.documents("Site"), found.items, lambda one: f"site/{one.metadata['name']}"
    )


@site.command("render")
@click.argument("name")
@catalog_option
@pass_session
def site_render(session: Session, name: str, catalog: str | None) -> None:
    """Show what a Kubernetes site needs around the work: queues from the envelopes, priority classes,
    hardware profiles, and for every cell its namespace, quota, rights and network policy. Canonical JSON.
    `requirements` say what has to be installed and set there first.

    \b
      windlass site render fra1
      windlass site render fra1 --catalog catalog/ -o yaml
    """
    from windlass.core.compiler.kubernetes.cell import cell_objects
    from windlass.core.compiler.kubernetes.site import site_objects

    known = read_catalog(session, catalog)
    found = known.sites.get(name)
    if found is None or found.orchestrator != "kubernetes":
        raise NotFound(f"no Kubernetes site {name!r}", remedy="`windlass site list` shows the sites")
    around = site_objects(known, name)
    cells = [
        thing
        for project, entry in sorted(known.projects.items())
        for env in entry.spec.environments
        for thing in cell_objects(known, name, project, env)
    ]
    needed = [msgspec.to_builtins(one) for one in around.requirements]
    shown = {"site": name, "objects": [*around.objects, *cells], "requirements": needed}
    if session.output == "yaml":
        print_value(shown, "yaml")
    else:
        write(msgspec.json.encode(shown, order="sorted").decode())
